"""Generates random Thunder programs, runs them through a transform, and judges what comes back.

A :class:`~cgverify.fuzzing.program.Program` is plain data. ``strategies`` draws programs and ``histories`` draws call
sequences; ``resolution`` gives every step its operands; ``rendering`` writes Python source and ``tracing`` builds a
Thunder trace from the result; ``oracles`` runs both sides and compares; ``reduce`` makes a failing program small and
``reproducer`` writes it as a script.
"""

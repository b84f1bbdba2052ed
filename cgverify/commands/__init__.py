"""The commands of ``cgverify``, one in each module; ``cgverify/cli.py`` puts them together.

| module | command |
|---|---|
| options | what commands share: their options, their errors, their JSON |
| check, explain, show | traces: prove a rewrite, print a rule's manual, draw a rewrite |
| reproduce, mutants, fidelity | the fuzzer: run a failure again, plant faults, hold the emulation against a device |
| bench, report | time beside peers; draw what runs have written |
| doctor | what works on this machine |

A command is a function that returns its exit code: 0 fine, 1 findings; what stops it is a `CommandError`, exit code 2.
PyTorch and Thunder are imported inside it, so that ``--help`` and a mistyped option cost nothing.
"""

"""Runs the verifier over every step of Thunder's own pipeline, on functions and modules of the kinds people write.

`python -m cgverify.survey` prints, per function, each pass that is not proved with the reason, and the share proved.
"""

"""Questions about CUDA graphs whose answers, recorded on a GPU, lie beside this package as JSON.

The same questions are put to the emulation in tests/unit/emulation; `python -m tests.golden.probes` records what the
device of this machine answers.
"""

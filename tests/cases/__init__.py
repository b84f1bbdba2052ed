"""Bad and good rewrites, one module per rule of the verifier; `tests/test_cases.py` runs them."""

"""The entries of the vocabulary by kind; :mod:`cgverify.fuzzing.operations` puts them together."""

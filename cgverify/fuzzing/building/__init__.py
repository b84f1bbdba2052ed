"""What the entries of the vocabulary are made with: for each kind of operation, how it adds its statements."""

"""Studies too long for the test suite; each says what it shows and writes rows that can be resumed."""

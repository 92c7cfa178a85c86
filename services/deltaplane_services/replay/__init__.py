"""A file replayed through the whole pipeline: the run, the oracle, the figures, and the console."""

"""A file through the whole pipeline: options, clock, feed, oracle, the run itself, and what is shown of it."""

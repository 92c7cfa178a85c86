"""One module for each group of tables and figures; :mod:`deltaplane_benchmarks.experiments.all` lists them."""

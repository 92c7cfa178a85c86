"""The papers' experiments, on the papers' own data: each table and figure ours beside theirs, seeds and all.

Read: ``data`` (where the rows come from), ``exhibit`` (what an experiment gives), ``experiments`` (one module for each
group of tables), ``show`` (as a table, JSON, a plot), ``cli``. It may import the core, the schemas and the services,
and nothing imports it: the command finds it as a plugin.
"""

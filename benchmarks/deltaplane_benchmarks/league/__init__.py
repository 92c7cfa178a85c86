"""The league of learners on imbalanced streams that drift: what ``bench imbalance`` runs.

Every stream is a recipe: a generator of rows of both classes under a concept, a ratio of the classes and a kind of
drift, all from a seed. A learner of ``peers`` goes through it under the protocol that all have, and what came of that
is one line of JSON, by which a rerun knows what is done.

Read: ``schedule`` (which class, and which concept, when), ``pools`` (rows of MOA's generators), ``regions`` and
``rotating`` (generators of our own), ``catalogue`` (every stream), ``results`` (lines and measures).
"""

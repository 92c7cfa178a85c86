"""Other learners on the same rows, under the same protocol, beside ours: what ``bench peers`` runs.

Test, then train: every row is predicted by a model that has not learned it, then learned. A learner holds its rows in
memory, in the form that it wants them in, before the clock starts; the clock then runs over predicting and learning
alone. The first chunk is learned and not counted, for everybody, so the G-means are of the same rows.

Read: ``task`` (the rows, the protocol, the answer), then the learners: ``ours``, ``batches`` (scikit-learn and SciPy),
``rows`` (River, Vowpal Wabbit, row by row), ``moa``; ``learners`` lists them all.
"""

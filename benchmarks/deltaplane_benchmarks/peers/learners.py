"""All learners, in the order of the table."""

from __future__ import annotations

from deltaplane_benchmarks.peers import batches, ours, rows
from deltaplane_benchmarks.peers.task import Learner

LEARNERS: tuple[Learner, ...] = (
    ours.PLAIN,
    ours.AUTOMATIC,
    batches.SGD,
    rows.LOGISTIC_MANY,
    batches.RIDGE,
    batches.LINEAR_SVC,
    ours.ESTIMATOR_BY_ROW,
    ours.PLAIN_BY_ROW,
    ours.AUTOMATIC_BY_ROW,
    rows.VOWPAL_WABBIT,
    rows.VOWPAL_WABBIT_SCALED,
    rows.LOGISTIC,
    rows.ALMA,
    rows.TREE,
)

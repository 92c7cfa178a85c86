"""All learners, in the order of the table."""

from __future__ import annotations

from deltaplane_benchmarks.peers import batches, no_change, ours, tested_rows
from deltaplane_benchmarks.peers.task import Learner

__all__ = ["BASELINES", "LEARNERS"]

BASELINES: tuple[Learner, ...] = (no_change.NO_CHANGE, no_change.NO_CHANGE_BY_ROW)
"""What looks at no row: a learner that is not above these has learned nothing."""

LEARNERS: tuple[Learner, ...] = (
    ours.PLAIN,
    ours.AUTOMATIC,
    batches.SGD,
    tested_rows.LOGISTIC_MANY,
    batches.RIDGE,
    batches.LINEAR_SVC,
    ours.ESTIMATOR_BY_ROW,
    ours.PLAIN_BY_ROW,
    ours.AUTOMATIC_BY_ROW,
    tested_rows.VOWPAL_WABBIT,
    tested_rows.VOWPAL_WABBIT_SCALED,
    tested_rows.LOGISTIC,
    tested_rows.ALMA,
    tested_rows.TREE,
)

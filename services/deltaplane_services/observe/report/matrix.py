"""The confusion matrix, for a picture and as a table."""

from __future__ import annotations

import numpy as np

from deltaplane_services.observe.report.pictures import Matrix
from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.value_tables import Table

__all__ = ["OTHERS", "matrix_of", "matrix_table"]

OTHERS = "all other classes"


def matrix_of(run: Run, most_classes: int) -> Matrix:
    """The counts of all scored rows; all but the most frequent classes are joined to one, the last."""
    in_confusion = {label for pair in run.confusion for label in pair}
    labels = [label for label in run.main_classes(most_classes) if label in in_confusion]
    if len(in_confusion) > len(labels):
        labels.append(OTHERS)
    place = {label: at for at, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for (truth, predicted), count in run.confusion.items():
        counts[place.get(truth, -1), place.get(predicted, -1)] += count
    return Matrix(tuple(labels), counts)


def matrix_table(matrix: Matrix) -> Table:
    """The same counts as a table, with the recall of every class, and below them its precision."""
    rows = []
    of_predicted = matrix.counts.sum(axis=0)
    for at, label in enumerate(matrix.labels):
        counts = matrix.counts[at]
        recall = f"{matrix.shares[at, at]:.4f}" if counts.any() and label != OTHERS else "–"
        rows.append((label, *(f"{count:,}" for count in counts.tolist()), f"{counts.sum():,}", recall))
    precisions = [
        f"{matrix.counts[at, at] / of_predicted[at]:.4f}" if of_predicted[at] and label != OTHERS else "–"
        for at, label in enumerate(matrix.labels)
    ]
    rows.append(("precision", *precisions, "", ""))
    return Table(("true \\ predicted", *matrix.labels, "rows", "recall"), tuple(rows))

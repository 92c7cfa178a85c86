"""The confusion matrix as a picture and as a table."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from deltaplane.arrays import Int64s
from deltaplane_services.observe.report.canvas import Frame, label_of, short
from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.style import light
from deltaplane_services.observe.report.value_tables import Table

__all__ = ["DARKEST", "OTHERS", "SMALLEST_CELL_WITH_TEXT", "draw_matrix", "matrix_table"]

OTHERS = "all other classes"
DARKEST = 0.62
SMALLEST_CELL_WITH_TEXT = 44


def draw_matrix(frame: Frame, run: Run, most_classes: int) -> Figure:
    """Truth downwards, prediction to the right; the share of the truth is the depth of the colour and stands below."""
    labels, counts = _matrix(run, most_classes)
    size = len(labels)
    names = [label_of(label) if size <= 3 else _cut(label_of(label), 14) for label in labels]
    left = max(52.0, 24 + min(130, 7.2 * max(map(len, names))))
    top, right = 44, 8.0
    side = min(108 if size <= 4 else 56, (frame.width - left - right) / size)
    flat = side >= 7.4 * max(map(len, names))
    if not flat:
        # The last of the slanting labels reaches out to the right.
        right += max(0.0, 5.5 * len(names[-1]) - side / 2)
        side = min(side, (frame.width - left - right) / size)
    width = left + side * size + right
    above = top if flat else top + min(80, 5.4 * max(map(len, names)))
    figure = Figure(figsize=(width / 72, (above + side * size + 8) / 72))
    height = above + side * size + 8
    axes = figure.add_axes((left / width, 8 / height, side * size / width, side * size / height))
    axes.set_xlim(0, size)
    axes.set_ylim(size, 0)
    axes.grid(visible=False)
    totals = counts.sum(axis=1)
    for row in range(size):
        for at in range(size):
            share = counts[row, at] / totals[row] if totals[row] else 0.0
            _draw_cell(axes.add_patch, (at, row), share)
            if side >= SMALLEST_CELL_WITH_TEXT:
                big = side >= 70
                text = f"{counts[row, at]:,}" if big else short(float(counts[row, at]))
                axes.text(at + 0.5, row + 0.42, text, ha="center", va="center", fontsize=14 if big else 11)
                axes.text(
                    at + 0.5,
                    row + 0.7,
                    f"{share:.0%}",
                    ha="center",
                    va="center",
                    fontsize=11 if big else 9.5,
                    color=light("ink"),
                )
    axes.set_yticks(np.arange(size) + 0.5, names)
    axes.set_xticks(np.arange(size) + 0.5, names)
    axes.xaxis.tick_top()
    if not flat:
        axes.tick_params(axis="x", labelrotation=40)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("left")
            label.set_rotation_mode("anchor")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.text(
        0, 1 + (above - 14) / (side * size), "predicted →", transform=axes.transAxes, color=light("soft"), va="center"
    )
    figure.text(4 / width, 1 - 14 / height, "true ↓", color=light("soft"), va="center")
    return figure


def _draw_cell(add_patch: object, corner: tuple[int, int], share: float) -> None:
    assert callable(add_patch)
    x, y = corner
    add_patch(Rectangle((x + 0.02, y + 0.02), 0.96, 0.96, facecolor=light("line1"), alpha=0.03 + DARKEST * share))


def matrix_table(run: Run, most_classes: int) -> Table:
    """The same counts, and the recall of every class."""
    labels, counts = _matrix(run, most_classes)
    rows = []
    for at, label in enumerate(labels):
        total = int(counts[at].sum())
        recall = f"{counts[at, at] / total:.4f}" if total and label != OTHERS else "–"
        rows.append((label, *(f"{count:,}" for count in counts[at].tolist()), f"{total:,}", recall))
    return Table(("true \\ predicted", *labels, "rows", "recall"), tuple(rows))


def _matrix(run: Run, most_classes: int) -> tuple[list[str], Int64s]:
    """Labels and counts int64[n, n]; classes beyond the most frequent are one, the last."""
    in_confusion = {label for pair in run.confusion for label in pair}
    labels = [label for label in run.main_classes(most_classes) if label in in_confusion]
    if len(in_confusion) > len(labels):
        labels.append(OTHERS)
    place = {label: at for at, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for (truth, predicted), count in run.confusion.items():
        counts[place.get(truth, -1), place.get(predicted, -1)] += count
    return labels, counts


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"

"""The page of several runs: a table of their measures, and pictures of their G-means and imbalance ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from deltaplane.arrays import Floats
from deltaplane_services.observe.report.charts import gmeans
from deltaplane_services.observe.report.compare import Runs, best, comparison, remarks
from deltaplane_services.observe.report.elements import document, element, table
from deltaplane_services.observe.report.page import figure, figures, header
from deltaplane_services.observe.report.pictures import Axis, Chart, Line, Panel, column
from deltaplane_services.observe.report.style import inks
from deltaplane_services.observe.report.value_tables import Table, cell

__all__ = ["comparison_page"]


def comparison_page(runs: Runs) -> str:
    """Several replays compared, as one HTML file that loads nothing else."""
    content, winners = comparison(runs), best(runs)
    shown = table(content, name="Measures of the runs", low=True)
    for row, cells in zip(shown.iter("tr"), (content.head, *content.body), strict=True):
        for at, name in enumerate(runs, start=1):
            if (cells[0], name) in winners:
                row[at].set("class", "best")
    title = f"{len(runs)} runs compared"
    note = "Bold: the best of a measure. Below: the settings in which the runs differ."
    measures = element("section", element("h2", "Measures"), element("p", note, class_="note"), shown)
    measures.attrib |= {"class": "card", "id": "measures"}
    said = [element("p", remark, class_="card notice") for remark in remarks(runs)]
    charts = _charts({name: run for name, run in runs.items() if run.spans})
    return document(
        f"{title} – Deltaplane",
        figures(charts),
        header("Deltaplane", title, " · ".join(runs)),
        element("main", said, measures, [figure(chart) for chart in charts]),
    )


def _charts(runs: Runs) -> list[Chart]:
    if not runs:
        return []
    lately = {name: gmeans(run, lately=True) for name, run in runs.items()}
    ratios = {name: column([span.imbalance_ratio for span in run.spans]) for name, run in runs.items()}

    of_gmean = "Over the last fortieth of the spans of each run. A line breaks where a class has no rows to be scored."
    of_ratio = "Live rows of the largest class over those of the smallest that has any."
    axis = _axis(runs)
    shares, counts = Panel(_lines(runs, lately), "share", 260), Panel(_lines(runs, ratios), "count", 150, lowest=1.0)
    return [
        Chart("gmean", "G-mean, lately", of_gmean, _values(runs, lately), (shares,), axis),
        Chart("imbalance", "Imbalance ratio", of_ratio, _values(runs, ratios), (counts,), axis),
    ]


def _lines(runs: Runs, values: Mapping[str, Floats]) -> tuple[Line, ...]:
    pens = inks(tuple(runs))
    return tuple(Line(name, values[name], pens[name], rows=_rows(runs, name)) for name in runs)


def _rows(runs: Runs, name: str) -> Floats:
    return column([span.rows_to for span in runs[name].spans])


def _axis(runs: Runs) -> Axis:
    """The axis of the longest run, without times, because the runs may be of different days."""
    rows = max((_rows(runs, name) for name in runs), key=lambda every: float(every[-1]))
    return Axis(rows, None, 0.0, float(rows[-1]))


def _values(runs: Runs, values: Mapping[str, Floats]) -> Table:
    """A table with a row for each span of the longest run: the value of each run's own span that contains the row."""
    body = []
    keys = [int(row) for row in _axis(runs).rows]
    places = {name: np.searchsorted(_rows(runs, name), keys) for name in runs}
    for at, key in enumerate(keys):
        found = (
            float(values[name][place]) if (place := int(places[name][at])) < len(values[name]) else math.nan
            for name in runs
        )
        body.append((f"{key:,}", *map(cell, found)))
    return Table(("rows", *runs), tuple(body), keys=tuple(keys))

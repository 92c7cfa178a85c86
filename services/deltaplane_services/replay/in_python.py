"""``deltaplane.replay``: run a table through the whole pipeline from Python, as the command ``deltaplane replay`` does.

The core finds this function by the entry point ``deltaplane.public`` of this distribution. It imports none of the
services itself.
"""

from __future__ import annotations

import html
import math
import os
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from deltaplane.errors import DefinitionError
from deltaplane.log.exported_model import model_tables
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.replay.keywords import Keywords, check_keywords, replay_options, with_keywords
from deltaplane_services.replay.result import ReplayResult
from deltaplane_services.replay.run import embedded
from deltaplane_services.replay.run import replay as run_replay
from deltaplane_services.replay.summary import definition_text, plain_summary
from deltaplane_services.replay.tables_given import NAME, as_parquet

if TYPE_CHECKING:
    from deltaplane.estimators.exported import ExportedClassifier

__all__ = ["Replayed", "replay"]

_SERIES = ("rows_from", "rows_to", "gmean", "sensitivity", "specificity", "f_measure", "accuracy", "imbalance_ratio")


class Replayed:
    """The result of a replay; only :func:`replay` makes one.

    Its tables are Arrow tables (``.to_pandas()``, ``.to_pylist()``). A notebook shows its figures, and the decision on
    each column.
    """

    def __init__(self, result: ReplayResult) -> None:
        self._result = result

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Everything that ``deltaplane replay --json`` writes, as plain values; undefined values are None."""
        return plain_summary(self._result)

    @property
    def gmean(self) -> float:
        """The geometric mean of the recalls of all classes, test-then-train; NaN if a class was never scored."""
        return _number(self.summary["gmean"])

    @property
    def digest(self) -> str:
        """The digest of the statistics of the live rows: the same for the same rows, wherever they came from."""
        return self._result.model.digest

    @property
    def definition(self) -> StreamDefinition:
        """The definition that was used, with its fitted grid and the rules of its columns."""
        return self._result.definition

    @property
    def definition_text(self) -> str:
        """The definition as the text of a file ``deltaplane.toml``."""
        return definition_text(self._result)

    @cached_property
    def classifier(self) -> ExportedClassifier:
        """The last model as a scikit-learn classifier, which learns no more; rows may be a data frame.

        Raises :class:`deltaplane.errors.DefinitionError` if the last model has no plane.
        """
        from deltaplane.estimators.exported import ExportedClassifier

        return ExportedClassifier(model_tables(self._result.model, self.definition), self.definition)

    @property
    def verified(self) -> bool | None:
        """Whether a fit from scratch on the live rows gave the same bits; None if ``verify`` was not asked for."""
        verification = self._result.verification
        return None if verification is None else verification.passed

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the figures meaningless or incomplete, the worst first."""
        early = self._result.ended_early
        return (*(() if early is None else (f"ended early: {early}",)), *self._result.verdict.warnings)

    @cached_property
    def predictions(self) -> pa.Table:
        """The prediction of each row before the row was learned, in the order of the table.

        Its columns are ``row``, ``id`` if a column of ids was named, ``label``, ``prediction``, ``value``,
        ``probability`` and ``version``. Rows count from 1; in a text file they are lines. Refused rows are left out.
        ``prediction``, ``value`` and ``version`` are null for rows before the first plane, and for rows that taught
        nothing. ``value`` is a decision value: of the positive class if there are two classes, which is predicted above
        0; of the predicted class if there are more. ``probability`` is that of the same class, and null as long as the
        model gives none. ``version`` is that of the model.
        """
        kept = self._result.predictions
        assert kept is not None, "a replay from Python keeps its predictions"
        return kept.table()

    @cached_property
    def series(self) -> pa.Table:
        """Quality along the stream: one row for each span of rows, at most 400."""
        points = self.summary["series"]
        columns = {name: [point[name] for point in points] for name in _SERIES}
        columns["gmean_lately"] = [point["lately"]["gmean"] for point in points]
        kinds = {name: pa.int64() if name.startswith("rows") else pa.float64() for name in columns}
        return pa.table({name: pa.array(cells, kinds[name]) for name, cells in columns.items()})

    @cached_property
    def columns(self) -> pa.Table:
        """The decision on each column: ``column``, ``kind`` (null if it is left out), ``reason`` and ``warning``.

        Empty if rules were declared, or if all columns are numbers.
        """
        names = ("column", "kind", "reason", "warning")
        return pa.table({name: pa.array([one[name] for one in self.summary["columns"]], pa.string()) for name in names})

    def report(self, path: str | os.PathLike[str], plots: str | os.PathLike[str] | None = None) -> None:
        """Write the page that ``deltaplane replay --report`` writes, which opens offline, and optionally its pictures.

        ``plots`` is the directory of the pictures. Raises :class:`DeltaplaneError` if plotly is not installed, or if a
        file cannot be written.
        """
        from deltaplane_services.observe.report.record import run_of
        from deltaplane_services.observe.report.report_outputs import check_outputs, draw

        to, pictures = Path(path), None if plots is None else Path(plots)
        check_outputs(to, pictures)
        draw(run_of(plain_summary(self._result), self._result.source), to, pictures)

    def _figures(self) -> dict[str, str]:
        summary = self.summary
        names = ("gmean", "sensitivity", "specificity", "f_measure", "accuracy")
        refused = summary["rejected"]
        figures = {"rows": f"{summary['rows']:,}" + (f", {refused:,} refused" if refused else "")}
        figures |= {"classes": ", ".join(f"{label} {count:,}" for label, count in summary["classes"].items())}
        figures |= {name.replace("_", "-"): f"{_number(summary[name]):.4f}" for name in names}
        figures |= {"digest": self.digest[:16]}
        if self.verified is not None:
            figures["verified"] = "the same bits" if self.verified else "FAILED: other bits"
        return figures

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {value}" for name, value in self._figures().items())
        return f"<Replayed {self._result.source}: {told}>"

    def _repr_html_(self) -> str:
        """HTML with the warnings, a table of the figures, and a table of the columns; every text is escaped."""
        said = html.escape
        figures = "".join(
            f"<tr><th>{said(name)}</th><td>{said(text)}</td></tr>" for name, text in self._figures().items()
        )
        parts = [f"<p><b>{said(text)}</b></p>" for text in self.warnings]
        parts.append(f"<table>{figures}</table>")
        if self.columns.num_rows:
            rows = "".join(
                f"<tr><td>{said(one['column'])}</td><td>{said(one['kind'] or 'left out')}</td>"
                f"<td>{said(one['reason'])}{' ' + said(one['warning']) if one['warning'] else ''}</td></tr>"
                for one in self.columns.to_pylist()
            )
            parts.append(f"<table><tr><th>column</th><th>kind</th><th>reason</th></tr>{rows}</table>")
        return "".join(parts)


def replay(table: Any, **keywords: Unpack[Keywords]) -> Replayed:
    """Run a table through the whole pipeline, test-then-train: as ``deltaplane replay`` does, with the same integers.

    ``table`` is a path, a data frame of pandas or Polars, an Arrow table, a dictionary of columns, or an iterable of
    dictionaries, one for each row. The keywords are the options of the command (``--retire-fraction`` is
    ``retire_fraction``). ``label`` is the column of the class. ``definition`` is a path, the tables of a definition, or
    a :class:`StreamDefinition`. A table in memory costs a packed copy of it, and the predictions cost 40 bytes a row.

    Raises :class:`DeltaplaneError` if the table or the keywords cannot be used; for an unknown keyword it names the
    nearest one. Warns (RuntimeWarning) if the figures say nothing, if the file could not be read to its end, or if a
    replay row by row is slow.
    """
    check_keywords(keywords)
    given: dict[str, Any] = dict(keywords)
    declared = _declared(given.pop("definition", None))
    source, content = NAME, None
    if isinstance(table, str | os.PathLike):
        source = os.fspath(table)
    else:
        content = as_parquet(table)
        given["format"] = "parquet"
    options = replay_options(source, with_keywords(declared, given), given, {}, content=content, keep_predictions=True)
    pipeline = embedded(options, lambda text: warnings.warn(text, RuntimeWarning, stacklevel=2))
    replayed = Replayed(run_replay(options, lambda _: None, pipeline))
    if replayed.warnings:
        warnings.warn("; ".join(replayed.warnings), RuntimeWarning, stacklevel=2)
    return replayed


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _declared(definition: Any) -> DefinitionFile:
    if definition is None or isinstance(definition, str | os.PathLike):
        return DefinitionFile.read(None if definition is None else Path(definition))
    if isinstance(definition, StreamDefinition):
        return DefinitionFile.of(definition.to_tables())
    if isinstance(definition, Mapping):
        return DefinitionFile.of(definition)
    raise DefinitionError(f"definition: expected a path, tables or a StreamDefinition, got {type(definition).__name__}")

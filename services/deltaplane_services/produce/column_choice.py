"""Rules for the columns of a file that nobody has declared: decided from its first rows, as ``inspect`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deltaplane.columns.cells import MISSING, MissingWords, Word
from deltaplane.columns.encoder import Cells, CodedCells, Encoder, read_column
from deltaplane.columns.inference import Decision, Inferred, Overrides, infer
from deltaplane.columns.rules import NumberRule, TimeRule
from deltaplane.errors import DefinitionError
from deltaplane.exact.ordinary import FillValue, likely_fill_values
from deltaplane.stream.declared import DeclaredFeatures
from deltaplane_services.produce.feed_options import ReplayOptions, reader_options
from deltaplane_services.readers import ReaderOptions
from deltaplane_services.readers.cures import cure_of_texts

__all__ = ["ColumnChoice", "inferred_of"]


class ColumnChoice:
    """The rules that are decided for the columns of a file, if none are declared.

    ``inferred`` are the decisions; None before there are any, and for a file that holds numbers only. ``marks`` are
    likely marks of what is missing among the numbers of its first rows.
    """

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self.inferred: Inferred | None = None
        self.marks: list[FillValue] = []

    @property
    def reader_options(self) -> ReaderOptions:
        """The options for the reader, which call :meth:`decide` if rules must be decided."""
        stream = self._options.stream
        said = stream.columns is not None or stream.features != DeclaredFeatures() or stream.feature_map.centers
        asked = not said and stream.grid.steps is None and not self._options.continues
        if self._options.fill_in and not asked:
            raise DefinitionError(
                "missing: median is of rules that are decided on, and this definition says what its features are; give"
                " each column a rule in [columns], or leave the option out"
            )
        return reader_options(
            self._options.definition_file, self.decide if asked else None, fill_in=self._options.fill_in
        )

    def decide(self, columns: Mapping[str, Cells], labels: Sequence[str]) -> Encoder:
        """The rules for the columns of the first rows; rows without a label are left out."""
        labelled = [row for row, label in enumerate(labels) if label]
        table = {name: _only(cells, labelled) for name, cells in columns.items()}
        features = tuple(columns) if self._options.input.features else ()
        said = Overrides(
            category=self._options.category,
            number=self._options.number,
            features=features,
            missing=self._options.input.missing_values or (),
        )
        self.inferred = inferred_of(table, [labels[row] for row in labelled], said)
        self.marks = _marks(self.inferred.encoder, table)
        return self.inferred.encoder

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decision on each column; empty if there was nothing to decide."""
        return () if self.inferred is None else self.inferred.decisions

    def completed(self, options: ReplayOptions) -> ReplayOptions:
        """``options`` with the decided rules, as if the definition had them."""
        if self.inferred is None:
            return options
        return options.with_stream(columns=self.inferred.encoder)


def inferred_of(table: Mapping[str, Cells], labels: Sequence[str] | None, said: Overrides) -> Inferred:
    """What :func:`deltaplane.columns.inference.infer` decides.

    Raises :class:`DefinitionError`, besides, for a column of texts that are numbers in a form that was not declared: as
    texts they would be hashed or left out, and what they say would be lost.
    """
    try:
        inferred = infer(table, labels, said)
    except DefinitionError:
        # If no column is left, such columns are often why.
        _check_forms([name for name in table if not said.features or name in said.features], table, said, MISSING)
        raise
    numbers = {one.column for one in inferred.decisions if isinstance(one.rule, NumberRule | TimeRule)}
    _check_forms([name for name in table if name not in numbers], table, said, inferred.encoder.missing)
    return inferred


def _check_forms(columns: Sequence[str], table: Mapping[str, Cells], said: Overrides, missing: Sequence[str]) -> None:
    for column in columns:
        if column in (*said.category, *said.ignore) or (said.features and column not in said.features):
            continue
        texts = _texts(table[column], missing)
        if cure := cure_of_texts(column, texts):
            raise DefinitionError(
                f"columns: all of {column!r} looks like numbers, such as {texts[0]!r:.60}, which are written otherwise"
                f" than was declared: {cure}"
            )


def _texts(cells: Cells, missing: Sequence[str]) -> list[str]:
    """The different texts of a column that are not missing, longest first; none if it has cells that are no texts."""
    different = set(cells.cells if isinstance(cells, CodedCells) else list(cells))
    texts = {cell if isinstance(cell, Word) else cell.strip() for cell in different if isinstance(cell, str)}
    if any(not isinstance(cell, str) and cell is not None for cell in different):
        return []
    return sorted(texts.difference(missing), key=lambda text: (-len(text), text))


def _marks(encoder: Encoder, table: Mapping[str, Cells]) -> list[FillValue]:
    """Likely marks of what is missing, looked for among numbers as the file has them, before a logarithm is taken."""
    words, found = MissingWords(encoder.missing), list[FillValue]()
    for rule in encoder.rules:
        if isinstance(rule, NumberRule):
            numbers, missing, faults = read_column(rule, table[rule.column], words)
            known = ~missing
            known[list(faults)] = False
            found += likely_fill_values((rule.column,), numbers[known][:, None])
    return found


def _only(cells: Cells, rows: Sequence[int]) -> Cells:
    if isinstance(cells, CodedCells):
        return CodedCells(cells.cells, cells.codes[np.array(rows, dtype=np.intp)])
    return cells[np.array(rows, dtype=np.intp)] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]

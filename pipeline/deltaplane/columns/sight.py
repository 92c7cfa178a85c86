"""A summary of one column over the first rows: its distinct cells, the rows that have each, and their kinds."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats, Int64s
from deltaplane.columns.cells import NOT_A_NUMBER, MissingWords, number_of, plain_cell, shown, text_of
from deltaplane.columns.encoder import Cells, CodedCells, coded
from deltaplane.columns.times import milliseconds_of

__all__ = ["HALF", "MOST", "Sight"]


MOST = 0.9
"""If at least this share of the rows is a number, or a time, the column is one, and a warning names the others."""

HALF = 0.5
"""If at least this share of the rows is a number, or a time, a usual word among them stands for a missing value."""

_MANY_NUMBERS, _FEW_WORDS = 20, 3

_CODE = re.compile(r"[+-]?0[0-9]+")
"""A number with leading zeros is a code, such as a postal code or an account."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:$|[T ])", re.ASCII)
_DATES_OTHERWISE = re.compile(
    r"(?:[0-3]?\d([./-])[0-3]?\d\1(?:\d{4}|\d{2})|\d{4}([./])[01]?\d\2[0-3]?\d)(?:[ T,]+[0-2]?\d:.*)?", re.ASCII
)
_CLOCK_READINGS = re.compile(r"[+-]?\d+:[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?", re.ASCII)
_WITH_A_UNIT = re.compile(r"[+-]?\d+(?:\.\d+)?\s?(?P<unit>[^\W\d_][^\s\d]{0,9}|°[^\s\d]{0,3})")
_FEW_UNITS = 3
_PAIRS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})


@dataclass(frozen=True)
class Sight:
    """A column over the first n rows.

    ``cells``: its k distinct plain cells that are not missing. ``rows`` int64[k]: the number of rows with each.
    ``places`` int64[n]: the index of each row's cell, -1 if it is missing.
    """

    column: str
    cells: Sequence[Any]
    rows: Int64s
    places: Int64s

    @classmethod
    def of(cls, column: str, cells: Cells, words: MissingWords) -> Sight:
        """The summary of a column. ``words``: the texts that stand for a missing value."""
        given = cells if isinstance(cells, CodedCells) else coded(cells)
        different: dict[tuple[type, Any], int] = {}
        place_of_code = np.full(len(given.cells), -1, dtype=np.int64)
        for code, cell in enumerate(given.cells):
            plain = plain_cell(cell)
            if (
                plain is not None
                and plain not in words
                and not (isinstance(plain, str) and NOT_A_NUMBER.fullmatch(plain))
            ):
                place_of_code[code] = different.setdefault((type(plain), plain), len(different))
        places = place_of_code[np.asarray(given.codes)]
        rows = np.bincount(places[places >= 0], minlength=len(different)).astype(np.int64)
        return cls(column, [cell for _, cell in different], rows, places)

    def without(self, missing: Floats) -> Sight:
        """The summary in which cells that are one of these numbers, in any form, are missing as well."""
        kept = np.flatnonzero(~np.isin(self.numbers, missing))
        place = np.full(len(self.cells) + 1, -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        return Sight(self.column, [self.cells[at] for at in kept.tolist()], self.rows[kept], place[self.places])

    @property
    def present(self) -> int:
        """The number of rows with a value."""
        return int(self.rows.sum())

    @property
    def missing(self) -> int:
        """The number of rows without a value."""
        return len(self.places) - self.present

    @property
    def is_unique(self) -> bool:
        """Whether there are several rows with a value, and no two have the same."""
        return self.present > 1 and len(self.cells) == self.present

    @functools.cached_property
    def texts(self) -> list[str]:
        """The distinct cells as texts, without those that have no text, which an encoder refuses."""
        texts = []
        for cell in self.cells:
            with suppress(ValueError):
                texts.append(text_of(cell, limits.TEXT_BYTES))
        return texts

    @property
    def are_truths(self) -> bool:
        """Whether the distinct cells are true and false, or a pair of words for them, and nothing else."""
        if all(isinstance(cell, bool) for cell in self.cells):
            return len(self.cells) == 2
        words = [text.lower() for text in self.texts]
        return all(isinstance(cell, str) for cell in self.cells) and set(words) in _PAIRS

    @functools.cached_property
    def numbers(self) -> Floats:
        """The distinct cells as numbers float64[k], NaN for those that are not numbers."""
        return self._read(_number_and_no_code)

    @functools.cached_property
    def times(self) -> Floats:
        """The distinct cells as milliseconds since 1970 float64[k], NaN for those that are not dates or times."""
        return self._read(_time_and_no_number)

    def _read(self, read: Callable[[Any], float]) -> Floats:
        values = np.full(len(self.cells), np.nan)
        for place, cell in enumerate(self.cells):
            with suppress(ValueError):
                values[place] = read(cell)
        return values

    def share(self, values: Floats) -> float:
        """The share of the rows with a value whose cell is not NaN in ``values`` float64[k] of the distinct cells."""
        return float(self.rows[~np.isnan(values)].sum()) / max(1, self.present)

    @property
    def others_are_words(self) -> bool:
        """Whether at least half of the rows are numbers, of many values, and the others a few words that come again.

        Such words are said among numbers; a column of codes has many texts beside its numbers.
        """
        strange = np.isnan(self.numbers)
        return (
            self.share(self.numbers) >= HALF
            and int((~strange).sum()) >= _MANY_NUMBERS
            and int(strange.sum()) <= _FEW_WORDS
            and bool((self.rows[strange] > 1).all())
        )

    @functools.cached_property
    def looks_like(self) -> str:
        """What a column of texts seems to hold in a form that is not read, and what to do; empty if nothing.

        Such a column is learned from as texts, if at all, so that what its order says is lost.
        """
        texts = [cell if isinstance(cell, str) else "" for cell in self.cells]
        for form, what, cure in (
            (_DATES_OTHERWISE, "dates", "written as 2024-01-31, they are read as times"),
            (_CLOCK_READINGS, "times of day or durations", "written as numbers, such as minutes, they are read"),
            (_WITH_A_UNIT, "numbers with a unit", "written without it, they are read as numbers"),
        ):
            found = [form.fullmatch(text) for text in texts]
            fits = np.array([one is not None for one in found])
            if len(texts) < _MANY_NUMBERS or self.rows[fits].sum() < MOST * self.present:
                continue
            if len({one.groupdict().get("unit") for one in found if one is not None}) <= _FEW_UNITS:
                return f"looks like {what}, such as {shown(texts[int(fits.argmax())])}: {cure}"
        return ""

    def quantile(self, values: Floats, part: float) -> float:
        """The quantile over rows of ``values`` float64[k] of the distinct cells; ``part`` is from 0 to 1.

        NaN values are left out; at least one must not be NaN.
        """
        order = np.argsort(values, kind="stable")[: int((~np.isnan(values)).sum())]
        sums = np.cumsum(self.rows[order])
        return float(values[order][np.searchsorted(sums, part * sums[-1])])

    @property
    def runs_in_order(self) -> bool:
        """Whether the column is whole numbers that increase with every row, or decrease: row numbers, or a clock."""
        numbers = self.numbers[self.places[self.places >= 0]]
        steps = np.diff(numbers)
        return bool(len(steps) and (numbers == np.rint(numbers)).all() and ((steps > 0).all() or (steps < 0).all()))

    def gives(self, labels: Int64s) -> bool:
        """Whether the column alone determines the labels int64[n] of all rows with a value.

        It does if each distinct cell has one label, with five rows per cell or more on average; or if the cells are
        numbers and each label has one interval of them. It is False if a label has fewer than five rows.
        """
        there = self.places >= 0
        places, labels = self.places[there], labels[there]
        counts = np.bincount(labels)
        counts = counts[counts > 0]
        if len(counts) < 2 or counts.min() < 5:
            return False
        pairs = len(np.unique(places * (int(labels.max()) + 1) + labels))
        if 5 * len(self.cells) <= len(places):
            return pairs == len(self.cells)
        if np.isnan(self.numbers).any() or pairs != len(self.cells):
            return False
        ordered = labels[np.argsort(self.numbers[places], kind="stable")]
        return int((np.diff(ordered) != 0).sum()) == len(counts) - 1


def _number_and_no_code(cell: Any) -> float:
    if isinstance(cell, str) and _CODE.fullmatch(cell):
        raise ValueError
    return number_of(cell)


def _time_and_no_number(cell: Any) -> float:
    if not isinstance(cell, date | np.datetime64) and not (isinstance(cell, str) and _DATE.match(cell)):
        raise ValueError
    return milliseconds_of(cell, 0)

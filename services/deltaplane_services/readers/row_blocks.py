"""The values that readers yield, blocks of rows and refused rows, and the options that readers take.

A reader never silently loses a row: each row of the file is either in a block's arrays or among its refused rows, with
its place in the file. Errors of single rows are values; errors of the file are raised as :class:`ReaderError`.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.columns.encoder import Cells, Encoder
from deltaplane.errors import DeltaplaneError
from deltaplane_services.definition_file.file_formats import FORMATS
from deltaplane_services.readers.cells import MISSING, LabelSpelling, NumberForm

__all__ = [
    "BLANKS",
    "ESCAPED_QUOTE",
    "NO_QUOTE",
    "TIME_UNITS",
    "UNLABELLED",
    "Decide",
    "Look",
    "Looked",
    "ReaderError",
    "ReaderOptions",
    "RefusedRow",
    "RowBlock",
    "by_line",
    "merged",
]

TIME_UNITS = ("s", "ms", "us", "ns", "days")
"""The units of times that are numbers: counted since 1970, or as days of a spreadsheet."""

BLANKS = "blanks"
"""The name of a delimiter that is any run of spaces and tabs."""

ESCAPED_QUOTE = '\\"'
"""The name of a quote before which a backslash stands inside a cell."""

NO_QUOTE = "none"

UNLABELLED = "?"
"""What stands for the label of a row that is read without one."""

_NO_FILES = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "unicode_escape", "raw_unicode_escape")
"""Encodings of names and of source text, which data files do not have."""


class ReaderError(DeltaplaneError):
    """A file that cannot be read, at all or with these options; rows that were yielded before it are valid."""


class Looked(Exception):
    """Ends the reading of a file that is only looked at, once ``look`` has been called."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that is not in the block's arrays: its line, the reason, and the beginning of its text."""

    line_number: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """n consecutive rows of a file by columns, and the rows between them that were refused, in file order.

    - ``features``: float64[n, d].
    - ``labels``: n texts; each is ``UNLABELLED`` if rows are read without labels.
    - ``ids``: n texts, or None if no id column was named.
    - ``event_times_milliseconds``: int64[n] since the epoch, UTC, or None if no time column was named.
    - ``line_numbers``: int64[n], counted from 1; a record over several lines has the first of them. In Parquet these
      are numbers of rows. ``refused`` rows have the same numbers.

    n may be 0.
    """

    features: Floats
    labels: Sequence[str]
    ids: list[str] | None
    event_times_milliseconds: Int64s | None
    line_numbers: Int64s
    refused: tuple[RefusedRow, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def where(self, kept: Flags) -> RowBlock:
        """The block with only the rows for which ``kept`` bool[n] is true, copied; all refused rows stay."""
        if kept.all():
            return self
        rows = np.flatnonzero(kept).tolist()
        times = self.event_times_milliseconds
        return RowBlock(
            self.features[kept],
            [self.labels[row] for row in rows],
            None if self.ids is None else [self.ids[row] for row in rows],
            None if times is None else times[kept],
            self.line_numbers[kept],
            self.refused,
        )

    def cut(self, start: int, stop: int, refused: tuple[RefusedRow, ...] = ()) -> RowBlock:
        """The rows from ``start`` to before ``stop``, as views of this block's arrays, with these ``refused`` rows."""
        times = self.event_times_milliseconds
        return RowBlock(
            self.features[start:stop],
            self.labels[start:stop],
            None if self.ids is None else self.ids[start:stop],
            None if times is None else times[start:stop],
            self.line_numbers[start:stop],
            refused,
        )


def merged(block: RowBlock, other: RowBlock) -> RowBlock:
    """One block with the rows of two, which have the same columns, in the order of their line numbers."""
    if not len(other):
        return replace(block, refused=by_line((*block.refused, *other.refused)))
    line_numbers = np.concatenate((block.line_numbers, other.line_numbers))
    order = np.argsort(line_numbers, kind="stable")
    rows = order.tolist()
    labels = [*block.labels, *other.labels]
    ids = None if block.ids is None or other.ids is None else block.ids + other.ids
    times = None
    if block.event_times_milliseconds is not None and other.event_times_milliseconds is not None:
        times = np.concatenate((block.event_times_milliseconds, other.event_times_milliseconds))[order]
    return RowBlock(
        np.concatenate((block.features, other.features))[order],
        [labels[row] for row in rows],
        None if ids is None else [ids[row] for row in rows],
        times,
        line_numbers[order],
        by_line((*block.refused, *other.refused)),
    )


def by_line(refused: tuple[RefusedRow, ...]) -> tuple[RefusedRow, ...]:
    """Refused rows in the order of the file."""
    return tuple(sorted(refused, key=lambda row: row.line_number))


Look: TypeAlias = Callable[[Mapping[str, Cells], int], None]
"""A function that gets the first cells of every column of a file, and the number of rows with a different number of
cells; the reading ends with it."""

Decide: TypeAlias = Callable[[Mapping[str, Cells], Sequence[str]], Encoder]
"""(column to the cells of the first rows, the labels of these rows) to an encoder with rules for the columns."""


@dataclass(frozen=True)
class ReaderOptions:
    """The roles of a file's columns, and how to read it. Raises ReaderError for options that cannot be.

    Columns: ``label``, ``id`` and ``time`` name one each; rows that are not ``labelled`` have no label to be named, and
    are read without one. ``features`` names the features in order; None stands for all other columns in file order,
    without the ``ignored`` ones. ``renamed`` are pairs (name in the file, name everywhere else). ``missing``: whether a
    row with a missing feature is refused, or kept with NaN. ``na`` are the texts of a missing feature or label, besides
    NaN and the empty cell.

    Text: ``format`` is one of :data:`FORMATS`; None recognises it by the name or the first bytes. ``encoding`` names
    the encoding; None recognises it by the first bytes. ``decimal`` and ``thousands`` are the signs in numbers.
    ``declared_labels`` are spelled as declared; other labels that are numbers have one spelling, unless ``labels`` is
    ``text``.

    CSV: ``delimiter`` is a character or :data:`BLANKS`; None recognises it by the first line. ``quote`` is a character,
    :data:`ESCAPED_QUOTE` or :data:`NO_QUOTE`. Lines that begin with ``comment`` are skipped. Without a ``header``,
    columns are named by position, from ``1`` on.

    LIBSVM: ``libsvm_base`` is the lowest index (0, 1 or auto). ``number_of_features`` None stands for the highest index
    of the file, or of the first block of a pipe. A ``nominal`` attribute, declared in the file, becomes one feature for
    each value (``one-hot``), or the place of the value in its declaration (``place``).

    Parquet: ``row_groups`` (the first, the one behind the last) are read alone; None for all of them. Their rows have
    the numbers that they have in the file.

    Times: ``time_unit`` is one of :data:`TIME_UNITS`, ``time_format`` the form of times that are text; without both,
    the first rows show it. ``time_zone`` is the zone of local times; None for UTC.

    Rules: ``encoder`` has the rules by which columns become features. Without it, ``decide`` chooses them from the
    cells of the first rows and the labels of these (``""`` for none), unless all are numbers and ``fill_in``
    does not ask for rules all the same. Without either, each column that is no label, id or time is a feature. With
    ``look`` a file is not read but looked at, all of its columns alike; ``looked_for`` are names that matter then.
    """

    label: str | None = None
    labelled: bool = True
    id: str | None = None
    time: str | None = None
    features: tuple[str, ...] | None = None
    ignored: tuple[str, ...] = ()
    format: str | None = None
    missing: Literal["refuse", "keep"] = "refuse"
    number_of_features: int | None = None
    delimiter: str | None = None
    header: bool | None = None
    nominal: Literal["one-hot", "place"] = "one-hot"
    time_unit: str | None = None
    time_format: str | None = None
    time_zone: str | None = None
    encoding: str | None = None
    decimal: str = "."
    thousands: str = ""
    quote: str = '"'
    comment: str | None = None
    na: tuple[str, ...] = MISSING
    renamed: tuple[tuple[str, str], ...] = ()
    declared_labels: tuple[str, ...] = ()
    labels: Literal["numbers", "text"] = "numbers"
    libsvm_base: Literal["0", "1", "auto"] = "auto"
    encoder: Encoder | None = None
    decide: Decide | None = None
    fill_in: bool = False
    look: Look | None = None
    looked_for: tuple[str, ...] = ()
    row_groups: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check_times()
        if self.nominal not in ("one-hot", "place"):
            raise ReaderError(f"Nominal features are `one-hot` or numbers by `place`, not `{self.nominal}`.")
        if self.missing not in ("refuse", "keep"):
            raise ReaderError(f"Missing features are treated by `refuse` or `keep`, not by `{self.missing}`.")
        if self.labels not in ("numbers", "text"):
            raise ReaderError(f"Labels are read as `numbers` or `text` (`--labels`), not as `{self.labels}`.")
        if self.libsvm_base not in ("0", "1", "auto"):
            raise ReaderError(f"LIBSVM counts from 0, 1 or auto (`--libsvm-base`), not from `{self.libsvm_base}`.")
        if self.format is not None and self.format not in FORMATS:
            raise ReaderError(f"There is no reader for the format `{self.format}`; choose one of {', '.join(FORMATS)}.")
        if self.number_of_features is not None and self.number_of_features < 1:
            raise ReaderError(f"The number of features is {self.number_of_features}; it must be at least 1.")
        if self.encoding is not None:
            _check_encoding(self.encoding)
        self._check_signs()

    def _check_signs(self) -> None:
        """Raise ReaderError if a sign of a CSV file cannot have its role."""
        if self.delimiter is not None and self.delimiter != BLANKS and not _is_one_ascii(self.delimiter, '"\r\n\0'):
            raise ReaderError(
                f"The delimiter {self.delimiter!r} cannot separate cells; give one ASCII character other than a quote "
                f"or a line end, or `{BLANKS}` for runs of spaces and tabs."
            )
        if self.quote not in (NO_QUOTE, ESCAPED_QUOTE) and not _is_one_ascii(self.quote, "\r\n\0"):
            raise ReaderError(
                f"The quote {self.quote!r} cannot enclose cells; give one ASCII character, {ESCAPED_QUOTE} where a "
                f"backslash stands before a quote inside a cell, or `{NO_QUOTE}`."
            )
        if self.quote == self.delimiter:
            raise ReaderError(f"{self.quote!r} is both delimiter and quote; each needs its own.")
        if self.comment is not None and (not self.comment.strip() or not self.comment.isprintable()):
            raise ReaderError(f"Comments begin with {self.comment!r}; give what they begin with, such as `#`.")
        if not _is_sign(self.decimal):
            raise ReaderError(f"The decimal sign is {self.decimal!r}; give one character, such as `,`.")
        if self.thousands and not _is_sign(self.thousands):
            raise ReaderError(f"Thousands are separated by {self.thousands!r}; give one character, such as `,`.")
        if self.decimal == self.thousands:
            raise ReaderError(
                f"{self.decimal!r} is both the decimal sign and what separates thousands; say each with `--decimal` "
                "and `--thousands`."
            )

    @property
    def number_form(self) -> NumberForm:
        """How numbers are written."""
        return NumberForm(self.decimal, self.thousands, "", frozenset((*self.na, "")))

    @property
    def label_spelling(self) -> LabelSpelling:
        """The function from a text to the label that it names."""
        return LabelSpelling(frozenset((*self.na, "")), frozenset(self.declared_labels), self.labels == "text")

    def with_ignored(self, names: Sequence[str]) -> ReaderOptions:
        """The options with more ignored columns."""
        return replace(self, ignored=(*self.ignored, *names)) if names else self

    def _check_times(self) -> None:
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise ReaderError(f"There is no time unit `{self.time_unit}`; choose one of {', '.join(TIME_UNITS)}.")
        if self.time_unit is not None and self.time_format is not None:
            raise ReaderError("Times are numbers that count a unit, or have a format; give `--time-unit` or the other.")
        asked = ("unit", self.time_unit), ("format", self.time_format), ("zone", self.time_zone)
        for what, value in asked if self.time is None else ():
            if value is not None:
                raise ReaderError(f"A time {what} is declared and no column of times; name it with `--time`.")


def _is_one_ascii(text: str, but: str) -> bool:
    return len(text) == 1 and text.isascii() and text not in but


def _is_sign(text: str) -> bool:
    return len(text) == 1 and not text.isalnum() and text not in '+-"\r\n\0'


def _check_encoding(name: str) -> None:
    try:
        known = (
            isinstance(codecs.getincrementaldecoder(name)("strict").decode(b"a"), str) and "".encode(name) is not None
        )
    except (LookupError, TypeError, ValueError):
        known = False
    if not known or codecs.lookup(name).name in _NO_FILES:
        raise ReaderError(
            f"There is no encoding of text named {name!r}; `--encoding` takes utf-8, utf-16, cp1252 (Windows), latin-1 "
            "and others that Python knows."
        )

"""The rule for each column of a table, proposed from its first rows, with the reason in words.

The rules are a proposal in a file that people read and may change. Nothing here depends on the order in which columns,
or rows that tie, are counted: the same first rows give the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Int64s
from deltaplane.columns.cells import MISSING, MISSING_AMONG_NUMBERS, MISSING_IF_SEEN, MissingWords, shown
from deltaplane.columns.encoder import Cells, Encoder
from deltaplane.columns.rules import (
    BooleanRule,
    CategoryRule,
    ColumnRule,
    HashedRule,
    Missing,
    NumberRule,
    TimeRule,
)
from deltaplane.columns.sight import HALF, MOST, Sight
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid, fit_grid

__all__ = [
    "BUCKETS",
    "FEATURES_PROPOSED",
    "FEW_ROWS",
    "LEVELS_DECLARED",
    "LONG_TAIL",
    "MOST_BUCKETS",
    "Decision",
    "Inferred",
    "Overrides",
    "infer",
]


LEVELS_DECLARED = 200
"""A text with more levels is hashed, since each level would be a feature, and few rows have any one of them."""
BUCKETS, MOST_BUCKETS = 32, 256
"""The least and the largest number of buckets of a hashed text: between them, a power of two of about the rows of the
rarest class.

With more, a rare class is overfitted: on synthetic payments with one fraud in 200, 32 buckets gave a G-mean of 0.86 to
0.91, and 256 gave 0.82 to 0.86.
"""
FEATURES_PROPOSED = 1000
"""With more features than this, texts are hashed into fewer buckets: statistics grow with their square."""
FEW_ROWS = 20
"""With fewer rows, a column is not called unique: there may just be no repetitions yet."""
LONG_TAIL = 20.0
"""A number gets a logarithm if its 99 % quantile is more than this many times its median (or 1, if that is larger)."""

_NAMES_OF_IDS = re.compile(r"(?:.*[_\s.-])?(?:id|uuid|guid|key|index|rowid|row)", re.IGNORECASE)
_DAY = 86_400_000.0


@dataclass(frozen=True)
class Overrides:
    """Columns, by name, for which the caller decides.

    ``category`` and ``number``: columns of that kind. ``ignore``: columns left out. ``features``: if given, all other
    columns are left out. ``refuse``: columns whose missing values refuse the row. ``missing``: texts that stand for a
    missing value, besides the default ones.
    """

    category: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """The rule of a column, or None if it is left out, and the reason. ``warning``: what the user should check."""

    column: str
    rule: ColumnRule | None
    reason: str
    warning: str = ""


@dataclass(frozen=True)
class Inferred:
    """The encoder and the grid for a table, a decision for each column, and the number of first rows refused."""

    encoder: Encoder
    grid: Grid
    decisions: tuple[Decision, ...]
    refused_rows: int


def infer(
    table: Mapping[str, Cells], labels: Sequence[str] | None = None, overrides: Overrides | None = None
) -> Inferred:
    """The encoder with a rule for each column, from the first rows of a table, and a grid fitted to the features.

    ``labels``: the class of each row, to find columns that leak it. Raises :class:`DefinitionError` if an override
    names a column that does not exist or contradicts another, if no column is left, or if no row can be encoded.
    """
    said = overrides or Overrides()
    _check_named(said, list(table))
    words = (*MISSING, *(word for word in dict.fromkeys(said.missing) if word not in MISSING))
    sights = [Sight.of(column, cells, MissingWords(words)) for column, cells in table.items()]
    marks = {sight.column: _marks(sight, said) for sight in sights}
    if seen := list(dict.fromkeys([*_of_columns_in_use(sights, said), *sorted(set().union(*marks.values()))])):
        words = (*words, *seen)
        sights = [Sight.of(column, cells, MissingWords(words)) for column, cells in table.items()]
    missing, codes = MissingWords(words), None
    if labels is not None:
        codes = np.unique(np.array(labels, dtype=object).astype(str), return_inverse=True)[1].astype(np.int64)
    decisions = []
    for first in sights:
        are_numbers = first.column not in said.category and first.share(first.numbers) >= MOST
        sight = first.without(missing.numbers) if len(missing.numbers) and are_numbers else first
        decision = _with_marks(_decide(sight, said), marks[first.column])
        if not isinstance(decision.rule, NumberRule | TimeRule) and _is_open(sight, said):
            decision = replace(decision, warning=sight.looks_like)
        if decision.rule is not None and codes is not None and sight.gives(codes):
            leak = f"alone gives the label in all {sight.present:,} rows: ignore it if it is known only afterwards"
            decision = replace(decision, warning="; ".join(filter(None, (leak, decision.warning))))
        decisions.append(decision)
    decisions = _with_buckets(decisions, _buckets_for(codes))
    rules = tuple(decision.rule for decision in decisions if decision.rule is not None)
    if not rules:
        reasons = "; ".join(
            f"{one.column}: {', '.join(filter(None, (one.reason, one.warning)))}" for one in decisions[:5]
        )
        raise DefinitionError(f"columns: no column is left to learn from ({reasons}); name those to use")
    encoder = Encoder(rules, words)
    encoded = encoder.encode(table)
    if not encoded.fits.any():
        raise DefinitionError(f"columns: none of the first {len(encoded.fits)} rows can be encoded")
    return Inferred(encoder, fit_grid(encoded.features[encoded.fits]), tuple(decisions), len(encoded.refused))


def _of_columns_in_use(sights: Sequence[Sight], said: Overrides) -> list[str]:
    """The texts of :data:`MISSING_IF_SEEN` that are cells of a column that the overrides do not leave out."""
    cells = [cell for sight in sights if not _left_out_as_told(sight, said) for cell in sight.cells]
    found = {cell for cell in cells if type(cell) is str and cell in MISSING_IF_SEEN}
    return [word for word in MISSING_IF_SEEN if word in found]


def _marks(sight: Sight, said: Overrides) -> set[str]:
    """The usual words for a missing value that a column of numbers or times has."""
    if sight.column in said.category or _left_out_as_told(sight, said):
        return set()
    found = {cell for cell in sight.cells if isinstance(cell, str) and cell.lower() in MISSING_AMONG_NUMBERS}
    if not found or max(sight.share(sight.numbers), sight.share(sight.times)) < HALF:
        return set()
    return found


def _with_marks(decision: Decision, marks: set[str]) -> Decision:
    if decision.rule is None or not marks:
        return decision
    which = ", ".join(map(shown, sorted(marks)))
    return replace(decision, reason=f"{decision.reason}; {which} taken for missing")


def _check_named(said: Overrides, columns: list[str]) -> None:
    for option in ("category", "number", "ignore", "features", "refuse"):
        for name in getattr(said, option):
            if name not in columns:
                raise DefinitionError(f"{option}: there is no column {name!r}; there are {', '.join(columns[:20])}")
    if both := sorted(set(said.category) & set(said.number)):
        raise DefinitionError(f"column {both[0]!r} is said to be a category and a number; say one of them")


def _decide(sight: Sight, said: Overrides) -> Decision:
    column = sight.column
    if reason := _left_out_as_told(sight, said):
        return Decision(column, None, reason)
    told = column in said.number or column in said.category
    if not told and column not in said.features and (reason := _says_nothing(sight)):
        return Decision(column, None, reason)
    return _kind(sight, said)(sight, said)


def _kind(sight: Sight, said: Overrides) -> Callable[[Sight, Overrides], Decision]:
    """The function that decides the rule of a column, by its kind."""
    if sight.column in said.category:
        return _category
    if sight.column in said.number:
        return _number
    if sight.are_truths:
        return _boolean
    if sight.share(sight.numbers) >= MOST or sight.others_are_words:
        return _number
    return _time if sight.share(sight.times) >= MOST else _category


def _left_out_as_told(sight: Sight, said: Overrides) -> str:
    if sight.column in said.ignore:
        return "left out, as you said"
    if said.features and sight.column not in said.features:
        return "left out, since others are named"
    return "" if sight.present else "left out, missing in every row"


def _is_open(sight: Sight, said: Overrides) -> bool:
    """Whether nobody has said what to do with a column."""
    return sight.column not in (*said.category, *said.number) and not _left_out_as_told(sight, said)


def _says_nothing(sight: Sight) -> str:
    """The reason why nothing can be learned from a column, or an empty text."""
    if len(sight.cells) == 1:
        return "" if sight.missing else f"left out, {shown(sight.cells[0])} in every row"
    if sight.present < FEW_ROWS or len(sight.cells) <= MOST * sight.present:
        return ""
    if sight.share(sight.numbers) >= MOST or sight.others_are_words:
        return "left out, unique in every row" if _is_id(sight) else ""
    if sight.share(sight.times) >= MOST:
        return ""
    if sight.is_unique:
        return "left out, unique in every row"
    return f"left out, {len(sight.cells):,} different texts in {sight.present:,} rows"


def _boolean(sight: Sight, said: Overrides) -> Decision:
    true = sum(int(rows) for rows, cell in zip(sight.rows, sight.cells, strict=True) if _is_true(cell))
    rule = BooleanRule(sight.column, _missing(sight, said), fill=2 * true > sight.present)
    words = " or ".join(sorted(set(sight.texts)))
    return Decision(sight.column, rule, _with_missing(f"boolean, {words}", rule, sight))


def _is_true(cell: object) -> bool:
    """Whether a cell of a boolean column is true."""
    return cell is True or (isinstance(cell, str) and cell.lower() in {"true", "yes", "y", "t"})


def _is_id(sight: Sight) -> bool:
    if not sight.is_unique:
        return False
    are_whole = bool((sight.numbers == np.rint(sight.numbers)).all())
    return are_whole and (sight.runs_in_order or _NAMES_OF_IDS.fullmatch(sight.column) is not None)


def _missing(sight: Sight, said: Overrides) -> Missing:
    if sight.column in said.refuse:
        return "refuse"
    return "indicator" if sight.missing else "fill"


def _with_missing(reason: str, rule: ColumnRule, sight: Sight) -> str:
    if not sight.missing:
        return reason
    if rule.missing == "refuse":
        return f"{reason}; {sight.missing:,} rows are missing it, and are refused"
    return f"{reason}; {sight.missing:,} missing, with a feature for it"


def _number(sight: Sight, said: Overrides) -> Decision:
    numbers, column = sight.numbers, sight.column
    known = ~np.isnan(numbers)
    if not known.any():
        raise DefinitionError(f"number: column {column!r} has none, but {shown(sight.cells[0])}; leave it out")
    whole = bool((numbers[known] == np.rint(numbers[known])).all())
    magnitudes = np.where(numbers == 0.0, np.nan, np.abs(numbers))
    log = False
    if (~np.isnan(magnitudes)).any():
        log = sight.quantile(magnitudes, 0.99) > LONG_TAIL * max(1.0, sight.quantile(magnitudes, 0.5))
    rule = NumberRule(column, _missing(sight, said), fill=sight.quantile(numbers, 0.5), log=log)
    reason = "number" + (", by its logarithm: few are far larger than the others" if log else "")
    levels = len(sight.cells)
    if whole and levels >= 10 and 5 * levels <= sight.present and column not in said.number:
        reason += f", whole, {levels:,} levels: say category if it is one"
    if sight.missing and rule.missing != "refuse":
        reason += f"; the median, {rule.fill:g}, where missing"
    return Decision(column, rule, _with_missing(reason, rule, sight), _odd(sight, known, "numbers"))


def _time(sight: Sight, said: Overrides) -> Decision:
    times = sight.times[~np.isnan(sight.times)]
    span = float(times.max() - times.min())
    parts = [
        ("hour", len(np.unique(times % _DAY)) > 1),
        ("weekday", span >= 7 * _DAY),
        ("day of year", span >= 365 * _DAY),
        ("days", span >= _DAY),
    ]
    chosen = tuple(part for part, varies in parts if varies) or ("days",)
    rule = TimeRule(sight.column, _missing(sight, said), parts=chosen, fill=sight.quantile(sight.times, 0.5))
    reason = _with_missing(f"time in UTC: {', '.join(chosen)}", rule, sight)
    return Decision(sight.column, rule, reason, _odd(sight, ~np.isnan(sight.times), "times"))


def _odd(sight: Sight, known: Flags, kind: str) -> str:
    odd = np.flatnonzero(~known).tolist()
    if not odd:
        return ""
    rows = int(sight.rows[odd].sum())
    return f"{rows:,} rows are no {kind} and are refused, such as {shown(sight.cells[odd[0]])}: is it a missing value?"


def _category(sight: Sight, said: Overrides) -> Decision:
    column, missing = sight.column, _missing(sight, said)
    room = min(limits.LEVEL_BYTES, limits.FEATURE_NAME_BYTES - len(column.encode()) - 1)
    texts = sorted(set(sight.texts))
    short = bool(texts) and all(len(text.encode()) <= room for text in texts)
    most = limits.LEVELS if column in said.category else LEVELS_DECLARED
    if len(texts) > most or not short:
        rule: ColumnRule = HashedRule(column, missing, BUCKETS)
        reason = f"text, {len(texts):,} levels, hashed"
    else:
        rule = CategoryRule(column, missing, tuple(texts))
        reason = f"category, {len(texts):,} level{'s' * (len(texts) > 1)} and other"
    return Decision(column, rule, _with_missing(reason, rule, sight))


def _buckets_for(labels: Int64s | None) -> int:
    rarest = BUCKETS if labels is None or not len(labels) else int(np.bincount(labels).min())
    return min(MOST_BUCKETS, max(BUCKETS, 1 << (rarest.bit_length() - 1)))


def _with_buckets(decisions: list[Decision], buckets: int) -> list[Decision]:
    """The decisions with ``buckets`` buckets, or fewer, down to 8, if there would be too many features.

    The reasons name the number of buckets.
    """
    hashed = sum(isinstance(one.rule, HashedRule) for one in decisions)
    others = sum(len(one.rule.features) for one in decisions if one.rule and not isinstance(one.rule, HashedRule))
    while others + hashed * (buckets + 1) > FEATURES_PROPOSED and buckets > 8:
        buckets //= 2
    return [
        replace(
            one,
            rule=replace(one.rule, buckets=buckets),
            reason=one.reason.replace("hashed", f"hashed into {buckets} buckets", 1),
        )
        if isinstance(one.rule, HashedRule)
        else one
        for one in decisions
    ]

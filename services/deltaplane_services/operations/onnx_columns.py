"""The encoder of ``[columns]`` as ONNX operators: an input for each column, and the features of its rule.

Numbers and times are float64, where NaN is missing; a time is in seconds since 1970 in UTC, as the encoder reads a
number. Booleans and categories are texts, where the words of ``columns.missing`` are missing. ONNX cannot cut blanks
off, so a row with a text that begins or ends with one is refused instead of read as another level. It knows no hash.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from onnx import TensorProto

from deltaplane import limits
from deltaplane.columns.cells import TRUTHS, MissingWords
from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import (
    BooleanRule,
    CategoryRule,
    ColumnRule,
    HashedRule,
    NumberRule,
    SubjectRule,
    TimeRule,
)
from deltaplane.columns.times import SPAN_MILLISECONDS
from deltaplane.errors import DefinitionError
from deltaplane.maps.logarithm import LOGARITHM_BITS, TERMS, ln2_in_parts
from deltaplane.maps.portable import RESULT_BITS, SINE
from deltaplane_services.operations.onnx_graph import Graph

__all__ = ["encoded_columns", "has_texts"]

_MISSING, _UNREAD = -3, -2
"""Codes of texts that are missing or that a rule cannot read; levels have theirs from 0, and -1 is none of them."""

_DAY_MILLISECONDS = 86_400_000.0
_DAYS_BEFORE_1970 = float(date(1970, 1, 1).toordinal() - 1)


@dataclass(frozen=True)
class _Column:
    """Names of what is known of a column: its numbers float64[n], and bool[n]: which are missing, which can be read."""

    numbers: str
    missing: str
    fits: str


def has_texts(encoder: Encoder) -> bool:
    """Whether some column is of texts, which takes operators of a newer version."""
    return any(isinstance(rule, BooleanRule | CategoryRule) for rule in encoder.rules)


def encoded_columns(graph: Graph, encoder: Encoder) -> tuple[str, str, list[dict[str, Any]]]:
    """Names of the features float64[n, d] and of bool[n, 1]: which rows can be encoded; and what each input is.

    Raises :class:`DefinitionError` for a column that ONNX cannot encode.
    """
    features, fits, said = list[str](), list[str](), list[dict[str, Any]]()
    words = MissingWords(encoder.missing)
    for rule in encoder.rules:
        if isinstance(rule, HashedRule):
            raise DefinitionError(
                f"{rule.where}: ONNX has no operator for the hash of column {rule.column!r}; make it a category with"
                " declared levels, or leave it out; or export as json or mlflow, which encode it, or with --encoded,"
                " for rows that are encoded before they come to ONNX"
            )
        if isinstance(rule, SubjectRule):
            continue
        is_text = isinstance(rule, BooleanRule | CategoryRule)
        name = graph.input(rule.column, TensorProto.STRING if is_text else TensorProto.DOUBLE, ["rows"])
        said.append({"column": rule.column, "input": name, "kind": rule.KIND, "missing": rule.missing})
        column = _text(graph, rule, name, encoder) if is_text else _number(graph, rule, name, words)
        if rule.missing == "refuse":
            fits.append(graph("Not", column.missing))
        fits.append(column.fits)
        features.append(_features(graph, rule, column))
        if rule.missing == "indicator":
            features.append(_as_column(graph, graph.cast(column.missing, TensorProto.DOUBLE)))
    if not said:
        raise DefinitionError("columns.rules: no column becomes a feature; give one that does")
    all_fit = graph.all_of(graph("Concat", *(_as_column(graph, one) for one in fits), axis=1), len(fits))
    return graph("Concat", *features, axis=1), all_fit, said


def _as_column(graph: Graph, values: str) -> str:
    return graph("Unsqueeze", values, graph.constant([1], np.int64))


def _number(graph: Graph, rule: ColumnRule, name: str, words: MissingWords) -> _Column:
    """A column of numbers as they are, or of seconds as milliseconds."""
    is_nothing = graph("IsNaN", name)
    for number in words.numbers.tolist():
        # A time is compared as it is written, a number as a number; see deltaplane.columns.encoder.read_column.
        if isinstance(rule, NumberRule) or number in words:
            is_nothing = graph("Or", is_nothing, graph("Equal", name, graph.constant(number)))
    read = name
    if isinstance(rule, TimeRule):
        # Whole seconds and the rest of one are multiplied for themselves, which rounds neither: a number of more than
        # 512 has no bits that 1000 times it could lose. Closer to 1970 half a millisecond may be rounded otherwise.
        whole = graph("Floor", name)
        thousand = graph.constant(1000.0)
        rest = graph("Mul", graph("Sub", name, whole), thousand)
        read = graph("Add", graph("Mul", whole, thousand), graph("Round", rest))
        first, last = SPAN_MILLISECONDS
        known = graph(
            "And",
            graph("GreaterOrEqual", read, graph.constant(float(first))),
            graph("LessOrEqual", read, graph.constant(float(last))),
        )
    else:
        known = graph("Less", graph("Abs", name), graph.constant(np.inf))
    fill = graph.constant(rule.filled)
    numbers = graph("Where", graph("And", known, graph("Not", is_nothing)), read, fill)
    return _Column(numbers, is_nothing, graph("Or", known, is_nothing))


def _text(graph: Graph, rule: ColumnRule, name: str, encoder: Encoder) -> _Column:
    """A column of texts as codes, by a table from text to code."""
    limit = limits.LEVEL_BYTES if isinstance(rule, CategoryRule) else limits.TEXT_BYTES
    if isinstance(rule, CategoryRule):
        codes = {level: at for at, level in enumerate(rule.levels)}
        others = len(rule.levels)
    else:
        variants = {
            "".join(letters): int(truth)
            for word, truth in TRUTHS.items()
            for letters in itertools.product(*((letter, letter.upper()) for letter in word))
        }
        codes, others = variants, _UNREAD
    codes |= dict.fromkeys(encoder.missing, _MISSING)
    code = graph(
        "LabelEncoder",
        name,
        domain="ai.onnx.ml",
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=others,
    )
    # A pattern of RE2: \C is a byte; more than a thousand cannot be counted, and no word of truth is as long.
    length = rf"|\C{{{limit + 1},}}" if isinstance(rule, CategoryRule) else ""
    strange = graph("RegexFullMatch", name, pattern=rf"(?s)[ \t\r\n\f\v].*|.*[ \t\r\n\f\v]{length}")
    unread = graph("Or", strange, graph("Equal", code, graph.constant(_UNREAD, np.int64)))
    missing = graph("Equal", code, graph.constant(_MISSING, np.int64))
    numbers = graph("Where", missing, graph.constant(rule.filled), graph.cast(code, TensorProto.DOUBLE))
    return _Column(numbers, missing, graph("Not", unread))


def _features(graph: Graph, rule: ColumnRule, column: _Column) -> str:
    """The name of float64[n, m]: the features of a column without the indicator of what is missing."""
    if isinstance(rule, CategoryRule):
        levels = graph.constant(np.arange(len(rule.levels) + 1.0))
        return graph.cast(graph("Equal", _as_column(graph, column.numbers), levels), TensorProto.DOUBLE)
    if isinstance(rule, TimeRule):
        return _parts(graph, rule, column.numbers)
    numbers = _signed_logarithms(graph, column.numbers) if isinstance(rule, NumberRule) and rule.log else column.numbers
    return _as_column(graph, numbers)


def _parts(graph: Graph, rule: TimeRule, milliseconds: str) -> str:
    """The parts of times, as :func:`deltaplane.columns.times.write_parts` makes them; all numbers here are whole."""
    local = graph("Add", milliseconds, graph.constant(rule.zone_minutes * 60_000.0))
    elapsed = graph("Div", local, graph.constant(_DAY_MILLISECONDS))
    days = graph("Floor", elapsed)
    turns = {
        "hour": lambda: graph("Div", _modulo(graph, local, _DAY_MILLISECONDS), graph.constant(_DAY_MILLISECONDS)),
        "weekday": lambda: graph(
            "Div", _modulo(graph, graph("Add", days, graph.constant(3.0)), 7.0), graph.constant(7.0)
        ),
        "day of year": lambda: _day_of_year(graph, days),
    }
    found: list[str] = []
    for part in rule.parts:
        if part == "days":
            found.append(_as_column(graph, elapsed))
            continue
        circle = graph.cosines_and_sines(SINE, _as_column(graph, turns[part]()))
        ordered = graph("Gather", circle, graph.constant([1, 0], np.int64), axis=1)
        found.append(graph("Mul", graph.cast(ordered, TensorProto.DOUBLE), graph.constant(2.0**-RESULT_BITS)))
    return graph("Concat", *found, axis=1)


def _modulo(graph: Graph, values: str, divisor: float) -> str:
    by = graph.constant(divisor)
    return graph("Sub", values, graph("Mul", graph("Floor", graph("Div", values, by)), by))


def _day_of_year(graph: Graph, days: str) -> str:
    """The name of turns float64[n], from days since 1970: how much of its year has passed, 0 on 1 January."""
    one, since = graph.constant(1.0), graph("Add", days, graph.constant(_DAYS_BEFORE_1970))
    # Years before this one, guessed by their mean length and corrected by one if that is wrong.
    years = graph("Floor", graph("Div", since, graph.constant(365.2425)))
    years = _where_less(graph, since, _days_before(graph, years), graph("Sub", years, one), years)
    more = graph("Add", years, one)
    years = _where_less(graph, since, _days_before(graph, more), years, more)
    first, next_first = _days_before(graph, years), _days_before(graph, graph("Add", years, one))
    return graph("Div", graph("Sub", since, first), graph("Sub", next_first, first))


def _where_less(graph: Graph, left: str, right: str, so: str, otherwise: str) -> str:
    return graph("Where", graph("Less", left, right), so, otherwise)


def _days_before(graph: Graph, years: str) -> str:
    """The name of the days in a number of years from the year 1 on, by the rule of leap years."""
    days = graph("Mul", years, graph.constant(365.0))
    for length, operator in ((4.0, "Add"), (100.0, "Sub"), (400.0, "Add")):
        days = graph(operator, days, graph("Floor", graph("Div", years, graph.constant(length))))
    return days


def _signed_logarithms(graph: Graph, values: str) -> str:
    """``sign(x) log(1 + |x|)`` as the quick computation of :mod:`deltaplane.maps.logarithm` has it.

    Where that doubts which multiple of 2**-32 is nearest, about once in 30,000 values, this one may take the other.
    """
    one, two, half = graph.constant(1.0), graph.constant(2.0), graph.constant(0.5)
    sizes = graph("Abs", values)
    ones = graph("Add", one, sizes)
    lost = graph(
        "Where",
        graph("LessOrEqual", sizes, one),
        graph("Sub", sizes, graph("Sub", ones, one)),
        graph("Sub", one, graph("Sub", ones, sizes)),
    )
    # The power of two at or below: guessed by the logarithm, and corrected by one if that is wrong.
    powers = graph("Floor", graph("Div", graph("Log", ones), graph.constant(np.log(2.0))))
    powers = _where_less(graph, ones, graph("Pow", two, powers), graph("Sub", powers, one), powers)
    more = graph("Add", powers, one)
    powers = _where_less(graph, ones, graph("Pow", two, more), powers, more)
    mantissas = graph("Div", ones, graph("Pow", two, powers))
    halved = graph("Mul", mantissas, half)
    is_small = graph("Less", halved, graph.constant(np.sqrt(0.5)))
    mantissas = graph("Where", is_small, mantissas, halved)
    powers = graph("Where", is_small, powers, graph("Add", powers, one))
    ratios = graph("Div", graph("Sub", mantissas, one), graph("Add", mantissas, one))
    series = _series(graph, graph("Mul", ratios, ratios))
    high, low = ln2_in_parts()
    main = graph("Mul", graph("Mul", two, ratios), series)
    rest = graph("Add", main, graph("Add", graph("Div", lost, ones), graph("Mul", powers, graph.constant(low))))
    scale = graph.constant(2.0**LOGARITHM_BITS)
    steps = graph("Add", graph("Mul", powers, graph.constant(high)), graph("Round", graph("Mul", rest, scale)))
    signed = _where_less(graph, values, graph.constant(0.0), graph("Neg", steps), steps)
    return graph("Div", signed, scale)


def _series(graph: Graph, squares: str) -> str:
    terms: Sequence[float] = [1.0 / (2 * term + 1) for term in range(TERMS)]
    series = graph.constant(terms[-1])
    for term in reversed(terms[:-1]):
        series = graph("Add", graph("Mul", series, squares), graph.constant(term))
    return series

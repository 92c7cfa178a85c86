"""The stream definition: everything that must be the same for producers, workers, merger and scorer.

Two fingerprints follow from it. ``data_fingerprint`` covers what makes two statistics comparable (features, grid,
feature map, missing values): it is in every sample and in every digest. ``stream_fingerprint`` adds what makes two
deltas of one stream addable (classes, windows, partitions): it is in every claim, delta, checkpoint and model.
Solver settings are in neither, so C or the weighting may change on a live stream.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.grid import Grid
from deltaplane.solver import SolverOptions

WindowKind = Literal["count", "time", "all"]
Tables = Mapping[str, Any]
"""A parsed definition file: section name to keys."""

UNIT_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
FINGERPRINT_BYTES = 16
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True)
class Window:
    """One window of a stream: the last ``length`` rows (count), milliseconds of event time (time), or everything."""

    kind: WindowKind
    length: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("count", "time", "all"):
            raise DefinitionError(f"window: kind must be count, time or all, got {self.kind!r}")
        if self.kind == "all" and self.length:
            raise DefinitionError(f"window: a window over everything has no length, got {self.length}")
        if self.kind != "all" and not 0 < self.length < limits.WINDOW_LENGTH:
            raise DefinitionError(
                f"window: length must be above 0 and below {limits.WINDOW_LENGTH}, got {self.length};"
                " 'all' is a window over everything"
            )

    @classmethod
    def parse(cls, text: str) -> Window:
        """``20000`` is a count of rows, ``7d`` (or ms, s, m, h, w) a span of event time, ``all`` everything."""
        if text.strip() == "all":
            return cls("all")
        number, unit = _amount(text, "window", "a number of rows (20000), a span (7d, 12h, 90s) or 'all'")
        return cls("time", number * UNIT_MILLISECONDS[unit]) if unit else cls("count", number)

    def __str__(self) -> str:
        """The text that :meth:`parse` makes this window of."""
        if self.kind == "time":
            return _span_text(self.length)
        return str(self.length) if self.kind == "count" else self.kind

    def share(self, partition: int, partitions: int) -> int:
        """Rows of a count window that fall to one partition; the shares add up to the length."""
        return self.length // partitions + (partition < self.length % partitions)


@dataclass(frozen=True)
class WindowLadder:
    """The windows that one buffer of rows serves at once, each with statistics of its own.

    ``pane_rows``: count windows give up their oldest rows in whole panes of this many rows of a source; 1 slides by
    the sample. ``keep_rows``: hold each live row, so that it can be retired by id; without it (windows over everything
    only) nothing is held, ids are not looked at, and retirement is by content.
    """

    windows: tuple[Window, ...]
    pane_rows: int = 1
    keep_rows: bool = True

    def __post_init__(self) -> None:
        if not 1 <= len(self.windows) <= limits.WINDOWS:
            raise DefinitionError(f"window: expected 1 to {limits.WINDOWS} windows, got {len(self.windows)}")
        kinds = {window.kind for window in self.windows} - {"all"}
        if len(kinds) > 1:
            raise DefinitionError("window: a ladder is of counts or of spans of time, got both; use one kind")
        if len(set(self.windows)) != len(self.windows):
            raise DefinitionError(f"window: windows must differ, got {', '.join(map(str, self.windows))}")
        counts = [window.length for window in self.windows if window.kind == "count"]
        if not 1 <= self.pane_rows <= min(counts, default=1):
            raise DefinitionError(
                f"window: pane must be from 1 to {min(counts, default=1)} rows (the shortest window of a count of rows;"
                f" other windows have no panes), got {self.pane_rows}"
            )
        if not self.keep_rows and kinds:
            raise DefinitionError("window: rows can only be let go of where the window is 'all'; set keep_rows = true")

    @property
    def timed(self) -> bool:
        """Whether any window ends with time."""
        return any(window.kind == "time" for window in self.windows)

    @property
    def longest_milliseconds(self) -> int | None:
        """The longest span of event time, or None where no window ends with time."""
        spans = [window.length for window in self.windows if window.kind == "time"]
        return max(spans) if spans and all(window.kind == "time" for window in self.windows) else None


@dataclass(frozen=True)
class ClassDefinition:
    """Which labels there are, and which class each becomes.

    ``names``: the labels admitted; empty means open, classes come and go. ``positive``: with it the problem is
    binary: any other label becomes the one other name, or ``not <positive>`` where there is not exactly one.
    """

    names: tuple[str, ...] = ()
    positive: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(sorted(self.names)))
        if len(set(self.names)) != len(self.names):
            raise DefinitionError(f"classes: names must differ, got {list(self.names)}")
        if len(self.names) == 1 or len(self.names) > limits.CLASSES:
            raise DefinitionError(f"classes: expected 2 to {limits.CLASSES} names or none, got {len(self.names)}")
        for label in self.names if self.positive is None else (*self.names, self.positive):
            _check_text(label, "classes: a name", limits.LABEL_BYTES)
        if self.names and self.positive is not None and self.positive not in self.names:
            raise DefinitionError(f"classes: positive {self.positive!r} is not among the names {list(self.names)}")

    @property
    def rest(self) -> str:
        """The name of the class that is not the positive one."""
        others = [name for name in self.names if name != self.positive]
        return others[0] if len(others) == 1 else f"not {self.positive}"

    def class_of(self, label: str) -> str | None:
        """The class a label belongs to, or None where the definition does not know it."""
        if self.names and label not in self.names:
            return None
        return label if self.positive is None or label == self.positive else self.rest


@dataclass(frozen=True)
class StreamDefinition:
    """One stream, as producers, workers, mergers and scorers share it. Raises :class:`DefinitionError`."""

    name: str
    features: tuple[str, ...]
    grid: Grid
    ladder: WindowLadder
    solver: SolverOptions
    classes: ClassDefinition = field(default_factory=ClassDefinition)
    missing: Literal["refuse", "offset"] = "refuse"
    partitions: int = 1
    max_skew_milliseconds: int = UNIT_MILLISECONDS["d"]
    data_fingerprint: bytes = field(init=False, repr=False)
    stream_fingerprint: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise DefinitionError(f"name: expected letters, digits, - and _ (it begins topic names), got {self.name!r}")
        if not 1 <= len(self.features) <= limits.FEATURES or len(set(self.features)) != len(self.features):
            raise DefinitionError(
                f"features: expected 1 to {limits.FEATURES} different names, got {len(self.features)}"
                f" of which {len(set(self.features))} differ"
            )
        for feature in self.features:
            _check_text(feature, "features: a name", limits.FEATURE_NAME_BYTES)
        if self.grid.features != len(self.features):
            raise DefinitionError(f"grid: expected {len(self.features)} steps, one a feature, got {self.grid.features}")
        if self.missing not in ("refuse", "offset"):
            raise DefinitionError(f"features: missing must be 'refuse' or 'offset', got {self.missing!r}")
        if not 1 <= self.partitions <= limits.PARTITIONS:
            raise DefinitionError(f"partitions: expected 1 to {limits.PARTITIONS}, got {self.partitions}")
        if not 0 <= self.max_skew_milliseconds < limits.EVENT_TIME_MILLISECONDS:
            raise DefinitionError(
                f"max_skew: expected 0 to {limits.EVENT_TIME_MILLISECONDS - 1} ms, got {self.max_skew_milliseconds} ms"
            )
        for window in self.ladder.windows:
            if window.kind == "count" and window.length < self.partitions:
                raise DefinitionError(
                    f"window: {window.length} rows cannot be shared by {self.partitions} partitions;"
                    " every partition needs one"
                )
        self._check_class_weights()
        self._check_message_size()
        object.__setattr__(self, "data_fingerprint", _fingerprint(self._data_settings()))
        object.__setattr__(self, "stream_fingerprint", _fingerprint(self._data_settings() | self._stream_settings()))

    @property
    def dimension(self) -> int:
        """D = features + 1, the side of a Gram matrix."""
        return len(self.features) + 1

    def _check_class_weights(self) -> None:
        weighting, names = self.solver.weighting, self.classes.names
        if names and not isinstance(weighting, str):
            classes = {self.classes.class_of(name) for name in names}
            if weighting.keys() != classes:
                raise DefinitionError(
                    f"solver.weighting: expected one weight for each of {', '.join(sorted(map(str, classes)))},"
                    f" got weights for {', '.join(sorted(weighting)) or 'none'}"
                )

    def _check_message_size(self) -> None:
        # Of open classes nobody knows how many there will be; two are the least that make a problem.
        names = self.classes.names if self.classes.positive is None else ()
        classes, windows = max(2, len(names)), len(self.ladder.windows)
        entries = self.dimension * (self.dimension + 1) // 2
        cell = 2 * max((len(name.encode()) for name in names), default=limits.LABEL_BYTES) + limits.CELL_BYTES
        size = classes * windows * entries * 16 + classes**2 * cell + limits.DELTA_BYTES_BESIDE
        if size > limits.MESSAGE_BYTES:
            raise DefinitionError(
                f"a delta of this stream may take {classes} classes x {windows} windows x {entries} entries x 16 bytes"
                f" + {classes} x {classes} scores x {cell} bytes + {limits.DELTA_BYTES_BESIDE:,} = {size:,} bytes,"
                f" more than the {limits.MESSAGE_BYTES:,} that a message may have;"
                " use fewer features, classes or windows"
            )

    def _data_settings(self) -> dict[str, Any]:
        return {
            "features": list(self.features),
            "steps": [step.hex() for step in self.grid.steps.tolist()],
            "offsets": [offset.hex() for offset in self.grid.offsets.tolist()],
            "missing": self.missing,
            "map": "none",
        }

    def _stream_settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "classes": list(self.classes.names),
            "positive": self.classes.positive,
            "windows": [[window.kind, window.length] for window in self.ladder.windows],
            "pane_rows": self.ladder.pane_rows,
            "keep_rows": self.ladder.keep_rows,
            "partitions": self.partitions,
            "max_skew_milliseconds": self.max_skew_milliseconds,
        }

    @classmethod
    def from_tables(cls, tables: Tables) -> StreamDefinition:
        """Build a definition from the tables of a ``deltaplane.toml``; unknown keys are refused by name."""
        check_keys(tables)
        features = tables.get("features", {})
        grid = tables.get("grid", {})
        names = tuple(_strings(features.get("names", ()), "features.names"))
        if not names:
            raise DefinitionError("features: expected names = [...], got none")
        if "steps" not in grid:
            raise DefinitionError(
                "grid: expected steps = [...] (one a feature), got none; let replay fit one and write it down"
            )
        classes = tables.get("classes", {})
        positive = classes.get("positive")
        return cls(
            name=_text(tables.get("name", "stream"), "name"),
            features=names,
            grid=Grid(
                np.array(_numbers(grid["steps"], "grid.steps")),
                np.array(_numbers(grid.get("offsets", [0.0] * len(names)), "grid.offsets")),
            ),
            ladder=_ladder(tables.get("window", {})),
            solver=_solver(tables.get("solver", {})),
            classes=ClassDefinition(
                tuple(_strings(classes.get("names", ()), "classes.names")),
                None if positive is None else _label(positive, "classes.positive"),
            ),
            missing=features.get("missing", "refuse"),
            partitions=_whole(tables.get("partitions", 1), "partitions"),
            max_skew_milliseconds=_span(tables.get("max_skew", "1d"), "max_skew"),
        )

    def to_tables(self) -> dict[str, Any]:
        """The inverse of :meth:`from_tables`."""
        solver = self.solver
        weighting = solver.weighting if isinstance(solver.weighting, str) else dict(solver.weighting)
        classes: dict[str, Any] = {"names": list(self.classes.names)}
        if self.classes.positive is not None:
            classes["positive"] = self.classes.positive
        windows = [str(window) for window in self.ladder.windows]
        return {
            "name": self.name,
            "partitions": self.partitions,
            "max_skew": _span_text(self.max_skew_milliseconds),
            "features": {"names": list(self.features), "missing": self.missing},
            "grid": {"steps": self.grid.steps.tolist(), "offsets": self.grid.offsets.tolist()},
            "classes": classes,
            "window": {
                "length": windows[0] if len(windows) == 1 else windows,
                "pane": self.ladder.pane_rows,
                "keep_rows": self.ladder.keep_rows,
            },
            "solver": {
                "kind": solver.kind,
                "weighting": weighting,
                "C": solver.C,
                "standardize": solver.standardize,
                "bias": solver.bias,
            },
        }


_KEYS: dict[str, frozenset[str]] = {
    "": frozenset(
        {
            "name",
            "partitions",
            "max_skew",
            "features",
            "grid",
            "classes",
            "window",
            "solver",
            "input",
            "service",
            "kafka",
        }
    ),
    "features": frozenset({"names", "missing"}),
    "grid": frozenset({"steps", "offsets"}),
    "classes": frozenset({"names", "positive"}),
    "window": frozenset({"length", "pane", "keep_rows"}),
    "solver": frozenset({"kind", "weighting", "C", "standardize", "bias"}),
}
"""Keys that each table may have. ``input`` says how files are read and belongs to the services."""


def check_keys(tables: Tables) -> None:
    """Refuse a key that nobody reads, by name and with the nearest one that is."""
    for section, known in _KEYS.items():
        table = tables if not section else tables.get(section, {})
        if not isinstance(table, Mapping):
            raise DefinitionError(f"{section}: expected a table of keys, got {table!r}")
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(known))}"
                raise DefinitionError(f"definition: unknown key {'.'.join(filter(None, (section, str(key))))!r}{hint}")


def _ladder(table: Tables) -> WindowLadder:
    length = table.get("length", "all")
    lengths = [length] if isinstance(length, str | int) else _list(length, "window.length")
    return WindowLadder(
        tuple(Window.parse(str(one)) for one in lengths),
        _whole(table.get("pane", 1), "window.pane"),
        _flag(table.get("keep_rows", True), "window.keep_rows"),
    )


def _solver(table: Tables) -> SolverOptions:
    return SolverOptions(
        kind=table.get("kind", "wlpsvm"),
        weighting=table.get("weighting", "default"),
        C=_number(table.get("C", 1.0), "solver.C"),
        standardize=_flag(table.get("standardize", True), "solver.standardize"),
        bias=table.get("bias", "default"),
    )


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise DefinitionError(f"{where}: expected a text, got {value!r}; put it in quotes")
    return value


def _label(value: Any, where: str) -> str:
    """A name as samples carry it: a text, or a whole number. Others have more than one spelling (1.0, True)."""
    return str(_whole(value, where)) if isinstance(value, int) else _text(value, where)


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DefinitionError(f"{where}: expected a list, got {value!r}; put it in [ ]")
    return value


def _strings(value: Any, where: str) -> list[str]:
    return [_label(item, where) for item in _list(value, where)]


def _numbers(value: Any, where: str) -> list[float]:
    return [_number(item, where) for item in _list(value, where)]


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DefinitionError(f"{where}: expected a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise DefinitionError(f"{where}: expected a number of at most 1.8e308, got one beyond it") from None


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DefinitionError(f"{where}: expected a whole number, got {value!r}")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise DefinitionError(f"{where}: expected true or false, got {value!r}")
    return value


def _span(value: Any, where: str) -> int:
    """Milliseconds of a span such as ``1d`` or ``90s``."""
    expected = "a span of time such as '1d' or '90s'"
    number, unit = _amount(str(value), where, expected)
    if not unit:
        raise DefinitionError(f"{where}: expected {expected}, got {value!r} without a unit")
    return number * UNIT_MILLISECONDS[unit]


def _span_text(milliseconds: int) -> str:
    """The shortest text that :func:`_span` reads as so many milliseconds."""
    exact = [unit for unit, size in UNIT_MILLISECONDS.items() if milliseconds % size == 0]
    unit = max(exact, key=UNIT_MILLISECONDS.__getitem__) if milliseconds else "s"
    return f"{milliseconds // UNIT_MILLISECONDS[unit]}{unit}"


def _amount(text: str, where: str, expected: str) -> tuple[int, str]:
    """A whole number, and its unit or an empty text."""
    match = re.fullmatch(r"([0-9]+(?:_[0-9]+)*)\s*(ms|[smhdw])?", text.strip())
    if match is None or len(match[1]) > 25:
        raise DefinitionError(f"{where}: expected {expected}, got {text[:100]!r}")
    return int(match[1]), match[2] or ""


def _check_text(value: str, what: str, limit_bytes: int) -> None:
    """Refuse a name that is empty, too long, or not a text at all (half of a surrogate pair)."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError as fault:
        raise DefinitionError(f"{what} must be a Unicode text, got {value!r} ({fault.reason})") from fault
    if not 1 <= size <= limit_bytes:
        raise DefinitionError(f"{what} must have 1 to {limit_bytes} bytes in UTF-8, got {size} ({value[:50]!r})")


def _fingerprint(settings: Mapping[str, Any]) -> bytes:
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()[:FINGERPRINT_BYTES]

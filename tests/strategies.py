"""All Hypothesis strategies of the tests in one place, so that every law is tried on the same odd values.

Magnitudes are drawn evenly over their *logarithm*: a uniform integer below 2**30 is nearly always near 2**30, and would
never take the path that small ones take.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deltaplane import limits
from deltaplane.arrays import Floats, Int64s
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceState, Tile
from deltaplane.log.model import Model, SourcePosition
from deltaplane.log.records import Checkpoint, DeadLetter, Prediction, Query, Receipt, Unanswered
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.solve.aims import Aim
from deltaplane.solve.candidates import Blend, Candidates
from deltaplane.solve.objectives import Objective
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.solve.score_histograms import BINS, EDGES, ScoreHistory
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window, WindowKind
from deltaplane.stream.placement import PARTITIONERS
from deltaplane.stream.sample import Retirement, Samples

LONG = st.integers(-(2**63), 2**63 - 1)
POSITIONS = st.integers(0, limits.POSITION)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY_FLOAT = st.floats()
FINGERPRINTS = st.binary(min_size=16, max_size=16)
TEXTS = st.text(max_size=12)
IDS = st.text(min_size=1, max_size=12)
LABELS = st.text(min_size=1, max_size=6)


# Grids and rows ------------------------------------------------------------------------------------------------------


@st.composite
def magnitudes(draw: st.DrawFn, bits: int) -> int:
    """An integer of at most so many bits and either sign; the edges of powers of two are likely."""
    power = 1 << draw(st.integers(0, bits))
    size: int = draw(st.sampled_from([power - 1, power, power + 1]) | st.integers(0, power))
    sign: int = draw(st.sampled_from([-1, 1]))
    return sign * min(size, (1 << bits) - 1)


def grid_values() -> st.SearchStrategy[int]:
    """Any value of a grid: |q| < 2**30."""
    return magnitudes(bits=30)


def grid_rows(
    features: int | None = None, max_rows: int = 12, max_features: int = 4, *, min_rows: int = 0
) -> st.SearchStrategy[Int64s]:
    """Grid rows int64[n, d], |q| < 2**45; in half of the cases all of them narrow, |q| < 2**30."""
    width = st.just(features) if features else st.integers(1, max_features)
    shape = st.tuples(st.integers(min_rows, max_rows), width)
    cases = st.tuples(shape, st.sampled_from([limits.GRID_RANGE_BITS, limits.WIDE_RANGE_BITS]))
    return cases.flatmap(lambda case: hnp.arrays(np.int64, case[0], elements=magnitudes(bits=case[1])))


@st.composite
def row_sets(draw: st.DrawFn, sets: int, max_rows: int = 8) -> tuple[Int64s, ...]:
    """So many sets of grid rows over the same features."""
    features = draw(st.integers(1, 4))
    return tuple(draw(grid_rows(features, max_rows)) for _ in range(sets))


@st.composite
def grids(draw: st.DrawFn, features: int | None = None, range_bits: int | None = None) -> Grid:
    """A grid with steps from 2**-40 to 2**40 and offsets that are multiples of them, of either range."""
    size = features or draw(st.integers(1, 4))
    steps = [2.0 ** draw(st.integers(-40, 40)) for _ in range(size)]
    offsets = [step * draw(magnitudes(bits=20)) for step in steps]
    bits = range_bits or draw(st.sampled_from([limits.GRID_RANGE_BITS, limits.WIDE_RANGE_BITS]))
    return Grid(np.array(steps), np.array(offsets), bits)


def columns(min_rows: int = 1, max_rows: int = 12) -> st.SearchStrategy[Floats]:
    """float64[n] as features come: flags, whole numbers, years, Unix times, prices, and anything finite."""
    base = st.sampled_from([0.0, 0.0, 1999.0, 1.7e9, -1.7e12, 0.1, 1e-3])
    kinds = st.sampled_from(
        [
            st.sampled_from([0.0, 1.0]),
            st.integers(-1000, 1000).map(float),
            st.integers(-400, 400).map(lambda cents: cents / 100),
            st.integers(-512, 512).map(lambda eighths: eighths / 8),
            st.floats(-1.0, 1.0),
            FINITE,
        ]
    )
    sizes = st.integers(min_rows, max_rows)
    return st.tuples(kinds, base, sizes).flatmap(
        lambda drawn: hnp.arrays(np.float64, drawn[2], elements=drawn[0]).map(lambda column: column + drawn[1])
    )


# Statistics ----------------------------------------------------------------------------------------------------------


def moments_of(dimension: int) -> st.SearchStrategy[Moments]:
    """The statistics of one or more rows."""
    return grid_rows(dimension - 1, min_rows=1).map(Moments.of_rows)


def statistics(dimension: int, windows: int = 2) -> st.SearchStrategy[Statistics]:
    """Statistics of some classes in some windows."""
    keys = st.tuples(st.integers(0, windows - 1), LABELS)
    parts = st.dictionaries(keys, moments_of(dimension), max_size=4)
    return parts.map(lambda moments: Statistics(dimension, moments))


def confusions() -> st.SearchStrategy[Confusion]:
    """Counts by (truth, predicted)."""
    cells = st.dictionaries(st.tuples(LABELS, LABELS), st.integers(1, 2**40), max_size=4)
    return cells.map(Confusion)


# Definitions ---------------------------------------------------------------------------------------------------------


@st.composite
def ladders(draw: st.DrawFn, partitions: int = 1) -> NestedWindows:
    """One to three windows of one kind, and perhaps one over everything."""
    kinds: list[WindowKind] = ["count", "time"]
    kind = draw(st.sampled_from(kinds))
    lengths = draw(st.lists(st.integers(partitions, 10**6), unique=True, max_size=3))
    windows = [Window(kind, length) for length in lengths]
    if not windows or draw(st.booleans()):
        windows.append(Window("all"))
    counts = [window.length for window in windows if window.kind == "count"]
    pane = draw(st.integers(1, min(counts, default=1)))
    keep = draw(st.booleans()) if all(window.kind == "all" for window in windows) else True
    return NestedWindows(tuple(windows), pane, keep)


@st.composite
def class_definitions(draw: st.DrawFn) -> ClassDefinition:
    """Open or closed classes, with and without a positive one."""
    names = draw(st.lists(LABELS, unique=True, max_size=5).filter(lambda drawn: len(drawn) != 1))
    positive = draw(st.none() | (st.sampled_from(names) if names else LABELS))
    return ClassDefinition(tuple(names), positive)


@st.composite
def solver_options(draw: st.DrawFn) -> SolverOptions:
    """Any options that go together."""
    C = draw(st.floats(1e-6, 1e6))
    standardize = draw(st.booleans())
    if draw(st.booleans()):
        weights = draw(st.dictionaries(LABELS, st.floats(0.1, 10.0), min_size=1, max_size=3))
        return SolverOptions(weighting=weights, C=C, standardize=standardize)
    if draw(st.booleans()):
        return SolverOptions(kind="lssvm", bias=draw(st.sampled_from(["free", "none"])), C=C, standardize=standardize)
    return SolverOptions(weighting=draw(st.sampled_from(["inverse", "none", "balanced"])), C=C, standardize=standardize)


@st.composite
def feature_maps(draw: st.DrawFn, features: int) -> FeatureMap:
    """No map, or one of few units."""
    if draw(st.booleans()):
        return NO_MAP
    kind: Literal["hidden", "fourier"] = "hidden" if draw(st.booleans()) else "fourier"
    centers = tuple(draw(st.lists(st.integers(-(2**29), 2**29), min_size=features, max_size=features)))
    scales = tuple(draw(st.lists(st.floats(0.5, 2.0**20), min_size=features, max_size=features)))
    return FeatureMap(kind, draw(st.sampled_from([2, 4])), draw(st.integers(0, 9)), 1.5, centers, scales)


@st.composite
def choices_of(draw: st.DrawFn, solver: SolverOptions) -> dict[str, Any]:
    """Choices of C and weighting, or none, and the solver that goes with them."""
    choices = tuple(sorted(draw(st.sets(st.floats(1e-6, 1e6), max_size=4))))
    if choices:
        solver = dataclasses.replace(solver, C=choices[len(choices) // 2])
    weightings: tuple[str, ...] = ()
    if solver.kind == "wlpsvm" and draw(st.booleans()):
        weightings = draw(st.sampled_from([("inverse", "none"), ("none", "balanced"), ("balanced", "inverse", "none")]))
        solver = dataclasses.replace(solver, weighting="inverse")
    return {"solver": solver, "choices": choices, "weightings": weightings}


@st.composite
def definitions(draw: st.DrawFn) -> StreamDefinition:
    """Any stream definition, its solver with class weights only where the classes are open."""
    features = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
    partitions = draw(st.integers(1, 8))
    classes = draw(class_definitions())
    solver = draw(solver_options())
    if classes.names and not isinstance(solver.weighting, str):
        solver = SolverOptions()
    return StreamDefinition(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)),
        features=tuple(features),
        grid=draw(grids(len(features))),
        nested_windows=draw(ladders(partitions)),
        classes=classes,
        missing=draw(st.sampled_from(["refuse", "offset"])),
        partitions=partitions,
        partitioner=draw(st.sampled_from(PARTITIONERS)),
        max_skew_milliseconds=draw(st.integers(0, limits.EVENT_TIME_MILLISECONDS - 1)),
        feature_map=draw(feature_maps(len(features))),
        **draw(choices_of(solver)),
    )


# Records -------------------------------------------------------------------------------------------------------------


@st.composite
def sample_batches(draw: st.DrawFn, features: int, offset: int = 0, log_time: int = 0) -> Samples:
    """The rows of one message: any ids, times, labels and values that a batch can hold."""
    rows = draw(st.integers(1, 6))
    table = tuple(draw(st.lists(TEXTS, min_size=1, max_size=4)))
    codes = draw(hnp.arrays(np.int32, rows, elements=st.integers(0, len(table) - 1)))
    return Samples(
        ids=draw(st.lists(TEXTS, min_size=rows, max_size=rows)),
        event_times=draw(hnp.arrays(np.int64, rows)),
        label_table=table,
        label_codes=codes,
        features=draw(hnp.arrays(np.float64, (rows, features))),
        offsets=np.full(rows, offset, dtype=np.int64),
        rows=np.arange(rows, dtype=np.int64),
        log_times=np.full(rows, log_time, dtype=np.int64),
    )


def retirements(offset: int = 0) -> st.SearchStrategy[Retirement]:
    """Retirements of any id."""
    return st.builds(
        Retirement,
        id=IDS,
        reason=TEXTS,
        offset=st.just(offset),
        time=st.none() | LONG,
    )


def queries(features: int) -> st.SearchStrategy[Query]:
    """Queries with any values."""
    return st.builds(Query, TEXTS, hnp.arrays(np.float64, features), FINGERPRINTS)


def sources() -> st.SearchStrategy[Source]:
    """A partition of any site."""
    return st.builds(Source, TEXTS, st.integers(0, limits.PARTITIONS - 1))


def tallies() -> st.SearchStrategy[dict[str, int]]:
    """Counts by outcome."""
    return st.dictionaries(TEXTS, st.integers(0, 2**50), max_size=3)


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    """Any tile that does not run backwards."""
    samples = sorted((draw(POSITIONS), draw(POSITIONS)))
    retired = sorted((draw(POSITIONS), draw(POSITIONS)))
    return Tile(draw(POSITIONS), samples[0], samples[1], retired[0], retired[1])


@st.composite
def rebuilds(draw: st.DrawFn) -> Rebuild:
    """Any place to rebuild from."""
    memory_from, window_from = sorted((draw(POSITIONS), draw(POSITIONS)))
    return Rebuild(window_from, memory_from, draw(POSITIONS), draw(POSITIONS), draw(LONG))


def claims() -> st.SearchStrategy[Claim]:
    """Claims of any source."""
    return st.builds(Claim, sources(), TEXTS, FINGERPRINTS)


@st.composite
def prequential_counts(draw: st.DrawFn) -> PrequentialCounts:
    """What candidates of any windows and choices of C made of some rows."""
    choices = tuple(draw(st.lists(st.builds(Choice, st.floats(1e-9, 1e9), TEXTS), min_size=1, max_size=3)))
    shape = (draw(st.integers(1, 3)), len(choices))
    rows = {
        label: draw(hnp.arrays(np.int64, (*shape, 2), elements=st.integers(0, 2**40)))
        for label in draw(st.sets(LABELS, max_size=3))
    }
    hits = {label: np.stack([counts, counts // 3], axis=2) for label, counts in rows.items()}
    scores: dict[str, Int64s] = {}
    tallied: bool = draw(st.booleans())
    if tallied and rows:
        planes = shape[0] * shape[1] + 1
        scores = {label: np.full((planes, 2, BINS), draw(st.integers(0, 2**40)), np.int64) for label in rows}
    return PrequentialCounts(choices, hits, rows, scores)


@st.composite
def blends(draw: st.DrawFn, features: int) -> Blend:
    """Candidates of any windows and choices of C, some of them missing, but never all."""
    choices = tuple(draw(st.lists(st.builds(Choice, st.floats(1e-9, 1e9), TEXTS), min_size=1, max_size=3)))
    shape = (draw(st.integers(1, 3)), len(choices))
    of: dict[str, Candidates] = {}
    for label in draw(st.sets(LABELS, min_size=1, max_size=3)):
        exist = draw(hnp.arrays(np.bool_, shape))
        exist[0, 0] |= not of
        there = np.where(exist, 1.0, np.nan)[..., None]
        weights = draw(hnp.arrays(np.float64, (*shape, features), elements=FINITE)) * there
        biases = draw(hnp.arrays(np.float64, (*shape, 2), elements=FINITE)) * there
        rows = draw(hnp.arrays(np.float64, (*shape, 2), elements=st.floats(0.0, 1e6)))
        shares = draw(hnp.arrays(np.float64, (*shape, 2), elements=st.floats(0.0, 1.0)))
        of[label] = Candidates(weights, biases, np.stack([rows, rows / 3], axis=2), rows, shares)
    return Blend(choices, of, draw(st.none() | aims(of)))


@st.composite
def aims(draw: st.DrawFn, of: Mapping[str, Candidates]) -> Aim:
    """What candidates are weighed for, if not for the G-mean."""
    histories = {}
    for label, candidates in of.items():
        units = np.full((*candidates.exist.shape, 2), np.nan)
        units[candidates.exist] = draw(st.floats(1e-9, 1e9))
        counts = np.full((candidates.exist.size + 1, 2, BINS), draw(st.floats(0.0, 1e6)))
        histories[label] = ScoreHistory(units, counts, draw(st.sampled_from(EDGES.tolist())))
    objective = Objective.parse(draw(st.sampled_from(["kappa", "f1", "cost:FN=50,FP=1", "recall@alerts=2.5/day"])))
    return Aim(objective, histories, draw(st.floats(0.0, 1e12)), draw(LONG), draw(st.none() | TEXTS))


def admitted_labels() -> st.SearchStrategy[tuple[str, ...]]:
    """Labels of open classes, in the order in which they were admitted; mostly none are new."""
    return st.just(()) | st.lists(LABELS, max_size=4, unique=True).map(tuple)


def deltas(dimension: int) -> st.SearchStrategy[Delta]:
    """Deltas of any source."""
    return st.builds(
        Delta,
        source=sources(),
        writer=TEXTS,
        stream_fingerprint=FINGERPRINTS,
        tile=tiles(),
        rebuild=rebuilds(),
        change=statistics(dimension),
        scores=confusions(),
        scored_by=POSITIONS,
        counts=tallies(),
        prequential_counts=st.none() | prequential_counts(),
        labels=admitted_labels(),
    )


def checkpoints(dimension: int) -> st.SearchStrategy[Checkpoint]:
    """Checkpoints of any source."""
    state = st.builds(
        SourceState,
        source=sources(),
        statistics=statistics(dimension),
        owner=TEXTS,
        sequence=POSITIONS,
        samples_position=POSITIONS,
        retirements_position=POSITIONS,
        rebuild=rebuilds(),
        scores=confusions(),
        counts=tallies(),
        dropped=tallies(),
        labels=admitted_labels(),
    )
    return st.builds(Checkpoint, state, POSITIONS, FINGERPRINTS)


@st.composite
def planes(draw: st.DrawFn, features: int) -> Plane:
    """One plane of two classes, or several."""
    classes = sorted(draw(st.lists(LABELS, min_size=2, max_size=4, unique=True)))
    positive = draw(st.sampled_from(classes)) if len(classes) == 2 else None
    rows = len(classes) if positive is None else 1
    return Plane(
        classes=tuple(classes),
        positive=positive,
        weights=draw(hnp.arrays(np.float64, (rows, features), elements=FINITE)),
        biases=draw(hnp.arrays(np.float64, rows, elements=FINITE)),
        sigmas=dict.fromkeys(classes, draw(st.floats(1e-3, 1.0))),
        C=draw(st.floats(1e-6, 1e6)),
        condition=draw(st.floats(1.0, 1e15)),
        counts=dict.fromkeys(classes, draw(st.integers(1, 2**40))),
    )


@st.composite
def models(draw: st.DrawFn, features: int) -> Model:
    """Models with and without a plane."""
    plane_version, version = sorted((draw(POSITIONS), draw(POSITIONS)))
    position = st.builds(
        SourcePosition, sources(), POSITIONS, POSITIONS, POSITIONS, LONG, st.text(max_size=20), POSITIONS, st.booleans()
    )
    return Model(
        version=version,
        stream_fingerprint=draw(FINGERPRINTS),
        data_fingerprint=draw(FINGERPRINTS),
        created=draw(LONG),
        plane=draw(st.none() | planes(features)),
        plane_version=plane_version,
        refusal=draw(st.none() | TEXTS),
        options=draw(solver_options()),
        digest_of=functools.partial(str, draw(TEXTS)),
        counts=draw(tallies()),
        positions=tuple(draw(st.lists(position, max_size=3))),
        scores=draw(confusions()),
        totals=draw(tallies()),
        watermark=draw(LONG),
        blend=draw(st.none() | blends(features)),
    )


def predictions() -> st.SearchStrategy[Prediction]:
    """Answers to any query."""
    decisions = st.dictionaries(LABELS, FINITE, max_size=3)
    return st.builds(Prediction, TEXTS, TEXTS, decisions, POSITIONS, TEXTS, st.integers(0, 2**31 - 1), POSITIONS)


def unanswered() -> st.SearchStrategy[Unanswered]:
    """Answers to queries that have none."""
    key = st.none() | st.binary(max_size=20)
    small = st.integers(0, 2**31 - 1)
    return st.builds(Unanswered, TEXTS, POSITIONS, TEXTS, small, POSITIONS, TEXTS, TEXTS, key)


def receipts() -> st.SearchStrategy[Receipt]:
    """Receipts of any retirement."""
    return st.builds(
        Receipt, FINGERPRINTS, TEXTS, TEXTS, sources(), POSITIONS, TEXTS, POSITIONS, POSITIONS, POSITIONS, TEXTS, TEXTS
    )


def dead_letters() -> st.SearchStrategy[DeadLetter]:
    """Dead letters of records and of rows."""
    small = st.integers(0, 2**31 - 1)
    content = st.none() | st.binary(max_size=20)
    row = st.none() | small
    return st.builds(DeadLetter, TEXTS, small, POSITIONS, row, TEXTS, TEXTS, content, content, POSITIONS, tallies())

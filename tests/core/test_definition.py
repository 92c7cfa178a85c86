"""The stream definition: what it takes, what it refuses, and what its fingerprints cover."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Source, SourceState, check_state
from deltaplane.log.records import Checkpoint
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.mismatch import explained
from deltaplane.stream.nested_windows import NestedWindows, Window, WindowKind
from deltaplane.table_values import Tables
from deltaplane.wire import read_checkpoint, write_checkpoint

TABLES: Tables = {
    "name": "power",
    "partitions": 4,
    "max_skew": "2h",
    "features": {"names": ["price", "demand"], "missing": "offset"},
    "grid": {"steps": [0.25, 1.0], "offsets": [10.0, 0.0]},
    "classes": {"names": ["UP", "DOWN"], "positive": "UP"},
    "window": {"length": ["1000", "5000"], "pane": 100},
    "solver": {"kind": "wlpsvm", "C": 2, "weighting": {"UP": 1.0, "DOWN": 0.5}},
}


def tables(**changes: Any) -> dict[str, Any]:
    """The example's tables; ``window__length=5`` sets a key of a table, None takes it away."""
    changed = copy.deepcopy(dict(TABLES))
    for path, value in changes.items():
        *sections, key = path.split("__")
        table = changed
        for section in sections:
            table = table.setdefault(section, {})
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return changed


def definition(**changes: Any) -> StreamDefinition:
    return StreamDefinition.from_tables(tables(**changes))


def small(**changes: Any) -> StreamDefinition:
    """The simplest definition there is, with some fields changed."""
    fields: dict[str, Any] = {
        "name": "s",
        "features": ("x",),
        "grid": Grid(np.ones(1), np.zeros(1)),
        "nested_windows": NestedWindows((Window("all"),)),
        "solver": SolverOptions(),
    }
    return StreamDefinition(**{**fields, **changes})


# Tables --------------------------------------------------------------------------------------------------------------


def test_a_definition_is_what_its_tables_say() -> None:
    stream = definition()
    assert stream.name == "power"
    assert stream.features == ("price", "demand")
    assert stream.dimension == 3
    assert stream.grid == Grid(np.array([0.25, 1.0]), np.array([10.0, 0.0]))
    assert stream.nested_windows == NestedWindows((Window("count", 1000), Window("count", 5000)), pane_rows=100)
    assert stream.classes == ClassDefinition(("DOWN", "UP"), "UP")
    assert stream.solver == SolverOptions(C=2.0, weighting={"UP": 1.0, "DOWN": 0.5})
    assert (stream.missing, stream.partitions, stream.max_skew_milliseconds) == ("offset", 4, 7_200_000)


def test_what_the_tables_leave_out_has_a_default() -> None:
    stream = StreamDefinition.from_tables({"features": {"names": ["x"]}, "grid": {"steps": [1]}})
    automatic = {"choices": (0.001, 0.1, 10.0), "weightings": ("inverse", "none")}
    nested_windows = NestedWindows.automatic(102_400)
    assert stream == small(name="stream", solver=SolverOptions(C=0.1), nested_windows=nested_windows, **automatic)
    assert stream.automatic
    assert [str(window) for window in stream.nested_windows.windows] == [
        "100",
        "400",
        "1600",
        "6400",
        "25600",
        "102400",
    ]
    assert [(options.C, options.weighting) for options in stream.candidate_options] == [
        (C, weighting) for weighting in ("inverse", "none") for C in (0.001, 0.1, 10.0)
    ]
    assert stream.max_skew_milliseconds == 86_400_000


@given(strategies.definitions())
def test_tables_bring_back_the_same_definition(stream: StreamDefinition) -> None:
    again = StreamDefinition.from_tables(stream.to_tables())
    assert again == stream
    assert again.data_fingerprint == stream.data_fingerprint
    assert again.stream_fingerprint == stream.stream_fingerprint


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("partition", "unknown key 'partition'; did you mean 'partitions'?"),
        ("features__name", "unknown key 'features.name'; did you mean 'names'?"),
        ("grid__step", "unknown key 'grid.step'; did you mean 'steps'?"),
        ("window__lenght", "unknown key 'window.lenght'; did you mean 'length'?"),
        ("solver__c", "unknown key 'solver.c'; known are C, bias, calibrate, kind, objective, standardize, weighting"),
        ("classes__positve", "did you mean 'positive'?"),
    ],
)
def test_a_key_that_nobody_reads_is_refused_with_the_nearest_that_is_read(path: str, words: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(words)):
        definition(**{path: "x"})


def test_the_table_of_the_services_is_left_to_them() -> None:
    assert definition(input={"label": "target", "anything": 1}) == definition()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": 5}, "name: expected a text, got 5; put it in quotes"),
        ({"name": "a b"}, "name: expected letters"),
        ({"name": ""}, "name: expected letters"),
        ({"name": "-x"}, "name: expected letters"),
        ({"name": "x" * 101}, "name: expected letters"),
        ({"features": ["price"]}, "features: expected a table of keys"),
        ({"features__names": None}, "features: expected names"),
        ({"features__names": "price"}, "features.names: expected a list"),
        ({"features__names": [1.5, "x"]}, "features.names: expected a text, got 1.5"),
        ({"features__names": ["price", "price"]}, "features: expected 1 to 2000 different names, got 2 of which 1"),
        ({"features__names": ["price", ""]}, "features: a name must have 1 to 256 bytes"),
        ({"features__names": ["price", "\ud800"]}, "features: a name must be a Unicode text"),
        ({"features__missing": "zero"}, "missing must be 'refuse' or 'offset', got 'zero'"),
        ({"grid__steps": None}, "grid: expected steps"),
        ({"grid__steps": 1.0}, "grid.steps: expected a list"),
        ({"grid__steps": [0.25]}, "grid: expected 2 steps"),
        ({"grid__steps": [0.25, "1"]}, "grid.steps: expected a number, got '1'"),
        ({"grid__steps": [0.25, True]}, "grid.steps: expected a number, got True"),
        ({"grid__steps": [0.25, 10**400]}, "grid.steps: expected a number of at most 1.8e308"),
        ({"grid__steps": [0.25, float("nan")]}, "step of feature 1"),
        ({"grid": {"steps": [1.0]}, "features__names": ["a", "b"]}, "grid: expected 2 steps"),
        ({"grid": {"steps": [1.0], "offsets": [0.0]}}, "grid: expected 2 steps, one a feature, got 1"),
        ({"classes__names": ["UP"]}, "classes: expected 2 to 1024 names or none, got 1"),
        ({"classes__names": ["UP", "UP"]}, "classes: names must differ"),
        ({"classes__names": ["UP", ""]}, "classes: a name must have 1 to 256 bytes in UTF-8, got 0"),
        ({"classes__names": ["UP", "x" * 257]}, "classes: a name must have 1 to 256 bytes in UTF-8, got 257"),
        ({"classes__names": [True, False]}, "classes.names: expected a whole number, got True"),
        ({"classes__names": [0.0, 1.0]}, "classes.names: expected a text, got 0.0"),
        ({"classes__positive": "LEFT"}, "positive 'LEFT' is not among the names"),
        ({"classes__positive": ""}, "classes: a name must have 1 to 256 bytes"),
        ({"classes__positive": True}, "classes.positive: expected a whole number, got True"),
        ({"classes__most": 20}, "classes.most: it bounds open classes, and these are known"),
        ({"classes": {"most": 1}, "solver": {"C": 1}}, "classes.most: expected 2 to 347, which fit a message, got 1"),
        (
            {"classes": {"most": 1025}, "solver": {"C": 1}},
            "2 to 347, which fit a message, got 1025",
        ),
        ({"classes": {"most": "many"}, "solver": {"C": 1}}, "classes.most: expected a whole number"),
        ({"window__length": []}, "window: expected 1 to 16 windows, got 0"),
        ({"window__length": True}, "window: expected a number of rows"),
        ({"window__length": 2e4}, "window.length: expected a list"),
        ({"window__length": -5}, "window: expected a number of rows"),
        ({"window__length": 0}, "window: length must be above 0"),
        ({"window__length": ["1000", "7d"]}, "window: nested windows are of counts or of spans of time, got both"),
        ({"window__length": ["1000", 1000]}, "window: windows must differ, got 1000, 1000"),
        ({"window__length": [str(n) for n in range(1, 18)]}, "window: expected 1 to 16 windows, got 17"),
        ({"window__length": 3, "window__pane": 1}, "window: 3 rows cannot be shared by 4 partitions"),
        ({"window__pane": 0}, "window: pane must be from 1 to 1000 rows"),
        ({"window__pane": 1001}, "window: pane must be from 1 to 1000 rows"),
        ({"window__length": "7d"}, "window: pane must be from 1 to 1 rows"),
        ({"window__pane": "100"}, "window.pane: expected a whole number, got '100'"),
        ({"window__keep_rows": 0}, "window.keep_rows: expected true or false, got 0"),
        ({"window__keep_rows": False}, "window: rows can only be let go of where the window is 'all'"),
        ({"solver__C": "best"}, "solver.C: expected a number, got 'best'"),
        ({"solver__C": [10.0, 1.0]}, "expected up to 16 different choices in ascending order"),
        ({"solver__C": [1.0, 1.0]}, "expected up to 16 different choices in ascending order"),
        ({"solver__C": [0.0, 1.0]}, "C must be a finite number above zero"),
        ({"window__length": "auto", "window__max": 99}, "must have 100 rows or more, got 99"),
        ({"window__length": "20", "window__max": 400}, "it bounds length = 'auto', and length is '20'"),
        ({"solver__C": 0}, "C"),
        ({"solver__kind": "svm"}, "kind"),
        ({"solver__standardize": 1}, "solver.standardize: expected true or false, got 1"),
        ({"solver__weighting": {"UP": 1.0}}, "expected one weight for each of DOWN, UP, got weights for UP"),
        ({"solver__weighting": {"UP": 1.0, "DOWN": 1.0, "X": 1.0}}, "got weights for DOWN, UP, X"),
        ({"partitions": 0}, "partitions: expected 1 to 1024, got 0"),
        ({"partitions": 1025}, "partitions: expected 1 to 1024, got 1025"),
        ({"partitions": True}, "partitions: expected a whole number, got True"),
        ({"partitioner": "consistent"}, "partitioner: expected one of murmur2, crc32, got 'consistent'"),
        ({"max_skew": "-1s"}, "max_skew: expected a span of time"),
        ({"max_skew": "10"}, "max_skew: expected a span of time such as '1d' or '90s', got '10' without a unit"),
        ({"max_skew": 10}, "max_skew: expected a span of time"),
        ({"max_skew": "99999999999w"}, "max_skew: expected 0 to 2305843009213693951 ms"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(words)):
        definition(**changes)


def test_labels_that_are_whole_numbers_may_be_written_as_such() -> None:
    stream = definition(classes={"names": [0, 1], "positive": 1}, solver__weighting=None)
    assert stream.classes == ClassDefinition(("0", "1"), "1")


# Windows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "length"),
    [
        ("20000", "count", 20_000),
        (" 20_000 ", "count", 20_000),
        ("1", "count", 1),
        ("all", "all", 0),
        (" all", "all", 0),
        ("7d", "time", 604_800_000),
        ("12 h", "time", 43_200_000),
        ("90s", "time", 90_000),
        ("5m", "time", 300_000),
        ("250ms", "time", 250),
        ("2w", "time", 1_209_600_000),
    ],
)
def test_a_window_is_written_as_a_count_a_span_or_all(text: str, kind: WindowKind, length: int) -> None:
    assert Window.parse(text) == Window(kind, length)


@pytest.mark.parametrize(
    "text", ["", "x", "0", "0d", "-1", "1.5", "7 days", "7y", "1__0", "1_", "_1", "d", "ALL", "٣", "9" * 5000, "9e9"]
)
def test_a_window_that_is_not_written_so_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"^window: "):
        Window.parse(text)


@given(st.sampled_from(["count", "time"]), st.integers(1, limits.WINDOW_LENGTH - 1))
def test_the_text_of_a_window_means_the_same_window(kind: WindowKind, length: int) -> None:
    assert Window.parse(str(Window(kind, length))) == Window(kind, length)


def test_the_text_of_a_window_is_the_shortest_there_is() -> None:
    spans = [1, 999, 1000, 60_000, 90_000, 3_600_000, 86_400_000, 604_800_000, 691_200_000]
    assert [str(Window("time", span)) for span in spans] == ["1ms", "999ms", "1s", "1m", "90s", "1h", "1d", "1w", "8d"]
    assert [str(Window("all")), str(Window("count", 20_000))] == ["all", "20000"]


@pytest.mark.parametrize(
    ("kind", "length"), [("count", 0), ("count", -1), ("time", 0), ("time", 2**62), ("all", 1), ("rows", 1)]
)
def test_a_window_has_a_length_where_it_needs_one_and_only_there(kind: Any, length: int) -> None:
    with pytest.raises(DefinitionError, match=r"^window: "):
        Window(kind, length)


@given(st.integers(1, 10**9), st.integers(1, limits.PARTITIONS))
def test_the_shares_of_the_partitions_add_up_to_the_window(length: int, partitions: int) -> None:
    shares = [Window("count", length).share(partition, partitions) for partition in range(partitions)]
    assert sum(shares) == length
    assert max(shares) - min(shares) <= 1


def test_only_windows_of_time_alone_have_a_longest_span() -> None:
    day, week, everything = Window.parse("1d"), Window.parse("1w"), Window("all")
    assert NestedWindows((day, week)).longest_milliseconds == 604_800_000
    assert NestedWindows((day, everything)).longest_milliseconds is None
    assert NestedWindows((Window("count", 5),)).longest_milliseconds is None
    assert NestedWindows((day, everything)).timed
    assert not NestedWindows((Window("count", 5), everything)).timed


# Classes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "positive", "expected"),
    [
        ((), None, {"a": "a", "b": "b", "anything": "anything"}),
        ((), "a", {"a": "a", "b": "not a", "c": "not a", "not a": "not a"}),
        (("b", "a"), None, {"a": "a", "b": "b", "c": None}),
        (("b", "a"), "b", {"a": "a", "b": "b", "c": None}),
        (("c", "b", "a"), "b", {"a": "not b", "b": "b", "c": "not b", "d": None}),
        (("c", "b", "a"), None, {"a": "a", "c": "c", "": None}),
    ],
)
def test_a_label_becomes_the_class_that_the_definition_says(
    names: tuple[str, ...], positive: str | None, expected: dict[str, str | None]
) -> None:
    classes = ClassDefinition(names, positive)
    assert {label: classes.class_of(label) for label in expected} == expected


@given(strategies.class_definitions(), strategies.LABELS)
def test_a_class_is_a_class_of_itself(classes: ClassDefinition, label: str) -> None:
    made = classes.class_of(label)
    if classes.names and label not in classes.names:
        assert made is None
    elif classes.positive is None:
        assert made == label
    else:
        assert made in {classes.positive, classes.rest}
        assert (made == classes.positive) == (label == classes.positive)


# Message size --------------------------------------------------------------------------------------------------------


def wide(features: int, **changes: Any) -> StreamDefinition:
    names = tuple(f"x{j}" for j in range(features))
    return small(features=names, grid=Grid(np.ones(features), np.zeros(features)), **changes)


def test_two_classes_of_the_most_features_fit_a_message() -> None:
    assert wide(limits.FEATURES).dimension == limits.FEATURES + 1
    assert wide(limits.FEATURES, classes=ClassDefinition((), "a")).dimension == 2001
    with pytest.raises(DefinitionError, match="features: expected 1 to 2000"):
        wide(limits.FEATURES + 1)


def test_a_definition_whose_deltas_cannot_fit_is_refused_with_the_sum_shown() -> None:
    names = tuple(f"class-{number:04}" for number in range(200))
    wide(100, classes=ClassDefinition(names[:100]))
    with pytest.raises(
        DefinitionError,
        match=r"200 classes x 4 windows x \(5151 entries x 16 bytes \+ 36\) \+ 200 x 200 scores x 36 bytes"
        r" \+ 800 candidates x 48 bytes \+ 65,536 = 67,505,536"
        r" bytes, more than the 67,108,864",
    ):
        wide(
            100,
            classes=ClassDefinition(names),
            nested_windows=NestedWindows(tuple(Window("count", 10**power) for power in range(1, 5))),
        )


def test_a_positive_class_makes_two_of_however_many_names() -> None:
    names = tuple(f"class-{number:04}" for number in range(200))
    windows = NestedWindows(tuple(Window("count", 10**power) for power in range(1, 5)))
    assert wide(100, classes=ClassDefinition(names, names[0]), nested_windows=windows).classes.rest == "not class-0000"


# Fingerprints --------------------------------------------------------------------------------------------------------

Change = Callable[[StreamDefinition], StreamDefinition]


def replaced(**changes: Any) -> Change:
    return lambda stream: dataclasses.replace(stream, **changes)


DATA_CHANGES: dict[str, Change] = {
    "a name of a feature": replaced(features=("price", "load")),
    "the order of features": replaced(features=("demand", "price")),
    "a step": replaced(grid=Grid(np.array([0.25, 0.5]), np.array([10.0, 0.0]))),
    "an offset": replaced(grid=Grid(np.array([0.25, 1.0]), np.array([10.0, 1.0]))),
    "missing values": replaced(missing="refuse"),
}
STREAM_CHANGES: dict[str, Change] = {
    "the name": replaced(name="other"),
    "the classes": replaced(classes=ClassDefinition(("DOWN", "UP", "FLAT"), "UP"), solver=SolverOptions()),
    "open classes": replaced(classes=ClassDefinition((), "UP")),
    "how many open classes": replaced(classes=ClassDefinition(most=20)),
    "the positive class": replaced(classes=ClassDefinition(("DOWN", "UP"), "DOWN")),
    "no positive class": replaced(classes=ClassDefinition(("DOWN", "UP"))),
    "a window": replaced(nested_windows=NestedWindows((Window("count", 1000), Window("count", 5001)), 100)),
    "the order of windows": replaced(nested_windows=NestedWindows((Window("count", 5000), Window("count", 1000)), 100)),
    "the pane": replaced(nested_windows=NestedWindows((Window("count", 1000), Window("count", 5000)), 99)),
    "the partitions": replaced(partitions=5),
    "the skew": replaced(max_skew_milliseconds=1),
}
FREE_CHANGES: dict[str, Change] = {
    "C": replaced(solver=SolverOptions(C=7.0)),
    "the weighting": replaced(solver=SolverOptions(weighting="balanced")),
    "the kind": replaced(solver=SolverOptions(kind="lssvm", standardize=False)),
    "the order of class names": replaced(classes=ClassDefinition(("UP", "DOWN"), "UP")),
    "minus zero": replaced(grid=Grid(np.array([0.25, 1.0]), np.array([10.0, -0.0]))),
}


@pytest.mark.parametrize("what", DATA_CHANGES)
def test_both_fingerprints_change_with_what_makes_statistics_comparable(what: str) -> None:
    before = definition()
    after = DATA_CHANGES[what](before)
    assert after.data_fingerprint != before.data_fingerprint
    assert after.stream_fingerprint != before.stream_fingerprint


@pytest.mark.parametrize("what", STREAM_CHANGES)
def test_the_stream_fingerprint_alone_changes_with_what_makes_deltas_addable(what: str) -> None:
    before = definition()
    after = STREAM_CHANGES[what](before)
    assert after.data_fingerprint == before.data_fingerprint
    assert after.stream_fingerprint != before.stream_fingerprint


@pytest.mark.parametrize("what", FREE_CHANGES)
def test_no_fingerprint_changes_with_what_may_change_on_a_live_stream(what: str) -> None:
    before = definition()
    after = FREE_CHANGES[what](before)
    assert after.data_fingerprint == before.data_fingerprint
    assert after.stream_fingerprint == before.stream_fingerprint


def test_rows_that_are_not_kept_make_another_stream() -> None:
    kept = small()
    assert (
        small(nested_windows=NestedWindows((Window("all"),), keep_rows=False)).stream_fingerprint
        != kept.stream_fingerprint
    )


def test_fingerprints_are_the_same_in_every_version() -> None:
    # A change of these values parts new processes from old ones: no message of the one is read by the other.
    stream = dataclasses.replace(definition(), partitioner="crc32")
    assert stream.data_fingerprint.hex() == "e95a2332993c15f21d23922e7428a390"
    assert stream.stream_fingerprint.hex() == "1e1deb95d925a8aa596d1ea45bc190f5"
    now = definition()
    assert now.data_fingerprint == stream.data_fingerprint
    assert now.stream_fingerprint.hex() == "cc320ce5f0079b317d3040bcd1f5ab59"


def test_the_partitioner_is_part_of_the_fingerprint_only_where_there_are_several_partitions() -> None:
    assert StreamDefinition.from_tables(TABLES).partitions > 1
    one = {**TABLES, "partitions": 1}
    both = [StreamDefinition.from_tables({**one, "partitioner": name}) for name in ("murmur2", "crc32")]
    assert both[0].stream_fingerprint == both[1].stream_fingerprint
    several = [StreamDefinition.from_tables({**TABLES, "partitioner": name}) for name in ("murmur2", "crc32")]
    assert several[0].stream_fingerprint != several[1].stream_fingerprint
    assert StreamDefinition.from_tables(TABLES) == several[0]


def test_the_definition_of_a_stream_of_an_earlier_version_is_told_which_lines_it_lacks() -> None:
    def said(here: StreamDefinition, there: StreamDefinition) -> str:
        return explained(here, there.stream_fingerprint.hex(), None)

    now = StreamDefinition.from_tables(TABLES)
    before = dataclasses.replace(now, partitioner="crc32")
    assert 'add the line partitioner = "crc32" at the top' in said(now, before)
    assert "is not known" in said(before, now), "what it was made with was never the default"
    # A stream of several partitions with a window of time lacks both lines.
    timed = {key: value for key, value in TABLES.items() if key != "max_skew"} | {"window": {"length": "1h"}}
    both = StreamDefinition.from_tables({**timed, "max_skew": "1d", "partitioner": "crc32"})
    words = said(StreamDefinition.from_tables(timed), both)
    assert 'add the line partitioner = "crc32" at the top of the definition' in words
    assert 'add the line max_skew = "1d" at the top of the definition' in words


def test_an_automatic_ladder_ends_with_its_longest_window_and_leaves_every_partition_some_rows() -> None:
    assert [window.length for window in NestedWindows.automatic(1000).windows] == [100, 400, 1000]
    assert [window.length for window in NestedWindows.automatic(1600).windows] == [100, 400, 1600]
    assert [window.length for window in NestedWindows.automatic(1600, partitions=5).windows] == [400, 1600]
    assert [window.length for window in NestedWindows.automatic(100).windows] == [100]
    assert [window.length for window in NestedWindows.automatic(102_400, most=3).windows] == [400, 6400, 102_400]
    assert [window.length for window in NestedWindows.automatic(102_400, most=1).windows] == [102_400]


def test_an_automatic_ladder_has_only_as_many_windows_as_fit_a_message() -> None:
    names = [f"f{index}" for index in range(1000)]
    stream = StreamDefinition.from_tables({"features": {"names": names}, "grid": {"steps": [1.0] * 1000}})
    assert [str(window) for window in stream.nested_windows.windows] == ["400", "6400", "102400"]


def test_an_automatic_ladder_leaves_room_for_as_many_open_classes_as_are_asked_for() -> None:
    names = [f"x{j}" for j in range(300)]
    tables = {"features": {"names": names}, "grid": {"steps": [1.0] * 300}}
    few = StreamDefinition.from_tables(tables)
    many = StreamDefinition.from_tables({**tables, "classes": {"most": 40}})
    assert few.most_classes < 40
    assert many.most_classes == 40
    assert 1 <= len(many.nested_windows.windows) < len(few.nested_windows.windows)


def test_one_window_and_one_c_are_no_automatic_mode() -> None:
    assert not small().automatic
    assert small(choices=(0.1, 1.0)).automatic
    assert small(nested_windows=NestedWindows((Window("count", 5), Window("all")))).automatic


def test_the_longest_window_holds_what_any_window_holds() -> None:
    assert NestedWindows((Window("count", 5), Window("all"), Window("count", 9))).longest == 1
    assert NestedWindows((Window("count", 5), Window("count", 9))).longest == 1


# Open classes --------------------------------------------------------------------------------------------------------


def test_a_partition_tells_as_many_open_classes_apart_as_fit_a_message() -> None:
    assert small(classes=ClassDefinition()).most_classes == 352
    assert small(classes=ClassDefinition(most=20)).most_classes == 20
    assert wide(limits.FEATURES, classes=ClassDefinition()).most_classes == 2
    assert small(classes=ClassDefinition(("a", "b", "c"))).most_classes == 3
    assert small(classes=ClassDefinition((), "a")).most_classes == 2
    assert small(classes=ClassDefinition(("a", "b", "c"), "a")).most_classes == 2


@pytest.mark.parametrize(("features", "windows"), [(1, 1), (30, 6), (300, 2)])
def test_the_most_that_a_source_of_open_classes_can_have_fits_a_message(features: int, windows: int) -> None:
    nested_windows = NestedWindows(tuple(Window("count", 10 ** (at + 1)) for at in range(windows)))
    definition = wide(features, classes=ClassDefinition(), nested_windows=nested_windows)
    most, source = definition.most_classes, Source("s" * limits.NAME_BYTES, 0)
    # Of values at the edge of the grid, so that sums take sixteen bytes each.
    moments = Moments.of_rows(np.full((20, features), limits.GRID_RANGE - 1.0))
    labels = tuple(f"{at:0{limits.LABEL_BYTES}}" for at in range(most))

    def state(classes: tuple[str, ...]) -> SourceState:
        return SourceState(
            source,
            Statistics(features + 1, {(at, label): moments for at in range(windows) for label in classes}),
            scores=Confusion({(truth, label): 2**40 for truth in classes for label in classes}),
            counts={f"{at:0{limits.NAME_BYTES}}": limits.COUNT for at in range(limits.OUTCOMES)},
            labels=classes,
        )

    full = state(labels)
    check_state("here", full)
    message = write_checkpoint(Checkpoint(full, limits.POSITION, definition.stream_fingerprint))
    assert read_checkpoint(message, features + 1).state == full
    assert len(message) > limits.MESSAGE_BYTES / 4


# Clocks --------------------------------------------------------------------------------------------------------------


def timed(*windows: str, **tables: Any) -> StreamDefinition:
    grid, window = {"steps": [1]}, {"length": list(windows)}
    return StreamDefinition.from_tables({"features": {"names": ["x"]}, "grid": grid, "window": window, **tables})


@pytest.mark.parametrize(
    ("windows", "skew"),
    [
        (("1h",), 360_000),
        (("7d",), 60_480_000),
        (("300d",), 86_400_000),
        (("7d", "1h"), 360_000),
        (("1h", "all"), 360_000),
        (("1m",), 6_000),
        (("30s",), 5_000),
        (("8s",), 4_000),
        (("1ms",), 0),
        (("20000",), 86_400_000),
        (("all",), 86_400_000),
    ],
)
def test_how_far_an_event_time_may_be_ahead_of_the_log_follows_from_the_windows(
    windows: tuple[str, ...], skew: int
) -> None:
    assert timed(*windows).max_skew_milliseconds == skew


@given(st.lists(st.integers(1, limits.WINDOW_LENGTH - 1), min_size=1, max_size=4, unique=True))
def test_no_clock_that_is_believed_may_end_more_than_half_of_a_window(lengths: list[int]) -> None:
    nested_windows = NestedWindows(tuple(Window("time", length) for length in lengths))
    assert 2 * nested_windows.fitting_skew_milliseconds <= min(lengths)
    assert nested_windows.fitting_skew_milliseconds <= max(min(lengths) // 10, 5_000)


def test_a_stream_without_windows_of_time_is_the_stream_that_it_was() -> None:
    plain = StreamDefinition.from_tables({"features": {"names": ["x"]}, "grid": {"steps": [1]}})
    assert plain.stream_fingerprint.hex() == "d9503f6ff667828b8ff36a71c3b1b05c"
    for window in ("20000", "all"):
        assert timed(window).stream_fingerprint == timed(window, max_skew="1d").stream_fingerprint


def test_a_max_skew_that_is_declared_means_what_it_meant() -> None:
    stream = timed("1h", max_skew="1d")
    assert stream.max_skew_milliseconds == 86_400_000
    assert stream.stream_fingerprint.hex() == "e6e440aa0a7a33d50828f4ab273c719d"
    assert StreamDefinition.from_tables(stream.to_tables()) == stream
    assert StreamDefinition.from_tables(timed("1h").to_tables()) == timed("1h")


def test_a_stream_of_before_is_told_the_line_that_its_definition_lacks() -> None:
    before, now = timed("1h", max_skew="1d"), timed("1h")
    assert 'add the line max_skew = "1d"' in explained(now, before.stream_fingerprint.hex(), None)
    for here, there in (
        (before, now),
        (now, timed("2h", max_skew="1d")),
        (timed("20000"), before),
    ):
        assert "add the line" not in explained(here, there.stream_fingerprint.hex(), None)

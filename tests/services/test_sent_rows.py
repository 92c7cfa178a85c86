"""What a producer takes, and what it says before it sends anything."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from deltaplane.errors import DefinitionError, RowsRefused
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services import client
from deltaplane_services.client import SampleProducer
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.processors.messages import Outgoing
from deltaplane_services.sent_rows import milliseconds_of, text_of

TABLES = {
    "name": "s",
    "features": {"names": ["x", "y"]},
    "grid": {"steps": [2.0**-16] * 2},
    "classes": {"names": ["n", "1"], "positive": "1"},
    "window": {"length": "500"},
    "solver": {"C": 1.0},
}
DEFINITION = StreamDefinition.from_tables(TABLES)
THEN = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
MILLISECONDS = 1_767_323_045_678


class Kept:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[Outgoing] = []

    def publish(self, records: Any) -> None:
        self.records += records

    def flush(self) -> None:
        pass


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    found = Kept()
    monkeypatch.setattr(client, "sample_publisher", lambda _: found)
    return found


def producer(*, check: bool = True) -> SampleProducer:
    return SampleProducer(resolve_settings({}, {}, TABLES), check=check)


@pytest.mark.parametrize(
    "time",
    [
        THEN,
        THEN.astimezone(timezone(timedelta(hours=-7))),
        MILLISECONDS,
        np.int64(MILLISECONDS),
        np.array(["2026-01-02T03:04:05.678"], "datetime64[us]"),
        [THEN],
        np.array([MILLISECONDS], np.uint64),
    ],
)
def test_a_time_is_milliseconds_or_a_date_with_a_zone(time: Any) -> None:
    assert milliseconds_of(time).tolist() == [MILLISECONDS]


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (datetime(2026, 1, 2), "2026-01-02T00:00:00 has no zone; give one, such as UTC"),  # noqa: DTZ001
        ([1.5], r"expected whole milliseconds since the epoch or a datetime, got 1\.5"),
        (["2026-01-02"], "expected whole milliseconds"),
        (np.array(["NaT"], "datetime64[ms]"), "got none in row 0"),
    ],
)
def test_what_is_no_time_is_refused(time: Any, words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        milliseconds_of(time)


def test_a_time_in_seconds_is_pointed_out_once_and_sent_as_it_is(kept: Kept) -> None:
    out = producer()
    with pytest.warns(RuntimeWarning, match=r"1767323045 looks like seconds since the epoch, expected milliseconds"):
        out.send("a", MILLISECONDS // 1000, "n", [0.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out.send("b", MILLISECONDS // 1000, "n", [0.0, 1.0])
        producer().send("c", MILLISECONDS, "n", [0.0, 1.0])
    assert len(kept.records) == 3


@pytest.mark.parametrize(
    ("label", "row", "words"),
    [
        ("maybe", [0.0, 0.0], "'maybe'"),
        ("n", [0.0, 2.0**30], "feature 'y' is 1073741824.0, outside the grid's range"),
        ("n", [float("nan"), 0.0], "feature 'x' is not a number"),
        (True, [0.0, 0.0], "label of row 0: expected a text or a whole number, got True"),
        ("n", [0.0], "expected 2 features, got 1"),
    ],
)
def test_what_a_worker_would_refuse_is_refused_before_it_is_sent(
    kept: Kept, label: Any, row: list[float], words: str
) -> None:
    with pytest.raises((RowsRefused, DefinitionError), match=words):
        producer().send("a", THEN, label, row)
    with pytest.raises((RowsRefused, DefinitionError), match=words):
        producer().send_batch(["a"], [THEN], [label], [row])
    assert kept.records == []


def test_unless_somebody_wants_the_dead_letter(kept: Kept) -> None:
    producer(check=False).send("a", THEN, "maybe", [0.0, 2.0**30])
    assert len(kept.records) == 1


def test_of_a_batch_every_row_that_is_refused_is_named_and_none_is_sent(kept: Kept) -> None:
    rows = np.zeros((5, 2))
    rows[1, 0], rows[3, 1] = np.inf, np.nan
    with pytest.raises(RowsRefused, match="2 of 5 cannot be sent, and none was") as caught:
        producer().send_batch(range(5), [MILLISECONDS] * 5, np.array([1] * 5), rows)
    assert sorted(caught.value.refusals) == [1, 3]
    assert kept.records == []


def test_lists_arrays_and_dictionaries_are_the_same_rows(kept: Kept) -> None:
    out = producer()
    out.send_batch([1, 2], [THEN, THEN], ["n", 1], [[0.0, 0.5], [1.0, 1.5]])
    out.send_batch(np.array([1, 2]), np.full(2, MILLISECONDS), ["n", "1"], np.array([[0.0, 0.5], [1.0, 1.5]]))
    out.send_batch(["1", "2"], [THEN, THEN], ["n", "1"], [{"x": 0.0, "y": 0.5}, {"y": 1.5, "x": 1.0}])
    assert len({record.value for record in kept.records}) == 1


def test_names_are_texts_or_whole_numbers() -> None:
    assert [text_of(one, "id") for one in ("a", 7, np.int32(7))] == ["a", "7", "7"]
    for wrong in (1.0, None, b"a", np.True_):
        with pytest.raises(DefinitionError, match="expected a text or a whole number"):
            text_of(wrong, "id")

"""A stream's rows on a stream that admits others: other classes, other times, some of the features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaplane.errors import DefinitionMismatch
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import read_retirement, write_retirement, write_sample_batch
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing, Record
from deltaplane_services.processors.regroup import Regroup, admission_rules

NOW, DAY = 1_700_000_000_000, 86_400_000


def stream(name: str, **tables: Any) -> StreamDefinition:
    whole = {
        "name": name,
        "features": {"names": ["height", "weight", "age"]},
        "grid": {"steps": [0.5, 0.25, 1.0]},
        "classes": {"names": ["no", "yes"]},
        "window": {"length": "all"},
        "solver": {"C": 1.0},
        **tables,
    }
    return StreamDefinition.from_tables(whole)


OLD = stream("old", window={"length": "300d"})


def samples(seed: int = 3, count: int = 60) -> Samples:
    """Rows of three labels; one is outside the grid by its age, and some are days ahead of the log."""
    draw = np.random.default_rng(seed)
    features = np.round(draw.normal(size=(count, 3)) * 40.0)
    features[7, 2] = 1e12
    times = NOW + np.arange(count, dtype=np.int64)
    times[20:25] += 3 * DAY
    return Samples.of_record(
        ids=[f"row-{at}" for at in range(count)],
        event_times=times,
        label_table=("no", "yes", "maybe"),
        label_codes=draw.integers(0, 3, count).astype(np.int32),
        features=features,
        log_time=NOW,
    )


def copied(new: StreamDefinition, *, regrid: bool = False) -> tuple[Regroup, EmbeddedRunner]:
    """What becomes of the rows and of one retirement on the new stream, ten days later."""
    regroup, runner = Regroup(OLD, new, regrid=regrid), EmbeddedRunner(new)
    retirement = write_retirement(Retirement("row-0", "asked", 0), OLD.data_fingerprint)
    for record in (
        Record(SAMPLES, 0, 0, NOW, None, write_sample_batch(samples(), OLD.data_fingerprint)),
        Record(RETIREMENTS, 0, 0, NOW, b"row-0", retirement),
    ):
        runner.broker.append_all(tuple(regroup.record(record)), NOW + 10 * DAY)
    runner.drain(NOW + 10 * DAY)
    return regroup, runner


def expected(new: StreamDefinition, columns: list[int]) -> Reference:
    reference, came = Reference(new), samples()
    reference.add(0, replace(came, features=came.features[:, columns]))
    reference.retire("row-0")
    return reference


@pytest.mark.parametrize(
    "tables",
    [
        {"classes": {"names": ["maybe", "no", "yes"]}},
        {"classes": {"names": ["maybe", "no"]}},
        {"classes": {"positive": "maybe"}},
        {"classes": {}},
        {"max_skew": "7d"},
        {"max_skew": "7d", "window": {"length": "all"}, "classes": {}},
    ],
)
def test_rows_that_the_old_stream_refused_come_in_where_the_new_one_admits_them(tables: dict[str, Any]) -> None:
    new = stream("new", **{"window": {"length": "300d"}, **tables})
    assert admission_rules(new) != admission_rules(OLD)
    _, runner = copied(new)
    reference = expected(new, [0, 1, 2])
    model = runner.merger.model
    assert model is not None
    assert model.digest == reference.statistics().digest(new.data_fingerprint)
    assert sum(model.counts.values()) == len(reference.live())
    assert model.totals.get("refused unknown class", 0) == model.totals.get("refused bogus time", 0) == 0


@pytest.mark.parametrize("tables", [{}, {"window": {"length": "2d"}}, {"partitions": 3}])
def test_under_the_same_rules_what_was_refused_stays_out_though_the_clock_has_moved_on(tables: dict[str, Any]) -> None:
    new = stream("new", **{"window": {"length": "300d"}, **tables})
    assert admission_rules(new) == admission_rules(OLD)
    regroup, runner = copied(new)
    rows = len(expected(OLD, [0, 1, 2]).live()) + 1
    assert regroup.counts["rows"] == rows
    assert runner.merger.model is not None
    assert sum(runner.merger.model.counts.values()) == rows - 1
    assert regroup.counts["refused rows"] == 60 - rows


@pytest.mark.parametrize("names", [["height", "weight"], ["age", "height"], ["weight"]])
def test_some_of_the_features_in_any_order_take_the_rows_along(names: list[str]) -> None:
    columns = [OLD.features.index(name) for name in names]
    steps = OLD.grid.steps[columns].tolist()
    window = {"length": "300d"}
    new = stream("new", features={"names": names}, grid={"steps": steps}, window=window)
    with pytest.raises(DefinitionMismatch, match="say --regrid"):
        Regroup(OLD, new)
    regroup, runner = copied(new, regrid=True)
    reference = expected(new, columns)
    model = runner.merger.model
    assert model is not None
    assert model.digest == reference.statistics().digest(new.data_fingerprint)
    # Without its age, the row whose age was outside the grid is a row like others.
    admitted_again = samples().label_codes[7] < 2 and "age" not in names
    assert regroup.counts["rows"] == len(expected(OLD, [0, 1, 2]).live()) + 1 + admitted_again


def test_a_retirement_by_content_loses_the_features_that_the_new_stream_has_not() -> None:
    new = stream("new", features={"names": ["age", "height"]}, grid={"steps": [1.0, 0.5]})
    given = Retirement("row-1", "asked", 0)
    value = write_retirement(given, OLD.data_fingerprint)
    (out,) = Regroup(OLD, new, regrid=True).record(Record(RETIREMENTS, 0, 0, NOW, b"row-1", value))
    assert isinstance(out, Outgoing)
    assert read_retirement(out.value, 2, new.data_fingerprint, 0) == given


def test_a_feature_that_the_old_stream_has_not_is_refused_by_name() -> None:
    names = ["height", "weight", "age", "income"]
    new = stream("new", features={"names": names}, grid={"steps": [1.0] * 4})
    with pytest.raises(DefinitionMismatch, match=r"got income as well.*publish to both streams"):
        Regroup(OLD, new, regrid=True)


RULES: list[dict[str, Any]] = [
    {"column": "amount", "kind": "number", "missing": "fill"},
    {"column": "kind", "kind": "category", "levels": ["a", "b"], "missing": "fill"},
]


def encoded(name: str, rules: list[dict[str, Any]], width: int, **more: Any) -> StreamDefinition:
    return stream(name, columns={"rules": rules, **more}, features={}, grid={"steps": [0.5] * width})


@pytest.mark.parametrize(
    ("rules", "width", "more", "words"),
    [
        ([{**RULES[0], "log": True}, RULES[1]], 4, {}, "got others for amount"),
        ([RULES[0], {**RULES[1], "levels": ["a"]}], 3, {}, "got others for kind"),
        (RULES, 4, {"missing": ["-"]}, "got others for amount, kind"),
    ],
)
def test_rules_that_encode_otherwise_are_refused_by_column(
    rules: list[dict[str, Any]], width: int, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(DefinitionMismatch, match=words):
        Regroup(encoded("old", RULES, 4), encoded("new", rules, width, **more), regrid=True)


def test_columns_may_be_left_out_and_a_stream_of_numbers_gets_none() -> None:
    Regroup(encoded("old", RULES, 4), encoded("new", RULES[1:], 3), regrid=True)
    plain = stream("plain", features={"names": ["amount"]}, grid={"steps": [0.5]})
    Regroup(encoded("old", RULES, 4), plain, regrid=True)
    with pytest.raises(DefinitionMismatch, match="got others for amount"):
        Regroup(plain, encoded("new", RULES[:1], 1), regrid=True)

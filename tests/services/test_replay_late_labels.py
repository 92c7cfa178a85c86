"""Labels that come late: rows are predicted when they come, learned when their labels do, and the end is the same."""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deltaplane
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.log.confusion import Confusion
from deltaplane.log.label_delay import LabelDelay
from deltaplane.stream.sample import Samples
from deltaplane_services.observe.report.baselines import baselines_table
from deltaplane_services.observe.report.compare import comparison, remarks
from deltaplane_services.observe.report.page import run_page
from deltaplane_services.observe.report.record import run_of
from deltaplane_services.observe.report.value_tables import cell
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import Outgoing
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.replay import figures, run
from deltaplane_services.replay.in_python import Replayed
from deltaplane_services.replay.pipeline import EmbeddedPipeline

ROWS, CHUNK = 1200, 50
MINUTE = 60_000


def made(rows: int = ROWS) -> dict[str, Any]:
    """A table that turns round, whose labels come in spells, and whose times go back now and then."""
    random = np.random.default_rng(5)
    features = random.normal(size=(rows, 3))
    signs = np.where(np.arange(rows) < rows // 2, 1.0, -1.0)
    score = features[:, 0] * signs + 0.6 * np.sin(np.arange(rows) / 40) + 0.3 * random.normal(size=rows)
    times = np.arange(rows) * MINUTE + random.integers(-5, 5, size=rows) * MINUTE + 10**12
    table: dict[str, Any] = {f"x{at}": features[:, at] for at in range(3)}
    return table | {"label": np.where(score > 0.5, "yes", "no").tolist(), "time": times.tolist()}


def replayed(**keywords: Any) -> Replayed:
    given = {"label": "label", "positive": "yes", "chunk": CHUNK, "window": 400, "time": "time", "time_unit": "ms"}
    found: Replayed = deltaplane.replay(made(), **(given | keywords))
    return found


WINDOWS: dict[str, dict[str, Any]] = {
    "rows": {"window": 400},
    "event time": {"window": "6h", "C": 1.0},
    "partitions": {"window": 400, "partitions": 3},
    "automatic": {"window": "auto"},
    "everything, and rows are withdrawn and thinned out": {
        "window": "all",
        "retire_fraction": 0.3,
        "imbalance": "0:2,900:8",
    },
}


@pytest.mark.parametrize("of", WINDOWS.values(), ids=WINDOWS.keys())
@pytest.mark.parametrize("delay", [1, 37, 500, "2h", 10**6])
def test_whatever_the_delay_the_end_has_the_digest_of_a_replay_without(of: dict[str, Any], delay: object) -> None:
    at_once, late = replayed(**of, verify=True), replayed(**of, label_delay=delay, verify=True)
    assert late.digest == at_once.digest
    assert late.verified
    assert late.summary["rows"] == at_once.summary["rows"]


@pytest.mark.parametrize("delay", ["1", "37", "130", "2h"])
def test_served_scores_are_those_of_samples_that_are_kept_and_sent_when_their_labels_come(delay: str) -> None:
    """The reference: the stream by hand, with samples in a list, and the moment of each worked out by itself."""
    found = replayed(label_delay=delay)
    late, table = LabelDelay.parse(delay), made()
    pipeline = EmbeddedPipeline(found.definition, 0)
    rows = np.column_stack([table[f"x{at}"] for at in range(3)])
    clock = np.maximum.accumulate(table["time"])
    waiting: deque[tuple[int, str | None]] = deque()
    counts: dict[str, int] = {}

    def comes(row: int, seen: int) -> bool:
        return clock[row] + late.length <= clock[seen - 1] if late.timed else row + max(1, late.length) <= seen

    for first in [*range(0, ROWS, CHUNK), None]:
        seen = ROWS if first is None else first + CHUNK
        for row in () if first is None else range(first, first + CHUNK):
            model = pipeline.model
            plane = None if model is None else model.plane
            guess = None
            if plane is not None:
                inputs, _ = found.definition.plane_inputs(rows[row : row + 1])
                guess = plane.classes[int(plane.choose(plane.decide(inputs))[0])]
            waiting.append((row, guess))
        ready = []
        while waiting and (first is None or comes(waiting[0][0], seen)):
            row, guess = waiting.popleft()
            ready.append(row)
            if guess is not None:
                truth = "yes" if table["label"][row] == "yes" else "not yes"
                key = f"{truth}>{guess}"
                counts[key] = counts.get(key, 0) + 1
        # Behind the end of the file labels come a chunk at a time.
        step = CHUNK if first is None else ROWS
        for part in (ready[begin : begin + step] for begin in range(0, len(ready), step)):
            pipeline.publish([_sent(found, table, rows, part)], int(clock[part[-1]]))
            pipeline.advance(0)
    summary = found.summary
    told = {f"{one['truth']}>{one['predicted']}": one["count"] for one in summary["served"]["confusion"]}
    assert told == counts
    assert summary["served"]["rows"] == sum(counts.values())
    assert pipeline.model is not None
    assert pipeline.model.digest == found.digest


def _sent(found: Replayed, table: dict[str, Any], rows: Floats, part: list[int]) -> Outgoing:
    labels = tuple(dict.fromkeys(table["label"][row] for row in part))
    codes = np.array([labels.index(table["label"][row]) for row in part], dtype=np.int32)
    times = np.array([table["time"][row] for row in part])
    samples = Samples.of_record([str(row + 1) for row in part], times, labels, codes, rows[part], int(times.max()))
    return codec_of(found.definition).sample_batch(0, samples)


def test_the_last_label_is_one_that_had_come_when_the_row_did() -> None:
    labels = made()["label"]
    for delay in (1, 20, 130):
        told = replayed(label_delay=delay).summary["baselines"]["last_label"]
        at_once = {(labels[row], labels[row - delay]) for row in range(delay, ROWS)}
        assert at_once
        counted = range(max(2 * CHUNK, delay), ROWS)
        hits = {
            own: np.mean([labels[row - delay] == own for row in counted if labels[row] == own]) for own in ("yes", "no")
        }
        # The first rows that the model is tested on differ by a few from ours.
        assert told["gmean"] == pytest.approx(math.sqrt(hits["yes"] * hits["no"]), abs=0.02)


def test_a_stream_that_has_turned_is_served_worse_the_later_its_labels_come() -> None:
    served = [replayed(label_delay=delay).summary["served"]["gmean"] for delay in (1, 150, 400)]
    assert served[0] > served[1] > served[2]


def test_without_a_delay_nothing_is_said_of_it() -> None:
    summary = replayed().summary
    assert summary["served"] is None
    assert summary["settings"]["label_delay"] is None
    assert all(point["lately"]["served_gmean"] is None for point in summary["series"])
    assert "as served" not in run_page(run_of(summary, "it"))


def test_with_one_row_of_delay_rows_are_served_what_they_are_scored_by() -> None:
    summary = replayed(label_delay=1).summary
    assert summary["served"]["confusion"] == summary["confusion"]
    assert summary["confusion"] == replayed().summary["confusion"]


def test_page_and_summary_show_both_figures() -> None:
    summary = replayed(label_delay="2h").summary
    page = run_page(run_of(summary, "it"))
    for gmean in (summary["gmean"], summary["served"]["gmean"]):
        assert f"{gmean:.4f}" in page
    assert "labels came 2h late" in page
    assert "the last label that had come" in page
    assert any(point["lately"]["served_gmean"] is not None for point in summary["series"])


def test_a_run_whose_labels_came_late_is_told_from_others_on_its_page_and_beside_them() -> None:
    at_once, late = replayed().summary, replayed(label_delay=130).summary
    runs = {"at once": run_of(at_once, "it"), "late": run_of(late, "it")}
    assert "labels 130 rows late" in run_page(runs["late"])
    assert "as labels came 130 rows late" in run_page(runs["late"])
    assert "labels came with their rows here" in run_page(runs["at once"])
    rows = {name: cells for name, *cells in comparison(runs).body}
    assert rows["labels come"] == ["with their rows", "130 rows late"]
    assert rows["G-mean as served"] == ["–", f"{late['served']['gmean']:.4f}"]
    for name, told in (("last_label", "the last known label"), ("majority", "the majority class")):
        expected = [f"{one['baselines'][name]['gmean']:.4f}" for one in (at_once, late)]
        assert rows[f"G-mean of {told}"] == expected
    assert any("as served" in remark for remark in remarks(runs))
    assert not any("as served" in remark for remark in remarks({"a": runs["late"], "b": runs["late"]}))


def test_every_figure_of_what_was_served_stands_beside_the_model() -> None:
    summary = replayed(label_delay=130).summary
    table = baselines_table(run_of(summary, "it"))
    served = next(row for row in table.body if row[0] == "the model, as served")
    keys = ("gmean", "sensitivity", "specificity", "precision", "f_measure", "kappa", "accuracy")
    assert list(served[1:]) == [cell(summary["served"][key]) for key in keys]


def test_a_warning_of_a_run_with_late_labels_holds_what_was_served_against_what_had_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = replayed(label_delay=130)._result
    held: list[Confusion] = []

    def cautions(scores: Confusion, *_: object) -> list[str]:
        held.append(scores)
        return ["it is so"]

    monkeypatch.setattr(figures, "cautions", cautions)
    assert figures.said_of(found) == ["as served, it is so"]
    assert held == [found.yardsticks.served]


def test_rows_that_wait_when_a_replay_is_interrupted_are_said_and_not_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(self: Any, chunks: Any, _: object) -> None:
        for at, chunk in enumerate(chunks):
            self._take(chunk)
            if at == 9:
                raise KeyboardInterrupt

    monkeypatch.setattr(run._Run, "feed", stopped)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        summary = replayed(label_delay=100).summary
    assert summary["rows"] == 10 * CHUNK - 100 + 1
    assert "99 rows that were read wait for their labels, and are not learned" in summary["notes"]


def test_a_delay_that_nobody_can_wait_for_is_refused() -> None:
    with pytest.raises(DefinitionError, match="say which column holds it with --time"):
        ReplayOptions("x", label_delay=LabelDelay.parse("7d"))
    with pytest.raises(DefinitionError, match="--label-delay; leave that out"):
        ReplayOptions("x", label_delay=LabelDelay.parse("7"), save=Path("x"))

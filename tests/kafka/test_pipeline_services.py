"""The services by their real command lines, from making the topics to unlearning rows, through crashes of the merger.

One stream and one set of processes for the module: a test begins with what the tests before it have left running.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from deltaplane.exact.deviations import deviations, ranked, standardized
from deltaplane.log.delta import Source
from deltaplane.log.model import Model
from deltaplane.reference import Reference
from deltaplane.solve.solver import solve
from deltaplane.stream.placement import partition_of
from deltaplane.wire import read_model
from kafka.clients import read_topic, wait_until
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream

ROWS = 6_000
WINDOW = 4_000


@dataclass
class Running:
    """The stream of this module, its services, and a batch account of what was published."""

    stream: Stream
    rows: Rows
    reference: Reference
    file: Path
    workers: list[ServiceProcess] = field(default_factory=list)
    mergers: list[ServiceProcess] = field(default_factory=list)

    def wait_for_batch(self, what: str) -> Model:
        """The first model that equals the batch, bit for bit; its plane, too."""
        definition = self.stream.definition
        statistics = self.reference.statistics()
        model = self.stream.wait_for_digest(statistics.digest(definition.data_fingerprint), what)
        plane = solve(statistics.grams(), definition.grid, definition.solver, definition.classes.positive)
        assert model.plane is not None
        assert model.plane.weights.tolist() == plane.weights.tolist()
        assert model.plane.biases.tolist() == plane.biases.tolist()
        return model

    def retire(self, *ids: str, code: int = 0) -> str:
        """Retire by the command line; what it prints."""
        printed = self.stream.run("retire", *ids, code=code).stdout
        for sample_id in ids:
            self.reference.retire(sample_id)
        return printed


def is_elected(merger: ServiceProcess) -> bool:
    """Whether a merger is the one that publishes, by what it said last of it."""
    said = re.findall(r"elected; going on|standing by", merger.log)
    return bool(said) and said[-1].startswith("elected")


@pytest.fixture(scope="module")
def running(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("services")
    name = Rows.stream_name("services")
    tables = {"window": {"length": WINDOW}, "input": {"label": "label", "id": "id", "time": "time"}}
    with Stream.of(directory, name, kafka.bootstrap, service={"checkpoint_seconds": 0.5}, **tables) as stream:
        rows = Rows(ROWS, seed=1)
        yield Running(stream, rows, Reference(stream.definition), rows.write(directory / "rows.csv"))


def test_topics_are_made_and_found_right(running: Running) -> None:
    missing = running.stream.run("topics", "check", code=1)
    assert "make it with: deltaplane topics create" in missing.stderr
    made = running.stream.run("topics", "create")
    assert made.stdout.count("created ") == 9
    assert "all topics are as they should be" in running.stream.run("topics", "check").stdout


def test_what_is_produced_reaches_a_model_that_equals_the_batch(running: Running) -> None:
    stream = running.stream
    running.workers = [stream.start("worker"), stream.start("worker")]
    running.mergers = [stream.start("merger"), stream.start("merger")]
    stream.start("scorer")

    produced = stream.run("produce", running.file, "--batch", "250")

    assert f"{ROWS:,} rows and 0 retirements published" in produced.stdout
    running.rows.tell(running.reference)
    model = running.wait_for_batch("after produce")
    assert sum(model.counts.values()) == WINDOW
    wait_until(lambda: len([one for one in running.mergers if is_elected(one)]) == 1, "one merger is elected")


def test_the_log_and_the_model_pass_an_audit(running: Running) -> None:
    printed = running.stream.run("audit").stdout
    assert printed.endswith("equal\n")
    assert "NOT EQUAL" not in printed
    for partition in range(2):
        assert f"local/{partition}: 2,000 live rows" in printed


def test_the_model_is_shown_and_exported_as_it_is(running: Running) -> None:
    model = running.stream.model()
    assert model is not None
    assert model.plane is not None

    exported = running.stream.exported()
    shown = running.stream.run("model", "show", "--raw").stdout

    assert exported["digest"] == model.digest
    # A claim makes a new version of the same model.
    assert exported["version"] >= model.version
    assert exported["weights"] == model.plane.weights.tolist()
    assert exported["intercepts"] == (-model.plane.biases).tolist()
    assert "biases" not in exported, "a bias was to be subtracted, which nobody expects"
    assert all(name in shown for name in ("height", "weight", "age", "intercept", model.digest[:16]))


def test_the_weights_that_are_shown_are_ranked_by_the_deviations_of_the_live_rows(running: Running) -> None:
    model, definition = running.wait_for_batch("the same rows as before"), running.stream.definition
    assert model.plane is not None
    spread = deviations(running.reference.statistics().grams().values(), definition.grid)
    weights = standardized(model.plane.weights, spread)

    ended = running.stream.run("model", "show")

    assert ended.stderr == ""
    places = [
        ended.stdout.index(line)
        for feature in ranked(weights).tolist()
        for line in re.findall(rf"{definition.features[feature]} .*", ended.stdout)
        if f"{weights[0, feature]:+.4g}" in line
    ]
    assert len(places) == 3
    assert places == sorted(places)


def test_retirements_are_answered_and_leave_what_the_batch_would_without_the_rows(running: Running) -> None:
    rows = running.rows
    live, expired, unborn = rows.ids[-1], rows.ids[-2], f"{rows.ids[-1]}-not-yet"
    # Within its partition, the oldest row that has left the window but is remembered as such.
    home = [row for row in range(ROWS) if partition_of(rows.ids[row], 2) == 0]
    expired = rows.ids[home[len(home) - WINDOW // 2 - 1]]

    printed = running.retire(live, expired, unborn, code=3)
    again = running.retire(live, code=5)
    gone = running.retire(expired, code=5)

    answers = {line.split(": ")[0]: line for line in printed.splitlines() if not line.startswith(" ")}
    assert answers[live].startswith(f"{live}: retired, model ")
    assert answers[expired].startswith(f"{expired}: expired, model ")
    assert answers[unborn].startswith(f"{unborn}: waiting: no live row has this id in source local/")
    assert "is without it" not in answers[unborn]
    for repeated, sample_id in ((again, live), (gone, expired)):
        assert repeated.startswith(f"{sample_id}: duplicate: this id had been retired before")
        assert "is without it" not in repeated
    running.wait_for_batch("after retirements")


def test_a_retirement_that_came_before_its_sample_takes_it_out_on_arrival(running: Running, tmp_path: Path) -> None:
    more = Rows(500, seed=2, ids_from=ROWS)
    more.ids[77] = f"{running.rows.ids[-1]}-not-yet"

    running.stream.run("produce", more.write(tmp_path / "more.csv"))

    more.tell(running.reference)
    model = running.wait_for_batch("after a sample that was retired before it came")
    assert model.totals["annihilated"] == 1


def test_a_killed_merger_is_followed_by_its_standby_with_higher_versions(running: Running, tmp_path: Path) -> None:
    stream = running.stream
    elected, standby = sorted(running.mergers, key=is_elected, reverse=True)
    elections = standby.log.count("elected; going on")
    before = stream.model()
    assert before is not None
    elected.kill()
    more = Rows(500, seed=3, ids_from=ROWS + 1000)

    stream.run("produce", more.write(tmp_path / "more.csv"))

    more.tell(running.reference)
    standby.wait_for("elected; going on", elections + 1)
    after = running.wait_for_batch("after the merger was killed")
    assert after.version > before.version
    running.mergers = [standby]


def test_versions_grow_from_record_to_record_of_the_models_topic(running: Running, kafka: RunningKafka) -> None:
    records = read_topic(kafka.bootstrap, f"{running.stream.definition.name}.models")
    versions = [read_model(record.value()).version for record in records]
    assert versions == sorted(set(versions))
    assert len(versions) > 3


def test_sigterm_ends_every_service_well_and_nothing_is_lost(running: Running, tmp_path: Path) -> None:
    stream = running.stream
    more = Rows(2_000, seed=4, ids_from=ROWS + 2000)
    file = more.write(tmp_path / "more.csv")

    stream.run("produce", file, "--batch", "20")
    for process in stream.processes:
        if process.running:
            process.terminate()
    ended_at = stream.model()
    assert ended_at is not None
    positions = {position.source: position.samples for position in ended_at.positions}
    assert positions.keys() == {Source("local", 0), Source("local", 1)}

    for command in ("merger", "worker"):
        stream.start(command)
    more.tell(running.reference)
    after = running.wait_for_batch("after everything was ended and started again")
    assert after.version >= ended_at.version
    assert stream.run("audit").stdout.endswith("equal\n")


def test_models_are_watched_as_they_come(running: Running) -> None:
    watching = running.stream.start("model", "watch")
    watching.wait_for(r"version \d+  rows 4,0\d\d|version \d+  rows 3,9\d\d")
    watching.kill()


def test_produce_says_what_it_refuses_and_publishes_the_rest(running: Running, tmp_path: Path) -> None:
    file = tmp_path / "damaged.csv"
    file.write_text("id,time,height,weight,age,label\na,2024-01-01,1,2,3,yes\nb,2024-01-01,1,two,3,no\n")

    produced = running.stream.run("produce", file)

    assert "1 rows and 0 retirements published" in produced.stdout
    assert "line 3" in produced.stderr
    samples = np.array([[1.0, 2.0, 3.0]])
    Rows.single("a", "yes", samples).tell(running.reference)
    running.wait_for_batch("after a damaged row")

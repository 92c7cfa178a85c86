"""Events and labels that meet in whatever order: what is sent at last is what the last of each say of an id."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_rows import ENCODER
from deltaplane.stream.column_tables import encoder_table
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_retirement
from deltaplane_services.definition_file.intake_table import IntakeDefinition
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.intake.positions import Sent, last_position, sent_by
from deltaplane_services.intake.reading import Place, RecordReader
from deltaplane_services.intake.waiting_rows import WaitingRows, opened
from deltaplane_services.processors.codec import read_published_samples
from deltaplane_services.processors.messages import DEAD_LETTERS, RETIREMENTS, SAMPLES, Outgoing, Output, Record
from services.intake_shop import DAY, FIRST_TIME, chargeback, payment, record, shop

NOW = FIRST_TIME + 1000 * DAY
PLACES = [("payments", 0), ("payments", 1), ("chargebacks", 0)]
Logs = dict[Place, list[Record]]


class Shop:
    """The processors of all partitions over some logs, and what they have sent: the last sample of each id."""

    def __init__(self, logs: Logs, intake: Mapping[str, Any] | None = None, **tables: Any) -> None:
        self.logs = logs
        self.definition, self.intake = shop(intake, **tables)
        self.reader = RecordReader(self.definition, self.intake)
        self.processors = [
            self.processor(partition, WaitingRows(identity=self.intake.identity))
            for partition in range(self.definition.partitions)
        ]
        self.sent: dict[str, tuple[str, int]] = {}
        self.messages: list[list[Outgoing]] = [[] for _ in self.processors]
        self.retired: list[str] = []
        self.letters: list[Outgoing] = []

    def processor(self, partition: int, rows: WaitingRows, sent: Mapping[Place, int] | None = None) -> IntakeProcessor:
        made = IntakeProcessor(self.definition, self.intake, partition, rows, f"writer-{random.random()}")
        made.restore(sent or {}, dict.fromkeys(self.logs, 0))
        return made

    def step(self, partition: int, place: Place, most: int) -> list[Output]:
        """The output of a step of one partition, which is taken note of."""
        processor = self.processors[partition]
        at = processor.position(place)
        outputs = list(processor.process(self.reader.read(self.logs[place][at : at + most], NOW)))
        for output in outputs:
            self.publish(partition, output)
        return outputs

    def publish(self, partition: int, output: Output) -> None:
        for out in (*output.first, *output.then):
            assert out.partition == partition
            if out.topic == SAMPLES:
                self.messages[partition].append(out)
                samples = read_published_samples(as_record(out), self.definition)
                codes = samples.label_codes.tolist()
                for row, name in enumerate(samples.ids):
                    assert self.definition.partition_of(name) == partition
                    self.sent[name] = samples.label_table[codes[row]], int(samples.event_times[row])
            elif out.topic == RETIREMENTS:
                fingerprint = self.definition.data_fingerprint
                self.retired.append(read_retirement(out.value, len(self.definition.features), fingerprint, 0).id)
            else:
                assert out.topic == DEAD_LETTERS
                self.letters.append(out)

    def drain(self) -> None:
        for partition, processor in enumerate(self.processors):
            while any(processor.position(place) < len(log) for place, log in self.logs.items()):
                for place in self.logs:
                    self.step(partition, place, 1000)
            processor.commit()


def as_record(out: Outgoing, offset: int = 0) -> Record:
    return Record(out.topic, out.partition, offset, NOW, out.key, out.content, headers=out.headers)


def logs_of(payments: Sequence[tuple[bytes | None, int]], chargebacks: Sequence[tuple[bytes | None, int]]) -> Logs:
    """One partition of each topic from values and log times."""
    return {
        (topic, 0): [record(topic, 0, at, value, log_time) for at, (value, log_time) in enumerate(of)]
        for topic, of in (("payments", payments), ("chargebacks", chargebacks))
    }


def drained(
    payments: Sequence[tuple[bytes | None, int]], chargebacks: Sequence[tuple[bytes | None, int]], **more: Any
) -> Shop:
    made = Shop(logs_of(payments, chargebacks), **more)
    made.drain()
    return made


T = FIRST_TIME


def test_an_event_waits_for_its_label_and_nothing_is_sent_before() -> None:
    waiting = drained([(payment("a", T), T)], [])
    assert not waiting.sent
    assert sum(one.held["waiting"] for one in waiting.processors) == 1
    labelled = drained([(payment("a", T), T)], [(chargeback("a", "fraud"), T + DAY)])
    assert labelled.sent == {"a": ("fraud", T)}
    assert sum(one.held["waiting"] for one in labelled.processors) == 0


@pytest.mark.parametrize("name", ["a\0b", "\0", 'a"b', "a\\u0000", "\u00e4", "\U0001f600", "a\nb", " "])
def test_an_event_meets_its_label_whatever_characters_its_id_has(name: str) -> None:
    made = Shop(logs_of([(payment("a", T), T), (payment(name, T), T)], [(chargeback(name, "fraud"), T + DAY)]))
    made.drain()
    assert made.sent == {name: ("fraud", T)}
    assert sum(one.held["waiting"] for one in made.processors) == 1


def test_a_label_that_comes_before_its_event_waits_for_it() -> None:
    made = Shop(logs_of([(payment("a", T), T)], [(chargeback("a"), T)]))
    home = made.definition.partition_of("a")
    assert not made.step(home, ("chargebacks", 0), 10)
    assert made.processors[home].held["labels"] == 1
    made.step(home, ("payments", 0), 10)
    assert made.sent == {"a": ("fraud", T)}
    assert made.processors[home].held["labels"] == 0


def test_silence_is_a_label_once_the_log_shows_that_it_has_lasted_and_a_later_label_corrects_it() -> None:
    made = Shop(logs_of([(payment("a", T), T), (payment("b", T + 30 * DAY - 1), T + 30 * DAY - 1)], []))
    made.drain()
    assert not made.sent
    made.logs["payments", 0].append(record("payments", 0, 2, payment("c", T), T + 30 * DAY))
    made.drain()
    assert made.sent == {"a": ("ok", T), "c": ("ok", T)}
    assert sum(one.counts["silent"] for one in made.processors) == 2
    made.logs["chargebacks", 0].append(record("chargebacks", 0, 0, chargeback("a"), T + 90 * DAY))
    made.drain()
    assert made.sent == {"a": ("fraud", T), "b": ("ok", T + 30 * DAY - 1), "c": ("ok", T)}


def test_of_contradicting_labels_the_last_of_the_log_counts_and_the_same_again_sends_nothing() -> None:
    made = drained(
        [(payment("a", T), T)], [(chargeback("a", "fraud"), T), (chargeback("a", "ok"), T), (chargeback("a", "ok"), T)]
    )
    assert made.sent == {"a": ("ok", T)}
    assert sum(map(len, made.messages)) == 1


def test_an_event_that_is_corrected_is_sent_again_with_its_label() -> None:
    made = Shop(logs_of([(payment("a", T), T), (payment("a", T + 5), T)], [(chargeback("a"), T)]))
    home = made.definition.partition_of("a")
    made.step(home, ("chargebacks", 0), 10)
    made.step(home, ("payments", 0), 1)
    assert made.sent == {"a": ("fraud", T)}
    made.step(home, ("payments", 0), 1)
    assert made.sent == {"a": ("fraud", T + 5)}


def test_what_is_kept_is_forgotten_once_its_time_is_over_and_counted() -> None:
    made = Shop(logs_of([(payment("a", T), T)], [(chargeback("never seen"), T)]), intake={"keep": "60d"})
    made.drain()
    made.logs["payments", 0].append(record("payments", 0, 1, payment("b", T + 60 * DAY), T + 60 * DAY))
    made.drain()
    counts = sum((one.counts for one in made.processors), Counter[str]())
    assert (counts["events forgotten"], counts["labels forgotten"]) == (1, 1)
    assert made.sent == {"a": ("ok", T)}
    assert sum(one.held["rows"] for one in made.processors) == 1


def test_a_bad_record_has_one_letter_under_the_place_it_came_from_whoever_reads_it() -> None:
    logs = {("payments", 3): [record("payments", 3, 0, b"no json"), record("payments", 3, 1, payment("a", T))]}
    made = Shop({**logs, ("chargebacks", 0): []})
    made.drain()
    (letter,) = made.letters
    assert (letter.key, letter.partition) == (b"payments-3-0", 1)


def test_a_row_that_is_gone_from_its_database_is_retired_and_a_later_label_does_not_bring_it_back() -> None:
    def envelope(operation: str, ref: str) -> bytes:
        row = {"ref": ref, "created": T, "amount": 2.0, "country": "DE", "known": True}
        rows = {"before": row, "after": None} if operation == "d" else {"before": None, "after": row}
        return json.dumps({"op": operation, **rows}).encode()

    intake = {
        "format": "debezium-json",
        "id": "ref",
        "time": "created",
        "row": None,
        "fields": None,
        "labels": {"topic": "chargebacks", "format": "json", "id": "payment", "label": "verdict"},
    }
    events = [(envelope("c", "a"), T), (envelope("d", "a"), T), (None, T), (envelope("r", "b"), T)]
    made = Shop(logs_of(events, [(chargeback("a"), T)]), intake=intake)
    made.logs["payments", 0][2] = record("payments", 0, 2, None, T, key=b'{"ref": "a"}')
    home = made.definition.partition_of("a")
    made.step(home, ("chargebacks", 0), 1)
    made.step(home, ("payments", 0), 1)
    assert made.sent == {"a": ("fraud", T)}
    made.drain()
    assert made.retired == ["a"]
    assert not made.letters
    made.logs["chargebacks", 0].append(record("chargebacks", 0, 1, chargeback("a", "ok"), T))
    made.drain()
    assert made.sent == {"a": ("fraud", T)}


# Any order, any crash ------------------------------------------------------------------------------------------------

IDS = [f"tx-{number}" for number in range(6)]


@st.composite
def histories(draw: st.DrawFn) -> Logs:
    """Logs in which events and labels of few ids come twice, contradict each other, and come in two partitions."""
    logs: Logs = {place: [] for place in PLACES}
    clock = T
    for _ in range(draw(st.integers(1, 40))):
        clock += draw(st.integers(-2, 12)) * DAY
        name = draw(st.sampled_from(IDS))
        if draw(st.booleans()):
            place = draw(st.sampled_from(PLACES[:2]))
            value = payment(name, clock - draw(st.integers(0, 40)) * DAY, float(draw(st.integers(0, 5))))
        else:
            place, value = PLACES[2], chargeback(name, draw(st.sampled_from(["fraud", "ok"])))
        if draw(st.integers(0, 9)) == 0:
            value = b"poison"
        logs[place].append(record(*place, len(logs[place]), value, clock))
    return logs


def expected(logs: Logs, definition: StreamDefinition, intake: IntakeDefinition) -> dict[str, tuple[str, int]]:
    """What must have been sent at last: written anew, over whole logs, from what the documentation says."""
    assert intake.labels is not None
    assert intake.labels.after_milliseconds is not None
    newest: dict[tuple[bool, str], tuple[Any, Any]] = {}
    due: dict[str, int] = {}
    clock = 0
    for (topic, partition), log in logs.items():
        latest = 0
        for one in log:
            latest = max(latest, one.log_time)
            items = RecordReader(definition, intake).read([one], NOW).items
            for item in items:
                version = latest, partition, one.offset
                is_label = topic == "chargebacks"
                if not is_label:
                    due[item.id] = min(due.get(item.id, 2**62), item.time + intake.labels.after_milliseconds)
                if (is_label, item.id) not in newest or version > newest[is_label, item.id][0]:
                    newest[is_label, item.id] = version, item
        clock = max(clock, latest)
    wanted = {}
    for (is_label, name), (_, event) in newest.items():
        if not is_label:
            label = newest[True, name][1].label if (True, name) in newest else None
            if label is None and due[name] <= clock:
                label = "ok"
            if label is not None:
                wanted[name] = label, event.time
    return wanted


@given(histories(), st.randoms(use_true_random=False))
def test_whatever_the_order_the_crashes_and_the_late_writers_the_last_samples_are_those_of_the_logs(
    logs: Logs, chance: random.Random
) -> None:
    made = Shop(logs)
    try_everything(made, chance)
    made.drain()
    for partition, processor in enumerate(made.processors):
        assert not processor.rebuilding
        assert processor.position(PLACES[0]) == len(logs[PLACES[0]])
        held = processor.held
        mine = [name for name in IDS if made.definition.partition_of(name) == partition]
        assert held["waiting"] <= len(mine)
    assert made.sent == expected(logs, made.definition, made.intake)


def try_everything(made: Shop, chance: random.Random) -> None:
    """Steps in any order, of any length; crashes before and after the commit; stores that are lost; zombies."""
    unsent: list[tuple[int, list[Outgoing]]] = []
    for _ in range(chance.randrange(60)):
        partition = chance.randrange(len(made.processors))
        processor = made.processors[partition]
        if chance.random() < 0.25:
            processor = made.processors[partition] = after_a_crash(made, partition, chance)
        at = chance.choice(PLACES)
        position = processor.position(at)
        outputs = list(
            processor.process(made.reader.read(made.logs[at][position : position + chance.randrange(1, 9)], NOW))
        )
        if chance.random() < 0.1:
            # This one is frozen before it sends, and another one goes on from the log.
            unsent.append((partition, [out for output in outputs for out in output.then]))
            made.processors[partition] = after_a_crash(made, partition, chance, lost=True)
            continue
        for output in outputs:
            made.publish(partition, output)
        if chance.random() < 0.7:
            processor.commit()
    for partition, records in unsent:
        for out in records:
            made.publish(partition, Output(then=(out,)))
            rebuild(made, partition)
            for output in made.processors[partition].again(as_record(out)):
                made.publish(partition, output)


def after_a_crash(made: Shop, partition: int, chance: random.Random, *, lost: bool = False) -> IntakeProcessor:
    """The next owner of a partition: with the store as it was committed, or with none."""
    old = made.processors[partition]
    rows = WaitingRows(identity=made.intake.identity)
    if not lost and chance.random() < 0.5:
        rows = old._rows
        rolled_back(rows)
    said = [(as_record(out), sent) for out in made.messages[partition] if (sent := sent_by(out.headers))]
    found = last_position(said)
    return made.processor(partition, rows, None if found is None else found[0])


def rolled_back(rows: WaitingRows) -> None:
    """What a process that is killed leaves of its store."""
    if rows._begun:
        rows._file.execute("ROLLBACK")
        rows._begun = False
    rows.facts = rows._read_facts()


def rebuild(made: Shop, partition: int) -> None:
    while made.processors[partition].rebuilding:
        for place in made.logs:
            made.step(partition, place, 100)


# The store -----------------------------------------------------------------------------------------------------------


def test_a_store_goes_on_where_it_was_committed_and_is_begun_anew_for_another_definition(tmp_path: Path) -> None:
    definition, intake = shop()
    reader = RecordReader(definition, intake)
    home = definition.partition_of("a")
    for identity, before in ((intake.identity, 0), (intake.identity, 1), ("another", 0)):
        with closing(opened(tmp_path, "shop-0", identity)) as rows:
            processor = IntakeProcessor(definition, intake, home, rows, "w")
            assert processor.held["waiting"] == before
            list(processor.process(reader.read([record("payments", 0, 0, payment("a", T))], NOW)))
            processor.commit()
            list(processor.process(reader.read([record("payments", 0, 1, payment("a", T))], NOW)))


def test_a_damaged_store_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "shop-0.sqlite3").write_bytes(b"this is no file of SQLite" * 100)
    with closing(opened(tmp_path, "shop-0", "x")) as rows:
        assert rows.facts.positions == {}


def test_a_store_that_another_process_holds_is_left_to_it(tmp_path: Path) -> None:
    with closing(opened(tmp_path, "shop-0", "x")), closing(opened(tmp_path, "shop-0", "x")):
        assert {path.name for path in tmp_path.glob("*.sqlite3")} == {"shop-0.sqlite3", "shop-0-1.sqlite3"}


def test_the_header_says_what_it_was_made_of_and_nothing_else_is_taken_for_one() -> None:
    sent = Sent("w", {("payments", 3): 17})
    assert sent_by(sent.headers()) == sent
    assert sent_by(Sent("w").headers()) == Sent("w")
    for value in (b"", b"[1]", b'["w", 3]', b"\xff", b'["w", [["payments", "x", 1]]]'):
        assert sent_by((("deltaplane-intake", value),)) is None
    assert sent_by(()) is None


def test_a_writer_that_had_not_come_as_far_as_one_before_it_sent_too_late() -> None:
    early, far = {("payments", 0): 5, ("labels", 0): 9}, {("payments", 0): 7, ("labels", 0): 9}
    records = [record("samples", 0, at, None) for at in range(4)]

    def said(*sent: Sent) -> list[tuple[Record, Sent]]:
        return list(zip(records, sent, strict=False))

    assert last_position([]) is None
    assert last_position(said(Sent("a"))) is None
    assert last_position(said(Sent("a", early), Sent("b", far))) == (far, [])
    assert last_position(said(Sent("a", far), Sent("a", early))) == (early, [])
    late = said(Sent("a", early), Sent("b", far), Sent("a"), Sent("a", early))
    assert last_position(late) == (early, records[2:])


def test_large_rows_are_sent_in_messages_that_fit() -> None:
    columns = {"rules": [{"column": f"note {at}", "kind": "hashed", "buckets": 2} for at in range(100)]}
    notes = {f"note {at}": "x" * 4000 for at in range(100)}
    events = [(payment(f"tx-{at}", T, **notes), T) for at in range(8)]
    steps = {"steps": [2.0**-20] * 300}
    made = drained(
        events, [(chargeback(f"tx-{at}"), T) for at in range(8)], intake={"fields": None}, columns=columns, grid=steps
    )
    assert len(made.sent) == 8
    sizes = [len(message.value or b"") for messages in made.messages for message in messages]
    assert len(sizes) > 2
    assert max(sizes) < 2**21


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["DE", "12.5", "2026-11-29"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


@given(st.lists(st.fixed_dictionaries({rule.column: JSON for rule in ENCODER.rules}), min_size=1, max_size=4))
def test_whatever_json_the_cells_are_a_row_is_sent_or_refused_and_nothing_raises(rows: list[dict[str, Any]]) -> None:
    events = []
    for at, row in enumerate(rows):
        value = json.dumps({"tx": {"ref": str(at), "created": T, **row}}, allow_nan=True).encode(
            "utf-8", "surrogatepass"
        )
        events.append((value, T))
    steps = {"steps": [2.0**-10] * len(ENCODER.features)}
    made = drained(
        events,
        [(chargeback(str(at)), T) for at in range(len(rows))],
        intake={"fields": None},
        columns=encoder_table(ENCODER),
        grid=steps,
    )
    assert len(made.sent) + len(made.letters) == len(rows)


def test_each_bad_record_has_a_letter_though_the_logs_are_read_one_after_the_other() -> None:
    logs: Logs = {("payments", at): [] for at in range(3)}
    for number in range(300):
        log = logs["payments", number % 3]
        log.append(record("payments", number % 3, len(log), b"no json", T + 60_000 * number))
    made = Shop({**logs, ("chargebacks", 0): []})
    made.drain()
    assert len({letter.key for letter in made.letters}) == 300

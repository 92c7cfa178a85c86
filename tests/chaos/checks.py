"""What must be so after a run: nothing lost, nothing double, everything as the batch has it.

The truth is what the topics hold, read back in the order of their logs, for that is what every part of the pipeline was
given; that the topics hold exactly what was sent and acknowledged, each record once and at its offset, is checked
first, so both come to the same. The deltas are judged again by the rule, record by record. What each accepted tile had
to say of its rows (counts, dead letters, receipts) is found by putting the tile's records through a worker once more,
with nothing crashed and nobody else about.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from chaos.load import Load
from deltaplane.errors import DefinitionMismatch, StateMismatch, WireError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Source, SourceState, Verdict, accept
from deltaplane.log.model import Model
from deltaplane.log.records import Receipt
from deltaplane.reference import Reference
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane.wire import (
    read_claim_or_delta,
    read_dead_letter,
    read_receipt,
    read_retirement,
)
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader
from deltaplane_services.processors.codec import read_published_samples
from deltaplane_services.processors.messages import DEAD_LETTERS, DELTAS, RECEIPTS, RETIREMENTS, SAMPLES, Output, Record
from deltaplane_services.processors.refused_records import MORE_RECORDS
from deltaplane_services.processors.worker_processor import WorkerProcessor
from strategies_streams import rows_by

BY_CHANCE = {"late", "retired id"}
"""Kinds of dead letters that depend on what an attempt had seen, and may come from one that was not accepted."""

OUTCOMES = ("applied", "duplicate", "late", "annihilated", "retired id")
ANSWERS = ("retired", "waiting", "duplicate", "expired", "unknown")


@dataclass
class Logs:
    """Every record of the topics of a run, by (topic, partition), in the order of the log."""

    records: dict[tuple[str, int], list[Record]]

    @classmethod
    def of(cls, settings: ServiceSettings) -> Logs:
        """Read them all."""
        log = reader(settings, "site")
        try:
            return cls(
                {
                    (topic, partition): list(log.read(topic, partition, 0, log.bounds(topic, partition)[1]))
                    for topic in (SAMPLES, RETIREMENTS, DELTAS, RECEIPTS, DEAD_LETTERS)
                    for partition in range(settings.definition.partitions)
                }
            )
        finally:
            log.close()

    def between(self, topic: str, partition: int, start: int, stop: int) -> list[Record]:
        """The records of some offsets, of which some may hold none."""
        records = self.records[topic, partition]
        first, last = (bisect_left(records, offset, key=attrgetter("offset")) for offset in (start, stop))
        return records[first:last]

    def of_topic(self, topic: str) -> Iterator[Record]:
        """All partitions of a topic, one after the other."""
        for (name, _), records in self.records.items():
            if name == topic:
                yield from records


@dataclass
class SourceHistory:
    """What the rule made of one source's deltas: the states after each tile, and the verdicts."""

    states: list[SourceState]
    accepted: list[Delta] = field(default_factory=list)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    odd: int = 0


@dataclass
class Findings:
    """What is wrong, and the figures."""

    faults: list[str] = field(default_factory=list)
    figures: dict[str, int | str] = field(default_factory=dict)

    def demand(self, so: object, what: str) -> None:
        """Take note of a fault, unless ``so``."""
        if not so:
            self.faults.append(what)


def check(settings: ServiceSettings, load: Load, models: Sequence[Model]) -> Findings:
    """Check a run that has been drained. ``models`` are all that a reader of their topic was given, in order."""
    found = Findings()
    logs = Logs.of(settings)
    newest = max(models, key=lambda model: model.version)
    histories = {p: _history(settings, logs, p) for p in range(settings.definition.partitions)}
    check_topics(found, logs, load)
    check_digest(found, settings, logs, newest)
    check_tiles(found, logs, histories)
    check_accounts(found, settings, load, newest)
    if found.faults:
        # What follows goes through the accepted tiles again, and takes for granted that they are tiles.
        return found
    outputs = {p: _said_again(found, settings, logs, history, p) for p, history in histories.items()}
    check_letters(found, logs, load, outputs)
    check_receipts(found, logs, load, outputs)
    check_models(found, settings, histories, models)
    return found


def _history(settings: ServiceSettings, logs: Logs, partition: int) -> SourceHistory:
    definition = settings.definition
    state = SourceState(Source(settings.site, partition), Statistics(definition.dimension))
    history = SourceHistory([state])
    for record in logs.records[DELTAS, partition]:
        try:
            change = read_claim_or_delta(record.value, definition.dimensions)
            state, verdict = accept(state, change, definition.stream_fingerprint, definition.plane_grid.range)
        except (WireError, DefinitionMismatch, StateMismatch):
            history.odd += 1
            continue
        history.verdicts[verdict] += 1
        if verdict is Verdict.ACCEPTED and isinstance(change, Delta):
            history.accepted.append(change)
            history.states.append(state)
    return history


# The input -----------------------------------------------------------------------------------------------------------


def check_topics(found: Findings, logs: Logs, load: Load) -> None:
    """The topics hold what was sent, acknowledged and not aborted: each record once, at its offset, unchanged."""
    lost = double = gaps = 0
    for place in [place for place in logs.records if place[0] in (SAMPLES, RETIREMENTS)]:
        sent = [(at, record.key, record.value) for at, record in sorted(load.topics.appended[place].items())]
        held = [(record.offset, record.key, record.value) for record in logs.records[place]]
        lost += max(0, load.topics.acknowledged[place] - len(held))
        double += max(0, len(held) - len(sent))
        gaps += load.topics.end(*place) - len(held)
        found.demand(sent == held, f"{place}: the log is not what was sent ({len(sent)} sent, {len(held)} held)")
    found.figures["records lost on the way in"] = lost
    found.figures["records doubled on the way in"] = double
    found.figures["offsets without a record (marks of transactions, what was aborted)"] = gaps


def check_digest(found: Findings, settings: ServiceSettings, logs: Logs, newest: Model) -> None:
    """The model's digest is that of the batch over the topics."""
    definition = settings.definition
    reference = Reference(definition)
    rows = asked = 0
    for record in logs.of_topic(SAMPLES):
        try:
            samples = read_published_samples(record, definition)
        except (WireError, DefinitionMismatch):
            continue
        rows += len(samples)
        reference.add(record.partition, samples)
    for record in logs.of_topic(RETIREMENTS):
        try:
            retirement = read_retirement(
                record.value, len(definition.features), definition.data_fingerprint, record.offset
            )
        except (WireError, DefinitionMismatch):
            continue
        if definition.partition_of(retirement.id) == record.partition:
            asked += 1
            reference.retire(retirement.id)
    digest = reference.statistics().digest(definition.data_fingerprint)
    live = len(reference.live())
    found.demand(newest.digest == digest, f"digest: the batch has {digest}, the model {newest.digest}")
    found.demand(
        rows_by(Counter(newest.totals)) == live,
        f"live rows: the batch has {live}, the outcomes come to {rows_by(Counter(newest.totals))}",
    )
    found.figures |= {"rows": rows, "retirements": asked, "live rows": live, "digest": digest[:16]}


# The accounts --------------------------------------------------------------------------------------------------------


def check_tiles(found: Findings, logs: Logs, histories: dict[int, SourceHistory]) -> None:
    """The accepted tiles cover both inputs of every source, each record once, from the first to the last."""
    lost = double = 0
    for partition, history in histories.items():
        for topic in (SAMPLES, RETIREMENTS):
            covered: Counter[int] = Counter()
            for delta in history.accepted:
                tile = delta.tile
                spans = {
                    SAMPLES: (tile.samples_from, tile.samples_to),
                    RETIREMENTS: (tile.retirements_from, tile.retirements_to),
                }
                covered.update(range(*spans[topic]))
            offsets = [record.offset for record in logs.records[topic, partition]]
            lost += sum(not covered[offset] for offset in offsets)
            double += sum(count - 1 for count in covered.values())
            found.demand(
                max(covered, default=-1) <= max(offsets, default=-1), f"{topic}-{partition}: tiles reach beyond the log"
            )
    found.demand(not lost, f"{lost} records lie in no accepted tile")
    found.demand(not double, f"{double} records lie in more than one accepted tile")
    found.figures |= {"records lost": lost, "records double": double}
    verdicts = sum((history.verdicts for history in histories.values()), Counter())
    found.figures |= {f"deltas: {verdict}": verdicts[verdict] for verdict in Verdict if verdicts[verdict]}
    found.demand(not sum(history.odd for history in histories.values()), "deltas that no reader can take")


def check_accounts(found: Findings, settings: ServiceSettings, load: Load, newest: Model) -> None:
    """By the totals of the model record, every row and every retirement has exactly one outcome."""
    totals = Counter(newest.totals)
    kinds = Counter(load.sender.letters.values())
    records = kinds.pop("bad record", 0) + kinds.pop("other definition", 0)
    refused = Counter({name.removeprefix("refused "): n for name, n in totals.items() if name.startswith("refused ")})
    found.demand(
        refused.pop("bad record", 0) + refused.pop("other definition", 0) == records, "records refused are not the bad"
    )
    found.demand(refused == kinds, f"rows refused: expected {dict(kinds)}, got {dict(refused)}")
    rows_refused = refused.total() - load.sender.astray.total()
    accounted = sum(totals[outcome] for outcome in OUTCOMES) + rows_refused
    rows = found.figures["rows"]
    found.demand(accounted == rows == load.sender.rows_sent(), f"rows: {rows} in the log, {accounted} accounted for")
    answered = sum(totals[f"retirements {answer}"] for answer in ANSWERS) - totals["annihilated"]
    asked = found.figures["retirements"]
    found.demand(answered == asked, f"retirements: {asked} in the log, {answered} answered")
    names = (*OUTCOMES, "replaced", "expired", "withdrawn", *(f"retirements {answer}" for answer in ANSWERS))
    found.figures |= {f"total: {name}": totals[name] for name in names if totals[name]}
    found.figures |= {"total: rows refused": rows_refused, "total: records refused": records}
    found.figures |= {"total: rows in a wrong partition": load.sender.did["row in a wrong partition"]}
    found.figures |= {"total: retirements in a wrong partition": load.sender.astray.total()}
    missing = {position.source.partition for position in newest.positions} ^ set(range(settings.definition.partitions))
    found.demand(not missing, f"sources missing from the model: {missing}")


def _said_again(
    found: Findings, settings: ServiceSettings, logs: Logs, history: SourceHistory, partition: int
) -> list[Output]:
    """What a worker says of each accepted tile."""
    source = Source(settings.site, partition)
    worker = WorkerProcessor(settings.definition, source, "check")
    worker.restore(SourceState(source, Statistics(settings.definition.dimension)))
    outputs = []
    for delta in history.accepted:
        tile = delta.tile
        worker.writer = delta.writer
        samples = logs.between(SAMPLES, partition, tile.samples_from, tile.samples_to)
        retirements = logs.between(RETIREMENTS, partition, tile.retirements_from, tile.retirements_to)
        again = _likest(worker, delta, samples, retirements)
        worker = again.worker
        found.demand(again.said.change == delta.change, f"tile {tile.sequence} of {source}: another change")
        found.demand(
            again.is_like(delta), f"tile {tile.sequence} of {source}: {again.said.counts} expected, {delta.counts} said"
        )
        outputs.append(again.output)
    return outputs


def _likest(
    worker: WorkerProcessor, delta: Delta, samples: Sequence[Record], retirements: Sequence[Record]
) -> _Attempt:
    """The attempt at a tile that had heard of time from other partitions what the accepted one had heard.

    A delta records where time ended, not how it got there. The more was known beforehand, the more rows were late, and
    the fewer met an older version of theirs inside the window.
    """
    heard = _watermarks(worker, delta, samples)
    low, high = 0, len(heard) - 1
    while low < high:
        middle = (low + high) // 2
        again = _attempt(worker, heard[middle], samples, retirements)
        if again.is_like(delta):
            return again
        if _lateness(again.said) < _lateness(delta):
            low = middle + 1
        else:
            high = middle
    near = [_attempt(worker, watermark, samples, retirements) for watermark in heard[max(0, low - 2) : low + 3]]
    return next((again for again in near if again.is_like(delta)), near[0])


def _lateness(delta: Delta) -> int:
    counts = Counter(delta.counts)
    return counts["late"] - counts["duplicate"] - counts["replaced"] - counts["withdrawn"]


@dataclass(frozen=True)
class _Attempt:
    """A worker after a tile, what it published, and its delta."""

    worker: WorkerProcessor
    output: Output
    said: Delta

    def is_like(self, delta: Delta) -> bool:
        return self.said.change == delta.change and self.said.counts == delta.counts


def _attempt(
    worker: WorkerProcessor, watermark: int, samples: Sequence[Record], retirements: Sequence[Record]
) -> _Attempt:
    attempt = copy.deepcopy(worker)
    attempt._watermark = max(attempt._watermark, watermark)
    output = attempt.process(samples, retirements)
    said = read_claim_or_delta(output.then[0].value, worker.definition.dimensions)
    assert isinstance(said, Delta)
    return _Attempt(attempt, output, said)


def _watermarks(worker: WorkerProcessor, delta: Delta, samples: Sequence[Record]) -> list[int]:
    """Every watermark that could have made a difference to a tile, beginning with none, up to that of its end."""
    definition = worker.definition
    longest = definition.nested_windows.longest_milliseconds
    if longest is None:
        return [NO_WATERMARK]
    arriving: list[int] = []
    for record in samples:
        try:
            decoded = read_published_samples(record, definition)
        except (WireError, DefinitionMismatch):
            continue
        arriving += [time for time in decoded.event_times.tolist() if abs(time) < 2**61]
    end = delta.rebuild.watermark
    if end not in arriving:
        return [end]
    buffer = worker.partition._buffer
    held = buffer.times(np.arange(buffer.first, buffer.next, dtype=np.int64)).tolist()
    return [NO_WATERMARK, *sorted({time + longest for time in (*arriving, *held) if time + longest < end}), end]


# Letters, receipts, models -------------------------------------------------------------------------------------------


def check_letters(found: Findings, logs: Logs, load: Load, outputs: dict[int, list[Output]]) -> None:
    """There is a dead letter for everything that was refused, and for nothing else; a repeat overwrites itself."""
    by_key = defaultdict(set)
    for record in logs.of_topic(DEAD_LETTERS):
        by_key[record.key].add(_kind_of(record.value))
    expected = {
        letter.key: _kind_of(letter.value)
        for each in outputs.values()
        for output in each
        for letter in output.first
        if letter.topic == DEAD_LETTERS
    }
    sure = {key: kind for key, kind in expected.items() if kind not in BY_CHANCE}
    differ = sorted(set(sure.items()) ^ set(load.sender.letters.items()), key=repr)
    found.demand(not differ, f"dead letters: {len(differ)} are not those of what was spoiled: {differ[:3]}")
    missing = [key for key, kind in expected.items() if kind not in by_key[key]]
    found.demand(not missing, f"dead letters: {len(missing)} are missing: {missing[:3]}")
    wrong = [key for key, kinds in by_key.items() if len(kinds) > 1 and not kinds <= BY_CHANCE]
    found.demand(not wrong, f"dead letters: {len(wrong)} keys have two reasons: {wrong[:3]}")
    more = {key for key, kinds in by_key.items() if key not in expected and kinds}
    strange = [key for key in more if not by_key[key] <= BY_CHANCE]
    found.demand(not strange, f"dead letters: {len(strange)} of what was not refused: {strange[:3]}")
    found.figures |= {"dead letters": len(expected), "dead letters of attempts not accepted": len(more)}


def _kind_of(written: bytes | None) -> str:
    """The kind of a letter; of one that stands for many that came by chance, "late"."""
    letter = read_dead_letter(written)
    return "late" if letter.kind == MORE_RECORDS and set(letter.rest) <= BY_CHANCE else letter.kind


def check_receipts(found: Findings, logs: Logs, load: Load, outputs: dict[int, list[Output]]) -> None:
    """Every retirement has a receipt of the writer whose tile was accepted, and it is true.

    Others may have written receipts of attempts that were not accepted, under keys of their own.
    """
    said: dict[bytes | None, Receipt] = {}
    for record in logs.of_topic(RECEIPTS):
        said[record.key] = read_receipt(record.value)
    expected = {
        receipt.key: read_receipt(receipt.value)
        for each in outputs.values()
        for output in each
        for receipt in output.first
        if receipt.topic == RECEIPTS
    }
    asked = {(partition, offset) for partition, retired in load.sender.retired.items() for offset, _ in retired}
    answered = [(receipt.source.partition, receipt.offset) for receipt in expected.values()]
    found.demand(set(answered) == asked, "receipts: not those of what was retired")
    last = dict(sorted(zip(answered, expected.values(), strict=True), key=_tile_of))
    again = {last[at].outcome for at, one in zip(answered, expected.values(), strict=True) if last[at] != one}
    found.demand(again <= {"retired"}, f"receipts: answered again with {again}")
    strange = [key for key, one in said.items() if (one.source.partition, one.offset) not in asked]
    found.demand(not strange, f"receipts: of retirements that nobody asked for: {strange[:3]}")
    untrue = [key for key, receipt in expected.items() if said.get(key) != receipt]
    found.demand(not untrue, f"receipts: {len(untrue)} of {len(expected)} are missing or untrue: {untrue[:3]}")
    found.figures |= {"receipts": len(expected), "receipts of attempts not accepted": len(said) - len(expected)}


def _tile_of(answered: tuple[tuple[int, int], Receipt]) -> int:
    return answered[1].sequence


def check_models(
    found: Findings, settings: ServiceSettings, histories: dict[int, SourceHistory], models: Sequence[Model]
) -> None:
    """Versions rise as a reader sees them, and every model is the sum of what its positions say is in it."""
    versions = [model.version for model in models]
    found.demand(versions == sorted(set(versions)), "models: a reader saw versions that do not rise")
    untrue = back = 0
    reached: dict[Source, int] = {}
    for model in models:
        total = Statistics(settings.definition.dimension)
        for position in model.positions:
            total = total + histories[position.source.partition].states[position.sequence].statistics
            back += position.sequence < reached.get(position.source, 0)
            reached[position.source] = max(position.sequence, reached.get(position.source, 0))
        untrue += total.digest(settings.definition.data_fingerprint) != model.digest
    found.demand(not untrue, f"models: {untrue} of {len(models)} are not the sum of what they say is in them")
    found.figures |= {"models read": len(models), "positions that went back for a moment": back}

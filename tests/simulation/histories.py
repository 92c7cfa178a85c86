"""The histories of the simulation, and what must be so of each, whatever happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from unittest import mock

from deltaplane import limits
from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import CategoryRule, NumberRule
from deltaplane.log.delta import Source
from deltaplane.maps.feature_maps import NO_MAP
from deltaplane.reference import Reference
from deltaplane.solve.candidates import AUTOMATIC_C, AUTOMATIC_WEIGHTINGS
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.placement import Partitioner
from deltaplane.wire import read_dead_letter, read_model, read_receipt
from deltaplane_services.processors.messages import (
    DEAD_LETTERS,
    DELTAS,
    MODELS,
    RECEIPTS,
    SAMPLES,
    Outgoing,
    origin_key,
)
from simulation.audits import check_audit, check_model
from simulation.world import SITE, World
from strategies_streams import FOURIER, HIDDEN, MIXED, definition_of, fitting, rows_by

EVENTS = 150

RETIRED_IDS = 24
"""Ids that a partition is sure to remember: more than a history retires there, fewer than it repeats one."""

COLUMNS = Encoder((NumberRule("amount", "fill", fill=7.0), CategoryRule("kind", "fill", levels=("a",))))
"""Of streams whose rows may come by name; what a row's cells are is written again in producer.py."""

WINDOWS = (
    ("12",),
    ("40",),
    ("60ms",),
    ("300ms",),
    ("all",),
    ("6", "24"),
    ("30ms", "120ms", "480ms"),
    ("12", "all"),
    ("90ms", "all"),
)


def definition_for(seed: int) -> StreamDefinition:
    """The stream that a seed is about: every window with every number of partitions comes up."""
    windows = WINDOWS[seed % len(WINDOWS)]
    partitions = 1 + seed // len(WINDOWS) % 3
    counts = all(window.isdigit() for window in windows)
    # Few open classes are soon all met; of many, a flood takes what is left.
    opened = ClassDefinition(most=(2, 4, 30)[seed // 10 % 3]) if seed % 2 else ClassDefinition()
    closed = ClassDefinition(("x", "y", "z"), "x" if seed % 2 else None)
    feature_map = fitting((NO_MAP, NO_MAP, HIDDEN, MIXED, FOURIER)[seed // 7 % 5], windows)
    by_name = seed % 3 == 2 and feature_map is NO_MAP
    definition = definition_of(
        *windows,
        partitions=partitions,
        pane_rows=1 + seed % 4 if counts else 1,
        features=3 if by_name else 2,
        classes=closed if seed % 5 else opened,
        feature_map=feature_map,
    )
    if by_name:
        definition = replace(definition, features=COLUMNS.features, columns=COLUMNS)
    # Where it fits the windows clocks may run ahead by all of it; one that is longer than they are would empty them.
    fits = definition.nested_windows.timed and seed // 2 % 2
    # Some streams were begun before places were checked; there every producer follows the rule.
    partitioner: Partitioner = "crc32" if seed // 27 % 4 == 3 else "murmur2"
    skew = definition.nested_windows.fitting_skew_milliseconds if fits else 1000
    # Half of the streams admit rows that are wider than 32 bits a value, and have them.
    wide = seed // 3 % 2
    grid = replace(definition.grid, range_bits=limits.WIDE_RANGE_BITS if wide else limits.GRID_RANGE_BITS)
    # Some streams choose C and the weighting among the rows of a single window.
    choosing = seed // 9 % 3 == 1
    choices = AUTOMATIC_C if choosing else definition.choices
    weightings = AUTOMATIC_WEIGHTINGS if choosing else definition.weightings
    objective = GMEAN
    if definition.classes.positive is not None:
        asked = ("kappa", "cost:FN=5,FP=1", "gmean", "recall@alerts=9000/day", "precision>=0.6", "accuracy")
        objective = Objective.parse(asked[seed // 2 % 6])
    return replace(
        definition,
        max_skew_milliseconds=skew,
        partitioner=partitioner,
        grid=grid,
        objective=objective,
        choices=choices,
        weightings=weightings,
    )


def live(seed: int, events: int = EVENTS) -> World:
    """The whole history of a seed, drained; with fewer events it is the beginning of the longer one."""
    # Batches as small as these are not worth keeping the sums of, by themselves; in every other history all are kept.
    with (
        mock.patch.object(limits, "KEPT_SUMS_SHARE", 1e9 if seed % 2 else limits.KEPT_SUMS_SHARE),
        mock.patch.object(limits, "RETIRED_IDS", RETIRED_IDS),
    ):
        world = World(definition_for(seed), seed)
        for at in range(3):
            world.live_through(events * (at + 1) // 3 - events * at // 3)
            check_prefixes(world)
            check_audit(world)
        world.drain()
    return world


def check(world: World) -> None:
    """Everything that must be so at the end."""
    check_end(world)
    check_clocks(world)
    check_accounts(world)
    check_letters(world)
    check_receipts(world)
    check_audit(world)
    check_model(world)


def reference_of(world: World, partition: int) -> Reference:
    """The batch account of one source at its newest accepted delta."""
    state, reference = world.truth(partition)[-1].state, Reference(world.definition)
    for record in world.producer.sent.get(partition, []):
        if record.offset < state.samples_position:
            reference.add(partition, record.samples)
    for offset, sample_id in world.producer.retired.get(partition, []):
        if offset < state.retirements_position:
            reference.retire(sample_id)
    reference.watermark = max(reference.watermark, state.rebuild.watermark)
    return reference


def check_prefixes(world: World, but: Collection[int] = ()) -> None:
    """At any time, a source's accepted statistics are those of what was accepted, from scratch.

    ``but``: partitions of which this cannot be said, since their topics were made anew.
    """
    for partition in world.workers.keys() - set(but):
        state, reference = world.truth(partition)[-1].state, reference_of(world, partition)
        assert state.statistics == reference.statistics()


def check_end(world: World) -> None:
    """The digest that everyone reads is that of the batch, and everything was read."""
    reference = world.producer.reference()
    digest = reference.statistics().digest(world.definition.data_fingerprint)
    assert world.merger.merger.statistics.digest(world.definition.data_fingerprint) == digest
    published = max(read_model(record.value).version for record in world.broker.everything[MODELS, 0])
    last = [read_model(record.value) for record in world.broker.fetch_topic(MODELS)]
    assert [model.digest for model in last if model.version == published] == [digest]
    assert all(len(model.counts) <= world.definition.most_classes for model in last)
    for partition in world.workers:
        state = world.truth(partition)[-1].state
        assert state == world.merger.merger.state(Source(SITE, partition))
        if world.definition.classes.most is not None:
            assert set(state.labels) == world.producer.labels.get(partition, set())
        assert world.broker.read_to("samples", partition) <= state.samples_position
        assert state.samples_position <= world.broker.end("samples", partition)
        assert world.broker.read_to("retirements", partition) <= state.retirements_position
        assert state.retirements_position <= world.broker.end("retirements", partition)
        assert state.rebuild.watermark == reference.watermark or not world.definition.nested_windows.timed
        accepted = [entry.delta for entry in world.truth(partition) if entry.delta is not None]
        edges = [(0, 0, 0)] + [(d.tile.sequence + 1, d.tile.samples_to, d.tile.retirements_to) for d in accepted]
        assert [(d.tile.sequence, d.tile.samples_from, d.tile.retirements_from) for d in accepted] == edges[:-1]


def check_clocks(world: World) -> None:
    """However far ahead clocks and forged records were, no window has ended by more than ``max_skew`` too early."""
    definition = world.definition
    latest = world.now + definition.max_skew_milliseconds
    for partition in world.workers if definition.nested_windows.timed else ():
        for entry in world.truth(partition):
            assert entry.state.rebuild.watermark <= latest
    assert not definition.nested_windows.timed or world.merger.merger.watermark <= latest


def check_accounts(world: World) -> None:
    """Every row and every retirement has exactly one outcome, and the live rows are what the outcomes come to."""
    totals = Counter(world.merger.merger.totals)
    kinds = Counter(world.producer.letters.values())
    records = kinds.pop("bad record", 0) + kinds.pop("other definition", 0)
    assert totals["refused bad record"] + totals["refused other definition"] == records
    refused = Counter({name.removeprefix("refused "): count for name, count in totals.items() if "refused" in name})
    del refused["bad record"], refused["other definition"]
    assert refused == kinds
    outcomes = ("applied", "duplicate", "late", "annihilated", "retired id")
    rows_refused = refused.total() - world.producer.astray.total()
    assert sum(totals[name] for name in outcomes) + rows_refused == world.producer.rows_sent()
    longest = max(
        range(len(world.definition.nested_windows.windows)),
        key=lambda w: (
            world.definition.nested_windows.windows[w].kind == "all",
            world.definition.nested_windows.windows[w].length,
        ),
    )
    assert rows_by(totals) == len(world.producer.reference().live(longest))
    answers = ("retired", "waiting", "duplicate", "expired", "unknown")
    asked = sum(len(retired) for retired in world.producer.retired.values())
    assert sum(totals[f"retirements {name}"] for name in answers) - totals["annihilated"] == asked
    scored = world.merger.merger.scores.rows
    assert 0 <= scored <= totals["applied"] - totals["replaced"]
    assert scored == sum(
        entry.delta.scores.rows for partition in world.workers for entry in world.truth(partition) if entry.delta
    )


def accepted_outcomes(world: World, topic: str) -> dict[bytes | None, Outgoing]:
    """What went with the accepted deltas to a compacted topic: the last for each key."""
    last: dict[bytes | None, Outgoing] = {}
    for partition in world.workers:
        for entry in world.truth(partition):
            if entry.delta is not None:
                output = world.outputs[partition, entry.delta.writer, entry.delta.tile.sequence]
                last.update({outgoing.key: outgoing for outgoing in output.first if outgoing.topic == topic})
    return last


def check_letters(world: World) -> None:
    """There is a dead letter for everything that was refused, and for nothing else."""
    by_key = {record.key: read_dead_letter(record.value) for record in world.broker.fetch_topic(DEAD_LETTERS)}
    expected = {
        key: read_dead_letter(letter.value).kind for key, letter in accepted_outcomes(world, DEAD_LETTERS).items()
    }
    by_chance = {"late", "retired id"}
    assert {key: kind for key, kind in expected.items() if kind not in by_chance} == world.producer.letters
    totals, kinds = world.merger.merger.totals, Counter(expected.values())
    assert {kind: kinds[kind] for kind in by_chance} == {kind: totals[kind] for kind in by_chance}
    for key, kind in expected.items():
        assert by_key[key].kind == kind or {by_key[key].kind, kind} <= by_chance
    odd = {
        origin_key(DELTAS, partition, offset)
        for partition in world.workers
        for offset, entry in enumerate(world.truth(partition)[1:])
        if not entry.taken
    }
    # What a worker that died, or had lost its source, thought of a sample that met a retirement or came late.
    thought = {key for key in by_key.keys() - expected.keys() - odd if by_key[key].kind in by_chance}
    assert by_key.keys() - thought == expected.keys() | odd
    attempts = sum(len(output.first) for output in world.outputs.values())
    assert len(thought) <= attempts - len(expected)


def check_receipts(world: World) -> None:
    """There is one receipt for every retirement, and it is true."""
    by_key = {record.key: read_receipt(record.value) for record in world.broker.fetch_topic(RECEIPTS)}
    expected = {key: read_receipt(receipt.value) for key, receipt in accepted_outcomes(world, RECEIPTS).items()}
    assert {key: by_key[key] for key in expected} == expected
    # Others are of attempts that were not accepted, under keys of their own.
    writers = {(partition, writer) for partition, writer, _ in world.outputs}
    assert {(receipt.source.partition, receipt.writer) for receipt in by_key.values()} <= writers
    # One that waited is answered again when its sample comes, maybe by another writer: the later tile counts. So is one
    # whose sample comes again after its row has been forgotten.
    in_order = sorted(expected.values(), key=lambda receipt: receipt.sequence)
    of = {(receipt.source.partition, receipt.offset): receipt for receipt in in_order}
    again = {of[receipt.source.partition, receipt.offset].outcome for receipt in in_order if receipt not in of.values()}
    assert again <= {"retired"}
    live = {row.id for row in world.producer.reference().live()}
    for partition, retired in world.producer.retired.items():
        first_seen: set[str] = set()
        came = {
            sample_id
            for record in world.producer.sent.get(partition, [])
            for row, sample_id in enumerate(record.samples.ids)
            if origin_key(SAMPLES, partition, record.offset, row) not in world.producer.letters
        }
        digests = [
            entry.state.statistics.digest(world.definition.data_fingerprint)
            for entry in world.truth(partition)
            if entry.delta is not None
        ]
        for offset, sample_id in retired:
            receipt = of[partition, offset]
            assert receipt.id == sample_id
            assert sample_id not in live
            assert (receipt.outcome == "duplicate") == (sample_id in first_seen)
            if receipt.outcome != "duplicate" and partition not in world.memory_lost:
                assert (receipt.outcome == "waiting") == (sample_id not in came)
            assert receipt.digest_after == digests[receipt.sequence]
            if receipt.outcome in ("duplicate", "expired", "waiting"):
                assert receipt.retirements_to > offset
            first_seen.add(sample_id)

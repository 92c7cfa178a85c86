"""Where classes are open, a partition admits the first labels that it meets, and which these are is told by its log."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Source, SourceState, accept
from deltaplane.reference import Reference
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples, admit
from deltaplane.wire import read_claim_or_delta, read_samples, write_sample_batch
from deltaplane_services.processors.messages import SAMPLES, Record
from deltaplane_services.processors.regroup import Regroup
from deltaplane_services.processors.worker_processor import WorkerProcessor
from strategies_streams import Row, definition_of, samples_of

BAD = float("nan")
LABELS = st.sampled_from([*"abcdefg", ""])
ROWS = st.builds(
    Row,
    id=st.sampled_from([f"s{number}" for number in range(30)]),
    label=LABELS,
    values=st.sampled_from([(1.0,), (2.0,), (BAD,)]),
)
LOGS = st.lists(st.lists(ROWS, min_size=1, max_size=4).map(tuple), max_size=15)
CUTS = st.lists(st.integers(1, 4), min_size=15, max_size=15)
MOST = st.integers(2, 5)


def stream(most: int, window: str = "4", partitions: int = 1) -> StreamDefinition:
    return definition_of(window, partitions=partitions, classes=ClassDefinition(most=most))


def batch_of(records: Sequence[tuple[Row, ...]], first_offset: int, unused: Sequence[str] = ()) -> Samples:
    """Records as one batch, whose table names labels that no row has, too."""
    samples = samples_of(records, first_offset)
    shift, table = len(unused), (*unused, *samples.label_table)
    return dataclasses.replace(samples, label_table=table, label_codes=samples.label_codes + np.int32(shift))


@dataclass
class JudgedChange:
    """What became of a log: (offset, row) of the admitted with their labels, and of the refused with their kinds."""

    admitted: dict[tuple[int, int], str] = field(default_factory=dict)
    refused: dict[tuple[int, int], str] = field(default_factory=dict)
    known: dict[str, None] = field(default_factory=dict)

    def read(self, samples: Samples, definition: StreamDefinition, *, learn: bool = True) -> None:
        rows, refusals = admit(samples, definition, self.known)
        places = zip(rows.offsets.tolist(), rows.rows.tolist(), strict=True)
        self.admitted |= {place: rows.labels[code] for place, code in zip(places, rows.codes.tolist(), strict=True)}
        self.refused |= {(refusal.offset, refusal.row): refusal.kind for refusal in refusals}
        if learn:
            self.known.update(dict.fromkeys(rows.new_labels))
        else:
            assert not rows.new_labels


def cut(log: Sequence[tuple[Row, ...]], cuts: Sequence[int]) -> list[tuple[int, Sequence[tuple[Row, ...]]]]:
    """A log in batches of so many records, each with the offset of its first."""
    ends = [min(end, len(log)) for end in itertools.accumulate(cuts)]
    return [(begin, log[begin:end]) for begin, end in itertools.pairwise([0, *ends]) if end > begin]


@given(LOGS, CUTS, CUTS, MOST)
def test_which_labels_are_admitted_depends_on_neither_batches_nor_on_labels_that_no_row_has(
    log: list[tuple[Row, ...]], cuts: list[int], others: list[int], most: int
) -> None:
    one, other, definition = JudgedChange(), JudgedChange(), stream(most)
    for begin, records in cut(log, cuts):
        one.read(batch_of(records, begin), definition)
    for begin, records in cut(log, others):
        other.read(batch_of(records, begin, ["unheard", "of"]), definition)
    assert one == other
    met = [row.label for record in log for row in record if row.label and not np.isnan(row.values[0])]
    assert list(one.known) == list(dict.fromkeys(met))[:most]
    assert set(one.admitted.values()) == set(one.known)


@given(LOGS, CUTS, MOST)
def test_what_is_read_again_with_what_was_known_later_is_judged_as_it_was(
    log: list[tuple[Row, ...]], cuts: list[int], most: int
) -> None:
    first, again, definition = JudgedChange(), JudgedChange(), stream(most)
    for begin, records in cut(log, cuts):
        first.read(batch_of(records, begin), definition)
    again.known = dict(first.known)
    for begin, records in cut(log, [1] * len(log)):
        again.read(batch_of(records, begin), definition, learn=False)
    assert again == first


@given(LOGS, CUTS, st.integers(0, 14), MOST, st.sampled_from(["4", "all"]))
def test_a_worker_that_took_over_knows_the_labels_whose_rows_have_left_and_the_end_is_that_of_the_reference(
    log: list[tuple[Row, ...]], cuts: list[int], crash: int, most: int, window: str
) -> None:
    definition, reference = stream(most, window), Reference(stream(most, window))
    source = Source("here", 0)
    state = SourceState(source, Statistics(2))
    worker = WorkerProcessor(definition, source, "life 0")
    worker.restore(state)
    records = [
        Record(SAMPLES, 0, at, 0, None, write_sample_batch(samples_of([rows], at), definition.data_fingerprint))
        for at, rows in enumerate(log)
    ]
    kinds = 0
    for number, (begin, part) in enumerate(cut(log, cuts)):
        if number == crash:
            worker = WorkerProcessor(definition, source, "life 1")
            at = worker.restore(state).samples
            assert not worker.process(records[at:begin], []).then
            assert worker.serving
        claim = worker.claim().value
        state, _ = accept(state, read_claim_or_delta(claim, 2), definition.stream_fingerprint)
        output = worker.process(records[begin : begin + len(part)], [])
        delta = read_claim_or_delta(output.then[0].value, 2)
        assert isinstance(delta, Delta)
        state, verdict = accept(state, delta, definition.stream_fingerprint)
        assert verdict == "accepted"
        kinds += delta.counts.get("refused too many classes", 0)
        reference.add(0, samples_of(part, begin))
        assert state.statistics == reference.statistics()
    judged = JudgedChange()
    judged.read(batch_of(log, 0), definition)
    assert state.labels == tuple(judged.known)
    assert kinds == list(judged.refused.values()).count("too many classes")


@given(LOGS, st.integers(0, 14), MOST, st.sampled_from([1, 3]))
def test_rows_that_are_copied_to_another_stream_are_those_that_were_admitted_whatever_is_copied(
    log: list[tuple[Row, ...]], start: int, most: int, partitions: int
) -> None:
    old, new = stream(most, "all"), stream(most, "all", partitions)
    judged = JudgedChange()
    judged.read(batch_of(log, 0), old)
    regroup = Regroup(old, new)
    regroup.know({0: tuple(judged.known)})
    copied: list[str] = []
    for at, rows in enumerate(log[start:], start):
        value = write_sample_batch(samples_of([rows], at), old.data_fingerprint)
        for out in regroup.record(Record(SAMPLES, 0, at, 0, None, value)):
            samples = read_samples(out.value, 1, new.data_fingerprint, 0, 0)
            copied += [samples.label_table[code] for code in samples.label_codes.tolist()]
    expected = [label for (offset, _), label in judged.admitted.items() if offset >= start]
    assert sorted(copied) == sorted(expected)
    assert regroup.counts["rows"] == len(expected)
    assert regroup.counts["rows that the new stream refuses: too many classes"] == 0


def test_a_worker_that_takes_over_from_before_labels_were_named_names_those_of_the_rows_that_it_finds() -> None:
    definition, source = stream(3, "all"), Source("here", 0)
    rows = [Row(f"s{at}", label) for at, label in enumerate("baab")]
    records = [
        Record(SAMPLES, 0, at, 0, None, write_sample_batch(samples_of([(row,)], at), definition.data_fingerprint))
        for at, row in enumerate([*rows, Row("s8", "c"), Row("s9", "d")])
    ]
    first = WorkerProcessor(definition, source, "w")
    state = SourceState(source, Statistics(2), owner="w")
    first.restore(state)
    delta = first.process(records[:4], []).then[0].message
    assert isinstance(delta, Delta)
    state, _ = accept(state, dataclasses.replace(delta, labels=()), definition.stream_fingerprint)
    again = WorkerProcessor(definition, source, "w")
    again.restore(state)
    assert not again.process(records[:4], []).then
    delta = again.process(records[4:], []).then[0].message
    assert isinstance(delta, Delta)
    assert delta.labels == ("b", "a", "c")
    assert delta.counts["refused too many classes"] == 1
    state, _ = accept(state, delta, definition.stream_fingerprint)
    assert state.labels == ("b", "a", "c")


def test_a_copy_onto_fewer_partitions_counts_the_rows_whose_labels_are_too_many_there_and_they_are_refused() -> None:
    old, new = dataclasses.replace(stream(2, "all", 2), partitioner="crc32"), stream(2, "all", 1)
    regroup = Regroup(old, new)
    regroup.know({0: ("a", "b"), 1: ("c", "d")})
    labels = {0: "abba", 1: "cddc"}
    worker = WorkerProcessor(new, Source("here", 0), "w")
    worker.restore(SourceState(Source("here", 0), Statistics(2)))
    records, at = [], 0
    for offset in range(4):
        for partition in range(2):
            row = Row(f"s{offset}-{partition}", labels[partition][offset])
            value = write_sample_batch(samples_of([(row,)], offset), old.data_fingerprint)
            for out in regroup.record(Record(SAMPLES, partition, offset, 0, None, value)):
                records.append(Record(SAMPLES, 0, at, 0, None, out.value))
                at += 1
    delta = worker.process(records, []).then[0].message
    assert isinstance(delta, Delta)
    # The first two that come are "a" and "c".
    assert regroup.counts["rows that the new stream refuses: too many classes"] == 4
    assert (delta.counts["applied"], delta.counts["refused too many classes"]) == (4, 4)

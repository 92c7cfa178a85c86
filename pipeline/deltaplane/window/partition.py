"""The state of one partition: its rows, its windows, its retirements, and the exact change that each step makes.

The state after (samples up to offset a, retirements up to offset b) is *one* state, however the two logs interleaved:

    live(a, b) = last versions of their ids among samples[..a] inside the window,  minus  ids in retirements[..b]

So a retirement that overtakes its sample waits for it, a worker may form batches of any size, and a worker that crashed
finds the same state again by reading the same logs. Three rules make this hold:

- every admitted sample takes a slot, whether retired, repeated or late, so that expiry depends on samples alone;
- the last version of an id counts, and an unchanged repeat is a version like any other;
- a retired id stays retired: a later sample of that id is refused, and needs a new id.

The partition remembers the end of the log of retirements, from ``retirements_window_from`` on, an offset that every
delta records. An id is retired exactly if a retirement of it lies in that part of the log. The part grows at its end.
Its beginning moves only after :data:`limits.RETIRED_IDS` other ids have been retired (retirements.py), and never past
an id that has a row inside the window. Nothing else about a retirement is kept, so that a rebuild from the log finds
the same. If a sample of a retired id comes and no row of that id is held, the retirement counts as one that has waited
for it: nobody can tell any more.

Every admitted sample has one outcome, whatever the batches it came in, and for the longest window

    rows = applied - replaced - expired - withdrawn - (retirements retired - annihilated)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Int32s, Int64s, Steps
from deltaplane.errors import StateMismatch
from deltaplane.exact.statistics import Statistics, moments_of_pieces
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples, Retirement
from deltaplane.window.buffer import RowBuffer
from deltaplane.window.outcomes import RetirementNote, RetirementOutcome, SampleNote, SampleOutcome
from deltaplane.window.retirements import RetirementMemory
from deltaplane.window.sliding import NO_WATERMARK, Arrivals, WindowEdges
from deltaplane.window.sums import WindowSums

__all__ = ["HeldRows", "Partition", "Step"]


@dataclass(frozen=True)
class Step:
    """What one step changed: the ``change`` of the statistics, the outcomes, and their counts.

    ``counts`` has one entry for each outcome (``applied`` includes replacements), and three more: ``expired``, samples
    that left the longest window; ``withdrawn``, samples taken out by a late version; and ``retirements forgotten``.
    ``digest_before`` is the source's digest after the samples of the step and before its retirements, and
    ``digest_after`` the one at its end. Both are None if no retirement had an outcome in this step.
    """

    change: Statistics
    sample_notes: list[SampleNote] = field(default_factory=list)
    retirement_notes: list[RetirementNote] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    digest_before: str | None = None
    digest_after: str | None = None


_APPLIED = str(SampleOutcome.APPLIED)
_DEAD_ON_ARRIVAL = {SampleOutcome.ANNIHILATED, SampleOutcome.RETIRED_ID, SampleOutcome.LATE}
_SAMPLES = {outcome: str(outcome) for outcome in SampleOutcome}
_RETIREMENTS = {outcome: f"retirements {outcome}" for outcome in RetirementOutcome}
"""The keys under which outcomes are counted."""


@dataclass(frozen=True)
class HeldRows:
    """n rows of a partition, in order: ``quantized`` grid rows [n, d], ``codes`` int32[n] index ``labels``.

    ``event_times`` int64[n] are in milliseconds, ``offsets`` int64[n] those of the records that the rows came in.
    """

    ids: list[str]
    labels: tuple[str, ...]
    codes: Int32s
    quantized: Steps
    event_times: Int64s
    offsets: Int64s


@dataclass
class _Resolved:
    """What a batch finds of ids that were seen before.

    ``killed``: slots held before that are no longer current. ``dead_rows``: rows of the batch that are not current from
    the beginning. ``notes``: outcomes of samples. ``receipts``: outcomes of retirements that had waited.
    """

    killed: list[int] = field(default_factory=list)
    dead_rows: set[int] = field(default_factory=set)
    notes: list[SampleNote] = field(default_factory=list)
    receipts: list[RetirementNote] = field(default_factory=list)


class Partition:
    """The window state of one partition. Only ``step`` changes it, apart from ``refill`` after a crash."""

    def __init__(self, definition: StreamDefinition, partition: int) -> None:
        self.definition = definition
        self.partition = partition
        self.watermark = NO_WATERMARK
        self.statistics = Statistics(definition.dimension)
        self._labels: list[str] = []
        self._buffer = RowBuffer(len(definition.features))
        self._edges = WindowEdges(definition.nested_windows, partition, definition.partitions)
        self._windows = range(len(definition.nested_windows.windows))
        self._sums = WindowSums(definition, self._labels, self._buffer, self._edges)
        self._retirements = RetirementMemory()
        # The newest slot of an id in the oldest span of retirements, when it was last looked for; -1 for none.
        self._kept_for_slot = -1
        # If no rows are kept, slots are only counted.
        self._slots = 0

    @property
    def slots(self) -> int:
        """Samples admitted so far: the number of the next slot."""
        return self._buffer.next if self.definition.nested_windows.keep_rows else self._slots

    @property
    def rows_held(self) -> int:
        """The number of rows in memory, those that left the window lately included."""
        return len(self._buffer)

    def window_from(self, samples_to: int) -> int:
        """The offset of the record with the oldest row inside a window, from which a rebuild must read.

        It is ``samples_to``, the offset read up to, if no window has a row.
        """
        slot = self._edges.oldest_inside(self._buffer)
        return self._buffer.offset(slot) if slot < self._buffer.next else samples_to

    def memory_from(self, samples_to: int) -> int:
        """The offset of the record with the oldest row in memory, from which a rebuild reads if the log still has it.

        It is ``samples_to``, the offset read up to, if no row is in memory.
        """
        return self._buffer.offset(self._buffer.first) if len(self._buffer) else samples_to

    def retirements_window_from(self, retirements_to: int) -> int:
        """The offset of the oldest retirement remembered, from which a rebuild must read; else ``retirements_to``."""
        return self._retirements.oldest(retirements_to)

    def is_live(self, sample_id: str) -> bool:
        """Whether a row of this id is counted in the longest window."""
        slot = self._buffer.slot_of(sample_id)
        if slot is None or not self._buffer.is_current(slot):
            return False
        return self._edges.is_inside(slot, self._buffer.time(slot))

    def is_retired(self, sample_id: str) -> bool:
        """Whether an id is retired, whether or not a row of it has come."""
        return self._retirements.first(sample_id) is not None

    def retired(self) -> list[Retirement]:
        """The retirements that are remembered, in order."""
        first = {sample_id: self._retirements.first(sample_id) for sample_id in self._retirements.ids()}
        return [Retirement(sample_id, "", offset) for sample_id, offset in first.items() if offset is not None]

    def held(self, *, live: bool) -> HeldRows:
        """The rows in memory in the order in which they came; with ``live`` those alone that a window counts."""
        buffer = self._buffer
        slots = np.arange(buffer.first, buffer.next, dtype=np.int64)
        if live:
            inside = slots[slots >= self._edges.oldest_inside(buffer)]
            slots = inside[buffer.current(inside)]
        return HeldRows(
            ids=[buffer.id(slot) for slot in slots.tolist()],
            labels=tuple(self._labels),
            codes=buffer.codes(slots).astype(np.int32),
            quantized=buffer.rows(slots),
            event_times=buffer.times(slots),
            offsets=np.array([buffer.offset(slot) for slot in slots.tolist()], dtype=np.int64),
        )

    def step(self, samples: AdmittedSamples, retirements: Sequence[Retirement], watermark: int = NO_WATERMARK) -> Step:
        """The step that applies samples, then expiry, then retirements.

        ``watermark`` is the largest event time that other partitions have seen, in milliseconds.
        """
        counts: Counter[str] = Counter()
        if self.definition.nested_windows.keep_rows:
            change, resolved = self._take_samples(samples, watermark, counts)
        else:
            change, resolved = self._take_without_rows(samples, watermark, counts), _Resolved()
        self.statistics = self.statistics + change
        self._let_go()
        if not retirements and not resolved.receipts:
            return Step(change, resolved.notes, counts=counts)
        before = self.statistics.digest(self.definition.data_fingerprint)
        retired, notes = self._retire(retirements)
        self.statistics = self.statistics + retired
        receipts = resolved.receipts + notes
        for note in receipts:
            counts[_RETIREMENTS[note.outcome]] += 1
        self._forget_retirements(counts)
        after = self.statistics.digest(self.definition.data_fingerprint)
        return Step(change + retired, resolved.notes, receipts, counts, before, after)

    # Samples ---------------------------------------------------------------------------------------------------------

    def _take_samples(
        self, samples: AdmittedSamples, watermark: int, counts: Counter[str]
    ) -> tuple[Statistics, _Resolved]:
        seen = self._seen_before(samples, watermark)
        late = None if seen is None else self._late(samples, seen)
        ids, codes = samples.ids, self._recode(samples)
        resolved = _Resolved()
        ordinary = late is None and self._retirements.holds_none_of(ids)
        new = ordinary and self._buffer.point_if_new(ids)
        if not new:
            resolved = self._resolve(Arrivals(samples, codes, self._buffer.next, late, seen), counts)
        first_new = self._buffer.append(ids, samples.quantized, codes, samples.event_times, samples.offsets, new=new)
        self._edges.announce(first_new, samples.event_times)
        if resolved.dead_rows:
            self._buffer.set_dead(first_new + np.array(sorted(resolved.dead_rows), dtype=np.int64))
        self.watermark = max(self.watermark, watermark)
        if applied := len(ids):
            self.watermark = max(self.watermark, int(samples.event_times.max()))
        for note in resolved.notes:
            counts[_SAMPLES[note.outcome]] += 1
            applied -= note.outcome is not SampleOutcome.REPLACED
        if applied:
            counts[_APPLIED] = applied
        whole = None if resolved.dead_rows else samples
        change = self._sums.move(self.statistics, first_new, self.watermark, resolved.killed, whole, counts)
        return change, resolved

    def _seen_before(self, samples: AdmittedSamples, watermark: int) -> Int64s | None:
        """int64[n]: the watermark just before each row of a batch; None if no window is one of time."""
        if self.definition.nested_windows.longest_milliseconds is None or not len(samples):
            return None
        seen = np.empty(len(samples), dtype=np.int64)
        seen[0] = max(self.watermark, watermark)
        seen[1:] = samples.event_times[:-1]
        return np.maximum.accumulate(seen)

    def _late(self, samples: AdmittedSamples, seen: Int64s) -> Flags | None:
        """bool[n]: the rows that lie outside every window when they come; None if there are none."""
        longest = self.definition.nested_windows.longest_milliseconds or 0
        late = samples.event_times + longest <= seen
        return late if late.any() else None

    def _resolve(self, arrivals: Arrivals, counts: Counter[str]) -> _Resolved:
        """What the rows of a batch find of ids seen before, as if every row were a batch of its own."""
        resolved = _Resolved()
        latest: dict[str, int] = {}
        for row, sample_id in enumerate(arrivals.samples.ids):
            earlier = latest.get(sample_id)
            slot = self._buffer.slot_of(sample_id) if earlier is None else arrivals.first + earlier
            latest[sample_id] = row
            retired_at = self._retirements.first(sample_id)
            outcome = SampleOutcome.APPLIED
            if retired_at is not None:
                outcome = SampleOutcome.ANNIHILATED if slot is None else SampleOutcome.RETIRED_ID
                if slot is None:
                    resolved.receipts.append(RetirementNote(sample_id, retired_at, RetirementOutcome.RETIRED))
            elif earlier is not None:
                if earlier not in resolved.dead_rows:
                    outcome = self._supersede(arrivals, row, arrivals.first + earlier, counts)
                    resolved.dead_rows.add(earlier)
            elif slot is not None and self._buffer.is_current(slot):
                outcome = self._supersede(arrivals, row, slot, counts)
                resolved.killed.append(slot)
            if retired_at is None and arrivals.is_late(row):
                outcome = SampleOutcome.LATE
            if outcome in _DEAD_ON_ARRIVAL:
                resolved.dead_rows.add(row)
            if outcome is not SampleOutcome.APPLIED:
                resolved.notes.append(SampleNote(row, outcome))
        return resolved

    def _supersede(self, arrivals: Arrivals, row: int, slot: int, counts: Counter[str]) -> SampleOutcome:
        """The outcome of a row whose id has an older version at ``slot``, which is not retired.

        The slot is held already, or belongs to an earlier row of the same batch.
        """
        earlier = slot - arrivals.first
        time = int(arrivals.samples.event_times[earlier]) if earlier >= 0 else self._buffer.time(slot)
        if not self._edges.will_be_inside(slot, time, arrivals.first + row, arrivals.watermark_before(row)):
            if earlier >= 0 or self._edges.is_inside(slot, time):
                # The older version left the window within this batch, before the new one came.
                counts["expired"] += 1
            return SampleOutcome.APPLIED
        if arrivals.is_late(row):
            counts["withdrawn"] += 1
        if earlier >= 0:
            same = arrivals.same(earlier, row)
        else:
            samples = arrivals.samples
            same = self._buffer.same_content(
                slot, samples.quantized[row], int(arrivals.codes[row]), int(samples.event_times[row])
            )
        return SampleOutcome.DUPLICATE if same else SampleOutcome.REPLACED

    def _recode(self, samples: AdmittedSamples) -> Int32s:
        """The class codes int32[n] of a batch as positions in this partition's labels, which grow as needed."""
        if samples.labels == self._labels or not len(samples):
            return samples.codes
        self._labels.extend(label for label in samples.labels if label not in self._labels)
        assert len(self._labels) <= limits.CLASSES, "a partition admits no more labels than that"
        table = np.array([self._labels.index(label) for label in samples.labels], dtype=np.int32)
        return table[samples.codes]

    def _let_go(self) -> None:
        until = self._edges.oldest_inside(self._buffer) - limits.EXPIRED_ROWS_REMEMBERED
        if until > self._buffer.first:
            self._buffer.forget_below(until)
            self._sums.forget_below(until)

    # Retirements -----------------------------------------------------------------------------------------------------

    def _retire(self, retirements: Sequence[Retirement]) -> tuple[Statistics, list[RetirementNote]]:
        notes = []
        killed: list[int] = []
        change = Statistics(self.definition.dimension)
        for retirement in retirements:
            if not self.definition.nested_windows.keep_rows:
                outcome = RetirementOutcome.UNKNOWN
            elif self._retirements.first(retirement.id) is not None:
                outcome = RetirementOutcome.DUPLICATE
                self._retirements.add(retirement)
            else:
                outcome = self._retire_slot(retirement, killed)
                self._retirements.add(retirement)
            notes.append(RetirementNote(retirement.id, retirement.offset, outcome))
        if killed:
            change = change - self._sums.kill(killed)
        return change, notes

    def _retire_slot(self, retirement: Retirement, killed: list[int]) -> RetirementOutcome:
        slot = self._buffer.slot_of(retirement.id)
        if slot is None:
            return RetirementOutcome.WAITING
        if not self._buffer.is_current(slot) or not self._edges.is_inside(slot, self._buffer.time(slot)):
            return RetirementOutcome.EXPIRED
        killed.append(slot)
        return RetirementOutcome.RETIRED

    def _forget_retirements(self, counts: Counter[str]) -> None:
        """Forget the oldest spans of retirements beyond the limit, up to the first span that is still needed.

        A span is needed if a window still holds a row of one of its ids. Later spans must stay then, too: the memory is
        one part of the log without gaps, so that a rebuild that reads it finds the same.
        """
        while self._retirements.beyond_limits:
            # Mostly the slot found last time is still inside, and no id need be looked up.
            if self._kept_for_slot < (oldest := self._edges.oldest_inside(self._buffer)):
                self._kept_for_slot = max(map(self._slot_or_none, self._retirements.oldest_ids))
            if self._kept_for_slot >= oldest:
                break
            self._kept_for_slot = -1
            if forgotten := self._retirements.forget_oldest():
                counts["retirements forgotten"] += forgotten

    def _slot_or_none(self, sample_id: str) -> int:
        slot = self._buffer.slot_of(sample_id)
        return -1 if slot is None else slot

    # Without rows ----------------------------------------------------------------------------------------------------

    def _take_without_rows(self, samples: AdmittedSamples, watermark: int, counts: Counter[str]) -> Statistics:
        """The change by a batch if the stream keeps no rows: every sample is applied, whatever its id."""
        if len(samples):
            counts[_APPLIED] += len(samples)
            self.watermark = max(self.watermark, int(samples.event_times.max()))
        self.watermark = max(self.watermark, watermark)
        self._slots += len(samples)
        # Such windows have all units of a map.
        parts = moments_of_pieces(samples.mapped(), samples.codes, samples.labels)
        return Statistics(
            self.definition.dimension, {(w, label): part for label, part in parts.items() for w in self._windows}
        )

    # Rebuilding ------------------------------------------------------------------------------------------------------

    def refill(self, samples: AdmittedSamples, retirements: Sequence[Retirement]) -> None:
        """Put rows and retirements from before the accepted position back; :meth:`finish_refill` makes them count."""
        if self.definition.nested_windows.keep_rows:
            earlier = [slot for i in samples.ids if (slot := self._buffer.slot_of(i)) is not None]
            self._buffer.set_dead(np.array(earlier, dtype=np.int64))
            first_new = self._buffer.append(
                samples.ids, samples.quantized, self._recode(samples), samples.event_times, samples.offsets
            )
            self._kill_earlier_versions(samples.ids, first_new)
            for retirement in retirements:
                self._retirements.add(retirement)

    def _kill_earlier_versions(self, ids: Sequence[str], first_new: int) -> None:
        if len(set(ids)) < len(ids):
            dead = [first_new + row for row, i in enumerate(ids) if self._buffer.slot_of(i) != first_new + row]
            self._buffer.set_dead(np.array(dead, dtype=np.int64))

    def finish_refill(self, slots_to: int, watermark: int, accepted: Statistics) -> None:
        """Put the windows where they stood at the accepted position, once all before it has been refilled.

        ``slots_to`` samples had been admitted there, and ``watermark`` had been reached. Raises :class:`StateMismatch`
        if the rows do not give the ``accepted`` statistics, bit for bit.
        """
        buffer = self._buffer
        self.watermark = watermark
        self._slots = slots_to
        if not self.definition.nested_windows.keep_rows:
            self.statistics = accepted
            return
        buffer.renumber(slots_to - len(buffer))
        self._edges = WindowEdges(
            self.definition.nested_windows, self.partition, self.definition.partitions, buffer.first
        )
        slots = np.arange(buffer.first, buffer.next, dtype=np.int64)
        self._sums = WindowSums(self.definition, self._labels, buffer, self._edges)
        self._edges.announce(buffer.first, buffer.times(slots))
        self._edges.advance(buffer.next, watermark)
        retired = [slot for i in self._retirements.ids() if (slot := buffer.slot_of(i)) is not None]
        buffer.set_dead(np.array(retired, dtype=np.int64))
        current = slots[buffer.current(slots)]
        rebuilt = self._sums.of(current)
        if rebuilt != accepted:
            raise StateMismatch(
                f"rebuild of partition {self.partition}: expected the accepted statistics {accepted!r},"
                f" got {rebuilt!r} from the log; samples or retirements were lost or altered; run an audit"
            )
        self.statistics = rebuilt
        self._let_go()

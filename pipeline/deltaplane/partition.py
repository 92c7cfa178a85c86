"""The state of one partition: its rows, its windows, its retirements, and the exact change that each step makes.

The state after (samples up to offset a, retirements up to offset b) is *one* state, however the two logs interleaved:

    live(a, b) = last versions of their ids among samples[..a] inside the window,  minus  ids in retirements[..b]

so a retirement that overtakes its sample waits for it, a worker may batch as it likes, and a worker that crashed finds
the same state again by reading the same logs. Three rules make this hold:

- every admitted sample takes a slot, retired or repeated or not, so that expiry depends on samples alone;
- the last version of an id is the one that counts, and one sent again unchanged is the last version all the same;
- a retired id stays retired, and a later sample under it is refused by name: use a new id.

Retired ids are remembered back to ``retirements_window_from``, which is recorded in every delta. It moves only when
:data:`limits.RETIRED_IDS` is exceeded, and never past an id inside the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.definition import StreamDefinition
from deltaplane.errors import StateMismatch
from deltaplane.sample import AdmittedSamples, Retirement
from deltaplane.statistics import Statistics, moments_by_class
from deltaplane.window import NO_WATERMARK, RowBuffer, WindowEdges

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class SampleOutcome(StrEnum):
    """What became of a sample that was admitted."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    REPLACED = "replaced"
    LATE = "late"
    ANNIHILATED = "annihilated"
    RETIRED_ID = "retired id"


class RetirementOutcome(StrEnum):
    """What became of a retirement."""

    RETIRED = "retired"
    WAITING = "waiting"
    DUPLICATE = "duplicate"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class RetirementNote:
    """The outcome of the retirement at ``offset`` of the retirements log."""

    id: str
    offset: int
    outcome: RetirementOutcome


@dataclass(frozen=True)
class SampleNote:
    """The outcome of one admitted sample that was not simply applied; ``row`` counts among the admitted."""

    row: int
    outcome: SampleOutcome


@dataclass(frozen=True)
class Step:
    """What one step changed.

    ``counts`` has one entry an outcome (``applied`` includes replacements), and ``expired``: samples that left their
    longest window. ``digest_before`` is the source's digest after the samples of the step and before its retirements,
    ``digest_after`` the one at its end; both are None where nothing was retired.
    """

    change: Statistics
    sample_notes: list[SampleNote] = field(default_factory=list)
    retirement_notes: list[RetirementNote] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    digest_before: str | None = None
    digest_after: str | None = None


class Partition:
    """One partition's window state. ``step`` is the only way it changes, apart from ``refill`` after a crash."""

    def __init__(self, definition: StreamDefinition, partition: int) -> None:
        self.definition = definition
        self.partition = partition
        self.watermark = NO_WATERMARK
        self.statistics = Statistics(definition.dimension)
        self._labels: list[str] = []
        self._buffer = RowBuffer(len(definition.features))
        self._edges = WindowEdges(definition.ladder, partition, definition.partitions)
        self._retired: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        # Without rows slots are only counted.
        self._slots = 0
        spans = [window.length for window in definition.ladder.windows]
        self._longest = max(range(len(spans)), key=lambda w: 2**62 if definition.ladder.windows[w].kind == "all" else spans[w])

    @property
    def slots(self) -> int:
        """Samples admitted so far: the number of the next slot."""
        return self._buffer.next if self.definition.ladder.keep_rows else self._slots

    @property
    def rows_held(self) -> int:
        """Rows in memory, those just behind the window included."""
        return len(self._buffer)

    @property
    def waiting_retirements(self) -> int:
        """Retirements whose sample has not come."""
        return len(self._waiting)

    def window_from(self, samples_to: int) -> int:
        """Offset of the record that brought the oldest row inside a window: a rebuild must read from there."""
        slot = self._edges.oldest_inside(self._buffer)
        return self._buffer.offset(slot) if slot < self._buffer.next else samples_to

    def memory_from(self, samples_to: int) -> int:
        """Offset of the record that brought the oldest row held: a rebuild reads from there if it still can."""
        return self._buffer.offset(self._buffer.first) if len(self._buffer) else samples_to

    def retirements_window_from(self, retirements_to: int) -> int:
        """Offset of the oldest retirement remembered: a rebuild must read from there."""
        return next(iter(self._retired.values()), retirements_to)

    def live_ids(self) -> list[str]:
        """Ids of the rows counted in the longest window, oldest first."""
        slots = np.arange(self._buffer.first, self._buffer.next, dtype=np.int64)
        inside = self._edges.inside(self._longest, slots, self._buffer.times(slots))
        return [self._buffer.id(slot) for slot in slots[inside & self._buffer.current(slots)].tolist()]

    def step(
        self, samples: AdmittedSamples, retirements: Sequence[Retirement], watermark: int = NO_WATERMARK
    ) -> Step:
        """Apply samples, then what leaves the windows, then retirements; ``watermark`` is what other partitions saw."""
        counts: Counter[str] = Counter()
        if self.definition.ladder.keep_rows:
            change, sample_notes, receipts = self._take_samples(samples, watermark, counts)
        else:
            change, sample_notes, receipts = self._take_without_rows(samples, watermark, counts), [], []
        self.statistics = self.statistics + change
        before = None
        if retirements or receipts:
            before = self.statistics.digest(self.definition.data_fingerprint)
        if retirements:
            retired, notes = self._retire(retirements)
            self.statistics = self.statistics + retired
            change = change + retired
            receipts = receipts + notes
        receipts = receipts + self._forget_retirements()
        after = self.statistics.digest(self.definition.data_fingerprint) if before is not None else None
        counts.update(f"retirements {note.outcome}" for note in receipts)
        self._let_go()
        return Step(change, sample_notes, receipts, counts, before, after)

    # Samples ---------------------------------------------------------------------------------------------------------

    def _take_samples(
        self, samples: AdmittedSamples, watermark: int, counts: Counter[str]
    ) -> tuple[Statistics, list[SampleNote], list[RetirementNote]]:
        late = self._late(samples, watermark)
        sample_notes: list[SampleNote] = []
        receipts: list[RetirementNote] = []
        dead_rows: list[int] = []
        killed: list[int] = []
        ids = samples.ids
        if late.any() or not (
            self._buffer.holds_none_of(ids) and len(set(ids)) == len(ids) and self._retired.keys().isdisjoint(ids)
        ):
            killed, dead_rows, sample_notes, receipts = self._resolve(samples, late)
        first_new = self._append(samples, late, dead_rows)
        self.watermark = max(self.watermark, watermark, int(samples.event_times.max()) if len(samples) else NO_WATERMARK)
        change = self._move_windows(first_new, np.array(killed, dtype=np.int64), counts)
        exceptions = Counter(note.outcome for note in sample_notes)
        counts.update({str(outcome): number for outcome, number in exceptions.items()})
        applied = len(samples) - exceptions.total() + exceptions[SampleOutcome.REPLACED]
        if applied:
            counts[str(SampleOutcome.APPLIED)] += applied
        return change, sample_notes, receipts

    def _late(self, samples: AdmittedSamples, watermark: int) -> Flags:
        """bool[n]: rows that lie outside every window on arrival, by the largest event time seen before each."""
        longest = self.definition.ladder.longest_milliseconds
        if longest is None or not len(samples):
            return np.zeros(len(samples), dtype=np.bool_)
        seen = np.concatenate(([max(self.watermark, watermark)], samples.event_times[:-1]))
        return samples.event_times + longest <= np.maximum.accumulate(seen)

    def _resolve(
        self, samples: AdmittedSamples, late: Flags
    ) -> tuple[list[int], list[int], list[SampleNote], list[RetirementNote]]:
        """Row by row, what ids seen before mean: (slots replaced, rows dead on arrival, notes, receipts)."""
        killed: list[int] = []
        dead_rows: list[int] = []
        notes: list[SampleNote] = []
        receipts: list[RetirementNote] = []
        latest: dict[str, int] = {}
        codes = self._recode(samples)
        for row, (sample_id, is_late) in enumerate(zip(samples.ids, late.tolist(), strict=True)):
            earlier_row = latest.get(sample_id)
            slot = self._buffer.slot_of(sample_id) if earlier_row is None else None
            if sample_id in self._retired:
                seen = earlier_row is not None or slot is not None
                notes.append(SampleNote(row, SampleOutcome.RETIRED_ID if seen else SampleOutcome.ANNIHILATED))
                if sample_id in self._waiting:
                    receipts.append(
                        RetirementNote(sample_id, self._waiting.pop(sample_id), RetirementOutcome.RETIRED)
                    )
                dead_rows.append(row)
            else:
                same = replaced = False
                if earlier_row is not None and not late[earlier_row]:
                    dead_rows.append(earlier_row)
                    replaced, same = True, _same_row(samples, earlier_row, row)
                elif slot is not None and self._buffer.is_current(slot):
                    killed.append(slot)
                    time = int(self._buffer.times(np.array([slot]))[0])
                    replaced = self._edges.inside_any(slot, time)
                    same = replaced and self._buffer.same_content(
                        slot, samples.placed[row], int(codes[row]), int(samples.event_times[row])
                    )
                if is_late:
                    notes.append(SampleNote(row, SampleOutcome.LATE))
                elif replaced:
                    notes.append(SampleNote(row, SampleOutcome.DUPLICATE if same else SampleOutcome.REPLACED))
            latest[sample_id] = row
        return killed, dead_rows, notes, receipts

    def _recode(self, samples: AdmittedSamples) -> npt.NDArray[np.int32]:
        """The class codes of a batch int32[n] as indices of this partition's labels, which grow as needed."""
        self._labels.extend(label for label in samples.labels if label not in self._labels)
        table = np.array([self._labels.index(label) for label in samples.labels], dtype=np.int32)
        return table[samples.codes] if len(samples) else samples.codes

    def _append(self, samples: AdmittedSamples, late: Flags, dead_rows: list[int]) -> int:
        """Give every row that is not late a slot; the first of them is returned."""
        ids, codes = samples.ids, self._recode(samples)
        placed, times, offsets = samples.placed, samples.event_times, samples.offsets
        dead = np.zeros(len(samples), dtype=np.bool_)
        dead[dead_rows] = True
        if late.any():
            kept = np.flatnonzero(~late)
            ids = [ids[row] for row in kept.tolist()]
            placed, codes, times, offsets, dead = placed[kept], codes[kept], times[kept], offsets[kept], dead[kept]
        first_new = self._buffer.append(ids, placed, codes, times, offsets)
        self._edges.announce(first_new, times)
        if dead.any():
            self._buffer.set_dead(first_new + np.flatnonzero(dead).astype(np.int64))
        return first_new

    def _move_windows(self, first_new: int, killed: Int64s, counts: Counter[str]) -> Statistics:
        """The change of every window: killed slots out, slots left behind out, new current slots in."""
        buffer, edges = self._buffer, self._edges
        windows = range(len(self.definition.ladder.windows))
        killed_times = buffer.times(killed)
        leaving = [[killed[edges.inside(w, killed, killed_times)]] for w in windows]
        buffer.set_dead(killed)
        new = np.arange(first_new, buffer.next, dtype=np.int64)
        new = new[buffer.current(new)]
        new_times = buffer.times(new)
        for w, left in enumerate(edges.advance(buffer.next, self.watermark)):
            old = left[left < first_new]
            leaving[w].append(old[buffer.current(old)])
        change = Statistics(self.definition.dimension)
        for w in windows:
            entering = new[edges.inside(w, new, new_times)]
            change = change + self._sums(w, entering) - self._sums(w, np.concatenate(leaving[w]))
            if w == self._longest:
                expired = len(leaving[w][1]) + len(new) - len(entering)
                if expired:
                    counts["expired"] += expired
        return change

    def _sums(self, window: int, slots: Int64s) -> Statistics:
        """The statistics of some held slots, as rows of one window."""
        parts = moments_by_class(self._buffer.rows(slots), self._buffer.codes(slots), self._labels)
        return Statistics(self.definition.dimension, {(window, label): part for label, part in parts.items()})

    def _let_go(self) -> None:
        until = self._edges.oldest_inside(self._buffer) - limits.EXPIRED_ROWS_REMEMBERED
        if until > self._buffer.first:
            self._buffer.let_go(until)
            self._edges.let_go(until)

    # Retirements -----------------------------------------------------------------------------------------------------

    def _retire(self, retirements: Sequence[Retirement]) -> tuple[Statistics, list[RetirementNote]]:
        notes = []
        killed: list[int] = []
        change = Statistics(self.definition.dimension)
        for retirement in retirements:
            if retirement.id in self._retired:
                outcome = RetirementOutcome.DUPLICATE
            elif not self.definition.ladder.keep_rows:
                outcome, part = self._retire_content(retirement, change)
                change = change - part
            else:
                outcome = self._retire_slot(retirement, killed)
            self._remember(retirement)
            notes.append(RetirementNote(retirement.id, retirement.offset, outcome))
        slots = np.array(killed, dtype=np.int64)
        times = self._buffer.times(slots)
        for w in range(len(self.definition.ladder.windows)):
            change = change - self._sums(w, slots[self._edges.inside(w, slots, times)])
        self._buffer.set_dead(slots)
        return change, notes

    def _remember(self, retirement: Retirement) -> None:
        """Keep retired ids in the order of their *last* retirement, so that reading from any offset on finds the same."""
        self._retired.pop(retirement.id, None)
        self._retired[retirement.id] = retirement.offset

    def _retire_slot(self, retirement: Retirement, killed: list[int]) -> RetirementOutcome:
        slot = self._buffer.slot_of(retirement.id)
        if slot is None:
            self._waiting[retirement.id] = retirement.offset
            return RetirementOutcome.WAITING
        time = int(self._buffer.times(np.array([slot]))[0])
        if not self._buffer.is_current(slot) or not self._edges.inside_any(slot, time):
            return RetirementOutcome.EXPIRED
        killed.append(slot)
        return RetirementOutcome.RETIRED

    def _retire_content(self, retirement: Retirement, change: Statistics) -> tuple[RetirementOutcome, Statistics]:
        """Retirement by content (paper 1's X_r): the row's own Gram matrix, taken out of every window."""
        nothing = Statistics(self.definition.dimension)
        if retirement.features is None or retirement.label is None:
            return RetirementOutcome.UNKNOWN, nothing
        label = self.definition.classes.class_of(retirement.label)
        values = np.array([retirement.features], dtype=np.float64)
        if self.definition.missing == "offset":
            values = np.where(np.isnan(values), self.definition.grid.offsets, values)
        placed, fits = self.definition.grid.place(values)
        held = (self.statistics + change).counts(self._longest)
        if label is None or not fits[0] or held.get(label, 0) < 1:
            return RetirementOutcome.UNKNOWN, nothing
        parts = moments_by_class(placed, np.zeros(1, dtype=np.int32), [label])
        windows = range(len(self.definition.ladder.windows))
        return RetirementOutcome.RETIRED, Statistics(
            self.definition.dimension, {(w, label): parts[label] for w in windows}
        )

    def _forget_retirements(self) -> list[RetirementNote]:
        """Let go of the oldest retired ids beyond the limit, up to the first that is of a row inside the window."""
        notes = []
        while len(self._retired) > limits.RETIRED_IDS:
            sample_id, offset = next(iter(self._retired.items()))
            slot = self._buffer.slot_of(sample_id)
            if slot is not None and slot >= self._edges.oldest_inside(self._buffer):
                break
            del self._retired[sample_id]
            if self._waiting.pop(sample_id, None) is not None:
                notes.append(RetirementNote(sample_id, offset, RetirementOutcome.UNKNOWN))
        return notes

    # Without rows ----------------------------------------------------------------------------------------------------

    def _take_without_rows(self, samples: AdmittedSamples, watermark: int, counts: Counter[str]) -> Statistics:
        """Windows over everything that hold no rows: every sample is applied, ids are not looked at."""
        if len(samples):
            counts[str(SampleOutcome.APPLIED)] += len(samples)
            self.watermark = max(self.watermark, int(samples.event_times.max()))
        self.watermark = max(self.watermark, watermark)
        self._slots += len(samples)
        parts = moments_by_class(samples.placed, samples.codes, samples.labels)
        windows = range(len(self.definition.ladder.windows))
        return Statistics(
            self.definition.dimension, {(w, label): part for label, part in parts.items() for w in windows}
        )

    # Rebuilding ------------------------------------------------------------------------------------------------------

    def refill(self, samples: AdmittedSamples, retirements: Sequence[Retirement]) -> None:
        """Read again what lies before the accepted position; nothing is counted until :meth:`finish_refill`."""
        if self.definition.ladder.keep_rows:
            if not self._buffer.holds_none_of(samples.ids):
                earlier = [slot for i in samples.ids if (slot := self._buffer.slot_of(i)) is not None]
                self._buffer.set_dead(np.array(earlier, dtype=np.int64))
            first_new = self._buffer.append(
                samples.ids, samples.placed, self._recode(samples), samples.event_times, samples.offsets
            )
            self._kill_earlier_versions(samples.ids, first_new)
        for retirement in retirements:
            self._remember(retirement)

    def _kill_earlier_versions(self, ids: Sequence[str], first_new: int) -> None:
        if len(set(ids)) < len(ids):
            dead = [first_new + row for row, i in enumerate(ids) if self._buffer.slot_of(i) != first_new + row]
            self._buffer.set_dead(np.array(dead, dtype=np.int64))

    def finish_refill(self, slots_to: int, watermark: int, accepted: Statistics) -> None:
        """Put the windows where they stood at the accepted position.

        Raises :class:`StateMismatch` where the rows read again do not give the accepted statistics, bit for bit.
        """
        buffer = self._buffer
        self.watermark = watermark
        self._slots = slots_to
        if not self.definition.ladder.keep_rows:
            self.statistics = accepted
            return
        buffer.renumber(slots_to - len(buffer))
        self._edges = WindowEdges(self.definition.ladder, self.partition, self.definition.partitions, buffer.first)
        slots = np.arange(buffer.first, buffer.next, dtype=np.int64)
        self._edges.announce(buffer.first, buffer.times(slots))
        self._edges.advance(buffer.next, watermark)
        held = [(sample_id, buffer.slot_of(sample_id)) for sample_id in self._retired]
        buffer.set_dead(np.array([slot for _, slot in held if slot is not None], dtype=np.int64))
        self._waiting = {sample_id: self._retired[sample_id] for sample_id, slot in held if slot is None}
        current = slots[buffer.current(slots)]
        times = buffer.times(current)
        rebuilt = Statistics(self.definition.dimension)
        for w in range(len(self.definition.ladder.windows)):
            rebuilt = rebuilt + self._sums(w, current[self._edges.inside(w, current, times)])
        if rebuilt != accepted:
            raise StateMismatch(
                f"rebuild of partition {self.partition}: expected the accepted statistics {accepted!r},"
                f" got {rebuilt!r} from the log; samples or retirements were lost or altered; run an audit"
            )
        self.statistics = rebuilt
        self._let_go()


def _same_row(samples: AdmittedSamples, a: int, b: int) -> bool:
    """Whether two rows of one batch have the same grid row, class and event time."""
    return bool(
        samples.codes[a] == samples.codes[b]
        and samples.event_times[a] == samples.event_times[b]
        and np.array_equal(samples.placed[a], samples.placed[b])
    )

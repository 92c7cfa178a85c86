"""The state of a source computed anew from its input logs, and compared with what its deltas say.

The state is its live rows, its watermark, and the offsets from which a rebuild must read. Whoever may write deltas may
forge them, in such a way that all their fields agree. So an account starts with nothing, at the beginning of the logs,
and takes only one thing from the deltas: how far they have read. All else is computed, and compared.

Three things cannot be computed, and are checked against bounds instead:

- how far event time has come elsewhere: no further than a row of some log (see :func:`account_of_site`);
- the slot of the first row, if the log has lost its beginning: panes end by it;
- when retirements were forgotten: no earlier than the rule allows, which remembers the last ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from deltaplane import limits
from deltaplane.errors import LogDisorder
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Rebuild, Source, SourceState
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane_services.processors.intake import Intake
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.worker_processor import WorkerProcessor

__all__ = ["LostRows", "RecomputedSource", "SiteLog", "account_of", "account_of_site"]


class SiteLog(Protocol):
    """The samples and retirements of one site."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """(the first offset that a partition still has, the offset that its next record will get)."""

    def batches(self, topic: str, partition: int, start: int, stop: int) -> Iterable[Sequence[Record]]:
        """The records of a partition from offset ``start`` to before ``stop``, in order, none of the batches empty."""


@dataclass(frozen=True)
class RecomputedSource:
    """The state of a source as its logs give it, which begin at ``samples_from`` and ``retirements_from``.

    - ``newest``: the largest event time of its own rows, in milliseconds.
    - ``faults``: each difference between the logs and the deltas, in words.
    - ``believed``: what is taken from the deltas unchecked, since the logs no longer show it, in words.
    - ``live``: of the ids that were asked for, those that have a live row.
    - ``notes``: what was done besides, in words.
    """

    statistics: Statistics
    newest: int
    samples_from: int
    retirements_from: int
    faults: tuple[str, ...]
    believed: tuple[str, ...]
    live: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def account_of(
    definition: StreamDefinition,
    accepted: SourceState,
    log: SiteLog,
    asked: Collection[str] = (),
    most_watermark: int = limits.POSITION,
) -> RecomputedSource:
    """The account of one source at the position of its ``accepted`` state.

    ``asked``: ids of which the account says whether they are live. ``most_watermark``: the largest event time that any
    row can have, in milliseconds; a watermark of the deltas beyond it is cut down to it.
    """
    reading = _Reading(definition, accepted, log, most_watermark)
    try:
        reading.read()
    except LogDisorder as found:
        reading.faults.append(str(found))
    else:
        reading.compare()
    partition = reading.processor.partition
    return RecomputedSource(
        statistics=partition.statistics,
        newest=reading.newest,
        samples_from=reading.begins[0],
        retirements_from=reading.begins[1],
        faults=tuple(reading.faults),
        believed=tuple(reading.believed),
        live=frozenset(sample_id for sample_id in asked if partition.is_live(sample_id)),
    )


class _Reading:
    """The logs of one source, read from their beginning to the accepted position, several times if necessary."""

    def __init__(self, definition: StreamDefinition, accepted: SourceState, log: SiteLog, most_watermark: int) -> None:
        self.definition = definition
        self.accepted = accepted
        self.log = log
        self.most_watermark = most_watermark
        self.faults: list[str] = []
        self.believed: list[str] = []
        self.newest = NO_WATERMARK
        bounds = [log.bounds(topic, accepted.source.partition) for topic in (SAMPLES, RETIREMENTS)]
        self.begins, self.ends = [begin for begin, _ in bounds], [end for _, end in bounds]
        self.processor = WorkerProcessor(definition, accepted.source, "audit")
        # Whether no offset is missing between the records, and whether the log has never lost any.
        self._gapless = self._whole = False
        # What the reading began with: the slot of the first row, and the labels taken from the deltas.
        self._slot = 0
        self._told_labels: tuple[str, ...] = ()
        self._labels: list[str] = []
        # The labels that a reading gave that began without labels from the deltas.
        self._labels_found: set[str] = set()
        self._longest = definition.nested_windows.windows[definition.nested_windows.longest]
        self._counts = definition.nested_windows.counted
        share = self._longest.share(accepted.source.partition, definition.partitions)
        self._share = limits.POSITION if self._longest.endless else share

    # Reading ---------------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Put samples, then retirements, through a new worker. Raises :class:`LogDisorder`."""
        self._check_bounds()
        retirements_from = self._retirements_from()
        self._read_samples(retirements_from)
        while self._must_begin_otherwise():
            self._read_samples(retirements_from)
        claimed = self.accepted.rebuild.watermark
        if self.definition.nested_windows.timed:
            if claimed < self.newest:
                self._fault("watermark", claimed, f"{self.newest}, the largest event time of its own rows")
            self.processor.hear(min(claimed, self.most_watermark))
            self.processor.process([], [])
        for batch in self._batches(RETIREMENTS, retirements_from, self.accepted.retirements_position):
            self.processor.process([], batch)

    def _batches(self, topic: str, start: int, stop: int) -> Iterable[Sequence[Record]]:
        return self.log.batches(topic, self.accepted.source.partition, start, stop)

    def _read_samples(self, retirements_from: int) -> None:
        """Put all samples through a new worker, which begins at slot ``_slot`` and with the labels ``_told_labels``."""
        nothing, labels = Statistics(self.definition.dimension), self._told_labels
        rebuild = Rebuild(slots_to=self._slot)
        self.processor = WorkerProcessor(self.definition, self.accepted.source, "audit")
        self.processor.restore(SourceState(self.accepted.source, nothing, sequence=1, rebuild=rebuild, labels=labels))
        self.processor.skip_to(self.begins[0], retirements_from)
        self._labels = list(labels)
        expected, self._gapless = self.begins[0], True
        for batch in self._batches(SAMPLES, self.begins[0], self.accepted.samples_position):
            self._gapless = self._gapless and batch[-1].offset + 1 == expected + len(batch)
            expected = batch[-1].offset + 1
            for made in self.processor.process(batch, []).then:
                if isinstance(made.message, Delta):
                    self._labels.extend(made.message.labels)
        self._gapless = self._gapless and expected >= self.accepted.samples_position
        self._whole = self._gapless and self.begins[0] == 0
        self.newest = self.processor.partition.watermark

    def _must_begin_otherwise(self) -> bool:
        """Whether the samples must be read again, with labels or a first slot that only the deltas still show.

        That is so if rows which the log has lost had set them.
        """
        told = self.accepted
        if self._whole:
            return False
        if self.definition.classes.are_open and self._told_labels != told.labels != tuple(self._labels):
            self._told_labels, self._labels_found = told.labels, set(self._labels)
            return True
        before = (told.rebuild.slots_to - self.processor.partition.slots) % self.definition.nested_windows.pane_rows
        if before and not self._slot:
            self._slot = before
            return True
        return False

    # The beginnings --------------------------------------------------------------------------------------------------

    def _check_bounds(self) -> None:
        """Add a fault unless the logs reach from where a rebuild must begin to where the deltas have read."""
        state, rebuild = self.accepted, self.accepted.rebuild
        keeps = self.definition.nested_windows.keep_rows
        if not keeps and max(self.begins):
            self.faults.append(
                f"the log begins at samples {self.begins[0]} and retirements {self.begins[1]}, and a window over"
                " everything that keeps no rows can only be checked from the first; it cannot be checked any more"
            )
        elif state.begun:
            for deleted, begin, needed in (
                ("live rows", self.begins[0], rebuild.window_from),
                ("retirements of ids that stay retired", self.begins[1], rebuild.retirements_window_from),
            ):
                if begin > needed:
                    self.faults.append(
                        f"a rebuild needs the log from offset {needed}, it begins at {begin}; retention has deleted"
                        f" {deleted}"
                    )
        if self.ends[0] < state.samples_position or self.ends[1] < state.retirements_position:
            self.faults.append(
                f"the log ends at samples {self.ends[0]} and retirements {self.ends[1]}, the model contains"
                f" {state.samples_position} and {state.retirements_position}; were topics made anew?"
            )

    def _retirements_from(self) -> int:
        """The offset from which to read retirements: that of their log's beginning, unless a worker forgets some."""
        begin, end = self.begins[1], self.accepted.retirements_position
        if end - begin <= limits.RETIRED_IDS or not self.definition.nested_windows.keep_rows:
            return begin
        last: dict[str, int] = {}
        forgotten, since, told = 0, 0, self.accepted.rebuild.retirements_window_from
        for batch in self._batches(RETIREMENTS, begin, end):
            for one in Intake(self.definition, self.accepted.source.partition).take([], batch).retirements:
                forgotten += one.offset < told
                since += one.offset >= told
                last.pop(one.id, None)
                last[one.id] = one.offset
                if len(last) > limits.RETIRED_IDS:
                    del last[next(iter(last))]
        # The last ids are remembered in any case. Which earlier ones are remembered only the worker knew.
        remembered_from = next(iter(last.values()), told)
        if told > remembered_from and since < limits.RETIREMENTS_OF_BEFORE:
            return remembered_from
        if forgotten:
            self.believed.append(
                f"that the ids of {forgotten:,} retirements before offset {told} were forgotten, as is due beyond the"
                f" last {limits.RETIRED_IDS:,}, before any live row came under one of them"
            )
        return max(begin, told)

    # Comparing -------------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Compare what was read with what the deltas say, and add each difference to the faults."""
        self._compare_sums()
        self._compare_slots()
        self._compare_labels()
        if self.definition.nested_windows.keep_rows:
            self._compare_window()
            self._compare_retirements()

    def _compare_sums(self) -> None:
        """Compare the statistics, bit for bit."""
        found, told = self.processor.partition.statistics, self.accepted.statistics
        if found != told:
            self.faults.append(f"the log gives {found!r}, the model contains {told!r}{self._in_rows()}")

    def _compare_retirements(self) -> None:
        """Compare the offset from which a rebuild reads retirements."""
        told = self.accepted.rebuild.retirements_window_from
        found = self.processor.partition.retirements_window_from(self.accepted.retirements_position)
        if told > found:
            self._fault(
                "retirements_window_from",
                told,
                f"{found}, the oldest retirement to be remembered: what was retired before could come back",
            )

    def _fault(self, name: str, told: int, found: str) -> None:
        self.faults.append(f"{name}: deltas say {told}, the log says {found}")

    def _in_rows(self) -> str:
        """The number of rows that the model has too many or too few in the longest window, by class, in words."""
        longest = self.definition.nested_windows.longest
        there, here = self.accepted.statistics.counts(longest), self.processor.partition.statistics.counts(longest)
        apart = {label: there.get(label, 0) - here.get(label, 0) for label in sorted(there.keys() | here.keys())}
        said = [f"{rows:+,} of {label!r}" for label, rows in apart.items() if rows]
        return f"; live rows in the model beyond those in the log: {', '.join(said[:5])}" if said else ""

    def _compare_slots(self) -> None:
        """Compare the number of samples admitted, as far as a log shows it that may have lost some."""
        found, told = self.processor.partition.slots - self._slot, self.accepted.rebuild.slots_to
        if told < found or (self._counts and self._whole and told != found):
            self._fault("slots_to", told, f"{found} samples")
        elif self._counts and told > found and found < self._share:
            self.faults.append(
                f"slots_to: deltas say {told} samples, of which the log has the last {found} only, and the window holds"
                " more; its beginning is gone"
            )
        elif self._counts and told > found and self.definition.nested_windows.pane_rows > 1:
            self.believed.append(f"that {told - found:,} samples are in the log no more (slots_to): panes end by that")

    def _compare_labels(self) -> None:
        """Compare the labels that have been admitted; there are none unless classes are open."""
        told = set(self.accepted.labels)
        if tuple(self._labels) != self.accepted.labels:
            more, less = sorted(told.difference(self._labels)), sorted(set(self._labels) - told)
            self.faults.append(
                f"labels: deltas name {len(told):,}, the log has {len(self._labels):,}; only deltas name {more[:5]},"
                f" only the log has {less[:5]}"
            )
        elif self._told_labels:
            named = sorted(told - self._labels_found)
            gone = self.accepted.rebuild.slots_to - (self.processor.partition.slots - self._slot)
            if len(named) > gone:
                self.faults.append(
                    f"labels: deltas name {len(named)} of which the log has no row, and only {max(gone, 0)} samples are"
                    f" gone: {named[:5]}"
                )
            else:
                self.believed.append(f"that rows which are gone had {len(named):,} labels: {named[:5]}")

    def _compare_window(self) -> None:
        """Compare the offsets from which a rebuild reads samples."""
        partition, rebuild = self.processor.partition, self.accepted.rebuild
        window, memory = rebuild.window_from, rebuild.memory_from
        found = partition.window_from(self.accepted.samples_position)
        # If the window is over everything, compaction may have taken out its oldest rows since.
        exact = self._gapless and not self._longest.endless
        if window > found:
            self._fault("window_from", window, f"{found}, the oldest row inside a window: rows would be left out")
        elif window < found and window >= self.begins[0] and exact:
            self._fault("window_from", window, f"{found}, the oldest row inside a window")
        held = partition.memory_from(self.accepted.samples_position)
        if memory > window:
            self._fault("memory_from", memory, f"that it is not above window_from, {window}")
        elif memory < held and memory >= self.begins[0] and exact:
            self._fault("memory_from", memory, f"{held}, the oldest row that may be held")


# A site -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LostRows:
    """What is known of rows that no log has any more, and that may have set a watermark.

    ``latest`` is when the newest model was appended, in milliseconds. ``any_orders`` returns whether sources have ever
    been removed or admitted; it is called only if the answer matters.
    """

    latest: int
    any_orders: Callable[[], bool]


def account_of_site(
    definition: StreamDefinition,
    site: str,
    states: Sequence[SourceState],
    log: SiteLog,
    bygone: LostRows,
    asked: Collection[str] = (),
) -> dict[Source, RecomputedSource]:
    """The accounts of all sources of one site that are not removed, at the positions of ``states``, those of all sites.

    Every watermark was set by a row of some source, and workers learn it from the models. So a watermark is a fault if
    it is above every event time in the logs of this site, and above every watermark of the other sites.

    The row that set a watermark may be gone: of a source that was removed, or of topics that were made anew. If sources
    have been removed or admitted, a watermark is believed if a row could have set it by the time of the newest model;
    the account says so.
    """
    ours = [state for state in states if state.source.site == site and not state.removed]
    accounts = {state.source: account_of(definition, state, log, asked) for state in ours}
    if not definition.nested_windows.timed:
        return accounts
    known = max((account.newest for account in accounts.values()), default=NO_WATERMARK)
    elsewhere = (state.rebuild.watermark for state in states if state.source.site != site)
    known = max(known, *elsewhere, NO_WATERMARK)
    if all(state.rebuild.watermark <= known for state in ours):
        return accounts
    known = max(known, _newest_unread(definition, site, states, log))
    for state in ours:
        told = state.rebuild.watermark
        if told <= known:
            continue
        if told - definition.max_skew_milliseconds <= bygone.latest and bygone.any_orders():
            said = f"watermark: that a row which is gone since had event time {told}; the logs have none above {known}"
            before = accounts[state.source]
            accounts[state.source] = replace(before, believed=(*before.believed, said))
            continue
        said = f"watermark: deltas say {told}, the log says {known}, the largest event time of any row of any source"
        again = account_of(definition, state, log, asked, known)
        accounts[state.source] = replace(again, faults=(said, *again.faults))
    return accounts


def _newest_unread(definition: StreamDefinition, site: str, states: Sequence[SourceState], log: SiteLog) -> int:
    """The largest event time of a site's rows that the accounts have not read, in milliseconds.

    These are rows of removed sources, and rows behind the accepted positions.
    """
    newest = NO_WATERMARK
    of = {state.source: state for state in states}
    for partition in range(definition.partitions):
        state = of.get(Source(site, partition))
        start, end = log.bounds(SAMPLES, partition)
        intake = Intake(definition, partition)
        if state is not None:
            intake.labels = dict.fromkeys(state.labels)
            start = max(start, state.samples_position)
        for batch in log.batches(SAMPLES, partition, start, end):
            newest = max(newest, int(intake.take(batch, []).samples.event_times.max(initial=NO_WATERMARK)))
    return newest

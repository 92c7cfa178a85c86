"""The rule, broken on purpose: a simulation that does not notice would not notice a true fault either."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from deltaplane.arrays import Flags, Floats, Int32s, Int64s, Positions
from deltaplane.columns.cells import MissingWords
from deltaplane.columns.encoder import Cells, Encoded, Encoder, read_column
from deltaplane.columns.rules import ColumnRule
from deltaplane.exact.triangle import layout_of
from deltaplane.log import delta
from deltaplane.log.delta import Claim, Delta, Source, SourceOrder, SourceState, Tile, TopicIds, Verdict
from deltaplane.log.model import Model
from deltaplane.log.trimming import LogSpans, TrimMargin, TrimPoint, Untouched, trim_point
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples, Refusal, Retirement, Samples, admit
from deltaplane.window.buffer import RowBuffer
from deltaplane.window.kept_sums import KeptSums
from deltaplane.window.retirements import RetirementMemory
from deltaplane_services.processors import account
from deltaplane_services.processors.worker_processor import WorkerProcessor
from simulation.forgeries import FORGERIES, audited, short_history
from simulation.histories import check, live
from simulation.orders import check_orders, live_with_orders

Rule = Callable[[SourceState, Claim | Delta | SourceOrder, bytes, int], tuple[SourceState, Verdict]]

USERS_OF_THE_RULE = ("deltaplane.log.merger", "deltaplane_services.processors.acceptance", "simulation.world")


def _just_before(state: SourceState, tile: Tile) -> SourceState:
    """The state with the position at which a tile would fit."""
    return replace(
        state,
        sequence=tile.sequence,
        samples_position=tile.samples_from,
        retirements_position=tile.retirements_from,
    )


def _takes_gaps(
    state: SourceState, record: Claim | Delta | SourceOrder, fingerprint: bytes, grid_range: int
) -> tuple[SourceState, Verdict]:
    if isinstance(record, Delta) and record.tile.sequence > state.sequence:
        state = _just_before(state, record.tile)
    return delta.accept(state, record, fingerprint, grid_range)


def _ignores_claims(
    state: SourceState, record: Claim | Delta | SourceOrder, fingerprint: bytes, grid_range: int
) -> tuple[SourceState, Verdict]:
    if isinstance(record, Delta) and state.owner:
        record = replace(record, writer=state.owner)
    return delta.accept(state, record, fingerprint, grid_range)


def _takes_repeats(
    state: SourceState, record: Claim | Delta | SourceOrder, fingerprint: bytes, grid_range: int
) -> tuple[SourceState, Verdict]:
    if isinstance(record, Delta) and record.tile.sequence == state.sequence - 1:
        record = replace(record, tile=replace(record.tile, sequence=state.sequence))
        state = _just_before(state, record.tile)
    return delta.accept(state, record, fingerprint, grid_range)


def _forgets_labels(
    state: SourceState, record: Claim | Delta | SourceOrder, fingerprint: bytes, grid_range: int
) -> tuple[SourceState, Verdict]:
    after, verdict = delta.accept(state, record, fingerprint, grid_range)
    return replace(after, labels=()), verdict


def _takes_what_a_removed_source_says(
    state: SourceState, record: Claim | Delta | SourceOrder, fingerprint: bytes, grid_range: int
) -> tuple[SourceState, Verdict]:
    if isinstance(record, Delta) and state.removed:
        state = replace(_just_before(state, record.tile), removed=False, owner=record.writer)
        after, verdict = delta.accept(state, record, fingerprint, grid_range)
        return replace(after, removed=True), verdict
    return delta.accept(state, record, fingerprint, grid_range)


def _keeps_the_rows_of_a_removed_source(
    state: SourceState, record: Claim | Delta | SourceOrder, fingerprint: bytes, grid_range: int
) -> tuple[SourceState, Verdict]:
    after, verdict = delta.accept(state, record, fingerprint, grid_range)
    return replace(after, statistics=state.statistics) if after.removed else after, verdict


def _lets_a_source_in_where_it_was(
    state: SourceState, record: Claim | Delta | SourceOrder, fingerprint: bytes, grid_range: int
) -> tuple[SourceState, Verdict]:
    after, verdict = delta.accept(state, record, fingerprint, grid_range)
    if isinstance(record, SourceOrder):
        after = replace(after, samples_position=state.samples_position, retirements_position=state.retirements_position)
    return after, verdict


@contextlib.contextmanager
def _with_rule(rule: Rule) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in USERS_OF_THE_RULE:
            stack.enter_context(mock.patch(f"{module}.accept", rule))
        yield


@contextlib.contextmanager
def _forgets_retirements() -> Iterator[None]:
    with mock.patch.object(RetirementMemory, "add", return_value=None):
        yield


@contextlib.contextmanager
def _counts_repeats() -> Iterator[None]:
    add = RetirementMemory.add

    def adding(self: RetirementMemory, retirement: Retirement) -> None:
        known = self.first(retirement.id) is not None
        add(self, replace(retirement, id=f"{retirement.id} at {retirement.offset}") if known else retirement)

    with mock.patch.object(RetirementMemory, "add", adding):
        yield


@contextlib.contextmanager
def _keeps_sums_of_what_is_gone() -> Iterator[None]:
    with mock.patch.object(KeptSums, "forget", return_value=None):
        yield


@contextlib.contextmanager
def _takes_other_features_for_short_windows() -> Iterator[None]:
    def last(dimension: int, leading: int) -> Positions:
        kept = np.arange(dimension - leading, dimension)
        rows, columns = np.triu_indices(leading)
        return np.asarray(layout_of(dimension).unpack[kept[rows], kept[columns]])

    with mock.patch("deltaplane.exact.moments.positions_of_leading", last):
        yield


@contextlib.contextmanager
def _believes_any_watermark() -> Iterator[None]:
    def believing(self: Model, *_: int) -> tuple[int, int]:
        return max(self.watermark, *(position.watermark for position in self.positions)), 0

    with mock.patch.object(Model, "believable_watermark", believing):
        yield


def _admit_anywhere(
    samples: Samples, definition: StreamDefinition, known: Collection[str], *, partition: int
) -> tuple[AdmittedSamples, list[Refusal]]:
    assert partition < definition.partitions
    return admit(samples, definition, known)


@contextlib.contextmanager
def _takes_misplaced_samples() -> Iterator[None]:
    with mock.patch("deltaplane_services.processors.intake.admit", _admit_anywhere):
        yield


@contextlib.contextmanager
def _waits_for_what_is_not_there() -> Iterator[None]:
    with mock.patch.object(WorkerProcessor, "read_to", return_value=None):
        yield


@contextlib.contextmanager
def _admits_any_event_time() -> Iterator[None]:
    def admitting(
        samples: Samples, definition: StreamDefinition, known: Collection[str], *, partition: int
    ) -> tuple[AdmittedSamples, list[Refusal]]:
        return admit(samples, replace(definition, max_skew_milliseconds=2**60), known, partition=partition)

    with mock.patch("deltaplane_services.processors.intake.admit", admitting):
        yield


def _lets_go_of_live_rows(
    definition: StreamDefinition, state: SourceState, spans: LogSpans, margin: TrimMargin
) -> TrimPoint | Untouched:
    point = trim_point(definition, state, spans, margin)
    return replace(point, samples=state.samples_position) if isinstance(point, TrimPoint) else point


def _lets_go_of_what_windows_over_everything_need(
    definition: StreamDefinition, state: SourceState, spans: LogSpans, margin: TrimMargin
) -> TrimPoint | Untouched:
    del definition, margin
    return TrimPoint(state.source, max(spans.samples_begin, state.samples_position - 1), spans.retirements_begin)


def _lets_go_of_retirements(
    definition: StreamDefinition, state: SourceState, spans: LogSpans, margin: TrimMargin
) -> TrimPoint | Untouched:
    point = trim_point(definition, state, spans, margin)
    return replace(point, retirements=state.retirements_position) if isinstance(point, TrimPoint) else point


@contextlib.contextmanager
def _trims(rule: Callable[..., TrimPoint | Untouched]) -> Iterator[None]:
    with mock.patch("deltaplane.log.trimming.trim_point", rule):
        yield


@contextlib.contextmanager
def _takes_offsets_as_they_come() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in ("deltaplane_services.processors.worker_processor", "simulation.world"):
            stack.enter_context(mock.patch(f"{module}.check_order", return_value=0))
        yield


@contextlib.contextmanager
def _takes_misplaced_retirements() -> Iterator[None]:
    with mock.patch("deltaplane_services.processors.intake.refused_for_its_place", return_value=False):
        yield


@contextlib.contextmanager
def _takes_topics_by_their_names() -> Iterator[None]:
    with mock.patch.object(TopicIds, "differ", return_value=[]):
        yield


@contextlib.contextmanager
def _holds_wide_rows_in_32_bits() -> Iterator[None]:
    original = RowBuffer.rows

    def rows(self: RowBuffer, slots: Int64s) -> Int32s:
        return original(self, slots).astype(np.int32)

    with mock.patch.object(RowBuffer, "rows", rows):
        yield


@contextlib.contextmanager
def _takes_bad_cells_for_missing() -> Iterator[None]:
    def reading(rule: ColumnRule, cells: Cells, words: MissingWords) -> tuple[Floats, Flags, dict[int, str]]:
        numbers, missing, faults = read_column(rule, cells, words)
        missing[list(faults)] = True
        return numbers, missing, {}

    with mock.patch("deltaplane.columns.encoder.read_column", reading):
        yield


@contextlib.contextmanager
def _passes_over_unknown_columns() -> Iterator[None]:
    def encoding(self: Encoder, records: Sequence[Mapping[str, Any]]) -> Encoded:
        return self.encode({name: [record.get(name) for record in records] for name in self.columns})

    with mock.patch.object(Encoder, "encode_records", encoding):
        yield


@contextlib.contextmanager
def _reads_cells_in_the_order_they_come_in() -> Iterator[None]:
    def encoding(self: Encoder, records: Sequence[Mapping[str, Any]]) -> Encoded:
        cells = [[*record.values(), *[None] * len(self.columns)] for record in records]
        return self.encode({name: [row[at] for row in cells] for at, name in enumerate(self.columns)})

    with mock.patch.object(Encoder, "encode_records", encoding):
        yield


BREAKS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "takes gaps": lambda: _with_rule(_takes_gaps),
    "ignores claims": lambda: _with_rule(_ignores_claims),
    "takes repeats": lambda: _with_rule(_takes_repeats),
    "forgets retirements": _forgets_retirements,
    "counts repeats of a retirement": _counts_repeats,
    "forgets labels": lambda: _with_rule(_forgets_labels),
    "keeps sums of what is gone": _keeps_sums_of_what_is_gone,
    "takes other features for short windows": _takes_other_features_for_short_windows,
    "believes any watermark": _believes_any_watermark,
    "admits any event time": _admits_any_event_time,
    "lets go of live rows": lambda: _trims(_lets_go_of_live_rows),
    "lets go of what windows over everything need": lambda: _trims(_lets_go_of_what_windows_over_everything_need),
    "lets go of retirements that are remembered": lambda: _trims(_lets_go_of_retirements),
    "takes misplaced samples": _takes_misplaced_samples,
    "takes misplaced retirements": _takes_misplaced_retirements,
    "waits for what is not there": _waits_for_what_is_not_there,
    "takes offsets as they come": _takes_offsets_as_they_come,
    "holds wide rows in 32 bits": _holds_wide_rows_in_32_bits,
    "takes bad cells for missing ones": _takes_bad_cells_for_missing,
    "passes over unknown columns": _passes_over_unknown_columns,
    "reads cells in the order they come in": _reads_cells_in_the_order_they_come_in,
}
"""Ways to break the rule, by name."""


BREAKS_OF_ORDERS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "takes what a removed source says": lambda: _with_rule(_takes_what_a_removed_source_says),
    "keeps the rows of a removed source": lambda: _with_rule(_keeps_the_rows_of_a_removed_source),
    "lets a source in where it was": lambda: _with_rule(_lets_a_source_in_where_it_was),
    "takes topics by their names": _takes_topics_by_their_names,
}
"""Ways that only histories with orders can show."""


@contextlib.contextmanager
def _audits_by_the_fields_of_deltas() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in ("_compare_window", "_compare_retirements", "_compare_slots"):
            stack.enter_context(mock.patch.object(account._Reading, name, return_value=None))
        yield


@contextlib.contextmanager
def _audits_by_any_watermark() -> Iterator[None]:
    def believing(
        definition: StreamDefinition,
        _: str,
        states: Sequence[SourceState],
        log: account.SiteLog,
        __: account.LostRows,
    ) -> dict[Source, account.RecomputedSource]:
        return {state.source: account.account_of(definition, state, log) for state in states}

    with mock.patch("simulation.forgeries.account_of_site", believing):
        yield


@contextlib.contextmanager
def _audits_without_sums() -> Iterator[None]:
    with mock.patch.object(account._Reading, "_compare_sums", return_value=None):
        yield


BREAKS_OF_AUDITS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "believes where a rebuild begins": _audits_by_the_fields_of_deltas,
    "believes any watermark": _audits_by_any_watermark,
    "believes the sums": _audits_without_sums,
}
"""Ways in which an audit could believe what it is there to prove."""


def first_forgery_missed(name: str, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first of some seeds, and what is forged in its history, that an audit broken in this way does not find."""
    with BREAKS_OF_AUDITS[name]():
        for seed in seeds:
            world = short_history(seed)
            for partition in world.workers:
                for forgery, forge in FORGERIES.items():
                    forged = forge(world, world.truth(partition)[-1].state)
                    if forged is not None and not audited(world, forged).faults:
                        return seed, forgery
    return None


NOTICED_BY = {
    "takes gaps": 4,
    "ignores claims": 22,
    "takes repeats": 2,
    "keeps sums of what is gone": 1,
    "believes any watermark": 2,
    "admits any event time": 2,
    "lets go of live rows": 3,
    "lets go of what windows over everything need": 3,
    "takes misplaced samples": 9,
    "takes misplaced retirements": 14,
    "waits for what is not there": 20,
    "holds wide rows in 32 bits": 3,
    "takes bad cells for missing ones": 2,
    "passes over unknown columns": 8,
    "reads cells in the order they come in": 2,
}
"""The first seed that noticed, where it was not 0: tried before the others. A history that changes may let it go."""


def first_caught(name: str, seeds: Iterable[int]) -> int | None:
    """The first of some seeds whose history shows that the rule is broken in this way; None if none does."""
    with (BREAKS | BREAKS_OF_ORDERS)[name]():
        for seed in seeds:
            try:
                if name in BREAKS:
                    check(live(seed))
                else:
                    check_orders(live_with_orders(seed))
            except Exception:  # noqa: BLE001 - any complaint will do.
                return seed
    return None

"""A stream in memory, without a log: the rules of worker and merger are applied to each batch of rows at once.

A worker scores rows by the newest model, moves its windows, and sends the change in a tile; a merger takes the tile and
publishes the next model. Here there is one source, whose tiles are merged as soon as they are made. So the statistics
and the models are, bit for bit, those of a stream with one partition whose records hold the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deltaplane.errors import DefinitionMismatch, StateMismatch
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceState, Tile, Verdict
from deltaplane.log.merger import Merger
from deltaplane.log.model import Model
from deltaplane.log.scoring import score
from deltaplane.solve.candidates import together
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Refusal, Retirement, Samples, admit
from deltaplane.window.outcomes import RetirementNote, SampleNote
from deltaplane.window.partition import Partition

__all__ = ["SOURCE", "InMemoryStream", "Learned"]

SOURCE = Source("memory", 0)
"""The one source of a stream in memory."""

_WRITER = "memory"


@dataclass(frozen=True)
class Learned:
    """The outcomes of rows and retirements.

    ``refusals``: the rows refused, by their index among the rows given. ``samples`` and ``retirements``: notes of
    outcomes; a note's row is an index among the rows that were not refused.
    """

    refusals: list[Refusal]
    samples: list[SampleNote]
    retirements: list[RetirementNote]


class InMemoryStream:
    """One source and its merger; changed by ``learn``, ``take_in`` and ``restore`` only.

    ``model``: the newest one, None before anything was learned. ``offset``: the offset that the next record would have
    in a log of samples. ``retired``: that of the next retirement. ``labels``: if classes are open, those admitted, in
    order. Raises :class:`DefinitionMismatch` if the definition has more than one partition.
    """

    def __init__(self, definition: StreamDefinition) -> None:
        if definition.partitions != 1:
            raise DefinitionMismatch(
                f"stream {definition.name!r}: expected one partition, got {definition.partitions}; a stream in memory"
                " is one source"
            )
        self.definition = definition
        self.partition = Partition(definition, SOURCE.partition)
        self.merger = Merger(definition)
        self.model: Model | None = None
        self.labels: dict[str, None] = {}
        self.offset = self.retired = 0
        self._sequence = 0
        self._claim()

    @property
    def state(self) -> SourceState:
        """The state of the stream's source, as in a checkpoint."""
        return self.merger.state(SOURCE)

    def refusals(self, samples: Samples) -> list[Refusal]:
        """The rows that would be refused if they came next, in order."""
        return admit(samples, self.definition, self.labels)[1]

    def learn(self, samples: Samples, retired: Sequence[Retirement] = (), *, scored: bool = True) -> Learned:
        """The outcomes of rows, applied as one record, and then of retirements; publishes the next model.

        Rows are scored by the model before them, unless ``scored`` is False: then they were scored elsewhere.
        """
        admitted, refusals = admit(samples.at(self.offset, 0), self.definition, self.labels)
        step = self.partition.step(admitted, [replace(one, offset=self.retired + n) for n, one in enumerate(retired)])
        left_out = [note.row for note in step.sample_notes]
        scores, prequential_counts, tallies = score(self.model if scored else None, admitted, left_out)
        tile = Tile(
            sequence=self._sequence,
            samples_from=self.offset,
            samples_to=self.offset + (len(samples) > 0),
            retirements_from=self.retired,
            retirements_to=self.retired + len(retired),
        )
        delta = Delta(
            source=SOURCE,
            writer=_WRITER,
            stream_fingerprint=self.definition.stream_fingerprint,
            tile=tile,
            rebuild=Rebuild(slots_to=self.partition.slots, watermark=self.partition.watermark),
            change=step.change,
            scores=scores,
            scored_by=self.model.version if self.model is not None and scores.counts else 0,
            counts=dict(step.counts),
            prequential_counts=prequential_counts,
            tallies=tallies,
            labels=admitted.new_labels,
        )
        verdict = self.merger.apply(delta)
        assert verdict is Verdict.ACCEPTED, "one writer makes tiles one after the other"
        self.labels.update(dict.fromkeys(admitted.new_labels))
        self.offset, self.retired, self._sequence = tile.samples_to, tile.retirements_to, self._sequence + 1
        self.model = self.merger.publish(0) or self.model
        return Learned(refusals, step.sample_notes, step.retirement_notes)

    def nothing(self) -> Samples:
        """No rows."""
        return Samples.of_record([], 0, (), np.zeros(0, dtype=np.int32), np.zeros((0, len(self.definition.features))))

    def take_in(self, other: InMemoryStream, samples: Samples, *, with_retirements: bool) -> None:
        """Learn ``samples``, the live rows of another stream, and add the hits of its candidates.

        ``with_retirements``: ids that were retired there are retired here, too. The feature maps may differ, since rows
        are mapped here; then hits of other candidates are left out. Raises :class:`DefinitionMismatch` if the other
        stream has another definition, and :class:`StateMismatch` if rows are refused; then nothing changes.
        """
        mine, theirs = self.definition, other.definition
        same_map = theirs.feature_map == mine.feature_map
        alike = len(theirs.features) == len(mine.features) and (
            replace(theirs, feature_map=mine.feature_map).stream_fingerprint == mine.stream_fingerprint
        )
        if not alike:
            raise DefinitionMismatch("expected a stream of the same features, grid, columns, classes and windows")
        if refusals := self.refusals(samples):
            raise StateMismatch(f"{len(refusals)} rows are refused: {refusals[0].reason}")
        if same_map and self.model is not None and other.model is not None:
            blend = together(self.model.blend, other.model.blend)
            self._restore_merger(self.state, replace(self.model, blend=blend))
        self.learn(samples, other.partition.retired() if with_retirements else (), scored=False)

    def restore(self, state: SourceState, model: Model, samples: Samples, retired: Sequence[Retirement]) -> None:
        """Continue from a saved state and model, with all rows and retirements that were held.

        Raises :class:`StateMismatch` if rows are refused, or if they do not give the statistics of the state, bit for
        bit.
        """
        admitted, refusals = admit(samples, self.definition, state.labels)
        if refusals:
            raise StateMismatch(f"{len(refusals)} saved rows are refused: {refusals[0].reason}")
        self.partition.refill(admitted, retired)
        self.partition.finish_refill(state.rebuild.slots_to, state.rebuild.watermark, state.statistics)
        self.labels, self.model = dict.fromkeys(state.labels), model
        self.offset, self.retired, self._sequence = state.samples_position, state.retirements_position, state.sequence
        self._restore_merger(state, model)

    def _restore_merger(self, state: SourceState, model: Model) -> None:
        self.merger = Merger(self.definition)
        self.merger.restore([state], model)
        self._claim()

    def _claim(self) -> None:
        self.merger.apply(Claim(SOURCE, _WRITER, self.definition.stream_fingerprint))

    def held(self, *, live: bool) -> Samples:
        """The rows in memory in order, as values on the grid, with their offsets; if ``live``, only those in a window.

        Without ``live``, rows that were retired or replaced, or have recently left every window, are included, since
        they take slots.
        """
        rows = self.partition.held(live=live)
        nothing = np.zeros(len(rows.ids), dtype=np.int64)
        return Samples(
            ids=rows.ids,
            event_times=rows.event_times,
            label_table=rows.labels,
            label_codes=rows.codes,
            features=self.definition.grid.values(rows.quantized),
            offsets=rows.offsets,
            rows=nothing,
            log_times=nothing,
        )

"""``deltaplane retire``: publish retirements, and wait for receipts and for a model that contains their tiles."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from deltaplane.log.delta import Source
from deltaplane.log.model import Model
from deltaplane.log.records import Receipt
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import AcceptedTiles
from deltaplane_services.kafka.clients import publisher, reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.operations.retirement_words import ExitCode, exit_code_of, receipt_as_json, what_became
from deltaplane_services.processors.codec import Codec, Undecodable, codec_of
from deltaplane_services.processors.messages import RECEIPTS, Record

__all__ = ["Answer", "retire"]


@dataclass(frozen=True)
class Answer:
    """The result for one id: its receipt, and the first model seen that contains the tile of the receipt.

    Either is None if time ran out before it came. A row was taken out only if the receipt says so.
    """

    id: str
    receipt: Receipt | None
    model_version: int | None

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of ``retire`` for this id alone."""
        if self.receipt is None:
            return ExitCode.NOT_YET
        code = exit_code_of(self.receipt)
        return ExitCode.NOT_YET if code is ExitCode.OUT and self.model_version is None else code

    def line(self, definition: StreamDefinition, waited_seconds: float) -> str:
        """The result in one line of text."""
        receipt, within = self.receipt, f"within {waited_seconds:g} s"
        if receipt is None:
            return f"{self.id}: no receipt {within}, so nothing is known to be out; is a worker running?"
        said = what_became(receipt, definition)
        if exit_code_of(receipt) is not ExitCode.OUT:
            said = f"{self.id}: {receipt.outcome}: {said}"
        elif self.model_version is None:
            said = f"{self.id}: {receipt.outcome}, but no model without it came {within}, is a merger running? {said}"
        else:
            said = f"{self.id}: {receipt.outcome}, model {self.model_version} is without it; {said}"
        return f"{said}; source {receipt.source}, tile {receipt.sequence}"

    def as_json(self, definition: StreamDefinition) -> dict[str, object]:
        """The result as plain values; what is not known is null."""
        known = {"id": self.id} if self.receipt is None else receipt_as_json(self.receipt, definition)
        return {**known, "model_version": self.model_version, "exit_code": int(self.exit_code)}


def retire(settings: ServiceSettings, ids: Sequence[str], reason: str, wait_seconds: float) -> list[Answer]:
    """The answers to retirements of samples by id, in the order of the ids, one for each different id.

    Returns when all are answered, or after ``wait_seconds``. Raises :class:`WireError` for an id that no sample can
    have, before anything is published, and :class:`DeliveryFailed`.
    """
    asked = _Asked(settings, ids, reason)
    with (
        closing(reader(settings, "site")) as receipts,
        closing(ModelFollower(reader(settings, "central"), settings.definition)) as follower,
        closing(AcceptedTiles(settings, reader(settings, "central"), follower.model, asked.places)) as tiles,
    ):
        receipts.follow([(RECEIPTS, partition, receipts.bounds(RECEIPTS, partition)[1]) for partition in asked.places])
        asked.publish()
        deadline = time.monotonic() + wait_seconds
        # A receipt may be read after the model that contains its tile, so all models are kept for comparison.
        models = [] if follower.model is None else [follower.model]
        while True:
            for record in receipts.poll(500, 0.05):
                asked.take_receipt(record)
            tiles.poll()
            models += follower.poll(500, 0.0)
            asked.take_accepted(tiles)
            asked.take_models(models)
            if asked.answered or time.monotonic() >= deadline:
                return list(asked.answers.values())


class _Asked:
    """The retirements of one call, and their answers so far."""

    def __init__(self, settings: ServiceSettings, ids: Sequence[str], reason: str) -> None:
        definition, now = settings.definition, time.time_ns() // 1_000_000
        self.answers = {sample_id: Answer(sample_id, None, None) for sample_id in ids}
        self._settings = settings
        self._at: dict[tuple[int, int], str] = {}
        # Several writers may write a receipt of one retirement; only later is it known whose tile was accepted.
        self._said: defaultdict[str, list[Receipt]] = defaultdict(list)
        codec, asked = codec_of(definition), [Retirement(sample_id, reason, 0, time=now) for sample_id in self.answers]
        self._records = {one.id: codec.retirement_of(definition.partition_of(one.id), one) for one in asked}

    @property
    def places(self) -> list[int]:
        """The partitions that receipts will come to, sorted."""
        return sorted({record.partition for record in self._records.values()})

    @property
    def answered(self) -> bool:
        """Whether every id has a model that contains the tile of its receipt."""
        return all(answer.model_version is not None for answer in self.answers.values())

    def publish(self) -> None:
        """Publish the retirements, all together. Raises :class:`DeliveryFailed`."""
        offsets = publisher(self._settings, "site").publish_all_and_wait(list(self._records.values()))
        for (sample_id, record), offset in zip(self._records.items(), offsets, strict=True):
            self._at[record.partition, offset] = sample_id

    def take_receipt(self, record: Record) -> None:
        """Note a receipt if it is of one of these retirements."""
        receipt = Codec.receipt(record)
        if isinstance(receipt, Undecodable):
            return
        sample_id = self._at.get((receipt.source.partition, receipt.offset))
        if receipt.source.site == self._settings.site and sample_id is not None:
            self._said[sample_id].append(receipt)

    def take_accepted(self, tiles: AcceptedTiles) -> None:
        """Take the receipts whose tiles were accepted as answers."""
        for sample_id in [one for one in self._said if self.answers[one].receipt is None]:
            true = [receipt for receipt in self._said[sample_id] if tiles.are_accepted(receipt)]
            if true:
                self.answers[sample_id] = replace(self.answers[sample_id], receipt=true[-1])

    def take_models(self, models: Sequence[Model]) -> None:
        """Note for each receipt the first of these models that contains its tile."""
        # Thousands of retirements may have a tile in common, which is looked for once.
        first: dict[tuple[Source, int], int | None] = {}
        for answer in list(self.answers.values()):
            receipt = answer.receipt
            if receipt is None or answer.model_version is not None:
                continue
            tile = receipt.source, receipt.sequence
            if tile not in first:
                first[tile] = next((model.version for model in models if model.contains(*tile)), None)
            if first[tile] is not None:
                self.answers[answer.id] = replace(answer, model_version=first[tile])

"""``deltaplane retire``: publish retirements and wait until each has its receipt and a model is without the sample."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from deltaplane.records import Receipt
from deltaplane.sample import Retirement, partition_of
from deltaplane.wire import read_model, read_receipt, write_retirement
from deltaplane_services.kafka.clients import publisher, reader
from deltaplane_services.processors.records import MODELS, RECEIPTS, RETIREMENTS, Outgoing
from deltaplane_services.settings import ServiceSettings


@dataclass(frozen=True)
class Answer:
    """What became of one id: its receipt and the first model seen without it, or None where time ran out first."""

    id: str
    receipt: Receipt | None
    model_version: int | None


def retire(settings: ServiceSettings, ids: Sequence[str], reason: str, wait_seconds: float) -> list[Answer]:
    """Retire samples by id; the answers are in the order of the ids."""
    definition = settings.definition
    receipts, models = reader(settings, "site"), reader(settings, "central")
    places = sorted({partition_of(sample_id, definition.partitions) for sample_id in ids})
    receipts.follow([(RECEIPTS, partition, receipts.bounds(RECEIPTS, partition)[1]) for partition in places])
    models.follow([(MODELS, 0, models.bounds(MODELS, 0)[1] - 1)])
    now = time.time_ns() // 1_000_000
    asked: dict[tuple[int, int], str] = {}
    out = publisher(settings, "site")
    for sample_id in ids:
        partition = partition_of(sample_id, definition.partitions)
        value = write_retirement(Retirement(sample_id, reason, 0, time=now), definition.data_fingerprint)
        offset = out.publish_and_wait(Outgoing(RETIREMENTS, partition, sample_id.encode(), value))
        asked[partition, offset] = sample_id
    answers = {sample_id: Answer(sample_id, None, None) for sample_id in ids}
    deadline = time.monotonic() + wait_seconds
    try:
        while time.monotonic() < deadline and any(answer.model_version is None for answer in answers.values()):
            for record in receipts.poll(500, 0.05):
                receipt = read_receipt(record.value)
                if receipt.source.site == settings.site and (receipt.source.partition, receipt.offset) in asked:
                    answers[receipt.id] = Answer(receipt.id, receipt, None)
            for record in models.poll(500, 0.0)[-1:]:
                model = read_model(record.value)
                for sample_id, (answered, version) in [(a.id, (a.receipt, a.model_version)) for a in answers.values()]:
                    decided = answered is not None and model.contains(answered.source, answered.sequence)
                    if decided and version is None:
                        answers[sample_id] = Answer(sample_id, answered, model.version)
    finally:
        receipts.close()
        models.close()
    return [answers[sample_id] for sample_id in ids]

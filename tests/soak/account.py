"""The reckoning at the end of a soak: everything that was sent is in the model exactly once, bit for bit.

Rows and retirements are counted by the totals that the model carries; the digest is held against two accounts of what
the log still has: that of ``deltaplane audit``, and that of the reference, which shares nothing with the workers.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from chaos.checks import ANSWERS, OUTCOMES
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.log.model import Model
from deltaplane.reference import Reference
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_retirement
from deltaplane_benchmarks.exhibit import Target
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.processors.codec import read_published_samples
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Record
from kafka.sending import CheckedProducer, Place
from soak.load import Sent
from strategies_streams import rows_by

REFUSED = "refused "


def rows_accounted(totals: Mapping[str, int]) -> int:
    """Rows that have an outcome; records that could not be read are none."""
    refused = sum(count for name, count in totals.items() if name.startswith(REFUSED))
    return sum(totals.get(name, 0) for name in OUTCOMES) + refused - totals.get(f"{REFUSED}bad record", 0)


def retirements_answered(totals: Mapping[str, int]) -> int:
    """Retirements that have an outcome; one that waited and then met its sample has two."""
    return sum(totals.get(f"retirements {name}", 0) for name in ANSWERS) - totals.get("annihilated", 0)


def judge_account(sent: Sent, model: Model, producer: CheckedProducer, ends: Mapping[Place, int]) -> list[Target]:
    """Nothing lost and nothing double, on the way in and in the model."""
    totals = Counter(model.totals)
    refused = Counter({name.removeprefix(REFUSED): n for name, n in totals.items() if name.startswith(REFUSED) and n})
    acknowledged = {place: producer.acknowledged[place] for place in producer.sent}
    return [
        Target(
            "log: holds what was sent and acknowledged, each record once",
            dict(producer.sent) == acknowledged == dict(ends),
            f"{producer.sent.total():,} sent, {sum(acknowledged.values()):,} acknowledged, {sum(ends.values()):,} held",
        ),
        _count("rows: each has one outcome", sent.rows, rows_accounted(totals)),
        _count("retirements: each has one outcome", sent.retirements, retirements_answered(totals)),
        Target(
            "refused: exactly what was spoiled",
            refused == sent.refused,
            f"{dict(sent.refused)} spoiled, {dict(refused)} refused",
        ),
    ]


def _count(text: str, sent: int, found: int) -> Target:
    lost, double = max(0, sent - found), max(0, found - sent)
    return Target(text, sent == found, f"{sent:,} sent, {found:,} accounted for: {lost:,} lost, {double:,} double")


def log_ends(settings: ServiceSettings, places: Sequence[Place]) -> dict[Place, int]:
    """How many records each partition has been given."""
    log = reader(settings, "site")
    try:
        return {place: log.bounds(*place)[1] for place in places}
    finally:
        log.close()


def judge_digest(settings: ServiceSettings, model: Model, audit: Sequence[str]) -> list[Target]:
    """The digest of the model is that of the rows in the log, by two accounts."""
    said = subprocess.run(list(audit), capture_output=True, text=True, check=False)
    last = (said.stdout.strip().splitlines() or [said.stderr.strip()])[-1]
    digest, live = _reference(settings)
    counted = rows_by(Counter(model.totals))
    return [
        Target("deltaplane audit: the log and the model are equal", said.returncode == 0 and last == "equal", last),
        Target(
            "reference: the batch over the log has the model's digest",
            digest == model.digest,
            f"{digest[:16]}, the model {model.digest[:16]}",
        ),
        Target(
            "live rows: as many as the batch has", live == counted, f"{counted:,} in the model, {live:,} in the batch"
        ),
    ]


def _reference(settings: ServiceSettings) -> tuple[str, int]:
    """Digest and number of the live rows, by the rows that the log has of the length of the window."""
    definition = settings.definition
    longest = definition.nested_windows.longest_milliseconds
    assert longest is not None, "a soak has a window of time"
    reference = Reference(definition)
    log = reader(settings, "site")
    try:
        newest = max(samples.event_times.max() for _, samples in _read(settings, log, -1))
        for partition, samples in _read(settings, log, int(newest) - longest):
            reference.add(partition, samples)
        for partition in range(definition.partitions):
            for record in log.read(RETIREMENTS, partition, 0, log.bounds(RETIREMENTS, partition)[1]):
                features, fingerprint = len(definition.features), definition.data_fingerprint
                reference.retire(read_retirement(record.value, features, fingerprint, record.offset).id)
    finally:
        log.close()
    return reference.statistics().digest(definition.data_fingerprint), len(reference.live())


def _read(settings: ServiceSettings, log: LogReader, since: int) -> Iterator[tuple[int, Samples]]:
    """Samples of all partitions appended after ``since``. No row is appended before its event time."""
    definition = settings.definition
    for partition in range(definition.partitions):
        records: Iterator[Record] = log.read(SAMPLES, partition, 0, log.bounds(SAMPLES, partition)[1])
        for record in records:
            if record.log_time <= since:
                continue
            try:
                samples = read_published_samples(record, definition)
            except (WireError, DefinitionMismatch):
                continue
            yield partition, samples

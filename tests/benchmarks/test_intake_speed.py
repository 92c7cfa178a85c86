"""What ``bench intake`` waits for can come: every row that it makes is admitted, so that none is missing in the end."""

from __future__ import annotations

import itertools

from deltaplane_benchmarks.speed.made_shop import event_of, shop_rows, shop_tables
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.intake.reading import RecordReader
from deltaplane_services.intake.waiting_rows import WaitingRows
from deltaplane_services.kafka.log import in_batches
from deltaplane_services.processors.intake import Intake
from deltaplane_services.processors.messages import SAMPLES, Record

_ROWS = 20_000


def test_a_worker_admits_every_row_that_the_bench_has_an_intake_send() -> None:
    settings = resolve_settings({}, {}, shop_tables("bench", "", late=False))
    definition, intake = settings.definition, settings.intake
    assert intake is not None
    reader, worker = RecordReader(definition, intake), Intake(definition, 0)
    processor = IntakeProcessor(definition, intake, 0, WaitingRows(), "bench")
    processor.restore({}, {(intake.topic, 0): 0})
    offsets, admitted = itertools.count(), 0
    records = (
        Record(intake.topic, 0, offset, row["created"], row["ref"].encode(), event_of(row))
        for offset, row in enumerate(shop_rows(_ROWS, seed=0))
    )
    for batch in in_batches(records):
        for output in processor.process(reader.read(batch, batch[-1].log_time)):
            sent = [Record(SAMPLES, 0, next(offsets), batch[-1].log_time, None, one.value) for one in output.then]
            taken = worker.take(sent, [])
            assert not taken.letters, taken.counts
            admitted += len(taken.samples)
    assert admitted == _ROWS

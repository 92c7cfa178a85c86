"""What processors say of records of another definition: the settings that differ, wherever somebody announced them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deltaplane.errors import DefinitionMismatch
from deltaplane.log.delta import Claim, Source
from deltaplane.log.records import DeadLetter, Query
from deltaplane.stream.mismatch import announcement
from deltaplane.wire import write_claim, write_model, write_query, write_sample
from deltaplane_services.kafka.announcing import Announcements
from deltaplane_services.kafka.following import readable_model
from deltaplane_services.processors.announced import MOST_REMEMBERED, other_definition
from deltaplane_services.processors.intake import Intake
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import (
    CHECKPOINTS,
    DELTAS,
    MODELS,
    PREDICTIONS,
    QUERIES,
    SAMPLES,
    Outgoing,
    Record,
)
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from services.metrics_models import BINARY, model, plane

THERE = replace(BINARY, missing="offset", partitions=BINARY.partitions + 1)
SAID = 'features.missing (here "refuse", there "offset")'


def record(topic: str, value: bytes, offset: int = 0, *, announced: bytes | None = None) -> Record:
    return Record(topic, 0, offset, 0, None, value, announced=announced)


def sample(fingerprint: bytes) -> bytes:
    return write_sample("a", 0, "yes", [1.0] * len(BINARY.features), fingerprint)


def reasons(letters: list[Outgoing]) -> list[str]:
    assert all(isinstance(letter.message, DeadLetter) for letter in letters)
    return [letter.message.reason for letter in letters if isinstance(letter.message, DeadLetter)]


def test_a_worker_says_what_differs_of_every_sample_once_one_has_announced_it() -> None:
    intake, value, announced = Intake(BINARY, 0), sample(THERE.data_fingerprint), announcement(THERE)
    batch = intake.take([record(SAMPLES, value), record(SAMPLES, value, 1, announced=announced)], [])
    batch.letters += intake.take([record(SAMPLES, value, 2)], []).letters
    before, with_it, after = reasons(batch.letters)
    assert "which settings differ is not known" in before
    assert SAID in with_it
    assert with_it == after
    assert "partitions" not in after, "samples do not depend on them"


def test_a_merger_says_what_differs_of_a_claim() -> None:
    claim = write_claim(Claim(Source("here", 0), "w", THERE.stream_fingerprint))
    output = MergerProcessor(BINARY).process([record(DELTAS, claim, announced=announcement(THERE))])
    (reason,) = reasons(list(output.first))
    assert SAID in reason
    assert f"partitions (here {BINARY.partitions}, there {THERE.partitions})" in reason


def test_a_scorer_says_what_differs_of_a_query() -> None:
    scorer = ScorerProcessor(BINARY)
    scorer.see_model(model(1, plane=plane(), plane_version=1))
    query = write_query(Query("q", np.ones(len(BINARY.features)), THERE.data_fingerprint))
    output = scorer.process([record(QUERIES, query, announced=announcement(THERE))])
    assert SAID in reasons(list(output.first))[0]


def test_a_reader_of_models_says_what_differs() -> None:
    value = write_model(replace(model(1), stream_fingerprint=THERE.stream_fingerprint))
    with pytest.raises(DefinitionMismatch, match=r"features.missing \(here \"refuse\", there \"offset\"\)"):
        readable_model(record(MODELS, value, announced=announcement(THERE)), BINARY)
    with pytest.raises(DefinitionMismatch, match="which settings differ is not known"):
        readable_model(record(MODELS, value), BINARY)


def test_a_merger_says_of_which_definition_the_checkpoints_are_that_it_passes_over() -> None:
    ours, theirs = (record(CHECKPOINTS, b"", announced=announcement(one)) for one in (BINARY, THERE))
    assert other_definition(BINARY, [ours, record(CHECKPOINTS, b"", announced=b"{")]) == ""
    assert SAID in other_definition(BINARY, [ours, theirs])


def test_a_million_definitions_take_no_more_room_than_a_few() -> None:
    intake = Intake(BINARY, 0)
    for number in range(5 * MOST_REMEMBERED):
        there = replace(THERE, grid=replace(THERE.grid, steps=THERE.grid.steps * 2.0 ** (number - 80)))
        value = sample(there.data_fingerprint)
        intake.take([record(SAMPLES, value, number, announced=announcement(there))], [])
    others = intake._others
    assert len(others._announced) <= MOST_REMEMBERED
    assert len(others._texts) <= MOST_REMEMBERED


def test_of_records_that_are_many_one_announces_and_of_models_each() -> None:
    announcements = Announcements(b"said")
    assert [bool(announcements.beside(SAMPLES, 0)) for _ in range(3)] == [True, False, False]
    assert announcements.beside(SAMPLES, 1)
    assert [bool(announcements.beside(MODELS, 0)) for _ in range(3)] == [True] * 3
    assert not announcements.beside(PREDICTIONS, 0)
    assert not Announcements(b"").beside(MODELS, 0)

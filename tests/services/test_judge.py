"""The judge: predictions and samples as they lie on the topics, and what it exports of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from prometheus_client.registry import CollectorRegistry

from deltaplane.log.records import Prediction, Unanswered
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import write_prediction, write_sample_batch, write_unanswered
from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.observe.metrics import JudgeMetrics
from deltaplane_services.processors.judge_processor import JudgeProcessor
from deltaplane_services.processors.messages import PREDICTIONS, SAMPLES, Record

TABLES = load_tables(Path(__file__).parents[2] / "deploy" / "deltaplane.toml")
DEFINITION = StreamDefinition.from_tables(TABLES)


def prediction(name: str, label: str, offset: int) -> Record:
    said = Prediction(name, label, {"0": -1.0, "1": 1.0}, 3, "queries", 0, offset)
    return Record(PREDICTIONS, 0, offset, 0, b"key", write_prediction(said))


def samples(labels: dict[str, str], offset: int) -> Record:
    table = tuple(dict.fromkeys(labels.values()))
    codes = np.array([table.index(label) for label in labels.values()], dtype=np.int32)
    rows = np.zeros((len(labels), len(DEFINITION.features)))
    batch = Samples.of_record(list(labels), 0, table, codes, rows)
    return Record(SAMPLES, 0, offset, 0, None, write_sample_batch(batch, DEFINITION.data_fingerprint))


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {"stream": DEFINITION.name, "site": "north", **labels})


def test_predictions_are_judged_by_samples_of_their_ids_and_what_is_none_is_passed_over() -> None:
    judge, watch = JudgeProcessor(DEFINITION), JudgeMetrics(DEFINITION, "north")
    watch.turn(judge, caught_up=False)
    assert "reading the predictions of before" in watch.ready().why
    refused = write_unanswered(Unanswered("x", 3, "queries", 0, 9, "bad value", "nan", None))
    judge.hear([prediction("a", "1", 0), prediction("b", "0", 1), prediction("c", "1", 2), prediction("d", "1", 3)])
    judge.hear([Record(PREDICTIONS, 0, 4, 0, b"key", refused), Record(PREDICTIONS, 0, 5, 0, None, b"no prediction")])
    assert judge.see([samples({"a": "1", "b": "1", "never asked": "0"}, 0), Record(SAMPLES, 0, 1, 0, None, b"no")]) == 2
    watch.turn(judge, caught_up=True)
    assert value(watch.registry, "deltaplane_served_gmean_ratio", span="all") is None
    # The same label again, or another one, judges nothing twice.
    assert judge.see([samples({"c": "0", "a": "0"}, 2)]) == 1
    watch.turn(judge, caught_up=True)
    counted = {
        truth + guess: value(watch.registry, "deltaplane_served_predictions_total", truth=truth, predicted=guess)
        for truth in "01"
        for guess in "01"
    }
    assert counted == {"00": 0, "01": 1, "10": 1, "11": 1}
    assert value(watch.registry, "deltaplane_served_waiting") == 1
    assert judge.unreadable == 3
    assert value(watch.registry, "deltaplane_served_gmean_ratio", span="all") == 0.0
    judge.hear([prediction("e", "0", 6)])
    assert judge.see([samples({"e": "0"}, 3)]) == 1
    watch.turn(judge, caught_up=True)
    gmean = value(watch.registry, "deltaplane_served_gmean_ratio", span="recent")
    assert gmean is not None
    assert math.isclose(gmean, math.sqrt(0.5 * 0.5))
    assert watch.ready().good

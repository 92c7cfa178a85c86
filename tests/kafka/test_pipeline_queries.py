"""Asking a live stream from a program and by commands: classes, probabilities, reasons, and all rows of a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from deltaplane.errors import RowsRefused
from deltaplane.log.records import Prediction, Unanswered
from deltaplane_services import LiveModel, NoAnswer, QueryClient, SampleProducer
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as opened:
        yield opened


def test_who_asks_a_live_stream_is_told_the_same_by_whichever_way(kafka: RunningKafka, stream: Stream) -> None:
    rows, queries = Rows(600, seed=1), Rows(20, seed=2).features
    names = stream.definition.features
    for command in ("worker", "merger", "scorer"):
        stream.start(command)
    with (
        LiveModel.connect(stream.definition_file, broker=kafka.bootstrap) as live,
        QueryClient.connect(stream.definition_file, broker=kafka.bootstrap) as client,
    ):
        with pytest.raises(NoAnswer, match=r"1 of 1 have no answer within 0\.2 s; is a scorer running"):
            client.ask(queries[0].tolist(), 0.2)
        with SampleProducer.connect(stream.definition_file, broker=kafka.bootstrap) as producer:
            for begin in range(0, 600, 50):
                part = slice(begin, begin + 50)
                times = [datetime.fromtimestamp(time / 1000, UTC) for time in rows.times[part].tolist()]
                producer.send_batch(rows.ids[part], times, rows.labels[part], rows.features[part])
                producer.flush()
                model = live.wait(PATIENCE_SECONDS)
            with pytest.raises(RowsRefused, match="maybe"):
                producer.send("another", times[0], "maybe", rows.features[0].tolist())
        while sum(model.counts.values()) < 600 or model.calibration is None or not model.calibration.curves:
            stream.check_running()
            model = live.wait(PATIENCE_SECONDS, version=model.version)
        asked = [dict(zip(names, row, strict=True)) for row in queries.tolist()]
        told: list[Prediction] = []
        while not told or {answer.model_version for answer in told} != {live.wait(PATIENCE_SECONDS).version}:
            # The scorer and this process may be a model apart for a moment.
            stream.check_running()
            answers = client.ask_all(
                [*asked, {**asked[0], names[0]: 1e300}], PATIENCE_SECONDS, ("probabilities", "reasons")
            )
            assert isinstance(answers[-1], Unanswered)
            told = [answer for answer in answers if isinstance(answer, Prediction)]
        assert [answer.predicted for answer in told] == live.predict(asked)
        chances = live.predict_proba(queries)
        np.testing.assert_array_equal(
            [[answer.probabilities[name] for name in live.classes] for answer in told], chances
        )
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
        assert [list(answer.reasons) for answer in told] == live.reasons(queries)
        positive = live.classes.index(str(model.plane.positive)) if model.plane is not None else 0
        assert np.array_equal(
            live.decision_function(queries) > 0.0, [one.predicted == live.classes[positive] for one in told]
        )

    said = stream.run("query", json.dumps(asked[0]), "--json", "--reasons").stdout
    assert json.loads(said)[0]["probabilities"] == dict(told[0].probabilities)
    file = stream.directory / "new.csv"
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerows([["name", *names], *([f"n{at}", *row] for at, row in enumerate(queries.tolist()))])
    found = list(csv.DictReader(io.StringIO(stream.run("predict", str(file), "--id", "name").stdout)))
    assert [row["predicted"] for row in found] == [answer.predicted for answer in told]
    assert [row["id"] for row in found] == [f"n{at}" for at in range(20)]
    exported = stream.directory / "model.json"
    exported.write_text(stream.run("model", "export").stdout)
    again = list(csv.DictReader(io.StringIO(stream.run("predict", str(file), "--model", str(exported)).stdout)))
    assert [row["score"] for row in again] == [row["score"] for row in found]
    assert [row["probability"] for row in again] == [row["probability"] for row in found]

"""Answers over HTTP: those of the core for every row, with the model's version, and a reason for what is refused."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from column_rows import ENCODER, GOOD
from deltaplane.errors import DefinitionError, DefinitionMismatch, DeltaplaneError
from deltaplane.log.answers import answer
from deltaplane.log.exported_model import exported_model, model_tables
from deltaplane.log.model import Model
from deltaplane.log.reasons import reasons
from deltaplane.stream.column_tables import encoder_table
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane_services.cli import main
from deltaplane_services.observe.metrics import http_metric_names
from deltaplane_services.serve.application import Bounds, application
from deltaplane_services.serve.model_file import read_model_file
from deltaplane_services.serve.model_source import FileSource, FollowedSource
from deltaplane_services.serve.running import listening
from exported_streams import PLAIN, STREAMS, model_of
from http_client import Client, serving


class Live:
    """What follows a stream's models, with one that a test sets."""

    def __init__(self, model: Model | None = None) -> None:
        self.now = model
        self.stale: str | None = None
        self.failure: DeltaplaneError | None = None

    @property
    def model(self) -> Model | None:
        if self.failure is not None:
            raise self.failure
        return self.now


STREAM = StreamDefinition.from_tables(PLAIN)


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of(STREAM)


@pytest.fixture
def live(model: Model) -> Live:
    return Live(model)


@pytest.fixture
def client(live: Live) -> Iterator[Client]:
    with serving(application(FollowedSource(STREAM, live), Bounds(rows=50, body_bytes=20_000))) as opened:
        yield opened


def records(count: int, seed: int = 1) -> list[dict[str, float]]:
    rows = np.random.default_rng(seed).normal(size=(count, 3)).tolist()
    return [dict(zip(STREAM.features, row, strict=True)) for row in rows]


def tensor(rows: Any, **others: Any) -> dict[str, Any]:
    values = np.asarray(rows, dtype=np.float64)
    one = {"name": "features", "shape": list(values.shape), "datatype": "FP64", "data": values.tolist()}
    return {"inputs": [one], **others}


@pytest.mark.parametrize("name", STREAMS)
def test_both_forms_give_the_answers_of_the_core(name: str) -> None:
    stream = StreamDefinition.from_tables(PLAIN | STREAMS[name])
    model = model_of(stream)
    assert model.plane is not None
    rows = np.random.default_rng(2).normal(size=(40, 3))
    expected = answer(model.plane, stream, rows).of_model(model)
    assert expected.probabilities is not None
    source = FollowedSource(stream, Live(model))
    with serving(application(source)) as client:
        asked = [dict(zip(stream.features, row, strict=True)) for row in rows.tolist()]
        plain = client.post("/predict", json={"records": asked}).json()
        assert [one["class"] for one in plain["predictions"]] == expected.classes
        assert [one["decision"] for one in plain["predictions"]] == [expected.decisions(row) for row in range(40)]
        assert [one["probability"] for one in plain["predictions"]] == [
            expected.probabilities_of(row) for row in range(40)
        ]
        assert (plain["model"], plain["version"], plain["digest"]) == (stream.name, model.version, model.digest)
        told = client.post(f"/v2/models/{stream.name}/infer", json=tensor(rows, id="7")).json()
    assert (told["model_name"], told["model_version"], told["id"]) == (stream.name, str(model.version), "7")
    assert told["parameters"]["digest"] == model.digest
    by_name = {one["name"]: one for one in told["outputs"]}
    assert by_name["class"]["data"] == expected.classes
    assert by_name["decision"]["shape"] == list(expected.values.shape)
    assert np.array(by_name["decision"]["data"]).tobytes() == expected.values.ravel().tobytes()
    assert by_name["probability"]["shape"] == list(expected.probabilities.shape)
    assert by_name["probability"]["parameters"]["classes"] == list(model.plane.classes)
    assert np.array(by_name["probability"]["data"]).tobytes() == expected.probabilities.ravel().tobytes()


@pytest.mark.parametrize("name", ["binary", "three classes", "fourier"])
def test_reasons_are_told_where_they_are_asked_for(name: str, tmp_path: Path) -> None:
    stream = StreamDefinition.from_tables(PLAIN | STREAMS[name])
    model = model_of(stream)
    assert model.plane is not None
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model_tables(model, stream)), "utf-8")
    rows = np.random.default_rng(2).normal(size=(5, 3))
    why = reasons(model.plane, stream, rows, answer(model.plane, stream, rows).chosen)
    assert why is not None
    expected = [[{"column": column, "contribution": part} for column, part in why.largest(row)] for row in range(5)]
    asked = [dict(zip(stream.features, row, strict=True)) for row in rows.tolist()]
    for source in (FollowedSource(stream, Live(model)), FileSource(stream, read_model_file(path, stream))):
        with serving(application(source)) as client:
            told = client.post("/predict", json={"records": asked, "reasons": True}).json()["predictions"]
            assert [one["reasons"] for one in told] == expected
            assert "reasons" not in client.post("/predict", json={"records": asked}).json()["predictions"][0]


def test_a_model_that_knows_no_probabilities_or_means_says_so(client: Client, live: Live, model: Model) -> None:
    assert model.plane is not None
    live.now = replace(model, calibration=None, plane=replace(model.plane, means=None))
    told = client.post("/predict", json={"records": records(1)}).json()["predictions"][0]
    assert told["probability"] is None
    outputs = client.post("/v2/models/stream/infer", json=tensor(np.zeros((1, 3)))).json()["outputs"]
    assert [one["name"] for one in outputs] == ["class", "decision"]
    refused = client.post("/v2/models/stream/infer", json=tensor(np.zeros((1, 3)), outputs=[{"name": "probability"}]))
    assert refused.status_code == 503
    assert "no row of some class was scored yet" in refused.json()["error"]
    refused = client.post("/predict", json={"records": records(1), "reasons": True})
    assert refused.status_code == 400
    assert "does not say where the live rows lie" in refused.json()["error"]


def test_mixed_columns_are_encoded_as_for_a_scorer() -> None:
    columns = {"columns": encoder_table(ENCODER)}
    width = len(ENCODER.features)
    stream = StreamDefinition.from_tables(
        {key: value for key, value in PLAIN.items() if key != "features"}
        | columns
        | {"grid": {"steps": [2.0**-20] * width, "offsets": [0.0] * width, "range_bits": 45}}
    )
    plane = replace(
        model_of(STREAM).plane,  # type: ignore[type-var]
        weights=np.random.default_rng(3).normal(size=(1, width)),
    )
    live = Live(replace(model_of(STREAM), plane=plane))
    row = {name: cell if isinstance(cell, int | str) else cell.isoformat() for name, cell in GOOD.items()}
    assert plane is not None
    expected = answer(plane, stream, features_by_name(stream, [row])[0])
    with serving(application(FollowedSource(stream, live))) as client:
        told = client.post("/predict", json=[row, {"amount": "twelve"}, {**row, "amont": 1}]).json()["predictions"]
        assert (told[0]["class"], told[0]["decision"]) == (expected.classes[0], expected.decisions(0))
        assert [one["class"] for one in told[1:]] == [None, None]
        assert "amount" in told[1]["refusal"]
        assert "amont" in told[2]["refusal"]
        kinds = {int: "INT64", str: "BYTES"}
        inputs = [
            {"name": name, "shape": [1], "datatype": kinds[type(cell)], "data": [cell]} for name, cell in row.items()
        ]
        outputs = client.post("/v2/models/stream/infer", json={"inputs": inputs}).json()["outputs"]
        assert outputs[0]["data"] == expected.classes
        metadata = client.get("/v2/models/stream").json()
        assert [one["name"] for one in metadata["inputs"]] == list(ENCODER.columns)


def test_a_row_without_an_answer_costs_the_others_nothing_and_has_its_reason(client: Client) -> None:
    asked = records(3)
    asked[1]["height"] = 1e300
    told = client.post("/predict", json={"records": asked}).json()["predictions"]
    assert told[1]["class"] is None
    assert "outside the grid's range" in told[1]["refusal"]
    assert None not in (told[0]["class"], told[2]["class"])
    rows = [[row[name] for name in STREAM.features] for row in asked]
    refused = client.post("/v2/models/stream/infer", json=tensor(rows))
    assert refused.status_code == 400
    assert "1 of 3 rows have no answer: row 1: feature 'height'" in refused.json()["error"]


def test_what_it_is_and_whether_it_is_ready_is_as_the_protocol_has_it(client: Client, model: Model) -> None:
    assert client.get("/v2").json()["name"] == "deltaplane"
    assert client.get("/v2/health/live").status_code == client.get("/v2/health/ready").status_code == 200
    metadata = client.get("/v2/models/stream").json()
    assert (metadata["name"], metadata["versions"]) == ("stream", [str(model.version)])
    assert metadata["inputs"] == [{"name": "features", "datatype": "FP64", "shape": [-1, 3]}]
    assert client.get("/v2/models/stream/ready").json() == {"name": "stream", "ready": True}
    version = f"/v2/models/stream/versions/{model.version}"
    assert client.get(f"{version}/ready").status_code == client.get(version).status_code == 200
    assert client.post(f"{version}/infer", json=tensor(np.zeros((1, 3)))).status_code == 200
    gone = client.post("/v2/models/stream/versions/1/infer", json=tensor(np.zeros((1, 3))))
    assert gone.status_code == 404
    assert "version '1' is not served" in gone.json()["error"]
    assert client.get("/v2/models/other").status_code == client.get("/v2/models/other/ready").status_code == 404


def test_before_the_first_plane_it_is_alive_and_says_why_it_is_not_ready(client: Client, live: Live) -> None:
    model, live.now = live.now, None
    assert model is not None
    refused = replace(model, plane=None, refusal="expected two classes")
    for now, why in ((None, "has no model yet"), (refused, "has no plane yet: expected two classes")):
        live.now = now
        assert client.get("/v2/health/live").status_code == 200
        for told in (
            client.get("/v2/health/ready"),
            client.get("/v2/models/stream/ready"),
            client.post("/predict", json=records(1)),
            client.post("/v2/models/stream/infer", json=tensor(np.zeros((1, 3)))),
        ):
            assert told.status_code == 503
            assert why in told.json()["error"]
            assert told.headers["retry-after"] == "1"
    live.failure = DeltaplaneError("models: all of them are of another definition")
    assert client.get("/v2/health/ready").json()["error"] == "models: all of them are of another definition"


def test_who_asks_for_a_newer_model_waits_for_it_and_is_told_if_it_does_not_come(
    client: Client, live: Live, model: Model
) -> None:
    newer = {"records": records(1), "min_version": model.version + 1}
    late = client.post("/predict", json={**newer, "wait_seconds": 0.02})
    assert late.status_code == 503
    assert f"version {model.version} is the newest after waiting 0.02 s" in late.json()["error"]

    def publish() -> None:
        live.now = replace(model, version=model.version + 1)

    timer = threading.Timer(0.1, publish)
    timer.start()
    assert client.post("/predict", json={**newer, "wait_seconds": 20}).json()["version"] == model.version + 1
    timer.join()
    told = client.post(
        "/v2/models/stream/infer", json=tensor(np.zeros((1, 3)), parameters={"min_version": model.version + 1})
    )
    assert told.json()["model_version"] == str(model.version + 1)


def test_a_model_that_nobody_renews_says_so_in_every_answer(client: Client, live: Live) -> None:
    live.stale = "stream.models is gone"
    assert client.post("/predict", json=records(1)).json()["stale"] == "stream.models is gone"
    assert client.get("/v2/health/ready").json() == {"ready": True, "stale": "stream.models is gone"}


HUGE = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("", "the body is not JSON"),
        ("{", "the body is not JSON"),
        (HUGE, "the body is not JSON"),
        ("[]", "with one record and more"),
        ("3", "with one record and more"),
        ('{"records": [3]}', "with one record and more"),
        ('{"records": [{}], "min_vers": 3}', "unknown field 'min_vers'"),
        ('{"records": [{}], "min_version": -1}', "min_version: expected"),
        ('{"records": [{}], "min_version": true}', "min_version: expected"),
        ('{"records": [{}], "wait_seconds": "1"}', "wait_seconds: expected"),
        ('{"records": [{}], "wait_seconds": NaN}', "wait_seconds: expected"),
    ],
)
def test_a_body_that_asks_nothing_is_refused_with_the_reason(client: Client, body: str, told: str) -> None:
    answered = client.post("/predict", content=body)
    assert answered.status_code == 400
    assert told in answered.json()["error"]


GOOD_INPUT = {"name": "features", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([], "expected"),
        ({"inputs": []}, "expected"),
        ({"inputs": [3]}, "expected"),
        ({"inputs": [{**GOOD_INPUT, "name": 3}]}, "expected a name"),
        ({"inputs": [{**GOOD_INPUT, "datatype": "FP16"}]}, "expected a name and one of"),
        ({"inputs": [{**GOOD_INPUT, "shape": [3, 1]}]}, "expected numbers of shape"),
        ({"inputs": [{**GOOD_INPUT, "shape": [1, 1, 3]}]}, "expected a shape"),
        ({"inputs": [{**GOOD_INPUT, "shape": [True, 3]}]}, "expected a shape"),
        ({"inputs": [{**GOOD_INPUT, "shape": [2, 3]}]}, "values, got 3"),
        ({"inputs": [{**GOOD_INPUT, "data": ["1", 2, 3]}]}, "expected values of FP64"),
        ({"inputs": [{**GOOD_INPUT, "data": [1, 2, 10**400]}]}, "64 bits"),
        ({"inputs": [{**GOOD_INPUT, "data": {}}]}, "expected data as a list"),
        ({"inputs": [{**GOOD_INPUT, "data": [[[1]], 2, 3]}]}, "expected values of FP64"),
        ({"inputs": [GOOD_INPUT], "outputs": [{"name": "odds"}]}, "there is no 'odds'"),
        ({"inputs": [GOOD_INPUT], "parameters": [1]}, "parameters: expected an object"),
        ({"inputs": [{**GOOD_INPUT, "name": "odd", "shape": [3]}]}, "got 'odd'"),
        ({"inputs": [{**GOOD_INPUT, "name": "age", "shape": [3]}] * 2}, "a name twice"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_the_reason(client: Client, asked: Any, told: str) -> None:
    answered = client.post("/v2/models/stream/infer", json=asked)
    assert answered.status_code == 400, answered.text
    assert told in answered.json()["error"]


def test_features_may_come_one_tensor_each_in_any_order_and_only_some_outputs_be_asked_for(client: Client) -> None:
    values = {"age": [1.0, 2.0], "weight": [2.0, 3.0], "height": [0.5, 0.25]}
    inputs = [{"name": name, "shape": [2], "datatype": "FP32", "data": data} for name, data in values.items()]
    rows = np.array([values[name] for name in STREAM.features]).T
    apart = client.post("/v2/models/stream/infer", json={"inputs": inputs, "outputs": [{"name": "decision"}]}).json()
    whole = client.post("/v2/models/stream/infer", json=tensor(rows)).json()
    assert apart["outputs"] == [whole["outputs"][1]]


def test_bodies_batches_and_requests_at_once_are_bounded(model: Model) -> None:
    live = Live(model)
    app = application(FollowedSource(STREAM, live), Bounds(body_bytes=2000, rows=5, requests=2))
    with serving(app) as client:
        assert client.post("/predict", json=records(5)).status_code == 200
        many, long = client.post("/predict", json=records(6)), client.post("/predict", content=b" " * 2001)
        assert (many.status_code, long.status_code) == (413, 413)
        assert "at most 5 rows in a request, got 6" in many.json()["error"]
        assert "at most 2000 bytes" in long.json()["error"]

        def wait() -> int:
            asked = {"records": records(1), "min_version": model.version + 1, "wait_seconds": 30}
            return int(client.post("/predict", json=asked).status_code)

        with ThreadPoolExecutor(2) as threads:
            waiting = [threads.submit(wait) for _ in range(2)]
            until = time.monotonic() + 30
            while (busy := client.get("/v2/health/live")).status_code == 200 and time.monotonic() < until:
                pass
            assert busy.status_code == 503
            assert "2 requests are being answered" in busy.json()["error"]
            live.now = replace(model, version=model.version + 1)
            assert [one.result() for one in waiting] == [200, 200]
        assert client.get("/v2/health/live").status_code == 200


def test_binary_tensors_are_refused_by_name(client: Client) -> None:
    told = client.post("/v2/models/stream/infer", content=b"{}", headers={"Inference-Header-Content-Length": "2"})
    assert told.status_code == 400
    assert "binary_data=False" in told.json()["error"]


def test_requests_rows_and_the_model_are_counted(client: Client, live: Live, model: Model) -> None:
    asked = records(3)
    asked[0]["age"] = 1e300
    client.post("/predict", json=asked)
    client.post("/predict", content=b"{")
    families = {one.name: one for one in text_string_to_metric_families(client.get("/metrics").text)}
    assert {one.name.removesuffix("_total") for one in http_metric_names.SERVE} == families.keys()
    values = {
        (one.name, *(one.labels[key] for key in sorted(one.labels) if key != "stream")): one.value
        for family in families.values()
        for one in family.samples
    }
    assert values["deltaplane_http_requests_total", "/predict", "200"] == 1.0
    assert values["deltaplane_http_requests_total", "/predict", "400"] == 1.0
    assert values["deltaplane_http_rows_total", "answered"] == 2.0
    assert values["deltaplane_http_rows_total", "refused"] == 1.0
    assert values["deltaplane_http_request_seconds_count", "/predict"] == 2.0
    assert values["deltaplane_http_model_version",] == model.version
    assert values["deltaplane_http_model_stale",] == 0.0
    live.now = None
    assert "deltaplane_http_model_version{" not in client.get("/metrics").text


def test_plane_version_and_digest_of_an_answer_are_of_one_model(model: Model) -> None:
    assert model.plane is not None
    live = Live(model)
    planes = [replace(model.plane, biases=np.array([float(at)])) for at in range(50)]
    models = [
        replace(model, version=at + 1, plane=plane, digest_of=lambda at=at: f"{at:064}")  # type: ignore[misc]
        for at, plane in enumerate(planes)
    ]
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for live.now in models:
                pass

    thread = threading.Thread(target=swap)
    with serving(application(FollowedSource(STREAM, live))) as client:
        thread.start()
        try:
            for _ in range(100):
                told = client.post("/predict", json=records(1)).json()
                bias = float(told["version"] - 1)
                assert told["digest"] == f"{told['version'] - 1:064}"
                expected = answer(planes[int(bias)], STREAM, features_by_name(STREAM, records(1))[0])
                assert told["predictions"][0]["decision"] == expected.decisions(0)
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize("name", STREAMS)
def test_an_exported_file_answers_as_the_model_did(name: str, tmp_path: Path) -> None:
    stream = StreamDefinition.from_tables(PLAIN | STREAMS[name])
    model = model_of(stream)
    assert model.plane is not None
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model_tables(model, stream)), "utf-8")
    source = FileSource(stream, read_model_file(path, stream))
    rows = np.random.default_rng(2).normal(size=(40, 3))
    expected = answer(model.plane, stream, rows).of_model(model)
    assert expected.probabilities is not None
    with serving(application(source)) as client:
        told = client.post(f"/v2/models/{stream.name}/infer", json=tensor(rows)).json()
        assert np.array(told["outputs"][2]["data"]).tobytes() == expected.probabilities.ravel().tobytes()
        assert told["outputs"][0]["data"] == expected.classes
        assert np.array(told["outputs"][1]["data"]).tobytes() == expected.values.ravel().tobytes()
        never = client.post("/predict", json={"records": records(1), "min_version": model.version + 1})
        assert never.status_code == 409
        assert "which nobody renews" in never.json()["error"]


def test_a_file_that_is_no_model_of_the_stream_is_refused_by_name(model: Model, tmp_path: Path) -> None:
    good = model_tables(model, STREAM)
    path = tmp_path / "model.json"
    for text, told in (("{", "is not JSON"), ("[]", "expected format")):
        path.write_text(text, "utf-8")
        with pytest.raises(DefinitionError, match=told):
            read_model_file(path, STREAM)
    with pytest.raises(DefinitionError, match="cannot be read"):
        read_model_file(tmp_path / "none.json", STREAM)
    for change, told in (
        ({"format_version": 9}, "version 9"),
        ({"weights": None}, "before there was a plane"),
        ({"weights": [[1.0]]}, "expected planes over 3 features"),
        ({"intercepts": [1.0, 2.0]}, "2 intercepts"),
        ({"positive": "maybe"}, "2 classes"),
        ({"classes": ["yes"]}, "1 classes"),
    ):
        with pytest.raises(DefinitionError, match=told):
            exported_model(good | change, STREAM)
    with pytest.raises(DefinitionMismatch, match="give the definition of its export"):
        exported_model(good | {"data_fingerprint": "00"}, STREAM)


def test_the_command_without_its_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import sys  # noqa: PLC0415 - its modules are what the test is about.

    for name in [one for one in sys.modules if one.startswith("deltaplane_services.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    monkeypatch.setattr(sys, "argv", ["deltaplane", "serve", "--definition", str(tmp_path / "stream.toml")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "deltaplane: deltaplane serve needs starlette: pip install 'deltaplane[serve]'\n"


def test_the_last_part_of_an_answer_is_sent_at_once() -> None:
    with listening("127.0.0.1", 0) as listener:
        # Asyncio sets TCP_NODELAY on connections of sockets that name this protocol, and on no others.
        assert listener.proto == socket.IPPROTO_TCP

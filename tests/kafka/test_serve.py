"""``deltaplane serve`` as a process, over a models topic whose model is replaced a thousand times while it is asked."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from deltaplane.log.answers import answer
from deltaplane.log.model import Model
from deltaplane.solve.solver import Plane
from deltaplane.wire import write_model
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import MODELS, Outgoing
from exported_streams import model_of
from http_client import Client
from kafka.clients import wait_until
from kafka.selection import RunningKafka
from kafka.services import Stream

SWAPS = 1000
AT_ONCE = 10
"""Models that are published before the newest of them is waited for."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


class Planes:
    """Models of a stream, published; the decisions of each tell which one it is."""

    def __init__(self, stream: Stream, model: Model, plane: Plane) -> None:
        self._definition, self._model, self._plane = stream.definition, model, plane
        self._out = publisher(stream.settings, "central")

    def _of(self, version: int) -> Plane:
        return replace(self._plane, biases=self._plane.biases + version)

    def publish(self, versions: range) -> None:
        for version in versions:
            model = replace(self._model, version=version, plane_version=version, plane=self._of(version))
            value = write_model(model)
            self._out.publish([Outgoing(MODELS, 0, self._definition.name.encode(), value)])
            if version % 10 == 0:
                self._out.flush()
        self._out.flush()

    def decision(self, version: int) -> float:
        values = answer(self._of(version), self._definition, np.array([list(ROW.values())])).values
        return float(values[0, 0])


class Asking:
    """A thread that asks one question over and over; ``told`` are versions and decisions, ``failed`` all else."""

    def __init__(self, client: Client, path: str, body: Any) -> None:
        self.told: list[tuple[int, float]] = []
        self.failed: list[Any] = []
        self._stop = threading.Event()
        self._asked = client, path, body
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        client, path, body = self._asked
        while not self._stop.is_set():
            try:
                reply = client.post(path, json=body)
            except OSError as fault:
                self.failed.append(fault)
                return
            if reply.status_code != 200:
                self.failed.append(reply)
            else:
                self.told.append(_version_and_decision(reply.json()))

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def _version_and_decision(said: Any) -> tuple[int, float]:
    if "predictions" in said:
        return said["version"], said["predictions"][0]["decision"]["yes"]
    return int(said["model_version"]), said["outputs"][1]["data"][0]


ROW = {"height": 1.0, "weight": 2.0, "age": 3.0}
TENSOR = {"name": "features", "shape": [1, 3], "datatype": "FP64", "data": list(ROW.values())}


def test_no_request_fails_while_the_model_is_replaced_a_thousand_times(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    port = free_port()
    with (
        Stream.made(tmp_path, stream_name, kafka.bootstrap, partitions=1) as stream,
        contextlib.closing(Client(port)) as client,
    ):
        model = model_of(stream.definition)
        assert model.plane is not None
        planes = Planes(stream, model, model.plane)
        server = stream.start("serve", "--address", f"127.0.0.1:{port}")
        server.wait_for("answers at http://127.0.0.1")
        early = client.post("/predict", json=ROW)
        assert early.status_code == 503
        assert "has no model yet" in early.json()["error"]
        assert client.get("/v2/health/live").status_code == 200
        planes.publish(range(1, 2))
        wait_until(lambda: client.get("/v2/health/ready").status_code == 200, "the first model answers")

        infer = f"/v2/models/{stream_name}/infer"
        asking = [Asking(client, "/predict", ROW), Asking(client, infer, {"inputs": [TENSOR]})]
        try:
            for begin in range(2, SWAPS + 2, AT_ONCE):
                planes.publish(range(begin, begin + AT_ONCE))
                # Read your own unlearning: the answer is of this version or a newer one, or there is none.
                wanted = {"records": [ROW], "min_version": begin + AT_ONCE - 1, "wait_seconds": 30}
                newest = client.post("/predict", json=wanted)
                assert newest.json()["version"] == begin + AT_ONCE - 1, newest
        finally:
            for one in asking:
                one.end()
        for one in asking:
            assert one.failed == []
            versions = [version for version, _ in one.told]
            assert versions == sorted(versions), "a version went back"
            assert len(set(versions)) > SWAPS // AT_ONCE // 2, f"too few models were met: {len(set(versions))}"
            assert all(decision == planes.decision(version) for version, decision in set(one.told))
        late = client.post("/predict", json={"records": [ROW], "min_version": SWAPS + 2, "wait_seconds": 0.05})
        assert late.status_code == 503
        server.terminate()


def test_a_file_answers_without_a_broker(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, partitions=1) as stream:
        model, out = model_of(stream.definition), publisher(stream.settings, "central")
        out.publish([Outgoing(MODELS, 0, stream_name.encode(), write_model(model))])
        out.flush()
        file = tmp_path / "model.json"
        file.write_text(stream.run("model", "export").stdout, "utf-8")
        port = free_port()
        ignore_delivery = ("--broker", f"127.0.0.1:{free_port()}")
        server = stream.start("serve", "--address", f"127.0.0.1:{port}", "--model", str(file), *ignore_delivery)
        server.wait_for("answers at http://127.0.0.1")
        with contextlib.closing(Client(port)) as client:
            said = client.post("/predict", json=ROW).json()
        assert (said["version"], said["digest"]) == (model.version, model.digest)
        server.terminate()
        taken = socket.create_server(("127.0.0.1", port))
        with taken:
            ended = stream.run("serve", "--address", f"127.0.0.1:{port}", "--model", str(file), code=2)
        assert "expected a free address of this machine" in ended.stderr

"""How long one row over HTTP takes, beside an endpoint of the same stack that does nothing.

The server is a process of its own, as it is in production; ``python -m`` of this module is that process. Questions take
turns, so that whatever else the machine does meets all of them.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np

from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition

__all__ = ["QUESTIONS", "Latency", "made_source", "serve_alone", "time_requests"]

QUESTIONS = ("bare", "POST /predict", "POST /v2/models/{name}/infer")
_NAME = "made"


class Latency(NamedTuple):
    """Milliseconds from sending one request until its answer is read: of so many, the median, 99 of 100, the worst."""

    requests: int
    median: float
    p99: float
    worst: float


def _definition(features: int) -> StreamDefinition:
    names = [f"feature_{at}" for at in range(features)]
    return StreamDefinition.from_tables(
        {
            "name": _NAME,
            "features": {"names": names},
            "grid": {"steps": [2.0**-20] * features},
            "classes": {"names": ["no", "yes"], "positive": "yes"},
            "window": {"length": "all"},
            "solver": {"C": 1.0},
        }
    )


def made_source(features: int) -> tuple[StreamDefinition, Plane]:
    """A stream of so many features, and a plane for it."""
    weights = np.random.default_rng(0).normal(size=(1, features))
    plane = Plane(("no", "yes"), "yes", weights, np.zeros(1), {}, 1.0, 1.0, {})
    return _definition(features), plane


def serve_alone(features: int) -> None:
    """Serve the made model, and a bare endpoint beside it; the port is the first line of standard output."""
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from deltaplane.log.exported_model import ExportedModel
    from deltaplane_services.serve.application import application
    from deltaplane_services.serve.model_source import FileSource
    from deltaplane_services.serve.running import listening, run_server

    definition, plane = made_source(features)
    app = application(FileSource(definition, ExportedModel(plane, 1, "0" * 64)))

    async def bare(request: Request) -> Response:
        await request.body()
        return Response(b"{}", media_type="application/json")

    app.router.routes.append(Route("/bare", bare, methods=["POST"]))
    listener = listening("127.0.0.1", 0)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    run_server(app, listener)


def time_requests(features: int, rounds: int, seed: int) -> dict[str, Latency]:
    """Question to its latency, over one connection that is kept, after a tenth of the rounds to warm up."""
    definition, _ = made_source(features)
    rows = np.random.default_rng(seed).normal(size=(rounds + rounds // 10, features)).tolist()
    with _server(features) as connection:
        seconds: dict[str, list[float]] = {question: [] for question in QUESTIONS}
        for row in rows:
            record = json.dumps(dict(zip(definition.features, row, strict=True))).encode()
            tensor = {"name": "features", "shape": [1, features], "datatype": "FP64", "data": row}
            bodies = {
                ("bare", "/bare"): record,
                ("POST /predict", "/predict"): record,
                (QUESTIONS[2], f"/v2/models/{_NAME}/infer"): json.dumps({"inputs": [tensor]}).encode(),
            }
            for (question, path), body in bodies.items():
                began = time.perf_counter()
                connection.request("POST", path, body)
                reply = connection.getresponse()
                reply.read()
                seconds[question].append(time.perf_counter() - began)
                assert reply.status == 200, f"{path}: {reply.status}"
    return {question: _latency(np.array(times[rounds // 10 :])) for question, times in seconds.items()}


def _latency(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Latency:
    median, p99, worst = (1000.0 * np.quantile(seconds, (0.5, 0.99, 1.0))).tolist()
    return Latency(len(seconds), median, p99, worst)


@contextmanager
def _server(features: int) -> Iterator[http.client.HTTPConnection]:
    command = [sys.executable, "-m", __name__, str(features)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own module.
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                yield connection
        finally:
            process.terminate()


if __name__ == "__main__":
    serve_alone(int(sys.argv[1]))

"""The server of answers: routes, bounds, and what is said if there is no answer.

Everything that a stranger may make long is bounded: the bytes of a body, the rows of a batch, the requests at once, the
time that a body may take to come and that a request may wait for a newer model. What is beyond is refused with a
reason, and costs the others nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread
import numpy as np
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from deltaplane.errors import DeltaplaneError
from deltaplane.log.answers import Answers, answer
from deltaplane.log.reasons import Reasons, reasons
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_of
from deltaplane_services.serve import questions, responses
from deltaplane_services.serve.model_source import ModelSource, Served
from deltaplane_services.serve.questions import BadQuestion, Question
from deltaplane_services.serve.serve_metrics import ServeMetrics

__all__ = ["Bounds", "application"]

_LOOK_SECONDS = 0.005
"""How often a request that waits for a newer model looks for it."""

_ROWS_HERE = 64
"""Rows that are answered in the event loop; a thread for fewer would cost more than they do."""


@dataclass(frozen=True)
class Bounds:
    """The most that one request, and all of them together, may take.

    ``wait_seconds`` is how long a request waits for a version that it asks for, and ``most_wait_seconds`` what it may
    ask for itself. ``body_seconds``: how long a body may take to come.
    """

    body_bytes: int = 8 * 2**20
    rows: int = 10_000
    requests: int = 256
    body_seconds: float = 5.0
    wait_seconds: float = 1.0
    most_wait_seconds: float = 30.0


def application(source: ModelSource, bounds: Bounds | None = None, metrics: ServeMetrics | None = None) -> Starlette:
    """The server as an ASGI application; what answers is asked of ``source`` for every request anew."""
    server = _Server(source, bounds or Bounds(), metrics or ServeMetrics(source))
    model, version = "/v2/models/{name}", "/versions/{version}"
    routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("GET", "/v2", server.metadata),
        ("GET", "/v2/health/live", server.live),
        ("GET", "/v2/health/ready", server.ready),
        ("GET", model, server.model),
        ("GET", model + version, server.model),
        ("GET", f"{model}/ready", server.model_ready),
        ("GET", f"{model}{version}/ready", server.model_ready),
        ("POST", f"{model}/infer", server.infer),
        ("POST", f"{model}{version}/infer", server.infer),
        ("POST", "/predict", server.predict),
    ]
    guarded = [Route(path, server.guarded(path, handle), methods=[method]) for method, path, handle in routes]
    return Starlette(routes=[*guarded, Route("/metrics", server.metrics)])


class _Server:
    def __init__(self, source: ModelSource, bounds: Bounds, metrics: ServeMetrics) -> None:
        self._source, self._bounds, self._metrics = source, bounds, metrics
        self._definition: StreamDefinition = source.definition
        self._at_once = 0

    def guarded(
        self, path: str, handle: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A handler that is counted, has its turn among no more than there may be, and gives reasons as JSON."""

        async def answer_one(request: Request) -> Response:
            began = time.monotonic()
            response = await self._bounded(request, handle)
            self._metrics.answered(path, response.status_code, time.monotonic() - began)
            return response

        return answer_one

    async def _bounded(self, request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
        if self._at_once >= self._bounds.requests:
            return _error(503, f"{self._at_once} requests are being answered, as many as there may be; try again")
        self._at_once += 1
        try:
            return await handle(request)
        except BadQuestion as fault:
            return _error(fault.status, str(fault))
        except DeltaplaneError as fault:
            return _error(400, str(fault))
        except ClientDisconnect:
            return _error(400, "the client hung up before its request was whole")
        finally:
            self._at_once -= 1

    # What it is ------------------------------------------------------------------------------------------------------

    async def metadata(self, request: Request) -> Response:
        """What the server is."""
        del request
        return _json(responses.server_metadata())

    async def live(self, request: Request) -> Response:
        """Whether the process should be left alone: it answers."""
        del request
        return _json({"live": True})

    async def ready(self, request: Request) -> Response:
        """Whether it answers by a model."""
        del request
        served = self._source.newest()
        if isinstance(served, str):
            return _error(503, served)
        return _json({"ready": True, "stale": self._source.stale()})

    async def model(self, request: Request) -> Response:
        """What the model takes and gives."""
        self._check_name(request)
        served = self._source.newest()
        known = None if isinstance(served, str) else served
        if known is not None:
            _check_version(request, known)
        return _json(responses.model_metadata(self._definition, known))

    async def model_ready(self, request: Request) -> Response:
        """Whether the model of this name, and of this version if there is one, answers."""
        self._check_name(request)
        served = self._source.newest()
        if isinstance(served, str):
            return _error(503, served)
        _check_version(request, served)
        return _json({"name": self._definition.name, "ready": True})

    async def metrics(self, request: Request) -> Response:
        """The metrics for Prometheus; they are not counted among the requests."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._metrics.registry), media_type=content_type)

    # Answers ---------------------------------------------------------------------------------------------------------

    async def infer(self, request: Request) -> Response:
        """An inference request of the protocol."""
        self._check_name(request)
        if "inference-header-content-length" in request.headers:
            raise BadQuestion(400, "binary tensors are not taken; send JSON (binary_data=False)")
        body, bounds = await self._body(request), self._bounds
        asked = questions.tensor_question(body, self._definition, bounds.rows, responses.OUTPUTS)
        served = await self._model_for(asked)
        _check_version(request, served)
        answers, _ = await self._answered(served, asked)
        return _json(responses.tensor_answer(served, self._definition, answers, asked, self._source.stale()))

    async def predict(self, request: Request) -> Response:
        """Records by name."""
        asked = questions.records_question(await self._body(request), self._bounds.rows)
        served = await self._model_for(asked)
        answers, why = await self._answered(served, asked)
        if asked.reasons and why is None:
            raise BadQuestion(400, "reasons: the model does not say where the live rows lie; ask without them")
        return _json(responses.plain_answer(served, self._definition, answers, self._source.stale(), why))

    async def _body(self, request: Request) -> bytes:
        """The body, if it is not too long and does not take too long."""
        most, parts, size = self._bounds.body_bytes, list[bytes](), 0
        try:
            async with asyncio.timeout(self._bounds.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise BadQuestion(413, f"expected a body of at most {most} bytes, got more; split the request")
                    parts.append(part)
        except TimeoutError:
            raise BadQuestion(
                408, f"the body took longer than {self._bounds.body_seconds:g} s; send it at once"
            ) from None
        return b"".join(parts)

    async def _model_for(self, asked: Question) -> Served:
        """The newest model, once it is as new as was asked for. Raises :class:`BadQuestion` if it does not come."""
        bounds = self._bounds
        patience = bounds.wait_seconds if asked.wait_seconds is None else asked.wait_seconds
        until = time.monotonic() + min(patience, bounds.most_wait_seconds)
        while True:
            served = self._source.newest()
            if isinstance(served, str):
                raise BadQuestion(503, served)
            if served.version >= asked.min_version:
                return served
            if not self._source.follows:
                raise BadQuestion(
                    409,
                    f"min_version is {asked.min_version}, and the model is a file of version {served.version}, which"
                    " nobody renews",
                )
            if time.monotonic() >= until:
                stale = self._source.stale()
                raise BadQuestion(
                    503,
                    f"min_version is {asked.min_version}, and version {served.version} is the newest after waiting"
                    f" {min(patience, bounds.most_wait_seconds):g} s{'' if stale is None else f': {stale}'}; try again",
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _answered(self, served: Served, asked: Question) -> tuple[Answers, Reasons | None]:
        work = partial(_answer, served, self._definition, asked)
        answers, why = work() if asked.count <= _ROWS_HERE else await anyio.to_thread.run_sync(work)
        refused = len(answers.refusals)
        self._metrics.rows(asked.count - refused, refused)
        return answers, why

    def _check_name(self, request: Request) -> None:
        if (name := request.path_params["name"]) != self._definition.name:
            raise BadQuestion(404, f"there is no model {name!r:.100}; there is {self._definition.name!r}")


def _answer(served: Served, definition: StreamDefinition, asked: Question) -> tuple[Answers, Reasons | None]:
    features, unread = features_of(definition, asked.rows)
    answers = answer(served.plane, definition, features, unread).of_model(served.model)
    if not asked.reasons:
        return answers, None
    return answers, reasons(served.plane, definition, np.asarray(features, dtype=np.float64), answers.chosen)


def _check_version(request: Request, served: Served) -> None:
    version = request.path_params.get("version")
    if version is not None and version != str(served.version):
        raise BadQuestion(
            404, f"version {version!r:.40} is not served, {served.version} is; ask without one, or for a min_version"
        )


def _json(value: Any, status: int = 200) -> Response:
    body = json.dumps(value, separators=(",", ":")).encode()
    return Response(body, status, media_type="application/json", headers={"Cache-Control": "no-store"})


def _error(status: int, reason: str) -> Response:
    response = _json({"error": reason}, status)
    if status == 503:
        response.headers["Retry-After"] = "1"
    return response

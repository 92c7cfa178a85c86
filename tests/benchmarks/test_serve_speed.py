"""What one row over HTTP takes is timed on the server as it is, beside an endpoint that does nothing."""

from __future__ import annotations

from deltaplane_benchmarks.speed.serve_speed import QUESTIONS, time_requests


def test_every_kind_of_request_is_answered_and_timed() -> None:
    found = time_requests(features=3, rounds=20, seed=0)
    assert tuple(found) == QUESTIONS
    for latency in found.values():
        assert latency.requests == 20
        assert 0.0 < latency.median <= latency.p99 <= latency.worst

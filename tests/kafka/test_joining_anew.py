"""A worker whose client went silent joins anew: it works on what its group gives it then, and on nothing else.

Whether the group gives it something else than before is the group's affair, so workers join several times. That what
the old client had is lost at once is held without a broker, in tests/services/test_member.py.
"""

from __future__ import annotations

import time
from pathlib import Path

from deltaplane_services.kafka.clients import worker_clients
from deltaplane_services.kafka.worker_loop import Worker
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream

ATTEMPTS = 6


def shared_out(workers: list[Worker], broken: int | None = None) -> list[set[int]]:
    """The partitions of each worker, once all of them are worked on and nothing waits.

    ``broken``: one whose client is replaced first.
    """
    if broken is not None:
        workers[broken]._member.join_anew()
    until, stable = time.monotonic() + PATIENCE_SECONDS, 0
    while stable < 10:
        for worker in workers:
            worker.step(100, 0.05)
        found = [set(worker.sources) for worker in workers]
        settled = all(worker._member.joined and not worker._waiting for worker in workers) and all(found)
        stable = stable + 1 if settled else 0
        assert time.monotonic() < until, f"not settled: {found}"
    return found


def test_workers_never_share_a_partition_whatever_the_group_gives_one_that_has_joined_anew(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as stream:
        settings = stream.settings
        workers = [Worker(stream.definition, settings.site, f"w{at}", worker_clients(settings)) for at in range(2)]
        try:
            before = shared_out(workers)
            assert before[0] | before[1] == {0, 1}
            for attempt in range(ATTEMPTS):
                found = shared_out(workers, broken=attempt % 2)
                assert not found[0] & found[1], f"both work on {found[0] & found[1]}"
                assert found[0] | found[1] == {0, 1}
                if found != before:
                    break
        finally:
            for worker in workers:
                worker.close()

"""Records that are published together have one acknowledgement to wait for, and each its own offset."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from deltaplane_services.kafka.publishing import DeliveryFailed, Publisher
from deltaplane_services.processors.messages import RETIREMENTS, Outgoing

PARTITIONS = 4
"""Those of each topic of the client's own stand-in for brokers."""


def publisher(**more: Any) -> Publisher:
    own = {"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0, "linger.ms": 5}
    return Publisher({**own, **{key.replace("_", "."): value for key, value in more.items()}}, "stream")


def retirement(number: int) -> Outgoing:
    return Outgoing(RETIREMENTS, number * 7 % PARTITIONS, str(number).encode(), b"value")


def test_each_of_many_records_has_its_offset_and_all_are_waited_for_once() -> None:
    out, records = publisher(queue_buffering_max_messages=100), [retirement(number) for number in range(1000)]
    with mock.patch.object(out, "flush", wraps=out.flush) as flush:
        offsets = out.publish_all_and_wait(records)
    assert flush.call_count == 1
    for partition in range(PARTITIONS):
        own = [offset for offset, record in zip(offsets, records, strict=True) if record.partition == partition]
        assert own == list(range(len(own)))
    assert out.publish_and_wait(retirement(0)) == offsets[-4] + 1
    assert out.publish_all_and_wait([]) == []


def test_if_one_of_them_is_refused_nobody_says_that_all_have_arrived() -> None:
    out = publisher(message_timeout_ms=2000)
    records = [retirement(0), Outgoing(RETIREMENTS, PARTITIONS + 5, b"b", b"value"), retirement(1)]
    with pytest.raises(DeliveryFailed):
        out.publish_all_and_wait(records)

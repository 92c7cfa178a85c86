"""Which dead letters hold a record that can be sent again, and to which topic it goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from deltaplane import limits
from deltaplane.log.records import DeadLetter
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.kafka.letter_headers import headers_beside, original_headers
from deltaplane_services.kafka.unpacking import STAND_IN
from deltaplane_services.operations import dead_letters
from deltaplane_services.operations.dead_letters import KeptLetter, Replayed, replay_letters
from deltaplane_services.processors.messages import UNREADABLE, Headers, Outgoing, Record
from deltaplane_services.processors.refused_records import dead_letter
from services.intake_shop import SHOP


class Heard:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[Outgoing] = []

    def publish(self, records: Iterable[Outgoing]) -> None:
        self.records += records

    def flush(self) -> None:
        """Nothing is on its way."""


def kept(topic: str, headers: Headers = (), **other: Any) -> KeptLetter:
    fields = {"partition": 1, "offset": 7, "row": None, "kind": "bad value", "reason": "", "key": b"k"}
    letter = DeadLetter(**{"topic": topic, **fields, "value": b"value", "size": 5, **other})
    return KeptLetter("site", "name", 0, letter, headers)


@pytest.mark.parametrize(
    ("letter", "topic"),
    [
        (kept("payments"), "payments"),
        (kept("samples"), "shop.samples"),
        (kept("queries"), "shop.queries"),
        (kept("payments", size=6), None),
        (kept("payments", row=0), None),
        (kept("payments", value=None, size=0), "payments"),
        (kept("payments", value=None, size=9), None),
        (kept("payments", headers=(("trace", b"7"), ("empty", None), ("trace", b"8"))), "payments"),
        (kept("payments", headers=((UNREADABLE, None),)), None),
        (kept("payments", key=b"k" * 4096), None),
        (kept("payments", rest={"bad value": 3}), None),
        (kept("payments", value=STAND_IN, size=len(STAND_IN)), None),
        (kept("deltas"), None),
        (kept("models"), None),
        (kept("somebody-elses"), None),
    ],
)
def test_only_whole_records_come_back_and_only_to_topics_that_are_written_from_outside(
    letter: KeptLetter, topic: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Heard()

    def publisher(settings: ServiceSettings, cluster: str) -> Heard:
        assert (settings.definition.name, cluster) == ("shop", "site")
        return out

    monkeypatch.setattr(dead_letters, "whole_name_publisher", publisher)
    done = replay_letters(resolve_settings({}, {}, SHOP), [letter])
    assert done == (Replayed(0, 1) if topic is None else Replayed(1, 0))
    expected = [] if topic is None else [Outgoing(topic, 1, b"k", letter.letter.value, headers=letter.headers)]
    assert out.records == expected


@pytest.mark.parametrize(("topic", "whole"), [("payments", "payments"), ("samples", "shop.samples")])
def test_a_letter_has_the_headers_of_its_record_and_those_by_which_kafka_connect_says_what_was_wrong(
    topic: str, whole: str
) -> None:
    # A record that was a dead letter of Kafka Connect before.
    own: Headers = (("trace", b"\xff\0"), ("__connect.errors.topic", b"other"), ("empty", None))
    made = dead_letter(Record(topic, 2, 9, 0, b"k", b"v", headers=own), "bad value", "it is – no number", 100)
    headers = (*made.headers, *headers_beside(made, "shop."), ("deltaplane-definition", b"x"))
    assert dict(headers[3:]) == {
        "__connect.errors.topic": whole.encode(),
        "__connect.errors.partition": b"2",
        "__connect.errors.offset": b"9",
        "__connect.errors.exception.class.name": b"bad value",
        "__connect.errors.exception.message": "it is – no number".encode(),
        "deltaplane-definition": b"x",
    }
    assert original_headers(headers) == own
    assert original_headers((("deltaplane-definition", b"x"),)) is None


def test_of_headers_that_are_too_large_and_those_of_a_batch_none_are_repeated() -> None:
    large: Headers = (("a", b"x" * limits.LETTER_HEADER_BYTES),)
    letter = dead_letter(Record("payments", 0, 0, 0, None, b"v", headers=large), "bad value", "", 100)
    assert letter.headers == ((UNREADABLE, None),)
    row = dead_letter(Record("samples", 0, 0, 0, None, b"v", headers=(("a", b"b"),)), "bad value", "", 100, row=3)
    assert row.headers == ()

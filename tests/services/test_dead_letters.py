"""Which dead letters hold a record that can be sent again, and to which topic it goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from deltaplane.log.records import DeadLetter
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.kafka.unpacking import STAND_IN
from deltaplane_services.operations import dead_letters
from deltaplane_services.operations.dead_letters import KeptLetter, Replayed, replay_letters
from deltaplane_services.processors.messages import Outgoing
from services.intake_shop import SHOP


class Heard:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[Outgoing] = []

    def publish(self, records: Iterable[Outgoing]) -> None:
        self.records += records

    def flush(self) -> None:
        """Nothing is on its way."""


def kept(topic: str, **other: Any) -> KeptLetter:
    fields = {"partition": 1, "offset": 7, "row": None, "kind": "bad value", "reason": "", "key": b"k"}
    letter = DeadLetter(**{"topic": topic, **fields, "value": b"value", "size": 5, **other})
    return KeptLetter("site", "name", 0, letter)


@pytest.mark.parametrize(
    ("letter", "topic"),
    [
        (kept("payments"), "payments"),
        (kept("samples"), "shop.samples"),
        (kept("queries"), "shop.queries"),
        (kept("payments", size=6), None),
        (kept("payments", row=0), None),
        (kept("payments", value=None, size=0), None),
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
    expected = [] if topic is None else [Outgoing(topic, 1, b"k", b"value")]
    assert out.records == expected

"""Events that are queries, too: each is asked when it comes, and again when it comes changed, and at no other time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from deltaplane.errors import DefinitionError
from deltaplane.log.records import NamedQuery, Query
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_query
from deltaplane_services.definition_file.intake_table import intake_of
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.intake.reading import RecordReader
from deltaplane_services.intake.waiting_rows import WaitingRows
from deltaplane_services.processors.messages import QUERIES, Record
from services.intake_shop import DAY, FIRST_TIME, INTAKE, SHOP, chargeback, payment, record, shop

T = FIRST_TIME
NOW = T + 100 * DAY


class Asking:
    """The intake of a stream of one partition, and the queries that it has sent, in order."""

    def __init__(self, intake: dict[str, Any], tables: Mapping[str, Any] = SHOP) -> None:
        whole = {**tables, "partitions": 1, "intake": {**INTAKE, **intake}}
        self.definition = StreamDefinition.from_tables(whole)
        found = intake_of(whole, self.definition)
        assert found is not None, "the table is there"
        self.intake = found
        self.reader = RecordReader(self.definition, self.intake)
        self.rows = WaitingRows(identity=self.intake.identity)
        self.processor = self.made(self.rows)
        self.logs: dict[str, list[Record]] = {"payments": [], "chargebacks": []}
        self.asked: list[Query | NamedQuery] = []

    def made(self, rows: WaitingRows, sent: int = 0) -> IntakeProcessor:
        processor = IntakeProcessor(self.definition, self.intake, 0, rows, "writer")
        places = dict.fromkeys([("payments", 0), ("chargebacks", 0)], 0)
        processor.restore({("payments", 0): sent}, places)
        return processor

    def come(self, topic: str, *values: bytes) -> None:
        log = self.logs[topic]
        log += [record(topic, 0, len(log) + at, value, T) for at, value in enumerate(values)]
        self.go_on(topic)

    def go_on(self, topic: str) -> None:
        log = self.logs[topic][self.processor.position((topic, 0)) :]
        for output in self.processor.process(self.reader.read(log, NOW)):
            for out in output.then:
                if out.topic == QUERIES:
                    assert (out.partition, out.key) == (0, read(self, out.value).id.encode())
                    self.asked.append(read(self, out.value))

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.asked]


def read(asking: Asking, value: bytes | None) -> Query | NamedQuery:
    definition = asking.definition
    by_name = definition.columns is not None
    return read_query(value, len(definition.features), definition.data_fingerprint, by_name=by_name)


def test_an_event_is_asked_when_it_comes_and_when_it_comes_changed_and_a_label_asks_nothing() -> None:
    asking = Asking({"queries": True})
    asking.come("payments", payment("a", T, 2.5, "FR"), payment("b", T, None))
    assert asking.ids == ["a", "b"]
    first, second = asking.asked
    assert isinstance(first, NamedQuery)
    assert isinstance(second, NamedQuery)
    assert dict(first.cells) == {"amount": 2.5, "country": "FR", "known": True}
    assert dict(second.cells) == {"country": "DE", "known": True}, "what is missing is missing"
    asking.come("chargebacks", chargeback("a"))
    asking.come("payments", payment("a", T, 2.5, "FR"))
    assert asking.ids == ["a", "b"]
    asking.come("payments", payment("a", T, 3.5, "FR"), b"no json")
    assert asking.ids == ["a", "b", "a"]


def test_without_the_key_nothing_is_asked() -> None:
    asking = Asking({})
    asking.come("payments", payment("a", T))
    assert asking.ids == []


def test_a_stream_without_columns_is_asked_by_its_features() -> None:
    tables = {key: value for key, value in SHOP.items() if key != "columns"}
    tables |= {"features": {"names": ["amount"]}, "grid": {"steps": [0.5]}}
    asking = Asking({"queries": True, "fields": {"amount": "tx.sum.value"}}, tables)
    asking.come("payments", payment("a", T, 2.5))
    (only,) = asking.asked
    assert isinstance(only, Query)
    assert only.features.tolist() == [2.5]


def test_what_is_only_read_again_to_rebuild_a_store_is_not_asked_again() -> None:
    asking = Asking({"queries": True})
    asking.come("payments", *(payment(f"{at}", T) for at in range(5)))
    assert asking.ids == ["0", "1", "2", "3", "4"]
    asking.processor = asking.made(WaitingRows(), sent=3)
    assert asking.processor.rebuilding
    while asking.processor.position(("payments", 0)) < 5:
        asking.go_on("payments")
    assert asking.ids[5:] == ["3", "4"], "only those that nothing says of that they were sent"


def test_the_key_is_true_or_false() -> None:
    with pytest.raises(DefinitionError, match=r"intake\.queries: expected true or false"):
        shop({"queries": "yes"})

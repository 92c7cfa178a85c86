"""A part of the load in Kafka transactions, as Flink, Kafka Streams and Kafka Connect write.

A transaction stays open for a while, and what others send meanwhile lies between its records: nobody may read that
before the transaction has ended. It is committed; or it is aborted: on purpose, or as its producer dies and another
of its name begins, or because a broker was killed under it and a delivery was given up. What was aborted was never
sent. It has offsets all the same, and each end of a transaction takes one more in every partition that it touched. So
the ends of topics that producers know are compared with those of the brokers after every transaction.

One thread sends everything, and what is under way is waited for before a transaction writes or ends: otherwise nobody
could say at which offset a record will come to lie.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chaos.topics import KafkaTopics
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.processors.messages import SAMPLES, Outgoing
from kafka.sending import END_SECONDS, Place
from simulation.producer import Producer as Sender

Found = TypeVar("Found")
Strike = Callable[[int], object]
"""Takes the number of a node, which is the leader of a partition just then."""

COMMITTED = "transactions committed"
ABORTED = "transactions aborted on purpose"
ABANDONED = "transactions left open by a producer that dies, ended by its successor"
FAILED = "transactions aborted as a broker failed them"
RESOLVED = "transactions whose end was answered with an error, and looked up"
IN_COMMITTED = "records in transactions that were committed"
IN_ABORTED = "records in transactions that were aborted"

WAYS = {COMMITTED: 6, ABORTED: 2, ABANDONED: 1}
"""How a transaction ends if nothing goes wrong, and how often; the first ones end in each way once."""

BEGIN_SHARE, WRITE_SHARE, END_SHARE = 0.02, 0.15, 0.1
"""Of what is sent: before how much of it a transaction begins, and an open one writes, and ends."""

LOTS_AT_ONCE = (1, 3, 8)
DELIVERY_SECONDS = 1.5
"""Less than it takes until a dead broker's place is filled: a transaction that needs it is aborted."""

TIMEOUT_SECONDS = 10.0
ATTEMPT_SECONDS = 5.0
PAUSE_SECONDS = 0.05


class Transactions:
    """Has a part of what ``sender`` sends written in transactions, one at a time."""

    def __init__(self, settings: ServiceSettings, topics: KafkaTopics, sender: Sender, random: Random) -> None:
        self.did: Counter[str] = Counter()
        self._topics, self._sender, self._random = topics, sender, random
        self._name = settings.definition.name
        self._properties: dict[str, Any] = {
            **settings.producer_properties("site"),
            "transactional.id": f"{self._name}.chaos",
            "transaction.timeout.ms": int(1000 * TIMEOUT_SECONDS),
            "message.timeout.ms": int(1000 * DELIVERY_SECONDS),
            "log_level": 0,
        }
        self._committed = reader(settings, "site")
        everything = {"isolation.level": "read_uncommitted", "log_level": 0}
        self._whole = LogReader({**settings.consumer_properties("site", self._name), **everything}, self._name)
        self._first_ways = random.sample(list(WAYS), len(WAYS))
        self._producer: Producer | None = None
        self._open: list[tuple[Place, int]] | None = None
        self._failures: list[str] = []
        self._strike: Strike | None = None

    def interrupt(self, strike: Strike) -> None:
        """Have a broker struck that the next write of an open transaction needs. May be called from any thread."""
        self._strike = strike

    def step(self, now: int) -> int:
        """Maybe begin, write to, or end a transaction, at a time in milliseconds; how many lots of rows it has sent."""
        draw = self._random.random()
        if self._open is None:
            if draw >= BEGIN_SHARE:
                return 0
            self._begin()
            return self._write(now)
        if draw < WRITE_SHARE:
            return self._write(now)
        if draw < WRITE_SHARE + END_SHARE:
            self.finish()
        return 0

    def close(self) -> None:
        """Leave."""
        self._committed.close()
        self._whole.close()

    def finish(self) -> None:
        """End the transaction that is open, if one is, in one of the ways."""
        if self._open is not None:
            ways, weights = list(WAYS), list(WAYS.values())
            self._end(self._first_ways.pop() if self._first_ways else self._random.choices(ways, weights)[0])

    def _begin(self) -> None:
        self._topics.flush()
        if self._producer is None:
            self._succeed()
        assert self._producer is not None
        self._producer.begin_transaction()
        self._open, self._failures = [], []

    def _write(self, now: int) -> int:
        """Write some records, and wait for their acknowledgements. A transaction that was failed ends here."""
        assert self._producer is not None
        self._topics.flush()
        lots, written, struck = 0, len(self._open or ()), self._struck()
        least = self._random.choice(LOTS_AT_ONCE)
        try:
            with self._topics.diverted(self._send):
                # Where a broker was struck, its partition must be among those that are written to.
                while lots < least or (struck and struck not in {place for place, _ in (self._open or ())[written:]}):
                    self._sender.publish(now)
                    lots += 1
            if left := self._producer.flush(END_SECONDS):
                self._failures.append(f"{left} records were neither delivered nor given up")
        except KafkaException as fault:
            self._failures.append(str(fault))
        if self._failures:
            self._end(FAILED)
        return lots

    def _struck(self) -> Place | None:
        """A place that the open transaction has written to, and whose broker was struck just now, if one was to be."""
        if not self._open or self._strike is None:
            return None
        assert self._producer is not None
        place, _ = self._random.choice([one for one in self._open if one[0][0] == SAMPLES] or self._open)
        topic = f"{self._name}.{place[0]}"
        try:
            leader = self._producer.list_topics(topic, ATTEMPT_SECONDS).topics[topic].partitions[place[1]].leader
        except (KafkaException, KeyError):
            return None
        if leader < 0:
            return None
        strike, self._strike = self._strike, None
        strike(leader)
        return place

    def _send(self, record: Outgoing, offset: int) -> None:
        assert self._producer is not None
        assert self._open is not None
        place = (record.topic, record.partition)
        self._open.append((place, offset))
        self._producer.produce(
            f"{self._name}.{record.topic}",
            value=record.value,
            key=record.key,
            partition=record.partition,
            on_delivery=partial(self._delivered, place, offset),
        )

    def _delivered(self, place: Place, expected: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(f"{place} at {expected}: {error}")
        elif message.offset() not in (expected, None):
            self._topics.faults.append(f"transaction: {place} at {expected}: {message.offset()}")

    # The end of a transaction ----------------------------------------------------------------------------------------

    def _end(self, way: str) -> None:
        assert self._open is not None
        self._topics.flush()
        records, self._open = self._open, None
        committed = self._ended(way)
        # Its successor is let in once no mark is left to be written: not before are the ends of topics certain.
        self._succeed()
        for place in {place for place, _ in records}:
            self._resume_at(place, self._settled(place), marked=way != FAILED)
        if committed is None:
            self.did[RESOLVED] += 1
            committed = bool(records) and self._holds(*records[0])
        if way == COMMITTED and not committed:
            way = FAILED
        elif way != COMMITTED and committed:
            self._topics.faults.append(f"transaction: was to be one of the {way!r}, and was committed")
        self.did[way] += 1
        self.did[IN_COMMITTED if committed else IN_ABORTED] += len(records)
        for place, offset in records:
            if committed:
                self._topics.sent[place] += 1
                self._topics.acknowledged[place] += 1
            else:
                del self._topics.appended[place][offset]
                self._sender.take_back(*place, offset)

    def _ended(self, way: str) -> bool | None:
        """Whether a transaction was committed; None where it must be looked up."""
        assert self._producer is not None
        if way == ABANDONED:
            return False
        try:
            if way == COMMITTED:
                _patiently(partial(self._producer.commit_transaction, ATTEMPT_SECONDS))
                return True
            _patiently(partial(self._producer.abort_transaction, ATTEMPT_SECONDS))
        except KafkaException:
            # A successor ends whatever is still open. What was to be aborted is aborted by that as well.
            return None if way == COMMITTED else False
        return False

    def _succeed(self) -> None:
        """Take a new producer of the same name: the brokers end for it what its predecessor has left open."""
        until = time.monotonic() + END_SECONDS
        while True:
            self._producer = Producer(dict(self._properties))
            try:
                _patiently(partial(self._producer.init_transactions, ATTEMPT_SECONDS))
            except KafkaException:
                if time.monotonic() > until:
                    raise
            else:
                return

    def _settled(self, place: Place) -> int:
        """Where a log ends, once no transaction is open there."""

        def look() -> int | None:
            committed, whole = (view.bounds(*place)[1] for view in (self._committed, self._whole))
            return whole if committed == whole else None

        return _found(look, f"{place}: the end of the log")

    def _resume_at(self, place: Place, end: int, *, marked: bool) -> None:
        """Go on from where the brokers say that a log ends."""
        known = self._topics.ends[place]
        if marked and end <= known:
            self._topics.faults.append(f"transaction: {place} ends at {end}, expected a mark at {known}")
        self._topics.ends[place] = end

    def _holds(self, place: Place, offset: int) -> bool:
        """Whether a reader of what was committed finds a record at an offset."""
        return _found(lambda: any(self._committed.read(*place, offset, offset + 1)), f"{place} at {offset}")


def _found(look: Callable[[], Found | None], what: str) -> Found:
    """What ``look`` finds, as soon as it finds something and the brokers are there."""
    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(LogUnavailable):
            if (found := look()) is not None:
                return found
        time.sleep(PAUSE_SECONDS)
    raise LogUnavailable(f"{what}: not known after {END_SECONDS:g} s")


def _patiently(action: Callable[[], object]) -> None:
    """Do something that may be tried again until it is done. Raises what is not of that kind."""
    until = time.monotonic() + END_SECONDS
    while True:
        try:
            action()
        except KafkaException as fault:
            error = fault.args[0]
            if not (isinstance(error, KafkaError) and error.retriable()) or time.monotonic() > until:
                raise
        else:
            return

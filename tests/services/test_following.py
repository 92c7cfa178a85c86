"""Following models over a topic that goes, comes back empty, or is another: the last good one stays, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaplane.errors import DeltaplaneError
from deltaplane.wire import write_model
from deltaplane_services.kafka import following
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.membership import NotAllowed
from deltaplane_services.kafka.topic_watch import ANSWER_SECONDS, ASK_SECONDS, TopicWatch
from deltaplane_services.processors.messages import MODELS, Record
from golden.wire_examples import MODEL
from strategies_streams import definition_of

STREAM = definition_of("7d", features=2)
NAME = "stream.models"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "TRY_AGAIN_SECONDS", (0.0, 0.0))


class Log:
    """A models topic in memory: what LogReader does, as far as a follower asks."""

    def __init__(self, *versions: int) -> None:
        self.begin, self.records = 0, list[Record]()
        self.fault: Exception | None = None
        self.following: int | None = None
        self.valid = True
        """Whether it has held a model since it was made."""
        self.append(*versions)

    def append(self, *versions: int, of: Any = STREAM) -> None:
        for version in versions:
            model = replace(MODEL, version=version, plane_version=version, stream_fingerprint=of.stream_fingerprint)
            self.records.append(Record(MODELS, 0, len(self.records), 0, None, write_model(model)))

    def made_anew(self, *versions: int) -> None:
        self.records = []
        self.append(*versions)

    def bounds(self, *_place: object) -> tuple[int, int]:
        self._raise()
        return self.begin, len(self.records)

    def read(self, _topic: str, _partition: int, start: int, stop: int) -> Iterator[Record]:
        yield from self.records[start:stop]

    def follow(self, places: list[tuple[str, int, int]]) -> None:
        ((_, _, self.following),) = places

    def poll(self, *_most: object) -> list[Record]:
        self._raise()
        assert self.following is not None
        if self.following > len(self.records):
            raise LogUnavailable("offset out of range")
        came, self.following = self.records[self.following :], len(self.records)
        return came

    def _raise(self) -> None:
        if self.fault is not None:
            raise self.fault


class Watch:
    """What a watch has been told."""

    def __init__(self, topic_id: str = "first") -> None:
        self.ids, self.missing = {NAME: topic_id}, frozenset[str]()
        self.silence: str | None = None

    def turn(self) -> None:
        """Nothing is asked."""


def follower(log: Log, watch: Watch | None = None) -> ModelFollower:
    made = ModelFollower(cast("LogReader", log), STREAM, watch=cast("TopicWatch | None", watch))
    made.poll(500, 0.0)
    return made


def versions(following: ModelFollower, polls: int = 3) -> list[int]:
    return [model.version for _ in range(polls) for model in following.poll(500, 0.0)]


@pytest.mark.parametrize(
    "fault",
    [LogUnavailable("gone"), KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))],
)
def test_a_topic_that_cannot_be_read_leaves_the_last_model_in_force_and_says_so(fault: Exception) -> None:
    log = Log(4, 5)
    models = follower(log)
    log.fault = fault
    assert versions(models) == []
    assert models.version == 5
    assert models.stale is not None
    log.fault = None
    assert versions(models) == []
    assert models.stale is None, "it is the same log: there is nothing new, and it is followed"
    log.append(6)
    assert versions(models) == [6]


def test_each_model_of_a_poll_has_the_time_of_its_record() -> None:
    log = Log(4)
    models = follower(log)
    for version in (5, 5, 7):
        log.append(version)
    found = models.poll(500, 0.0)
    assert [model.version for model in found] == [5, 7]
    assert len(models.log_times) == len(found)
    assert models.newest is not None
    assert models.log_times[-1] == models.newest.log_time
    assert not models.poll(500, 0.0)
    assert not models.log_times


def test_a_topic_that_never_held_a_model_is_not_stale_once_it_can_be_read_again() -> None:
    log = Log()
    models = follower(log)
    log.fault = LogUnavailable("gone")
    assert versions(models) == []
    assert models.stale is not None
    log.fault = None
    assert versions(models) == []
    assert models.version == 0
    assert models.stale is None
    log.append(1)
    assert versions(models) == [1]


def test_a_log_that_is_shorter_than_what_was_read_is_followed_from_its_newest_model_whatever_its_version() -> None:
    log = Log(48, 49, 50)
    models = follower(log)
    log.made_anew(1, 2)
    assert versions(models) == [2]
    log.append(3)
    assert versions(models) == [3]
    assert models.stale is None


def test_a_log_that_was_emptied_leaves_the_last_model_stale_until_the_first_of_the_new_ones() -> None:
    log = Log(50)
    models = follower(log)
    log.made_anew()
    assert versions(models) == []
    assert models.version == 50
    assert "holds no model any more" in str(models.stale)
    log.append(1)
    assert versions(models) == [1]
    assert models.stale is None
    log.append(1, 2)
    assert versions(models) == [2], "of one log a version is taken once"


def test_a_longer_log_under_the_old_name_is_told_by_its_id() -> None:
    log, watch = Log(50), Watch()
    models = follower(log, watch)
    log.made_anew(1, 2, 3)
    watch.ids = {NAME: "second"}
    assert versions(models) == [3]
    assert models.stale is None


def test_without_an_id_lower_versions_of_the_same_log_stay_what_a_stale_merger_says() -> None:
    log = Log(50)
    models = follower(log)
    log.append(3, 49, 51)
    assert versions(models) == [51]


def test_a_missing_topic_is_not_asked_for_again_before_the_watch_has_seen_it() -> None:
    log, watch = Log(50), Watch()
    models = follower(log, watch)
    watch.ids, watch.missing = {}, frozenset({NAME})
    log.fault = AssertionError("asked for")
    assert versions(models) == []
    assert models.stale == f"{NAME} is gone"
    log.fault, watch.missing, watch.ids = None, frozenset(), {NAME: "second"}
    log.made_anew(2)
    assert versions(models) == [2]


def test_models_of_another_definition_in_a_new_log_leave_the_last_one_in_force() -> None:
    log = Log(50)
    models = follower(log)
    log.made_anew()
    log.append(1, of=definition_of("8d", features=2))
    log.following = 99
    assert versions(models) == []
    assert models.version == 50
    assert "use the definition that the stream was made with" in str(models.stale)


def test_what_a_client_may_not_read_is_raised() -> None:
    log = Log(50)
    models = follower(log)
    log.fault = NotAllowed("no")
    with pytest.raises(DeltaplaneError, match="no"):
        models.poll(500, 0.0)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    """What befalls a topic: models come, it is out of reach for a while, or is made anew with some models in it."""
    return draw(st.lists(st.tuples(st.sampled_from(["model", "away", "anew", "emptied"]), st.integers(1, 9))))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(), st.booleans())
def test_whatever_befalls_the_topic_the_newest_model_of_the_log_that_there_is_counts_or_the_last_good_one(
    history: list[tuple[str, int]],
    watched: bool,  # noqa: FBT001
) -> None:
    log, watch, identity = Log(5), Watch(), 0
    models = follower(log, watch if watched else None)
    expected = 5
    for what, number in history:
        if what == "model":
            log.append(number)
            expected = max([expected, number] if log.valid else [number])
            log.valid = True
        elif what == "away":
            log.fault = LogUnavailable("away")
            assert versions(models) == []
            assert models.version == expected
            assert models.stale
            log.fault = None
        elif watched or log.records:
            # Without ids a log that was made anew is told by its end: while that lies before what was read.
            log.made_anew()
            identity += 1
            watch.ids, log.valid = {NAME: f"made {identity}"}, False
            versions(models)
            if what == "anew":
                log.append(*range(1, number + 1))
                expected, log.valid = number, True
        versions(models)
        assert models.version == expected
        assert (models.stale is None) is log.valid


# The watch -----------------------------------------------------------------------------------------------------------


class Admin:
    """A client whose questions are answered by the test."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Future[Any]]] = []

    def describe_topics(self, _topics: object, *, request_timeout: float) -> dict[str, Future[Any]]:
        assert request_timeout == ANSWER_SECONDS
        self.asked.append({NAME: Future()})
        return self.asked[-1]

    def poll(self, timeout_seconds: float) -> None:
        """Nothing to be told."""

    def answer(self, answer: object) -> None:
        future = self.asked[-1][NAME]
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


class Described:
    """A topic as a broker describes it."""

    def __init__(self, topic_id: object) -> None:
        self.topic_id = topic_id
        self.partitions = [object()]


def kafka_error(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def watch_of(now: list[float]) -> tuple[TopicWatch, list[Admin]]:
    made: list[Admin] = []

    def make(_note: object) -> Any:
        made.append(Admin())
        return made[-1]

    return TopicWatch(make, [NAME], clock=lambda: now[0]), made


def test_a_watch_knows_the_last_answer_and_does_not_wait_for_the_next() -> None:
    now = [0.0]
    watch, made = watch_of(now)
    watch.turn()
    assert (watch.ids, watch.missing, watch.silence) == ({}, frozenset(), None)
    made[0].answer(Described("first"))
    watch.turn()
    assert watch.ids == {NAME: "first"}
    watch.turn()
    assert len(made[0].asked) == 1, "it asks anew only after a while"
    now[0] += ASK_SECONDS
    watch.turn()
    made[0].answer(kafka_error(KafkaError.UNKNOWN_TOPIC_OR_PART))
    watch.turn()
    assert (watch.ids, watch.missing, watch.silence) == ({}, frozenset({NAME}), None)


def test_a_watch_that_hears_nothing_says_so_keeps_what_it_knew_and_asks_with_a_new_client() -> None:
    now = [0.0]
    watch, made = watch_of(now)
    watch.turn()
    made[0].answer(Described("first"))
    watch.turn()
    now[0] += ASK_SECONDS
    watch.turn()
    made[0].answer(kafka_error(KafkaError._TIMED_OUT))
    watch.turn()
    assert "_TIMED_OUT" in str(watch.silence)
    assert watch.ids == {NAME: "first"}
    watch.turn()
    made[1].answer(Described("first"))
    watch.turn()
    assert watch.silence is None


@pytest.mark.parametrize("none", [None, "AAAAAAAAAAAAAAAAAAAAAA"])
def test_a_broker_that_tells_no_ids_is_one_that_answers(none: object) -> None:
    watch, made = watch_of([0.0])
    watch.turn()
    made[0].answer(Described(none))
    watch.turn()
    assert (watch.ids, watch.missing, watch.silence) == ({}, frozenset(), None)

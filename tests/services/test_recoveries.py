"""How often a service goes on after failures that may pass, and how long it waits before."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.membership import ANYBODY, MembershipLost
from deltaplane_services.kafka.publishing import DeliveryFailed
from deltaplane_services.kafka.recoveries import CALM_SECONDS, FAILURES_IN_A_ROW, RECOVERIES_IN_A_ROW, Recoveries

FAULT = LogUnavailable("away")


@pytest.mark.parametrize(
    ("recoveries", "most", "pauses"),
    [
        (Recoveries(ANYBODY), FAILURES_IN_A_ROW, [0.4, 0.8, 1.6, 3.2, 5.0, 5.0]),
        (Recoveries.of_worker(ANYBODY), RECOVERIES_IN_A_ROW, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
    ],
)
def test_pauses_are_doubled_up_to_the_longest_and_after_too_many_the_failure_is_raised(
    recoveries: Recoveries, most: int, pauses: list[float]
) -> None:
    found = [recoveries.fail(FAULT, 7.0) for _ in range(most)]
    assert found[: len(pauses)] == pytest.approx(pauses)
    assert set(found[len(pauses) :]) == {pauses[-1]}
    assert recoveries.try_at == 7.0 + pauses[-1]
    assert str(recoveries) == f"{most} of {most}"
    with pytest.raises(LogUnavailable, match="away"):
        recoveries.fail(FAULT, 7.0)


def test_a_success_or_a_calm_minute_ends_the_row() -> None:
    merger, worker = Recoveries(ANYBODY), Recoveries.of_worker(ANYBODY)
    for now in (0.0, 1000.0, 2000.0):
        merger.fail(FAULT, now)
        worker.fail(FAULT, now)
    assert (merger.count, worker.count) == (3, 1)
    worker.fail(FAULT, 2000.0 + CALM_SECONDS)
    assert worker.count == 2
    merger.succeed()
    assert merger.fail(FAULT, 2000.0) == 0.4


def test_a_failure_that_does_not_count_waits_and_may_come_for_ever() -> None:
    recoveries = Recoveries(ANYBODY)
    assert {recoveries.fail(FAULT, 0.0, counts=False) for _ in range(100)} == {0.4}
    assert recoveries.count == 0


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (DeliveryFailed("models-0 was not delivered"), DeliveryFailed, "^models-0 was not delivered$"),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), LogUnavailable, "^kafka: "),
    ],
)
def test_what_is_raised_in_the_end_is_an_error_of_ours(
    fault: DeltaplaneError | KafkaException, kind: type[Exception], words: str
) -> None:
    recoveries = Recoveries(ANYBODY, most=0)
    with pytest.raises(kind, match=words):
        recoveries.fail(fault, 0.0)


def test_what_a_client_cannot_go_on_after_is_raised_at_once() -> None:
    with pytest.raises(MembershipLost, match="cannot go on"):
        Recoveries(ANYBODY).fail(KafkaException(KafkaError(KafkaError._FATAL)), 0.0)

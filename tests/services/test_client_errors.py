"""Every error of the installed client is on the list with its answer, and the answer is what is done."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message

from deltaplane_services.kafka.client_errors import ANSWERS, Answer
from deltaplane_services.kafka.log_errors import UNKNOWN, LogUnavailable, is_passing, raise_if_error
from deltaplane_services.kafka.membership import MembershipLost, NotAllowed, refuse_fatal
from deltaplane_services.kafka.unpacking import does_not_unpack

_NO_ERRORS = {"NO_ERROR"}


def names_of_the_client() -> set[str]:
    """Whatever the client has a code for."""
    names = {name for name in dir(KafkaError) if name.lstrip("_").isupper() and not name.startswith("__")}
    return {name for name in names if isinstance(getattr(KafkaError, name), int)} - _NO_ERRORS


def test_every_error_of_the_installed_client_has_an_answer_and_none_is_made_up() -> None:
    known = names_of_the_client()
    assert len(known) > 150
    assert known - ANSWERS.keys() == set(), "decide what is done on these, and put them on the list"
    assert ANSWERS.keys() - known == set(), "the installed client has no such errors"


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_what_is_done_on_an_error_is_what_the_list_says(name: str) -> None:
    error = KafkaError(getattr(KafkaError, name))
    message = Message(topic="stream.samples", partition=0, offset=7, error=error)
    answer = ANSWERS[name]
    assert is_passing(message) is (answer is Answer.PASSES)
    assert does_not_unpack(message) is (answer is Answer.BATCH)
    assert (error.code() in UNKNOWN) is (answer is Answer.SETTLES)
    if answer is Answer.ENDS:
        with pytest.raises(MembershipLost):
            refuse_fatal([error])
    elif answer is Answer.ENDS_REFUSED:
        with pytest.raises(NotAllowed):
            raise_if_error(message)
    elif answer in (Answer.READS_AGAIN, Answer.SETTLES):
        refuse_fatal([error])
        with pytest.raises(LogUnavailable, match=name):
            raise_if_error(message)

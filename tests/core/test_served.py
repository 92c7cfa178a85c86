"""Quality as served: answers are judged by the first label that comes after them, as counted by hand."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from deltaplane.log.confusion import Confusion
from deltaplane.log.served import ServedScores
from deltaplane.stream.definition import StreamDefinition

DEFINITION = StreamDefinition.from_tables(
    {
        "name": "s",
        "features": {"names": ["a"]},
        "grid": {"steps": [1.0], "offsets": [0.0]},
        "classes": {"positive": "yes"},
    }
)
EVENTS = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from(["yes", "no", "maybe"])), max_size=40)


@given(EVENTS, st.integers(1, 6))
def test_an_answer_is_judged_once_by_the_first_label_behind_it_if_it_is_not_forgotten(
    events: list[tuple[bool, int, str]], most: int
) -> None:
    served, counts, waiting = ServedScores(DEFINITION, most), Counter[tuple[str, str]](), list[tuple[str, str]]()
    forgotten = judged = 0
    for answer, number, label in events:
        own, name = f"id-{number}", "yes" if label == "yes" else "not yes"
        if answer:
            waiting = [one for one in waiting if one[0] != own] + [(own, name)]
            served.predicted([(own, name)])
            forgotten += len(waiting) > most
            waiting = waiting[-most:]
            continue
        found = [guess for one, guess in waiting if one == own]
        waiting = [one for one in waiting if one[0] != own]
        counts.update((name, guess) for guess in found)
        judged += served.labelled([(own, label)])
    assert served.scores == Confusion(counts)
    assert judged == sum(counts.values())
    assert served.waiting == len(waiting)
    assert served.forgotten == forgotten

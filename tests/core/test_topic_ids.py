"""Which topics a source's offsets are of, through claims, deltas, checkpoints and orders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltaplane.errors import LogReplaced
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, SourceOrder, SourceState, TopicIds, Verdict, accept
from deltaplane.log.records import Checkpoint
from deltaplane.wire import read_checkpoint, read_claim_or_delta, write_checkpoint, write_claim
from deltaplane_services.processors.worker_processor import WorkerProcessor
from golden.wire_examples import CHECKPOINT_LABELLED, DIMENSION, SOURCE, STREAM
from strategies_streams import definition_of

OLD, NEW, NOBODY = TopicIds("a", "b"), TopicIds("c", "b"), TopicIds()
NOTHING = SourceState(SOURCE, Statistics(DIMENSION))
BEGUN = replace(NOTHING, samples_position=5, topics=OLD)


def claimed(state: SourceState, topics: TopicIds) -> SourceState:
    after, verdict = accept(state, Claim(SOURCE, "w", STREAM, topics), STREAM)
    assert verdict is Verdict.CLAIMED
    return after


def test_what_was_read_stays_of_the_topics_it_was_read_from_whoever_claims_it() -> None:
    assert claimed(BEGUN, NEW).topics == OLD
    assert claimed(BEGUN, NOBODY).topics == OLD


def test_before_anything_is_read_the_last_claim_says_which_topics_they_are() -> None:
    assert claimed(claimed(NOTHING, OLD), NEW).topics == NEW


def test_a_state_of_before_there_were_identifiers_takes_those_of_the_next_claim() -> None:
    assert claimed(replace(BEGUN, topics=NOBODY), NEW).topics == NEW
    assert claimed(replace(BEGUN, topics=TopicIds("a")), NEW).topics == TopicIds("a", "b")


def test_a_source_that_is_removed_and_let_in_again_knows_no_topics_until_it_is_claimed() -> None:
    state = BEGUN
    for removed in (True, False):
        state, _ = accept(state, SourceOrder(SOURCE, removed, "", STREAM), STREAM)
        assert state.topics == NOBODY
    assert claimed(state, NEW).topics == NEW


def test_identifiers_travel_with_claims_and_checkpoints_in_company_of_labels_and_without() -> None:
    claim = Claim(SOURCE, "w", STREAM, OLD)
    assert read_claim_or_delta(write_claim(claim), DIMENSION) == claim
    assert read_claim_or_delta(write_claim(replace(claim, topics=NOBODY)), DIMENSION).topics == NOBODY  # type: ignore[union-attr]
    for labels in ((), ("x", "y")):
        state = replace(CHECKPOINT_LABELLED.state, labels=labels, topics=TopicIds("", "b"))
        checkpoint = Checkpoint(state, 7, STREAM)
        assert read_checkpoint(write_checkpoint(checkpoint), DIMENSION) == checkpoint


@pytest.mark.parametrize(("topics", "named"), [(NEW, "samples"), (TopicIds("c", "d"), "samples and retirements")])
def test_a_worker_does_not_go_on_from_a_state_of_other_topics(topics: TopicIds, named: str) -> None:
    definition = definition_of("all", features=2)
    worker = WorkerProcessor(definition, SOURCE, "w", topics)
    state = SourceState(SOURCE, Statistics(definition.dimension), samples_position=5, topics=OLD)
    with pytest.raises(LogReplaced, match=rf"under the names {named}, up to offset 5 .* deltaplane source remove"):
        worker.restore(state)
    for known in (OLD, NOBODY, TopicIds("a")):
        WorkerProcessor(definition, SOURCE, "w", known).restore(state)


def test_a_log_that_ends_before_what_was_read_is_no_log_of_the_state() -> None:
    definition = definition_of("all", features=2)
    worker = WorkerProcessor(definition, SOURCE, "w")
    worker.restore(SourceState(SOURCE, Statistics(definition.dimension), samples_position=5, retirements_position=2))
    worker.check_ends(5, 2)
    with pytest.raises(LogReplaced, match="has read samples up to offset 5, the log ends at 4"):
        worker.check_ends(4, 2)
    with pytest.raises(LogReplaced, match="has read retirements up to offset 2, the log ends at 0"):
        worker.check_ends(9, 0)

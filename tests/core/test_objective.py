"""What is asked for, from the merger to the plane: shares and thresholds follow it, and it may change at any time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core import test_merger_automatic as automatic
from core.test_merger_automatic import CHOICES, HERE, THERE, published, sums, tried
from deltaplane.errors import DefinitionError, WireError
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Source
from deltaplane.log.merger import Merger, plane_of
from deltaplane.log.model import Model
from deltaplane.log.model_proof import ModelProof, SourcePrequentialCounts, prove_model
from deltaplane.solve.candidates import Blend, fit, weigh
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.solve.score_histograms import BINS, EDGES, SCORE_BYTES
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.wire import read_claim_or_delta, read_model, write_delta, write_model
from golden.wire_examples import EXAMPLES, with_fields

KAPPA, COST = Objective.parse("kappa"), Objective.parse("cost:FN=1,FP=1000")
DEFINITION = replace(automatic.DEFINITION, classes=ClassDefinition(("x", "y"), "y"))
AIMED = replace(DEFINITION, objective=KAPPA)
PLANES = 2 * len(CHOICES) + 1


def delta(
    source: Source, sequence: int, prequential_counts: PrequentialCounts | None = None, change: Statistics | None = None
) -> Delta:
    plain = automatic.delta(source, sequence, prequential_counts, change)
    return replace(plain, stream_fingerprint=DEFINITION.stream_fingerprint)


def scored(own: dict[int, int], rest: dict[int, int]) -> PrequentialCounts:
    """Trials in which all planes had so many rows of each side in these bins."""
    counts = np.zeros((PLANES, 2, BINS), np.int64)
    for side, bins in enumerate((own, rest)):
        for place, count in bins.items():
            counts[:, side, place] = count
    return replace(tried(7), scores={"y": counts})


def merger_of(objective: Objective = KAPPA) -> Merger:
    merger = Merger(replace(DEFINITION, objective=objective))
    for source in (HERE, THERE):
        merger.apply(Claim(source, "w", DEFINITION.stream_fingerprint))
    merger.apply(delta(HERE, 0, change=sums()))
    return merger


def threshold(model: Model) -> float:
    assert model.blend is not None
    assert model.blend.aim is not None
    return model.blend.aim.of["y"].threshold


def again(merger: Merger, last: Model, objective: Objective) -> Merger:
    """A merger with another objective that goes on where one left off, without anything being read."""
    changed = Merger(replace(DEFINITION, objective=objective))
    changed.restore([merger.state(source) for source in (HERE, THERE)], read_model(write_model(last)))
    return changed


def test_an_objective_is_no_part_of_either_fingerprint() -> None:
    assert AIMED.data_fingerprint == DEFINITION.data_fingerprint
    assert AIMED.stream_fingerprint == DEFINITION.stream_fingerprint
    tables = AIMED.to_tables()
    assert tables["solver"]["objective"] == "kappa"
    assert type(AIMED).from_tables(tables).objective == KAPPA
    assert "objective" not in DEFINITION.to_tables()["solver"], "what was there before there were objectives"


def test_one_window_and_one_c_are_cut_anew_where_something_else_than_the_gmean_is_asked_for() -> None:
    nested_windows = replace(DEFINITION.nested_windows, windows=DEFINITION.nested_windows.windows[1:])
    one = replace(DEFINITION, choices=(), nested_windows=nested_windows)
    assert (one.automatic, replace(one, objective=KAPPA).automatic) == (False, True)


def test_the_plane_is_cut_between_the_scores_where_what_is_asked_for_is_best() -> None:
    merger = merger_of()
    published(merger)
    merger.apply(delta(HERE, 1, scored({100: 50}, {60: 50_000})))
    model = published(merger)
    assert EDGES[61] <= threshold(model) <= EDGES[100]
    assert model.plane is not None
    plane = plane_of(sums(), AIMED, model.blend)
    assert plane.biases.tobytes() == model.plane.biases.tobytes(), (
        "the cut is in the model, and need not be found again"
    )
    merger.apply(delta(HERE, 2, scored({80: 10_000}, {60: 500_000, 90: 9_000})))
    assert EDGES[61] <= threshold(published(merger)) <= EDGES[80]
    costly = again(merger, published(merger_changed(merger)), COST)
    assert threshold(published(costly)) > EDGES[90], "a false alarm costs a thousand misses"


def merger_changed(merger: Merger) -> Merger:
    """The same merger with something to publish."""
    merger.apply(delta(HERE, 3))
    return merger


def test_the_objective_changes_live_and_what_is_known_of_scores_stays() -> None:
    merger = merger_of()
    published(merger)
    merger.apply(delta(HERE, 1, scored({70: 100, 100: 20}, {50: 50_000, 80: 50})))
    last = published(merger)
    changed = again(merger, last, COST)
    model = published(changed)
    assert model.objective == COST
    assert threshold(model) != threshold(last)
    back = published(again(changed, model, KAPPA))
    assert threshold(back) == threshold(last)
    assert published(again(changed, model, GMEAN)).blend is not None


def test_the_gmean_has_the_bits_it_has_in_a_stream_that_never_asked_for_anything_else() -> None:
    """Hits are counted whatever is asked for, so whoever goes back finds them as if they had never left."""
    plain, other = merger_of(GMEAN), merger_of()
    for merger in (plain, other):
        published(merger)
        merger.apply(delta(HERE, 1, tried(9)))
    last = published(other)
    expected, found = published(plain), published(again(other, last, GMEAN))
    assert expected.plane is not None
    assert found.plane is not None
    assert expected.plane.weights.tobytes() == found.plane.weights.tobytes()
    assert expected.plane.biases.tobytes() == found.plane.biases.tobytes()
    assert found.blend is not None
    assert found.blend.aim is None


def test_scores_count_once_whatever_source_they_came_from_and_in_whatever_order() -> None:
    one, other = merger_of(), merger_of()
    for merger in (one, other):
        published(merger)
    first, second = scored({70: 3}, {50: 8}), scored({90: 4}, {40: 7, 80: 1})
    one.apply(delta(HERE, 1, first))
    one.apply(delta(THERE, 0, second))
    other.apply(delta(THERE, 0, second))
    other.apply(delta(HERE, 1, first))
    assert write_model(published(one)) == write_model(published(other))


@pytest.mark.parametrize(
    "classes", [{"names": ["a", "b"]}, {"most": 2}, {"positive": "a"}, {"names": list("abc"), "positive": "b"}]
)
def test_kappa_may_be_asked_for_wherever_there_are_two_classes(classes: dict[str, object]) -> None:
    tables = DEFINITION.to_tables() | {"classes": classes, "solver": {"C": 1.0, "objective": "kappa"}}
    assert type(DEFINITION).from_tables(tables).objective == KAPPA


def test_scores_of_other_candidates_are_left_out_and_counted() -> None:
    merger = merger_of()
    published(merger)
    odd = replace(tried(7), scores={"y": np.ones((PLANES + 1, 2, BINS), np.int64)})
    merger.apply(delta(HERE, 1, odd))
    assert merger.void_prequential_counts == 1


def test_a_delta_and_a_model_with_scores_come_back_as_they_went() -> None:
    merger = merger_of()
    published(merger)
    sent = delta(HERE, 1, scored({70: 3}, {50: 2**40}))
    assert read_claim_or_delta(write_delta(sent), 2) == sent
    merger.apply(sent)
    model = published(merger)
    assert write_model(read_model(write_model(model))) == write_model(model)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"targets": []}, "expected scores of the candidates for"),
        ({"objective": "gmean"}, "expected another objective than gmean"),
        ({"objective": "profit"}, "expected an objective of this version"),
        ({"milliseconds": -1.0}, "0 milliseconds or more"),
        ({"milliseconds": float("nan")}, "0 milliseconds or more"),
    ],
)
def test_an_aim_that_cannot_be_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(WireError, match=words):
        read_model(with_fields("model_aimed", **fields))


@pytest.mark.parametrize("scores", [b"", bytes(8), np.full(2 * 2 * BINS, -1, "<i8").tobytes()])
def test_scores_that_cannot_be_are_refused(scores: bytes) -> None:
    with pytest.raises(WireError, match=r"tallied: expected scores of"):
        EXAMPLES["delta"].read(with_fields("delta_tallied", targets=[{"target": "UP", "scores": scores}]))


@pytest.mark.parametrize(
    ("objective", "classes", "words"),
    [
        ("f1", {"names": ["a", "b"]}, "f1 is about one class"),
        ("precision>=0.5", {"most": 3}, "about one class"),
        ("kappa", {}, "of two classes, got any; set classes.positive"),
        ("accuracy", {"names": ["a", "b", "c"]}, "of two classes, got 3"),
        ("roc", {"positive": "a"}, "expected one of gmean, kappa, mcc"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_what_to_do(
    objective: str, classes: dict[str, object], words: str
) -> None:
    tables = DEFINITION.to_tables()
    tables |= {"classes": classes, "solver": {"C": 1.0, "objective": objective}}
    with pytest.raises(DefinitionError, match=words):
        type(DEFINITION).from_tables(tables)


def test_the_scores_count_where_messages_must_fit() -> None:
    assert AIMED.message_size.delta - DEFINITION.message_size.delta == 2 * (PLANES * (SCORE_BYTES + 16))
    size = replace(AIMED.message_size, dimension=4, windows=16, choices=10_000)
    with pytest.raises(DefinitionError, match="bytes of scores"):
        size.check()


def test_a_bound_that_no_threshold_keeps_is_said_with_what_is_done_instead() -> None:
    said = {}
    for text in ("precision>=0.99", "recall@alerts=5/day", "recall@alerts=5/1000rows"):
        merger = merger_of(Objective.parse(text))
        said[f"first {text}"] = published(merger).unmet or ""
        merger.apply(delta(HERE, 1, scored({70: 500}, {70: 5_000, 40: 5_000})))
        said[text] = published(merger).unmet or ""
    assert "hardly a row of the class has been scored lately" in said["first precision>=0.99"]
    assert "no threshold has so much precision" in said["precision>=0.99"]
    assert "how many a day has is not known" in said["recall@alerts=5/day"]
    assert said["recall@alerts=5/1000rows"] == ""


def test_a_model_for_an_objective_is_proved_and_another_threshold_or_other_scores_are_found() -> None:
    merger = merger_of()
    first = published(merger)
    new = scored({70: 3, 90: 1}, {50: 800, 80: 2})
    merger.apply(delta(THERE, 0, new))
    second = published(merger)
    prequential_counts = {HERE: SourcePrequentialCounts(1), THERE: SourcePrequentialCounts(0, {0: (new, 0)})}

    def proof(model: Model, definition: object = AIMED) -> ModelProof:
        assert isinstance(definition, type(AIMED))
        return prove_model(model, [first], merger, prequential_counts, merger.statistics, definition)

    assert proof(second) == ModelProof((), ())
    assert any(fault.startswith("objective: the model says kappa") for fault in proof(second, DEFINITION).faults)
    assert second.blend is not None
    assert second.blend.aim is not None
    history = second.blend.aim.of["y"]
    moved = replace(history, threshold=float(EDGES[5]))
    more = replace(history, counts=history.counts + 1.0)
    for other, fault in ((moved, "scores['y'].threshold"), (more, "candidates.hits")):
        aim = replace(second.blend.aim, of={"y": other})
        forged = replace(second, blend=replace(second.blend, aim=aim))
        assert any(one.startswith(fault) for one in proof(forged).faults)


def test_candidates_of_three_classes_each_have_their_own_threshold() -> None:
    random = np.random.default_rng(3)
    rows = {label: random.integers(-50, 50, (40, 1)) + 60 * at for at, label in enumerate("abc")}
    grams = {label: Moments.of_rows(values) for label, values in rows.items()}
    options = tuple(SolverOptions(C=C) for C in (0.1, 10.0))
    fitted = fit([grams], 0, DEFINITION.plane_grid, options)
    choices = tuple(map(Choice.of, options))
    blend = weigh(fitted, choices, None, None, Objective.parse("mcc"))
    assert blend.aim is not None
    assert list(blend.aim.of) == ["a", "b", "c"]
    values = np.concatenate([DEFINITION.plane_grid.values(quantized) for quantized in rows.values()])
    codes = np.repeat(np.arange(3), 40)
    prequential_counts = blend.try_out(values, codes, ["a", "b", "c"])
    assert prequential_counts is not None
    for scores in prequential_counts.scores.values():
        assert scores.sum(axis=(1, 2)).tolist() == [120] * 3
        assert scores[:, 0].sum(axis=1).tolist() == [40] * 3
    gmean: Blend = weigh(fitted, choices, None, None)
    without = gmean.try_out(values, codes, ["a", "b", "c"])
    assert without is not None
    assert without.scores == {}
    assert {label: hits.tolist() for label, hits in without.hits.items()} == {
        label: hits.tolist() for label, hits in prequential_counts.hits.items()
    }
    assert Statistics(2, {(0, label): gram for label, gram in grams.items()}).counts(0) == dict.fromkeys("abc", 40)

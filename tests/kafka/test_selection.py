"""Where there is no Kafka the tests say so, loudly, and where it was counted on they fail."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import not_run
from kafka import clients, distribution, selection
from kafka.errors import KafkaNotStarted, KafkaUnavailable
from kafka.selection import RunningKafka

pytest_plugins = ["pytester"]

REQUIRED = "DELTAPLANE_REQUIRE_KAFKA"

TESTS_OF_KAFKA = """
def test_that_one_node_answers(kafka): raise AssertionError("there is no Kafka here")
def test_that_three_nodes_answer(kafka_three): raise AssertionError("there is no Kafka here")
def test_that_needs_none(): pass
"""


@pytest.fixture
def without_kafka(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A run of pytest that finds neither Java nor Maven, no engine, and no name of a cluster."""
    for name in ("CI", REQUIRED, selection.NAMED):
        monkeypatch.delenv(name, raising=False)
    nothing = pytester.mkdir("nothing")
    monkeypatch.setenv("PATH", str(nothing))
    monkeypatch.setenv("XDG_CACHE_HOME", str(nothing))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{nothing}/docker.sock")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeconftest('pytest_plugins = ["kafka.conftest", "not_run"]')
    pytester.makepyfile(TESTS_OF_KAFKA)
    return pytester


def test_without_kafka_its_tests_are_skipped_and_the_run_says_so_in_capitals(without_kafka: pytest.Pytester) -> None:
    result = without_kafka.runpytest_subprocess()
    result.assert_outcomes(passed=1, skipped=2)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["!* 2 KAFKA TESTS NOT RUN !*", "1 FOR WANT OF KAFKA: there is no java on PATH*"])


@pytest.mark.parametrize(
    ("name", "value", "required"),
    [
        ("CI", "true", True),
        ("CI", "1", True),
        ("CI", "false", False),
        ("CI", "", False),
        (REQUIRED, "1", True),
        (REQUIRED, "0", False),
    ],
)
def test_kafka_is_counted_on_where_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, *, required: bool
) -> None:
    for other in ("CI", REQUIRED):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    assert not_run.required("KAFKA") is required


def test_without_kafka_a_run_that_counts_on_it_fails(
    without_kafka: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    result = without_kafka.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["NO KAFKA, NOT RUN: there is no java on PATH*", "!* 2 KAFKA TESTS NOT RUN !*"])


def test_an_old_java_is_refused_by_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _command(tmp_path / "java", "echo 'openjdk version \"11.0.2\"' >&2")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaUnavailable, match=r"is not Java 17 or newer, it says 'openjdk version \"11\.0\.2\"'"):
        distribution.find_java()


def test_jars_that_cannot_be_fetched_are_no_kafka_and_leave_nothing_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _command(tmp_path / "java", "echo 'openjdk version \"17.0.15\"' >&2")
    _command(tmp_path / "mvn", "mkdir jars; echo half >jars/kafka_half.jar; echo 'no route to host'; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(KafkaUnavailable, match=r"Maven could not fetch Kafka .*\nno route to host"):
        distribution.prepare.__wrapped__()
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_cluster_that_was_named_is_the_one_used(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(selection.NAMED, kafka.bootstrap)
    with selection.any_kafka(tmp_path) as chosen:
        assert chosen == selection.NamedKafka(kafka.bootstrap)


def test_a_cluster_that_was_named_and_does_not_answer_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "PATIENCE_SECONDS", 0.4)
    monkeypatch.setenv(selection.NAMED, "127.0.0.1:1")
    with pytest.raises(KafkaNotStarted, match=r"the cluster that DELTAPLANE_TEST_KAFKA names \(127\.0\.0\.1:1\)"):
        selection.any_kafka(tmp_path)


def _command(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)

"""BLAS has one thread wherever this project calculates, unless told otherwise, and its own number again afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from threadpoolctl import OpenBLASController, ThreadpoolController, threadpool_info, threadpool_limits
from typer.testing import CliRunner

from deltaplane.blas_threads import _Threads, blas_threads
from deltaplane.errors import DefinitionError
from deltaplane.estimators import ExtremeSVM, LeastSquaresSVM, ProximalSVM, SlidingProximalSVM, UpdatableKernelSVM
from deltaplane.log.answers import Answers, answer
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services import client
from deltaplane_services.cli import application, shared_options
from deltaplane_services.client import LiveModel
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.definition_file.settings import resolve_knob
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.replay.result import ReplayResult, Snapshot
from deltaplane_services.replay.run import embedded, replay

FOUND = 3
"""Threads that the caller of these tests has given BLAS: a number that nothing here would choose."""


def threads() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _a_process_of_somebody_else() -> Iterator[None]:
    shared_options.process.close()
    with threadpool_limits(FOUND, user_api="blas"):
        yield
    shared_options.process.close()


# The block -----------------------------------------------------------------------------------------------------------


def test_a_block_has_one_thread_or_as_many_as_it_asks_for_and_the_caller_its_own_afterwards() -> None:
    with blas_threads():
        assert threads() == {1}
        with blas_threads(2):
            assert threads() == {2}
            with blas_threads(0):
                assert threads() == {FOUND}
            assert threads() == {2}
        assert threads() == {1}
    assert threads() == {FOUND}


def test_what_is_raised_in_a_block_puts_the_number_back() -> None:
    with pytest.raises(ZeroDivisionError), blas_threads():
        raise ZeroDivisionError
    assert threads() == {FOUND}


def overlapping(*ends: int) -> list[set[int]]:
    """The numbers within two blocks of two threads, after each of them has ended, in this order, and at the end."""
    begun, may_end, seen = [Event(), Event()], [Event(), Event()], list[set[int]]()

    def inside(at: int) -> None:
        with blas_threads():
            begun[at].set()
            assert may_end[at].wait(60)

    with ThreadPoolExecutor(2) as pool:
        running = []
        for at in range(2):
            running.append(pool.submit(inside, at))
            assert begun[at].wait(60)
            seen.append(threads())
        for at in ends:
            may_end[at].set()
            running[at].result(60)
            seen.append(threads())
    return seen


@pytest.mark.parametrize("ends", [(0, 1), (1, 0)])
def test_blocks_of_two_threads_that_overlap_leave_the_number_as_it_was(ends: tuple[int, int]) -> None:
    # Set by nobody who holds on to it: as if BLAS had begun with it.
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        library.set_num_threads(2)
    OpenBLASController.clear_controlling_thread(force=True)
    assert overlapping(*ends) == [{1}, {1}, {1}, {2}]
    with threadpool_limits(FOUND, user_api="blas"):
        assert threads() == {FOUND}, "whoever else limits BLAS can do so again"
    assert threads() == {2}


@pytest.mark.parametrize("ends", [(0, 1), (1, 0)])
def test_a_limit_that_the_caller_holds_in_another_thread_stands(ends: tuple[int, int]) -> None:
    assert overlapping(*ends) == [{FOUND}] * 4


# Python ---------------------------------------------------------------------------------------------------------------

Calls = dict[str, Callable[[Any, Any, Any], object]]
SHARED: Calls = {
    "decision_function": lambda it, X, _: it.decision_function(X),
    "predict": lambda it, X, _: it.predict(X),
    "coef_": lambda it, *_: it.coef_,
}
STATISTICS: Calls = {"partial_fit": lambda it, X, y: it.partial_fit(X, y), **SHARED}
ESTIMATORS: dict[str, tuple[Any, Calls]] = {
    "ProximalSVM": (ProximalSVM(), {**STATISTICS, "retire": lambda it, X, y: it.retire(X[:9], y[:9])}),
    "SlidingProximalSVM": (
        SlidingProximalSVM(window=50),
        {**STATISTICS, "predict_then_fit": lambda it, X, y: it.predict_then_fit(X, y)},
    ),
    "ExtremeSVM": (ExtremeSVM(units=5), STATISTICS),
    "LeastSquaresSVM": (
        LeastSquaresSVM(),
        {
            **SHARED,
            "partial_fit": lambda it, X, y: it.partial_fit(X, y),
            "retire": lambda it, X, y: it.retire(X[:9], y[:9]),
            "refresh": lambda it, X, y: it.refresh(X, y),
            "cross_validate": lambda it, X, y: it.cross_validate(X, y),
            "drift_": lambda it, *_: it.drift_,
        },
    ),
    "UpdatableKernelSVM": (
        UpdatableKernelSVM(),
        {
            "update": lambda it, X, y: it.update(X, y),
            "predict": SHARED["predict"],
            "decision_function": SHARED["decision_function"],
        },
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_calculates_on_one_thread_and_leaves_the_callers_number(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator, calls = ESTIMATORS[name]
    seen: set[int] = set()
    begin = _Threads.begin

    def watched(self: _Threads, block: object, number: int) -> None:
        begin(self, block, number)
        seen.update(threads())

    monkeypatch.setattr(_Threads, "begin", watched)
    draw = np.random.default_rng(7)
    y = np.arange(60) % 2
    X = draw.normal(size=(60, 4)) + y[:, None]
    for call, ask in {"fit": lambda it, X, y: it.fit(X, y), **calls}.items():
        seen.clear()
        ask(estimator, X, y)
        assert threads() == {FOUND}, call
        # A plane is solved for when it is first asked for, and once.
        assert seen == {1} or call == "coef_", call


def test_planes_of_an_estimator_have_the_same_bits_whatever_number_the_caller_has() -> None:
    draw = np.random.default_rng(11)
    y = np.arange(400) % 2
    X = draw.normal(size=(400, 200)) * draw.lognormal(size=200) + y[:, None]
    fitted = []
    for number in (1, 2, FOUND):
        with threadpool_limits(number, user_api="blas"):
            fitted.append(ProximalSVM(C=1.0).fit(X, y))
            fitted[-1].coef_  # noqa: B018 - it is solved for when it is asked for.
    assert len({one.digest() for one in fitted}) == 1
    assert len({one.coef_.tobytes() + one.intercept_.tobytes() for one in fitted}) == 1


@pytest.mark.parametrize(("kind", "expected"), [("fourier", {1}), ("none", {FOUND})])
def test_a_live_model_maps_rows_on_one_thread_of_the_process_that_it_is_in(
    kind: str, expected: set[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result, _ = replayed(tmp_path, 1, {"feature_map": {"kind": kind, "units": 8}} if kind != "none" else {})
    seen = []

    def watched(*of: Any) -> Answers:
        seen.append(threads())
        return answer(*of)

    monkeypatch.setattr(client, "answer", watched)
    live = LiveModel.__new__(LiveModel)
    live._definition, live._model, live._failure = result.definition, result.model, None
    assert set(live.predict(np.array([[0.0, 1.0], [3.0, 2.0]]))) <= {"0", "1"}
    assert seen == [expected]


# Commands -------------------------------------------------------------------------------------------------------------


def rows_file(directory: Path) -> Path:
    draw = np.random.default_rng(2)
    lines = [f"{draw.normal() + at % 2:.3f},{draw.normal():.3f},{at % 2}" for at in range(240)]
    place = directory / "rows.csv"
    place.write_text("\n".join(["a,b,y", *lines]) + "\n")
    return place


def replayed(directory: Path, number: int, tables: dict[str, Any] | None = None) -> tuple[ReplayResult, list[set[int]]]:
    """A replay with so many threads, and how many there were after each chunk."""
    seen = []

    def look(_: Callable[[], Snapshot]) -> None:
        seen.append(threads())

    given = {"input": {"label": "y"}, "window": {"length": "all"}, "solver": {"C": 1.0}, **(tables or {})}
    options = ReplayOptions(str(rows_file(directory)), DefinitionFile.of(given), chunk=40, blas_threads=number)
    return replay(options, look, embedded(options)), seen


@pytest.mark.parametrize(("number", "expected"), [(1, 1), (2, 2), (0, FOUND)])
def test_a_replay_has_the_number_that_it_is_told_and_the_same_digest_with_any(
    number: int, expected: int, tmp_path: Path
) -> None:
    result, seen = replayed(tmp_path, number)
    assert seen == [{expected}] * 6
    assert result.model.digest == replayed(tmp_path, 1)[0].model.digest
    assert threads() == {FOUND}


def test_the_command_has_one_thread_by_default_and_a_flag_a_variable_and_a_key_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def noted(options: ReplayOptions, *of: Any) -> ReplayResult:
        given.append(options.blas_threads)
        return replay(options, *of)

    monkeypatch.setattr("deltaplane_services.replay.run.replay", noted)
    definition = tmp_path / "four.toml"
    definition.write_text("[service]\nblas_threads = 4\n")
    line = ["replay", str(rows_file(tmp_path)), "--label", "y"]
    for more, variable in (
        ([], ""),
        (["--definition", str(definition)], ""),
        ([], "3"),
        (["--blas-threads", "2"], "3"),
    ):
        ran = CliRunner().invoke(application.app, line + more, env={"DELTAPLANE_BLAS_THREADS": variable})
        assert ran.exit_code == 0, ran.output
    assert given == [1, 4, 3, 2]


def test_a_number_that_cannot_be_is_refused_with_the_place_that_it_is_from() -> None:
    variable = {"DELTAPLANE_BLAS_THREADS": "many"}
    with pytest.raises(DefinitionError, match="DELTAPLANE_BLAS_THREADS: expected a whole number"):
        resolve_knob("blas_threads", None, variable, {})
    with pytest.raises(DefinitionError, match=r"service\.blas_threads: expected from 0 to 1024"):
        resolve_knob("blas_threads", None, {}, {"service": {"blas_threads": -1}})


def test_every_command_with_settings_has_their_number_until_its_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = tmp_path / "stream.toml"
    stream = StreamDefinition.from_tables({"name": "s", "features": {"names": ["a"]}, "grid": {"steps": [1.0]}})
    definition.write_text(f'name = "{stream.name}"\n[features]\nnames = ["a"]\n[grid]\nsteps = [1.0]\n')
    for name in [name for name in os.environ if name.startswith("DELTAPLANE_")]:
        monkeypatch.delenv(name)
    shared_options.resolve(definition)
    assert threads() == {1}
    shared_options.resolve(definition, blas_threads=2)
    assert threads() == {2}
    monkeypatch.setattr("sys.argv", ["deltaplane", "--version"])
    with pytest.raises(SystemExit):
        application.main()
    assert threads() == {FOUND}

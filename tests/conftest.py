"""What all tests share: how hard Hypothesis looks, and the seed it starts from, printed so that a run can be repeated;
which of them a process runs next, where several do; and what is said at the end of those that could not be run.

Profiles: ``standard`` (the default) and ``thorough`` (``--hypothesis-profile=thorough``, before a release or after a
change to a law). On continuous integration the seed is fixed, so that a change is judged by what it changed; everywhere
else each run draws its own, and sees what no run saw before. ``--hypothesis-seed=N`` repeats a run.
"""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import commands_once
from not_run import pytest_terminal_summary
from sharing_out import ByFile

__all__ = ["pytest_terminal_summary"]

SEED_ON_CONTINUOUS_INTEGRATION = 1996_05_07

SPARK = importlib.util.find_spec("pyspark") is not None
collect_ignore = [] if SPARK else ["spark"]
"""Tests of Spark are not among those of an environment without it: `make test-spark` makes one, and runs them."""

commands_once.install()

# No deadline and no complaint of slow drawing: nothing here is timed, and a busy machine is not a failure.
hypothesis.settings.register_profile(
    "standard",
    max_examples=100,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("thorough", hypothesis.settings.get_profile("standard"), max_examples=2000)
hypothesis.settings.load_profile("standard")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed BEFORE Hypothesis's own plugin reads the option."""
    if config.option.hypothesis_seed is None:
        on_continuous_integration = bool(os.environ.get("CI"))
        seed = SEED_ON_CONTINUOUS_INTEGRATION if on_continuous_integration else secrets.randbelow(2**32)
        config.option.hypothesis_seed = str(seed)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Have one process at a time compile what no process has yet: in a new checkout, that is all tests.

    Each would else compile everything for itself, at the same time. What the first has written the others only read.
    """
    with Path(__file__).open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def pytest_collection_finish() -> None:
    """Keep the garbage collector from what stays: the objects of libraries and of some thousand tests.

    It took a sixth of all the time, going through them again and again. What tests make is still collected.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Name the seed at the head of every run."""
    seed = config.option.hypothesis_seed
    elsewhere = "" if SPARK else "; tests of Spark are run by make test-spark"
    return f"deltaplane: Hypothesis starts from seed {seed}; repeat this run with --hypothesis-seed={seed}{elsewhere}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give files out whole where several processes run the tests: see sharing_out.py."""
    return ByFile(config, log)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A command that a test runs in this process logs as it likes; the next test hears what it always would."""
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]

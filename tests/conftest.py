"""What all tests share: how hard Hypothesis looks, and the seed it starts from, printed so that a run can be repeated.

Profiles: ``standard`` (the default) and ``thorough`` (``--hypothesis-profile=thorough``, before a release or after a
change to a law). On continuous integration the seed is fixed, so that a change is judged by what it changed; everywhere
else each run draws its own, and sees what no run saw before. ``--hypothesis-seed=N`` repeats a run.
"""

from __future__ import annotations

import os
import secrets

import hypothesis
import pytest

SEED_ON_CONTINUOUS_INTEGRATION = 1996_05_07

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


def pytest_report_header(config: pytest.Config) -> str:
    """Name the seed at the head of every run."""
    seed = config.option.hypothesis_seed
    return f"deltaplane: Hypothesis starts from seed {seed}; repeat this run with --hypothesis-seed={seed}"

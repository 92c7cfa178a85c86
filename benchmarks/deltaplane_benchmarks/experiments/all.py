"""Every experiment there is, in the order of the papers."""

from __future__ import annotations

from deltaplane_benchmarks.bench import Experiment
from deltaplane_benchmarks.experiments import (
    calibration,
    digits,
    equality,
    extreme_networks,
    faces,
    imbalance,
    streams,
    training_times,
    updating,
)

__all__ = ["CALIBRATION", "PAPERS", "STREAMS"]

PAPERS: tuple[Experiment, ...] = (
    equality.TABLE_1_EXPERIMENT,
    training_times.TABLE_2_EXPERIMENT,
    training_times.TABLE_3_EXPERIMENT,
    digits.EXPERIMENT,
    extreme_networks.EXPERIMENT,
    equality.TABLE_5_1_EXPERIMENT,
    imbalance.EXPERIMENT,
    faces.MEMBERSHIP_EXPERIMENT,
    faces.RECOGNITION_EXPERIMENT,
    updating.EXPERIMENT,
)

STREAMS: tuple[Experiment, ...] = (streams.EXPERIMENT,)

CALIBRATION: tuple[Experiment, ...] = (calibration.EXPERIMENT,)

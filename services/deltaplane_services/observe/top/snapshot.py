"""One frame: everything that is shown at a moment, as values. An unknown value is None, never an old number.

What concerns the whole stream comes only from the elected merger. If several mergers believe that they are elected, it
comes from the one with the highest model version, which readers of the stream also follow. What processes know of
themselves is added up, or the largest value is taken if several know the same. If some are silent, the values cover the
others, and a note says so. A process whose loop stands still answers with the numbers of its last turn, so none of
these is shown either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.observe.top.gather import Address, Gathering, Scrape, Silence
from deltaplane_services.observe.top.history import History, Key, quantile

__all__ = [
    "STILL_SECONDS",
    "Asked",
    "ClassState",
    "Counts",
    "Flow",
    "Frame",
    "ModelState",
    "Rebuilds",
    "Service",
    "State",
    "frame_of",
]

State = Literal["ready", "not ready", "standing still", "silent", "stranger"]

STILL_SECONDS = 5.0
"""A loop that has not turned for so long is shown as standing still."""


@dataclass(frozen=True)
class Service:
    """One process. ``why`` is its own text, or why there is none. None stands for what the process does not say."""

    address: str
    role: str | None
    stream: str | None
    state: State
    why: str
    silent_seconds: float
    elected: bool | None = None
    seen_model_version: int | None = None
    lag_records: int | None = None
    dead_letters: int | None = None
    resident_memory_bytes: int | None = None


@dataclass(frozen=True)
class Flow:
    """Rates per second over the last seconds, records that wait, and the latency of samples from log to model."""

    samples_per_second: float | None
    deltas_per_second: float | None
    predictions_per_second: float | None
    lag_records: Mapping[str, int]
    sample_to_model_seconds: Mapping[str, float | None]


@dataclass(frozen=True)
class ModelState:
    """The newest model and its plane. ``blend_shares``, of the automatic mode: kind of choice to shares by choice."""

    version: int
    plane_version: int
    age_seconds: float
    refused: bool
    C: float | None
    condition_number: float | None
    weight_norm: float | None
    weight_change_norm: float | None
    blend_shares: Mapping[str, Mapping[str, float]] | None


@dataclass(frozen=True)
class Asked:
    """The objective of the plane, its ``value`` by span, and whether no threshold keeps its bound."""

    objective: str
    value: Mapping[str, float]
    unmet: bool


@dataclass(frozen=True)
class ClassState:
    """One class; measures are over the recent span unless named ``of_all``."""

    name: str
    recall: float | None
    recall_of_all: float | None
    precision: float | None
    specificity: float | None
    f_measure: float | None
    live_samples: int | None
    sigma: float | None


@dataclass(frozen=True)
class Rebuilds:
    """Rebuilds of these processes: the number done, their mean duration, and the duration so far of the others."""

    done: int | None
    mean_seconds: float | None
    under_way_seconds: Mapping[str, float]


@dataclass(frozen=True)
class Counts:
    """Counts since the stream began, by outcome or reason."""

    samples: Mapping[str, int]
    rejected: Mapping[str, int]
    retirements: Mapping[str, int]
    retirements_waiting: int | None


@dataclass(frozen=True)
class Frame:
    """All values of a frame. ``at`` is in seconds since 1970; rates look back ``rates_over_seconds``.

    ``weights`` are standardized, by class and feature. ``shifts`` are those of features, in standard deviations, found
    without labels. ``served``: by site, the recent G-mean of predictions whose labels came later, if a judge tells it.
    """

    at: float
    rates_over_seconds: float
    stream: str | None
    services: tuple[Service, ...]
    flow: Flow
    model: ModelState | None
    asked: Asked | None
    gmean: Mapping[str, float]
    accuracy: Mapping[str, float]
    imbalance_ratio: float | None
    classes: tuple[ClassState, ...]
    counts: Counts | None
    rebuilds: Rebuilds
    notes: tuple[str, ...]
    weights: Mapping[str, Mapping[str, float]]
    shifts: Mapping[str, float]
    served: Mapping[str, float]

    @property
    def answering(self) -> int:
        """The number of services that answer."""
        return sum(service.state in {"ready", "not ready", "standing still"} for service in self.services)


def frame_of(history: History, stream: str | None = None) -> Frame:
    """The frame of the newest round, of ``stream`` or else of the first stream by name; its trends are remembered."""
    newest = history.newest
    services = tuple(_service(history, address) for address in newest.answers)
    streams = sorted({service.stream for service in services if service.stream is not None})
    shown = stream or (streams[0] if streams else None)
    view = _View(history, shown)
    source = view.source(newest)
    frame = Frame(
        at=newest.at,
        rates_over_seconds=history.seconds,
        stream=shown,
        services=services,
        flow=view.flow(),
        model=None if source is None else _model(source, newest.at),
        asked=None if source is None else _asked(source),
        gmean={} if source is None else source.by(metric_names.GMEAN.name, "span"),
        accuracy={} if source is None else source.by(metric_names.ACCURACY.name, "span"),
        imbalance_ratio=None if source is None else source.value(metric_names.IMBALANCE.name),
        classes=() if source is None else tuple(_classes(source)),
        counts=None if source is None else _counts(source),
        rebuilds=view.rebuilds(),
        weights={} if source is None else _weights(source),
        shifts=view.shifts(),
        served=view.served(),
        notes=tuple(_notes(services, shown, streams, source, view.elected(newest))),
    )
    history.note(_points(frame))
    return frame


def _points(frame: Frame) -> dict[Key, float | None]:
    points: dict[Key, float | None] = {
        ("gmean",): frame.gmean.get("recent"),
        ("asked",): None if frame.asked is None else frame.asked.value.get("recent"),
        ("imbalance",): frame.imbalance_ratio,
        ("samples",): frame.flow.samples_per_second,
        ("lag",): float(sum(frame.flow.lag_records.values())) if frame.flow.lag_records else None,
        ("latency",): frame.flow.sample_to_model_seconds["p95"],
    }
    return points | {("recall", one.name): one.recall for one in frame.classes}


# Services ------------------------------------------------------------------------------------------------------------


def _service(history: History, address: Address) -> Service:
    answer, shown = history.newest.answers[address], history.newest.shown[address]
    identity = history.identity(address)
    role, stream = identity.get("role"), identity.get("stream")
    if isinstance(answer, Silence):
        state: State = "stranger" if answer.stranger else "silent"
        return Service(shown, role, stream, state, answer.why, history.silent_seconds(address))
    still = history.still_seconds(address)
    elected = answer.value(metric_names.ELECTED.name)
    state, why = "ready" if answer.ready else "not ready", answer.why.removeprefix(f"{role}: ")
    if still >= STILL_SECONDS:
        return Service(shown, role, stream, "standing still", f"its loop has not turned for {still:.0f} s", 0.0)
    return Service(
        shown,
        role,
        stream,
        state,
        why,
        0.0,
        elected=None if elected is None else elected > 0,
        seen_model_version=_whole(answer.value(metric_names.SEEN_VERSION.name)),
        lag_records=int(sum(value for _, value in answer.of(metric_names.LAG.name))),
        dead_letters=int(sum(value for _, value in answer.of(metric_names.DEAD_LETTERS.name))),
        resident_memory_bytes=_whole(answer.value("process_resident_memory_bytes")),
    )


def _notes(
    services: Iterable[Service],
    stream: str | None,
    streams: Iterable[str],
    source: Scrape | None,
    elected: Iterable[Scrape],
) -> Iterator[str]:
    known = tuple(services)
    silent = sum(service.state in {"silent", "stranger", "standing still"} for service in known)
    mergers = len(tuple(elected))
    if silent:
        yield f"{silent} of {len(known)} do not answer or stand still; lag, latency, rebuilds are of the others"
    if not mergers and silent < len(known):
        yield "no elected merger answers, so the stream as a whole is not known; is its address among --at?"
    elif mergers and source is None:
        yield "the elected merger has no model yet"
    if mergers > 1:
        yield f"{mergers} mergers believe to be elected; shown is the one with the highest model"
    if source is not None and source.value(metric_names.MODEL_REFUSED.name):
        yield f"the solver refuses: {source.why.removeprefix('merger: ')}"
    others = [name for name in streams if name != stream]
    if others:
        yield f"other streams at these addresses: {', '.join(others)}; choose with --stream"


# The stream ----------------------------------------------------------------------------------------------------------


class _View:
    """One stream in the remembered rounds."""

    def __init__(self, history: History, stream: str | None) -> None:
        self._history = history
        self._stream = stream
        addresses = history.newest.answers
        self._still = {address for address in addresses if history.still_seconds(address) >= STILL_SECONDS}
        self._addresses = [address for address in addresses if self._at(address, history.newest)]

    def _at(self, address: Address, gathering: Gathering) -> Scrape | None:
        """The answer of an address, if it is of this stream and its loop turns."""
        answer = gathering.answers.get(address)
        is_ours = isinstance(answer, Scrape) and answer.identity["stream"] == self._stream
        return answer if isinstance(answer, Scrape) and is_ours and address not in self._still else None

    def _all(self, gathering: Gathering) -> list[Scrape]:
        return [found for address in gathering.answers if (found := self._at(address, gathering)) is not None]

    def elected(self, gathering: Gathering) -> list[Scrape]:
        """The answers of mergers that say that they are elected."""
        return [scrape for scrape in self._all(gathering) if scrape.value(metric_names.ELECTED.name)]

    def source(self, gathering: Gathering) -> Scrape | None:
        """The answer that describes the stream as a whole; None if there is none."""
        having = [
            scrape for scrape in self.elected(gathering) if scrape.value(metric_names.MODEL_VERSION.name) is not None
        ]
        return max(having, key=lambda scrape: scrape.value(metric_names.MODEL_VERSION.name) or 0.0, default=None)

    def _grown(self, name: str) -> list[dict[Key, tuple[float, float]]]:
        """The increases of a counter, for each process."""
        found = (self._history.increases(name, partial(self._at, address)) for address in self._addresses)
        return [grown for grown in found if grown]

    def _rate(self, name: str) -> float | None:
        grown = self._grown(name)
        return sum(by / seconds for one in grown for by, seconds in one.values()) if grown else None

    def flow(self) -> Flow:
        """Rates, lags and latency."""
        lags: dict[tuple[str, ...], int] = {}
        for scrape in self._all(self._history.newest):
            for labels, value in scrape.of(metric_names.LAG.name):
                place = (labels["topic"], labels["site"], labels["partition"])
                lags[place] = max(lags.get(place, 0), int(value))
        by_topic: dict[str, int] = {}
        for (topic, *_), lag in sorted(lags.items()):
            by_topic[topic] = by_topic.get(topic, 0) + lag
        latency = self._grown(f"{metric_names.SAMPLE_TO_MODEL.name}_bucket")
        return Flow(
            samples_per_second=self._history.rate(metric_names.SAMPLES.name, self.source),
            deltas_per_second=self._rate(f"{metric_names.DELTA_BYTES.name}_count"),
            predictions_per_second=self._rate(metric_names.PREDICTIONS.name),
            lag_records=by_topic,
            sample_to_model_seconds={"p50": quantile(0.5, latency), "p95": quantile(0.95, latency)},
        )

    def shifts(self) -> dict[str, float]:
        """Feature to the largest shift that any worker reports."""
        found: dict[str, float] = {}
        for scrape in self._all(self._history.newest):
            for labels, value in scrape.of(metric_names.FEATURE_SHIFT.name):
                if abs(value) >= abs(found.get(labels["feature"], 0.0)):
                    found[labels["feature"]] = value
        return found

    def served(self) -> dict[str, float]:
        """The recent G-mean as served, by site."""
        return {
            labels["site"]: value
            for scrape in self._all(self._history.newest)
            for labels, value in scrape.of(metric_names.SERVED_GMEAN.name)
            if labels["span"] == "recent"
        }

    def rebuilds(self) -> Rebuilds:
        """The rebuilds of all workers that answer."""
        workers = [scrape for scrape in self._all(self._history.newest) if scrape.identity["role"] == "worker"]
        done = sum(scrape.value(f"{metric_names.REBUILD_SECONDS.name}_count") or 0.0 for scrape in workers)
        seconds = sum(scrape.value(f"{metric_names.REBUILD_SECONDS.name}_sum") or 0.0 for scrape in workers)
        under_way = {
            f"{labels['site']}/{labels['partition']}": age
            for scrape in workers
            for labels, age in scrape.of(metric_names.REBUILDING.name)
            if age > 0.0
        }
        return Rebuilds(int(done) if workers else None, seconds / done if done else None, under_way)


def _model(source: Scrape, now: float) -> ModelState:
    return ModelState(
        version=int(source.value(metric_names.MODEL_VERSION.name) or 0),
        plane_version=int(source.value(metric_names.PLANE_VERSION.name) or 0),
        # The clock of another machine may be ahead of this one's.
        age_seconds=max(0.0, now - (source.value(metric_names.MODEL_CREATED.name) or now)),
        refused=bool(source.value(metric_names.MODEL_REFUSED.name)),
        C=source.value(metric_names.MODEL_C.name),
        condition_number=source.value(metric_names.CONDITION.name),
        weight_norm=source.value(metric_names.WEIGHT_NORM.name),
        weight_change_norm=source.value(metric_names.WEIGHT_CHANGE.name),
        blend_shares=_shares(source),
    )


def _weights(source: Scrape) -> dict[str, dict[str, float]]:
    weights: dict[str, dict[str, float]] = {}
    for labels, value in source.of(metric_names.STANDARDIZED_WEIGHT.name):
        weights.setdefault(labels["class"], {})[labels["feature"]] = value
    return weights


def _shares(source: Scrape) -> dict[str, dict[str, float]] | None:
    shares: dict[str, dict[str, float]] = {}
    for labels, share in source.of(metric_names.BLEND_SHARE.name):
        shares.setdefault(labels["of"], {})[labels["choice"]] = share
    return shares or None


def _asked(source: Scrape) -> Asked | None:
    unmet = source.by(metric_names.OBJECTIVE_UNMET.name, "objective")
    if not unmet:
        return None
    objective, is_unmet = next(iter(unmet.items()))
    value = source.by(metric_names.OBJECTIVE.name, "span", objective=objective)
    return Asked(objective, value, is_unmet > 0.0)


def _classes(source: Scrape) -> Iterator[ClassState]:
    live = source.by(metric_names.WINDOW_SAMPLES.name, "class")
    sigmas = source.by(metric_names.SIGMA.name, "class")
    for label in sorted(live):
        yield ClassState(
            name=label,
            recall=source.value(metric_names.SENSITIVITY.name, **{"class": label, "span": "recent"}),
            recall_of_all=source.value(metric_names.SENSITIVITY.name, **{"class": label, "span": "all"}),
            precision=source.value(metric_names.PRECISION.name, **{"class": label, "span": "recent"}),
            specificity=source.value(metric_names.SPECIFICITY.name, **{"class": label, "span": "recent"}),
            f_measure=source.value(metric_names.F_MEASURE.name, **{"class": label, "span": "recent"}),
            live_samples=_whole(live[label]),
            sigma=sigmas.get(label),
        )


def _counts(source: Scrape) -> Counts:
    def by(name: str, label: str) -> dict[str, int]:
        return {key: int(value) for key, value in source.by(name, label).items()}

    return Counts(
        samples=by(metric_names.SAMPLES.name, "outcome"),
        rejected=by(metric_names.REJECTED.name, "reason"),
        retirements=by(metric_names.RETIREMENTS.name, "outcome"),
        retirements_waiting=_whole(source.value(metric_names.RETIREMENTS_WAITING.name)),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)

"""Summaries of replays that never were, as ``replay --json`` would write them, for the tests of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=http://evil.example/x onerror=alert(1)>',
    "$\\frac{1}{",
    "_hidden & <b>bold</b>",
    "#0068a8 url(#x)",
    "bell\x07 null\x00 \ud800 \u202eright-to-left",
)
"""What a label, a name or a reason may hold without being able to do anything, or to stop a report."""


def span(at: int, counts: Mapping[str, int], recalls: Mapping[str, float], **changed: Any) -> dict[str, Any]:
    """One point: samples 100·at to 100·(at + 1), with one event an hour from 2024 on."""
    recall = list(recalls.values())
    product = 1.0
    for value in recall:
        product *= value
    gmean = product ** (1 / len(recall)) if len(recall) > 1 else None
    live = [count for count in counts.values() if count]
    return {
        "rows_from": 100 * at,
        "rows_to": 100 * (at + 1),
        "watermark": 1_704_067_200_000 + 3_600_000 * 100 * at,
        "gmean": gmean,
        "recalls": dict(recalls),
        "imbalance_ratio": max(live) / min(live) if len(live) > 1 else None,
        "classes": dict(counts),
        "weights": [[0.5, -0.25 * at]],
        "weights_of": [list(counts)[-1]],
        "deviations": [2.0, 1.0],
        "sigmas": {label: 1.0 / len(counts) for label in counts},
        "version": at + 1,
        "blend": None,
        "lately": {"rows_from": 0, "gmean": gmean, "recalls": dict(recalls)},
    } | changed


def summary(spans: Sequence[dict[str, Any]], labels: Sequence[str] = ("no", "yes"), **changed: Any) -> dict[str, Any]:
    """A whole summary, of two features, with these points."""
    cells = [
        {"truth": truth, "predicted": predicted, "count": 40 if truth == predicted else 7}
        for truth in labels
        for predicted in labels
    ]
    return {
        "source": "some/where/stream.csv",
        "stream": "stream",
        "rows": 100 * len(spans),
        "first_event_time": 1_704_067_200_000,
        "seconds": 0.5,
        "rows_per_second": 200.0 * len(spans),
        "gmean": 0.8125,
        "sensitivity": 0.75,
        "specificity": 0.88,
        "f_measure": 0.7,
        "relative_sensitivity": 0.85,
        "accuracy": 0.8,
        "imbalance_ratio": 3.0,
        "classes": dict.fromkeys(labels, 50),
        "positive": labels[-1],
        "window": ["1000"],
        "scored": 100 * len(spans),
        "rejected": 2,
        "thinned": 0,
        "rejections": {
            "counts": {"unreadable": 2},
            "first": [
                {"line": 17, "kind": "unreadable", "reason": "the row has 2 cells and the file 9 columns"},
                {"line": None, "kind": "unreadable", "reason": "no line is known of this"},
            ],
        },
        "outcomes": {"applied": 100 * len(spans), "retirements retired": 4},
        "model": {"version": 9, "kind": "wlpsvm", "weighting": "inverse", "C": 1.0, "features": ["height", "width"]},
        "digest": "0123456789abcdef" * 4,
        "verified": True,
        "confusion": cells,
        "series": list(spans),
        "ended_early": None,
        "settings": {"chunk": 100, "definition": {"solver": {"kind": "wlpsvm"}, "grid": {"steps": [0.5] * 40}}},
    } | changed


def vanishing(labels: Sequence[str] = ("no", "yes")) -> dict[str, Any]:
    """Thirty points; in the middle ten the last class is gone."""
    counts = {label: 60 + 10 * at for at, label in enumerate(labels)}
    spans = []
    for at in range(30):
        there = labels[:-1] if 10 <= at < 20 else labels
        live = {label: counts[label] if label in there else 0 for label in labels}
        spans.append(span(at, live, dict.fromkeys(there, 0.7 + 0.01 * (at % 7))))
    return summary(spans, labels)

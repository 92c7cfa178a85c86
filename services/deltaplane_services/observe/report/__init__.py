"""Pictures of replays: a page that opens offline, figures as files, and several runs side by side.

    JSON of a replay ──record──▶ Run ──charts──▶ figures ──svg──▶ page
                                                      └──files──▶ PNG, SVG

All of it is made from what ``replay --json`` writes, so that a report can be had of a run long after it. matplotlib
draws; it is imported only where something is drawn, and comes with the extra ``report``.
"""

from __future__ import annotations

"""Pictures of replays: a page that opens offline, figures as files, and several runs side by side.

    JSON of a replay ──record──▶ Run ──charts──▶ pictures ──plotly_figures──▶ page, drawn by the browser
                                                          └──plots──▶ PNG, SVG

All of it is made from what ``replay --json`` writes, so that a report can be had of a run long after it. What a picture
shows is decided once, in ``charts``. Plotly draws it on the page, and matplotlib in files; each is imported only where
it is needed, and both come with the extra ``report``.
"""

from __future__ import annotations

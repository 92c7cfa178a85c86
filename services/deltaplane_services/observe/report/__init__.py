"""Pictures of replays: a page that opens offline, figures as files, and several runs side by side.

    JSON of a replay ──record──▶ Run ──charts──▶ pictures ──plotly_figures──▶ page, drawn by the browser
                                                          └──plots──▶ PNG, SVG

Everything is made from what ``replay --json`` writes, so that a report can be made long after a run. Only ``charts``
decides what a picture shows. Plotly draws it on the page, and matplotlib draws it in files. Each is imported only when
it is needed, and both come with the extra ``report``.
"""

from __future__ import annotations

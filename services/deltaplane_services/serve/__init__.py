"""Answers over HTTP: the Open Inference Protocol, version 2, and records by name, by the newest model of a stream.

    where a model comes from (model_source) ─▶ what is asked (questions) ─▶ the answer (responses) ─▶ HTTP (application)

Starlette and Uvicorn come with ``deltaplane[serve]``. This room answers rows by :func:`deltaplane.log.answers.answer`,
as a scorer and ``LiveModel`` do, and adds nothing to it.
"""

from __future__ import annotations

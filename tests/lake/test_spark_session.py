"""The session of Spark on one machine has this interpreter run its tasks; on a cluster Spark is left alone."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from deltaplane_services.lake.spark import spark_session


def python_of(patch: pytest.MonkeyPatch, master: str) -> str:
    """The interpreter that a session has its tasks run by."""
    context = SimpleNamespace(master=master, pythonExec="python3")
    builder: Any = SimpleNamespace(getOrCreate=lambda: SimpleNamespace(sparkContext=context))
    builder.appName = lambda _: builder
    module: Any = ModuleType("pyspark.sql")
    module.SparkSession = SimpleNamespace(builder=builder)
    patch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    patch.setitem(sys.modules, "pyspark.sql", module)
    return str(spark_session().sparkContext.pythonExec)


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [
        ("local[*]", None, sys.executable),
        ("local-cluster[2,1,1024]", None, sys.executable),
        ("local[*]", "./environment/bin/python", "python3"),
        ("yarn", None, "python3"),
    ],
)
def test_tasks_on_this_machine_are_run_by_this_interpreter_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch, master: str, given: str | None, expected: str
) -> None:
    if given is None:
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    else:
        monkeypatch.setenv("PYSPARK_PYTHON", given)
    assert python_of(monkeypatch, master) == expected

"""One session of Spark for all tests of it: two executors, each a process of its own, on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

EXECUTORS, CORES, MEGABYTES = 2, 1, 1024


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    """A cluster of two executors. Both run this interpreter, whose environment has the distribution."""
    from pyspark import sql  # noqa: PLC0415 - these tests are collected where it is installed.

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = sql.SparkSession.builder.master(f"local-cluster[{EXECUTORS},{CORES},{MEGABYTES}]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()

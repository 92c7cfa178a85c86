"""Label values of metrics: text for any terminal, and never two series of one name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.observe.metrics.families import family, label_text


class Labels(Collector):
    """Series of labels that somebody has made up."""

    def collect(self) -> Iterator[Metric]:
        values = [(("\x1b[2J", "a"), 1.0), (("\\x1b[2J", "a"), 2.0), (("é\n", "\u202e"), 3.0)]
        yield family(metric_names.CONFUSION, "s", values)


def test_no_byte_of_a_scrape_is_a_command_for_a_terminal() -> None:
    registry = CollectorRegistry()
    registry.register(Labels())
    text = generate_latest(registry).decode()
    assert all(char.isprintable() or char == "\n" for char in text)
    assert 'truth="\\\\x1b[2J"' in text
    assert text.count('truth="\\\\x1b[2J"') == 1, "two that are shown alike are one series"
    assert "} 3.0" in text


@pytest.mark.parametrize("text", ["a", "é", "日本", "a b", "\\n", "two\nlines"])
def test_what_can_be_printed_stays_as_it_is_and_a_line_break_is_escaped_by_the_format(text: str) -> None:
    assert label_text(text) == text

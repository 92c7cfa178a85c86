"""Every command and snippet of the pages does what the page says. Those that need Kafka are in ``tests/kafka``."""

from __future__ import annotations

import ast
import re
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from deltaplane.window.outcomes import RetirementOutcome, SampleOutcome
from pages.blocks import NOT_RUN_REASONS, RUN, SHOWN, blocks_of, is_like
from pages.places import ALONE, ON_KAFKA, PAGES
from pages.session import reading
from tidy.sources import PACKAGES, TOP, files

NOT_RUN = {
    "docs/how-to/bootstrap-from-a-lake.md": 1,
    "docs/how-to/change-a-stream.md": 2,
    "docs/how-to/deploy.md": 3,
    "docs/how-to/producers.md": 1,
    "docs/how-to/replay-in-pieces.md": 1,
    "docs/install.md": 2,
    "docs/tutorials/kafka.md": 1,
    "README.md": 2,
}
"""Blocks of commands that cannot be run in a test, page by page: all there may be."""

_LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", ALONE)
def test_the_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    with reading(tmp_path) as session:
        assert session.run(TOP / page) > 0


def test_every_page_that_has_commands_is_run_here_or_on_kafka() -> None:
    with_commands = {page for page in PAGES if any(b.word in RUN and not b.not_run for b in blocks_of(TOP / page))}
    assert with_commands == {*ALONE, *ON_KAFKA}


def test_every_block_says_what_it_is() -> None:
    for page in PAGES:
        text = (TOP / page).read_text("utf-8")
        blocks = blocks_of(TOP / page)
        fences = len(re.findall(r"^ *```", text, re.MULTILINE))
        assert fences == 2 * len(blocks), f"{page}: a fence is not closed, or not a block of its own"
        for block in blocks:
            known = block.word in {*RUN, *SHOWN} or block.word.startswith(("{toctree}", "{literalinclude} "))
            assert known, f"{page}:{block.line}: expected one of {[*RUN, *SHOWN]}, got {block.word!r}"


def test_what_is_shown_and_not_run_is_no_command() -> None:
    for page in PAGES:
        for block in blocks_of(TOP / page):
            if block.word in SHOWN and block.word != "output":
                assert not re.search(r"^\$? ?(deltaplane|make|docker|pip) ", block.text, re.MULTILINE), (
                    f"{page}:{block.line}: a command in a block that is not run; call it sh"
                )


def test_no_two_services_of_pages_that_go_on_from_each_other_have_one_address() -> None:
    pages = [(TOP / page).read_text("utf-8") for page in ON_KAFKA]
    found = Counter(port for page in pages for port in re.findall(r"address 127\.0\.0\.1:([1-9]\d+)", page))
    assert len(found) > 8
    assert set(found.values()) == {1}, found


def test_the_blocks_that_cannot_be_run_are_few_counted_and_say_why() -> None:
    blocks = [(page, block) for page in PAGES for block in blocks_of(TOP / page) if block.not_run is not None]
    assert Counter(page for page, _ in blocks) == NOT_RUN
    for page, block in blocks:
        assert block.not_run in NOT_RUN_REASONS, f"{page}:{block.line}: {block.not_run!r} is no reason"


def test_an_output_matches_line_by_line_and_dots_stand_for_anything() -> None:
    assert is_like("a  b\nc\n", "a b\nc")
    assert is_like("took 3.1 s\nequal\n", "took … s\n…\nequal")
    assert is_like("1\n2\n3\n", "…\n3")
    assert is_like("1\n2\n3\n", "1\n…")
    assert not is_like("took 3.1 s\nNOT EQUAL\n", "took … s\nequal")
    assert not is_like("equal\nand more\n", "equal")
    assert not is_like("", "equal")
    assert not is_like("1\n2\n", "1\n… 2\n3")


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("```sh\nfalse\ntrue\n```", "a command of it ended"),
        ("```sh\nexit 3\n```", "the shell ended"),
        ("<!-- exit code: 3 -->\n```sh\nfalse\n```", "a command of it ended"),
        ("```sh\necho no\n```\n```output\nyes\n```", "expected"),
        ("```python\nprint(1)\n```\n```output\n2\n```", "expected"),
        ("```output\n2\n```", "behind a block that is run"),
        ("```python\n1 / 0\n```", "division by zero"),
    ],
)
def test_a_page_that_does_not_do_what_it_says_is_found(block: str, fault: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{block}\n", "utf-8")
    (tmp_path / "session").mkdir()
    with reading(tmp_path / "session") as session, pytest.raises((AssertionError, ZeroDivisionError), match=fault):
        session.run(page)


def test_a_page_that_fails_shows_how_the_logs_of_its_services_end(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```sh\n(echo gone >&2) 2> worker.log\nfalse\n```\n", "utf-8")
    (tmp_path / "session").mkdir()
    with reading(tmp_path / "session") as session, pytest.raises(AssertionError) as found:
        session.run(page)
    assert found.value.__notes__ == ["worker.log ends with\ngone"]


def test_a_page_is_one_session_from_top_to_bottom(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '<!-- file: a.txt -->\n```text\nhere\n```\n\n```sh\nx=$(cat a.txt)\n```\n\n```sh\necho "$x"\nsleep 60 &\n```\n'
        "```output\nhere\n```\n\n<!-- exit code: 2 -->\n```sh\n(exit 2)\n```\n\n"
        "```python\nfrom pathlib import Path\n\ny = Path('a.txt').read_text()\n```\n\n"
        "```python\nprint(y)\n```\n```output\nhere\n```\n",
        "utf-8",
    )
    (tmp_path / "session").mkdir()
    with reading(tmp_path / "session") as session:
        assert session.run(page) == 6


def test_every_link_between_files_of_the_project_leads_somewhere() -> None:
    for page in [path for path in files() if path.endswith(".md")]:
        for target in _LINK.findall((TOP / page).read_text("utf-8")):
            assert ((TOP / page).parent / target).exists(), f"{page}: there is no {target}"


def test_decisions_are_numbered_dated_and_say_what_was_chosen() -> None:
    names = sorted(path.name for path in (TOP / "docs" / "decisions").glob("[0-9]*.md"))
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1))
    for name in names:
        title, when, rest = (TOP / "docs" / "decisions" / name).read_text("utf-8").split("\n\n", maxsplit=2)
        assert title.startswith("# ")
        assert name[4:14] == date.fromisoformat(when).isoformat()
        assert rest.startswith("## Chosen, and why\n\n")


def test_every_message_of_the_troubleshooting_page_is_one_that_the_product_has() -> None:
    text = (TOP / "docs" / "troubleshooting.md").read_text("utf-8").partition("## Alerts")[0]
    said = "\n".join(
        node.value
        for place in PACKAGES.values()
        for file in (TOP / place).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    messages = re.findall(r"^\| (`[^|]+?`) \|", text, re.MULTILINE)
    assert len(messages) > 30
    for message in re.findall(r"`([^`]+)`", "\n".join(messages)):
        for part in message.split("…"):
            assert part.strip() in said, f"nothing says {part.strip()!r} any more"


def test_the_page_on_windows_has_every_outcome_of_samples_and_retirements() -> None:
    text = (TOP / "docs" / "explanation" / "windows.md").read_text("utf-8")
    of_samples, of_retirements = text.partition("| a sample |")[2].split("| a retirement |")
    for outcomes, table in ((SampleOutcome, of_samples), (RetirementOutcome, of_retirements)):
        listed = re.findall(r"^(?:\| )?\|? ?([a-z ]+) \| [A-Z]", table, re.MULTILINE)
        assert [one.strip() for one in listed] == [outcome.value for outcome in outcomes]

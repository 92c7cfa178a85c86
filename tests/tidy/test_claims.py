"""Every claim of the page on security has a test that tries it, and each of these checks is able to fail."""

from __future__ import annotations

import pytest

from tidy import claims
from tidy.sources import TOP

TRIED = "`tests/tidy/test_claims.py::test_every_claim_of_the_page_on_security_has_a_test_that_tries_it`"


def page(text: str, *rows: str) -> str:
    return f"# Security\n\n{text}\n\n{claims.HEADING}\n\n| Words | Tried by |\n|---|---|\n" + "\n".join(rows) + "\n"


def test_every_claim_of_the_page_on_security_has_a_test_that_tries_it() -> None:
    complaints = list(claims.complaints((TOP / "SECURITY.md").read_text("utf-8"), TOP))
    assert not complaints, "\n".join(["", *complaints])


@pytest.mark.parametrize(
    ("text", "row", "words"),
    [
        ("Nobody flies.", "", "nothing tries 'Nobody flies.'"),
        ("All is well. It can\nnever\nfail. Good.", "", "nothing tries 'It can never fail.'"),
        ("- A bird\n- A stone cannot fly", "", "nothing tries '- A stone cannot fly'"),
        ("| A **bird** | fly | swim |", "", "nothing tries '| A **bird** | fly | swim |'"),
        ("Birds fly.", f'| "Nobody flies" | {TRIED} |', "no sentence says 'Nobody flies'"),
        ("Nobody flies.", '| "Nobody flies" | see above |', "has no test, got 'see above'"),
        ("Nobody flies.", '| "Nobody flies" | `tests/tidy/test_claims.py::test_flight` |', "which is not there"),
        ("Nobody flies.", '| "Nobody flies" | `tests/tidy/test_flights.py::test_flight` |', "which is not there"),
    ],
)
def test_a_claim_without_a_test_and_a_line_without_a_claim_are_found(text: str, row: str, words: str) -> None:
    (complaint,) = claims.complaints(page(text, row), TOP)
    assert words in complaint


def test_a_claim_with_its_test_and_a_limit_that_is_admitted_are_left_alone() -> None:
    text = "Nobody flies. It cannot show who did."
    rows = (f'| "Nobody flies" | {TRIED} |', '| "cannot show who" | a limit, admitted |')
    assert list(claims.complaints(page(text, *rows), TOP)) == []

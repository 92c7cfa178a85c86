"""The report in a real browser: it opens by itself, every picture is drawn, on any screen, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from browser.chromium import Browser, Page, Screen
from deltaplane_services.observe.report.comparison_page import comparison_page
from deltaplane_services.observe.report.page import run_page
from deltaplane_services.observe.report.record import run_of
from services.report_summaries import HOSTILE, vanishing

DESK = Screen(1200, 900)
NIGHT = Screen(1200, 900, scheme="dark")
PHONE = Screen(390, 844, mobile=True)
SMALL = Screen(320, 640, mobile=True)
SCREENS = {"desk": DESK, "night": NIGHT, "phone": PHONE, "phone at night": Screen(390, 844, "dark", mobile=True)}

BOXES = """[...document.querySelectorAll('figure')].map(figure => {
    const shown = [...figure.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width > 0);
    const outer = figure.getBoundingClientRect();
    return {
        id: figure.id,
        shown: shown.map(svg => svg.getAttribute('class')),
        width: shown[0].getBoundingClientRect().width,
        height: shown[0].getBoundingClientRect().height,
        inside: shown[0].getBoundingClientRect().right <= outer.right + 1,
        lines: [...shown[0].querySelectorAll('path')].filter(path => {
            const box = path.getBBox(), look = getComputedStyle(path);
            const drawn = look.stroke !== 'none' || look.fill !== 'none';
            return drawn && box.width + box.height > 4;
        }).length,
        words: [...shown[0].querySelectorAll('text')].filter(text => text.getBBox().width > 0).length,
    };
})"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    run = run_of(vanishing(), "test")
    many = run_of(vanishing([f"a class with quite a long name, {at}" for at in range(7)]) | {"positive": None}, "test")
    pages = {
        "vanishing": run_page(run),
        "many": run_page(many),
        "hostile": run_page(run_of(hostile(), "test")),
        "comparison": comparison_page({"a": run, "b": many, HOSTILE[0]: run}),
    }
    directory = tmp_path_factory.mktemp("reports")
    for name, page in pages.items():
        (directory / f"{name}.html").write_text(page, "utf-8")
    return {name: directory / f"{name}.html" for name in pages}


def hostile() -> dict[str, Any]:
    value = vanishing(HOSTILE)
    value |= {"source": HOSTILE[1], "stream": HOSTILE[0], "ended_early": HOSTILE[1] * 9, "digest": "x" * 400}
    value["model"] |= {"features": list(HOSTILE[:2])}
    value["rejections"]["first"] = [{"line": 1, "kind": kind, "reason": kind * 20} for kind in HOSTILE]
    return value


def check(page: Page, path: Path) -> None:
    assert page.complaints == []
    assert [address for address in page.requests if address not in {path.as_uri(), "data:,"}] == []


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ["vanishing", "many", "hostile", "comparison"])
def test_a_report_opens_by_itself_and_every_picture_is_drawn(
    browser: Browser, reports: dict[str, Path], name: str, screen: str
) -> None:
    page = browser.open(reports[name], SCREENS[screen])
    boxes = page.ask(BOXES)
    assert len(boxes) == (2 if name == "comparison" else 7)
    width = "narrow" if "phone" in screen else "wide"
    for box in boxes:
        assert box["shown"] == [width], box
        assert box["width"] > 150, box
        assert box["height"] > 80, box
        assert box["inside"], box
        assert box["lines"] >= 2, box
        assert box["words"] >= 3, box
    check(page, reports[name])


@pytest.mark.parametrize("name", ["vanishing", "many", "hostile", "comparison"])
@pytest.mark.parametrize("screen", [DESK, PHONE, SMALL], ids=lambda screen: str(screen.width))
def test_a_report_never_scrolls_sideways(browser: Browser, reports: dict[str, Path], name: str, screen: Screen) -> None:
    page = browser.open(reports[name], screen)
    page.ask("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert page.ask("document.documentElement.scrollWidth") <= screen.width
    too_wide = """[...document.querySelectorAll('body *')].filter(part =>
        !part.closest('.scroll') && !part.closest('svg') && part.getBoundingClientRect().right > innerWidth + 1
    ).map(part => part.outerHTML.slice(0, 100))"""
    assert page.ask(too_wide) == []


def test_light_and_dark_follow_the_system_until_the_button_says_otherwise(
    browser: Browser, reports: dict[str, Path]
) -> None:
    page = browser.open(reports["vanishing"], DESK)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    words = "getComputedStyle(document.querySelector('figure svg text')).fill"
    press = "document.querySelector('button.theme').click()"
    light = page.ask(ground), page.ask(words)
    page.show_on(NIGHT)
    dark = page.ask(ground), page.ask(words)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert page.ask("document.querySelector('button.theme').textContent") == "Light"
    page.ask(press)
    assert (page.ask(ground), page.ask(words)) == light
    page.ask(press)
    assert (page.ask(ground), page.ask(words)) == dark
    check(page, reports["vanishing"])


@pytest.mark.parametrize("screen", ["desk", "night"])
def test_all_words_can_be_read_against_their_ground(browser: Browser, reports: dict[str, Path], screen: str) -> None:
    page = browser.open(reports["vanishing"], SCREENS[screen])
    contrast = """(() => {
        const parts = colour => colour.match(/[\\d.]+/g).map(Number);
        const linear = part => part <= 10.31 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4;
        const light = colour => {
            const [red, green, blue] = parts(colour).map(linear);
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        };
        const ground = part => {
            for (let at = part; at; at = at.parentElement) {
                const colour = getComputedStyle(at).backgroundColor;
                if (parts(colour)[3] !== 0) return colour;
            }
        };
        return [...document.querySelectorAll('h1,h2,p,th,td,dt,dd,code,summary,footer,strong,svg text')].map(part => {
            const look = getComputedStyle(part);
            const front = light(part.closest('svg') ? look.fill : look.color), back = light(ground(part));
            return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
        });
    })()"""
    ratios = page.ask(contrast)
    assert len(ratios) > 100
    assert min(ratios) >= 4.5


def test_the_pointer_and_the_arrow_keys_show_the_values_of_a_row_in_every_picture(
    browser: Browser, reports: dict[str, Path]
) -> None:
    page = browser.open(reports["vanishing"], DESK)
    read = "[...document.querySelectorAll('.readout')].map(part => part.textContent)"
    assert set(page.ask(read)) == {""}
    box = page.ask(
        """(() => {
            const svg = document.querySelector('#chart-gmean svg.wide'), box = svg.getBoundingClientRect();
            const left = Number(svg.dataset.left), right = Number(svg.dataset.right);
            return [box.left + (left + (right - left) / 2) * box.width, box.top + box.height / 2];
        })()"""
    )
    page.point_at(*box)
    shown = page.ask(read)
    assert len(shown) == 6
    assert all(text.startswith("row 1,500") for text in shown), shown
    assert "lately –" in shown[0]
    assert page.ask("document.querySelectorAll('.cross:not([hidden])').length") == 6
    page.point_at(1, 1)
    assert set(page.ask(read)) == {""}
    page.ask("document.querySelector('#chart-recall .plot').focus()")
    page.press("ArrowRight")
    assert all(text.startswith("row 1,600") for text in page.ask(read))
    check(page, reports["vanishing"])


def test_what_strangers_wrote_does_nothing_and_takes_nothing_from_elsewhere(
    browser: Browser, reports: dict[str, Path]
) -> None:
    page = browser.open(reports["hostile"], DESK)
    assert page.ask("document.querySelectorAll('img, iframe, script, b').length") == 1, "the page's own script"
    assert HOSTILE[0] in page.ask("document.body.textContent")
    check(page, reports["hostile"])


def test_the_page_would_refuse_what_it_must_not_load(browser: Browser, tmp_path: Path) -> None:
    text = run_page(run_of(vanishing(), "test")).replace(
        "<body>", "<body><img src='file:///etc/hostname'><script>window.ran = true</script>"
    )
    path = tmp_path / "changed.html"
    path.write_text(text, "utf-8")
    page = browser.open(path, DESK)
    assert page.ask("window.ran === undefined")
    assert page.ask("document.querySelector('img').naturalWidth") == 0
    assert len(page.complaints) >= 2, "the browser says what it has refused: the other tests would have seen it"

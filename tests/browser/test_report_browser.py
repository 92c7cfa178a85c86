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
SCREENS = {"desk": DESK, "night": NIGHT}

DRAWN = """new Promise(done => {
    const look = () => document.documentElement.dataset.drawn === 'yes' ? done(true) : setTimeout(look, 10);
    look();
})"""
"""Resolves once the script has drawn all pictures."""

BOXES = """[...document.querySelectorAll('figure')].map(figure => {
    const plot = figure.querySelector('.plot'), outer = figure.getBoundingClientRect();
    const box = plot.getBoundingClientRect();
    return {
        id: figure.id,
        width: box.width,
        height: box.height,
        inside: box.right <= outer.right + 1,
        lines: [...plot.querySelectorAll('.js-line, .hm image')].filter(line => line.getBBox().width > 4).length,
        words: [...plot.querySelectorAll('svg text')].filter(text => text.getBBox().width > 0).length,
    };
})"""

CUT = """[...document.querySelectorAll('.plot')].flatMap(plot => {
    const outer = plot.getBoundingClientRect();
    return [...plot.querySelectorAll('svg text')].filter(text => {
        const box = text.getBoundingClientRect();
        const across = box.left >= outer.left && box.right <= outer.right;
        return box.width > 0 && !(across && box.top >= outer.top && box.bottom <= outer.bottom);
    }).map(text => `${plot.id}: ${text.textContent}`);
})"""
"""Words of pictures of which a part is outside the picture."""

ONE_OVER_ANOTHER = """[...document.querySelectorAll('.plot')].flatMap(plot => {
    const words = [...plot.querySelectorAll('.xtick text, .ytick text, .annotation text, .xtitle, .ytitle')];
    const boxes = words.map(text => [text.textContent, text.getBoundingClientRect()]).filter(([, box]) => box.width);
    return boxes.flatMap(([text, box], at) => boxes.slice(at + 1).filter(([, other]) =>
        box.left < other.right - 2 && other.left < box.right - 2
        && box.top < other.bottom - 4 && other.top < box.bottom - 4
    ).map(([other]) => `${plot.id}: ${text} / ${other}`));
})"""
"""Words beside the axes of pictures that cover each other."""


TOO_WIDE = """[...document.querySelectorAll('body *')].filter(part =>
    !part.closest('.scroll, .plot, .said') && part.getBoundingClientRect().right > innerWidth + 1
).map(part => part.outerHTML.slice(0, 100))"""
"""What reaches beyond the screen, and neither scrolls by itself nor is a picture."""


def opened(browser: Browser, path: Path, screen: Screen) -> Page:
    """The page, once its pictures are drawn."""
    page = browser.open(path, screen)
    page.ask(DRAWN)
    return page


def tiny() -> dict[str, Any]:
    """Weights of which a zero or a sign that is cut off says something else."""
    value = vanishing([f"a class with quite a long name, {at}" for at in range(5)])
    for at, point in enumerate(value["series"]):
        weights = [[-0.00044 * (at + 1) * (one + 1), 0.0003] for one in range(5)]
        point |= {"weights": weights, "weights_of": sorted(value["classes"]), "deviations": [0.001, 0.0001]}
    value["model"]["features"] = ["the temperature of the north wall", "the temperature of the south wall"]
    return value | {"positive": None}


def falling() -> dict[str, Any]:
    """A fall of quality, and a shift, of features with long names."""
    name = "transaction_amount_in_cents_of_customer"
    shifted = [{"feature": f"{name}_{at}", "shift": 1.25, "spread": 1.5} for at in range(5)]
    side = {"gmean": 0.8, "imbalance_ratio": 237.14, "live_imbalance_ratio": 200.0}
    blend = [{"kind": "windows", "choice": str(100 * 4**at), "before": 0.4, "during": 0.1} for at in range(6)]
    fall = {"rows_from": 28_800, "rows_to": 30_600, "class": "yes", "chance": 1e-9, "before": side, "during": side}
    fall |= {"recall_before": 0.84, "recall_during": 0.77, "blend": blend}
    fall |= {"features": shifted, "features_of_class": shifted}
    return vanishing() | {"falls": [fall], "drifts": [{"row": 1500, "features": shifted}]}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    run = run_of(vanishing(), "test")
    many = run_of(vanishing([f"a class with quite a long name, {at}" for at in range(7)]) | {"positive": None}, "test")
    pages = {
        "vanishing": run_page(run),
        "many": run_page(many),
        "hostile": run_page(run_of(hostile(), "test")),
        "tiny": run_page(run_of(tiny(), "test")),
        "falling": run_page(run_of(falling(), "test")),
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
    elsewhere = [address for address in page.requests if address != path.as_uri() and not address.startswith("data:")]
    assert elsewhere == []


@pytest.mark.parametrize("name", ["vanishing", "many", "tiny", "falling", "hostile", "comparison"])
def test_a_report_opens_by_itself_and_every_picture_is_drawn_whole_on_any_screen(
    browser: Browser, reports: dict[str, Path], name: str
) -> None:
    page = opened(browser, reports[name], PHONE)
    page.ask("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    for screen in (PHONE, SMALL, DESK, NIGHT):
        page.show_on(screen)
        page.ask(DRAWN)
        boxes = page.ask(BOXES)
        assert len(boxes) == (2 if name == "comparison" else 7)
        for box in boxes:
            assert box["width"] > 150, box
            assert box["height"] > 80, box
            assert box["inside"], box
            assert box["lines"] >= 1, box
            assert box["words"] >= 3, box
        assert page.ask(CUT) == [], screen
        assert page.ask(ONE_OVER_ANOTHER) == [], screen
        assert page.ask("document.documentElement.scrollWidth") <= screen.width
        assert page.ask(TOO_WIDE) == [], screen
    check(page, reports[name])


def test_what_a_run_is_held_against_is_seen_whole_with_late_labels_too(browser: Browser, tmp_path: Path) -> None:
    figures = dict.fromkeys(("gmean", "sensitivity", "specificity", "f_measure", "relative_sensitivity"), 0.1234)
    figures |= dict.fromkeys(("rows", "precision", "kappa", "accuracy"), 0.1234)
    value = vanishing() | {"served": figures, "baselines": dict.fromkeys(("majority", "last_label", "frozen"), figures)}
    value |= {"precision": 0.1234, "kappa": 0.1234, "intervals": {name: [0.1234, 0.4321] for name in figures}}
    value["settings"] |= {"label_delay": "500"}
    path = tmp_path / "late.html"
    path.write_text(run_page(run_of(value, "test")), "utf-8")
    page = opened(browser, path, DESK)
    assert page.ask("(box => box.scrollWidth - box.clientWidth)(document.querySelector('#against .scroll'))") == 0
    check(page, path)


def test_when_and_why_is_seen_whole_without_scrolling_to_the_side(browser: Browser, reports: dict[str, Path]) -> None:
    page = opened(browser, reports["falling"], PHONE)
    beyond = """[...document.querySelectorAll('#changes .scroll')].map(box => box.scrollWidth - box.clientWidth)"""
    for screen in (PHONE, DESK, NIGHT):
        page.show_on(screen)
        assert page.ask(beyond) == [0, 0], screen
    check(page, reports["falling"])


def test_figures_of_compared_runs_are_in_sight_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    long = vanishing() | {"source": "/a/directory/with/a/long/name/transactions.csv.gz", "window": list("123456789")}
    run, path = run_of(long, "test"), tmp_path / "comparison.html"
    path.write_text(comparison_page({"a": run, "b": run}), "utf-8")
    page = opened(browser, path, PHONE)
    assert page.ask("(box => box.scrollWidth - box.clientWidth)(document.querySelector('#measures .scroll'))") == 0
    check(page, path)


def test_light_and_dark_follow_the_system_until_the_button_says_otherwise(
    browser: Browser, reports: dict[str, Path]
) -> None:
    page = opened(browser, reports["vanishing"], DESK)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    words = "getComputedStyle(document.querySelector('figure .xtick text')).fill"
    press = "document.querySelector('button.theme').click()"
    light = page.ask(ground), page.ask(words)
    page.show_on(NIGHT)
    page.ask(DRAWN)
    dark = page.ask(ground), page.ask(words)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert page.ask("document.querySelector('button.theme').textContent") == "Light"
    page.ask(press)
    page.ask(DRAWN)
    assert (page.ask(ground), page.ask(words)) == light
    page.ask(press)
    page.ask(DRAWN)
    assert (page.ask(ground), page.ask(words)) == dark
    check(page, reports["vanishing"])


@pytest.mark.parametrize("screen", ["desk", "night"])
def test_all_words_can_be_read_against_their_ground(browser: Browser, reports: dict[str, Path], screen: str) -> None:
    page = opened(browser, reports["vanishing"], SCREENS[screen])
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
        const words = [...document.querySelectorAll('h1,h2,p,th,td,dt,dd,code,summary,footer,strong,svg text')];
        return words.filter(part => part.textContent.trim()).map(part => {
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
    page = opened(browser, reports["vanishing"], DESK)
    read = "[...document.querySelectorAll('.along .plot')].map(plot => plot.querySelector('.hoverlayer').textContent)"
    wait = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(true), 250)))"
    assert set(page.ask(read)) == {""}
    middle = """(() => {
        const box = document.querySelector('#plot-recall .nsewdrag').getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];
    })()"""
    page.ask("document.querySelector('#plot-recall').scrollIntoView({block: 'center'})")
    page.point_at(*page.ask(middle))
    page.ask(wait)
    shown = page.ask(read)
    assert len(shown) == 6
    assert all(text.startswith("row 1,500event time : 2024-02-28 08:00:00") for text in shown), shown
    assert "ratio" not in shown[2], "there is none where there is one class"
    assert "no" in shown[1]
    assert "yes" not in shown[1], "the class is gone there"
    page.point_at(1, 1)
    page.ask(wait)
    assert set(page.ask(read)) == {""}
    page.ask("document.querySelector('#chart-recall .keys').focus({preventScroll: true})")
    page.press("ArrowRight")
    page.ask(wait)
    assert all(text.startswith("row 1,600") for text in page.ask(read))
    assert page.ask("document.querySelector('#chart-recall .said').textContent").startswith("rows 1,600")
    check(page, reports["vanishing"])


def test_whoever_zooms_into_one_picture_sees_the_same_rows_in_all(browser: Browser, reports: dict[str, Path]) -> None:
    page = opened(browser, reports["vanishing"], DESK)
    page.ask("Plotly.relayout('plot-counts', {'xaxis.range[0]': 500, 'xaxis.range[1]': 700}).then(() => 1)")
    page.ask(DRAWN)
    ranges = "[...document.querySelectorAll('.along .plot')].map(plot => plot.layout.xaxis.range)"
    ticks = "[...document.querySelectorAll('#plot-gmean .xtick text')].map(text => text.textContent)"
    assert page.ask(ranges) == [[500, 700]] * 6
    shown = page.ask(ticks)
    assert len(shown) >= 4
    assert shown[0].startswith("row 500")
    assert "Jan" in shown[0], "each row has its event time below it"
    check(page, reports["vanishing"])


def test_what_strangers_wrote_does_nothing_and_takes_nothing_from_elsewhere(
    browser: Browser, reports: dict[str, Path]
) -> None:
    page = opened(browser, reports["hostile"], DESK)
    assert page.ask("document.querySelectorAll('img, iframe, b, a').length") == 0
    assert page.ask("document.scripts.length") == 4, "the page's own, its two blocks of data, and what it unpacked"
    assert HOSTILE[0] in page.ask("document.body.textContent")
    check(page, reports["hostile"])


def test_the_page_would_refuse_what_it_must_not_load(browser: Browser, tmp_path: Path) -> None:
    text = run_page(run_of(vanishing(), "test")).replace(
        "<body>", "<body><img src='file:///etc/hostname'><script>window.ran = true</script>"
    )
    path = tmp_path / "changed.html"
    path.write_text(text, "utf-8")
    page = opened(browser, path, DESK)
    assert page.ask("window.ran === undefined")
    assert page.ask("document.querySelector('img').naturalWidth") == 0
    assert len(page.complaints) >= 2, "the browser says what it has refused: the other tests would have seen it"

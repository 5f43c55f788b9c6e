"""The charts in a browser: zoom and pan by wheel, drag, keys and strip, linked cursors, links, newer data, paper."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import pytest
from pages import MARCH, page, recorded, seen, text, texts, wait
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

MINUTES = MARCH + 60.0 * np.arange(3_000)
WHOLE = (MINUTES[0], MINUTES[-1])


@pytest.fixture(scope="module")
def html() -> str:
    return page(recorded(long=40, times=MINUTES, burn_in=256))


def over(browser: Any, chart: int = 0) -> Any:
    return browser.find_elements(By.CSS_SELECTOR, ".chart .u-over")[chart]


def drag(browser: Any, element: Any, start: float, by: float, key: str | None = None) -> None:
    """From so many pixels right of the middle, so many to the right."""
    actions = ActionChains(browser)
    if key:
        actions.key_down(key)
    actions.move_to_element_with_offset(element, int(start), 0).click_and_hold().move_by_offset(int(by / 2), 1)
    actions.move_by_offset(int(by) - int(by / 2), 0).release()
    if key:
        actions.key_up(key)
    actions.perform()


def test_wheel_drag_keys_and_buttons_zoom_and_move_all_charts(show: Any, html: str) -> None:
    browser = show(html)
    assert seen(browser) == WHOLE
    reset = browser.find_element(By.ID, "zoom-reset")
    assert not reset.is_enabled()

    origin = ScrollOrigin.from_element(over(browser))
    ActionChains(browser).scroll_from_origin(origin, 0, -100).perform()
    wheeled = seen(browser)
    assert wheeled[1] - wheeled[0] == pytest.approx((WHOLE[1] - WHOLE[0]) / 1.25)
    assert sum(wheeled) / 2 == pytest.approx(sum(WHOLE) / 2, abs=300)  # about the pointer
    reset.click()
    assert seen(browser) == WHOLE

    width = over(browser).size["width"]
    drag(browser, over(browser, 2), -width / 4, width / 2)
    half = seen(browser)
    assert half[1] - half[0] == pytest.approx((WHOLE[1] - WHOLE[0]) / 2, rel=0.02)
    assert half[0] == pytest.approx(WHOLE[0] + (WHOLE[1] - WHOLE[0]) / 4, rel=1e-6)
    assert not browser.find_elements(By.CSS_SELECTOR, "tr.open")  # a drag is no press

    drag(browser, over(browser), 0, width / 4, Keys.SHIFT)
    moved = seen(browser)
    assert moved[0] == pytest.approx(half[0] - (half[1] - half[0]) / 4, abs=200)
    assert moved[1] - moved[0] == pytest.approx(half[1] - half[0])

    charts = browser.find_element(By.ID, "charts")
    browser.execute_script("arguments[0].focus({ preventScroll: true })", charts)
    press = ActionChains(browser)
    press.send_keys(Keys.ARROW_RIGHT).perform()
    assert seen(browser)[0] == pytest.approx(moved[0] + (moved[1] - moved[0]) / 4)
    ActionChains(browser).send_keys("+").perform()
    near = seen(browser)
    assert near[1] - near[0] == pytest.approx((half[1] - half[0]) / 2)
    wait(browser, lambda: text(browser, "#view-said").startswith("Shown: 2024-03-0"))
    assert "incident" in text(browser, "#view-said")
    ActionChains(browser).send_keys("-").perform()
    assert seen(browser)[1] - seen(browser)[0] == pytest.approx(half[1] - half[0])
    for key in ("0", Keys.HOME, Keys.ESCAPE):
        ActionChains(browser).send_keys("+").perform()
        assert seen(browser) != WHOLE
        ActionChains(browser).send_keys(key).perform()
        assert seen(browser) == WHOLE
    wait(browser, lambda: text(browser, "#view-said").startswith("The whole run: "))
    browser.find_element(By.ID, "zoom-in").click()
    assert seen(browser) != WHOLE
    middle = (
        "const { x, y, width, height } = arguments[0].getBoundingClientRect(); return [x + width / 2, y + height / 2]"
    )
    x, y = browser.execute_script(middle, over(browser))
    for count in (1, 2):  # the second is told to be one of a double click, however late it comes
        for kind in ("mousePressed", "mouseReleased"):
            event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": count}
            browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    assert seen(browser) == WHOLE
    assert browser.get_log("browser") == []


def test_nobody_zooms_beyond_the_ends_or_into_nothing(show: Any, html: str) -> None:
    browser = show(html)
    browser.execute_script("for (let i = 0; i < 60; i++) zoom(0.5, axis.max)")
    start, end = seen(browser)
    assert end == WHOLE[1]
    assert 60 <= end - start <= 600
    browser.execute_script("pan(3)")
    assert seen(browser) == (start, end)
    browser.execute_script("zoom(1e9)")
    assert seen(browser) == WHOLE


def test_the_strip_has_a_window_that_is_drawn_moved_and_pulled(show: Any, html: str) -> None:
    browser = show(html)
    strip, span = browser.find_element(By.CSS_SELECTOR, "#brush .u-over"), WHOLE[1] - WHOLE[0]
    width = strip.size["width"]
    drag(browser, strip, -width / 4, width / 4)  # from a quarter to a half
    start, end = seen(browser)
    assert start == pytest.approx(WHOLE[0] + span / 4, abs=0.01 * span)
    assert end == pytest.approx(WHOLE[0] + span / 2, abs=0.01 * span)
    pane = browser.find_element(By.CSS_SELECTOR, "#brush .window")
    drag(browser, pane, 0, width / 4)
    assert seen(browser) == pytest.approx((start + span / 4, end + span / 4), abs=0.01 * span)
    drag(browser, browser.find_element(By.CSS_SELECTOR, "#brush .grip.left"), 0, -width / 8)
    assert seen(browser) == pytest.approx((start + span / 8, end + span / 4), abs=0.01 * span)
    drag(browser, browser.find_element(By.CSS_SELECTOR, "#brush .grip.right"), 0, width / 8)
    assert seen(browser) == pytest.approx((start + span / 8, end + span * 3 / 8), abs=0.01 * span)
    ActionChains(browser).move_to_element_with_offset(strip, int(-width * 0.45), 0).click().perform()
    assert seen(browser)[0] == WHOLE[0]
    assert seen(browser)[1] == pytest.approx(WHOLE[0] + span / 2, abs=0.01 * span)


def test_the_cursors_are_linked_and_tell_the_values_below_them(show: Any, html: str) -> None:
    browser = show(html)
    assert "Each point stands for 4 rows: lowest, mean and highest." in text(browser, "#course-note")
    ActionChains(browser).move_to_element(over(browser)).perform()
    assert re.fullmatch(r"rows [\d,]+ – [\d,]+ · 2024-03-0.*", text(browser, "#cursor-time"))
    assert all(re.match(r"-?[\d.]+ \(-?[\d.]+ – -?[\d.]+\) · usually", one) for one in texts(browser, ".readout")[1:3])
    browser.execute_script("setView(arguments[0], arguments[1])", MINUTES[700], MINUTES[1_300])
    assert "One point a row." in text(browser, "#course-note")
    middle = over(browser, 2)
    left = browser.execute_script("return charts[2].plot.valToPos(placeOf(900), 'x')")
    ActionChains(browser).move_to_element_with_offset(middle, round(left - middle.size["width"] / 2), 0).perform()
    lefts = browser.execute_script("return charts.map(({ plot }) => plot.cursor.left)")
    assert lefts == pytest.approx([left] * 4, abs=1)
    assert re.fullmatch(r"row (\d+) · 2024-03-01 1\d:\d\d( · incident \d+)?", text(browser, "#cursor-time"))
    score, *features = texts(browser, ".readout")
    assert re.fullmatch(r"[\d.]+ · threshold 2( · alert)?", score)
    assert all(re.fullmatch(r"-?[\d.]+ · usually -?[\d.]+ – -?[\d.]+", one) for one in features), features
    browser.execute_script(
        "const u = charts[0].plot; u.setCursor({ left: u.valToPos(placeOf(1200), 'x'), top: 9 }, true, true)"
    )
    assert texts(browser, ".readout")[-1].startswith("missing")
    ActionChains(browser).move_to_element(browser.find_element(By.ID, "title")).perform()
    assert set(texts(browser, ".readout")) == {""}
    assert "speed from 2024-03-01 00:00 to" in charts_label(browser, 3)


@pytest.mark.parametrize("width", [1100, 390])
def test_charts_stay_where_they_are_below_the_pointer(show: Any, html: str, width: int) -> None:
    browser = show(html, width=width)
    tops = "return charts.map(({ plot }) => plot.over.getBoundingClientRect().top)"
    before = browser.execute_script(tops)
    browser.execute_script(
        "const u = charts[0].plot; u.setCursor({ left: u.valToPos(placeOf(1200), 'x'), top: 9 }, true, true)"
    )
    assert all(texts(browser, ".readout"))
    assert browser.execute_script(tops) == before


def test_two_fingers_zoom_and_one_moves_the_cursor(show: Any, html: str) -> None:
    browser = show(html, width=390)
    browser.execute_script("scrollTo(0, document.getElementById('score-chart').offsetTop)")
    box = "const box = charts[0].plot.over.getBoundingClientRect(); return [box.left, box.bottom - 20, box.width]"
    left, y, width = browser.execute_script(box)

    def touch(kind: str, *places: float) -> None:
        points = [{"x": left + x, "y": y, "id": i} for i, x in enumerate(places)]
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", width / 2 - 20, width / 2 + 20)
    for by in range(25, 45, 5):
        touch("touchMove", width / 2 - by, width / 2 + by)
    touch("touchEnd")
    zoomed = seen(browser)
    assert zoomed[1] - zoomed[0] == pytest.approx((WHOLE[1] - WHOLE[0]) / 2, rel=0.05)
    assert sum(zoomed) / 2 == pytest.approx(sum(WHOLE) / 2, abs=900)
    touch("touchStart", width / 2)
    touch("touchMove", width / 2 + 30)
    wait(browser, lambda: all(texts(browser, ".readout")))
    touch("touchEnd")
    assert seen(browser) == zoomed


def charts_label(browser: Any, chart: int) -> str:
    return str(browser.find_elements(By.CSS_SELECTOR, ".chart .plot")[chart].get_attribute("aria-label"))


def test_a_link_leads_to_the_same_view_or_incident(show: Any, html: str) -> None:
    browser = show(html)
    address = browser.current_url
    browser.execute_script("setView(arguments[0], arguments[1])", MINUTES[600], MINUTES[900])
    wait(browser, lambda: "#from=" in browser.current_url)
    link = browser.current_url
    browser.find_element(By.CSS_SELECTOR, "#incidents tr.row").click()
    assert browser.current_url == address + "#incident-1"
    start, end = seen(browser)
    assert start < MINUTES[299] < MINUTES[338] < end  # with some room about it
    assert end - start < 0.2 * (WHOLE[1] - WHOLE[0])
    browser.get("about:blank")
    browser.get(link)
    assert seen(browser) == (MINUTES[600], MINUTES[900])
    browser.get("about:blank")
    browser.get(address + "#incident-7")
    assert text(browser, "#incidents tr.open td") == "7"
    assert browser.switch_to.active_element.text == "7"
    assert browser.switch_to.active_element.accessible_name == "Incident 7"
    assert seen(browser)[0] < MINUTES[1_199] < seen(browser)[1]
    for nonsense in ("#incident-99", "#from=9&to=1", "#from=1&to=2", "#%3Cimg%3E", "#alert-1"):
        browser.get("about:blank")
        browser.get(address + nonsense)
        assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
        assert browser.get_log("browser") == []


def test_of_many_features_the_most_blamed_are_shown_first_and_the_rest_at_a_click(show: Any) -> None:
    names = [f"f{k:02}" for k in range(40)]
    browser = show(page(recorded(names=names)))
    assert texts(browser, ".chart h3") == ["Score", "f00", "f01", "f02", *texts(browser, ".chart h3")[4:]]
    assert len(texts(browser, ".chart h3")) == 7
    more = browser.find_element(By.ID, "features-more")
    assert more.text == "Show 24 of 34 more features"
    browser.execute_script("arguments[0].click()", more)
    browser.execute_script("arguments[0].click()", more)
    assert sorted(texts(browser, ".chart h3")[1:]) == names
    assert not more.is_displayed()
    assert len(texts(browser, "#drift tbody tr")) == 12
    browser.execute_script("arguments[0].click()", browser.find_element(By.ID, "drift-more"))
    assert len(texts(browser, "#drift tbody tr")) == 40


def test_features_that_moved_are_first_and_their_ranges_are_told(show: Any) -> None:
    recorder = recorded(times=MINUTES)
    browser = show(page(recorder))
    told = {one["name"]: one for one in recorder.to_json()["features"]["kept"]}
    rows = [row.split() for row in texts(browser, "#drift tbody tr")]
    assert [row[0] for row in rows] == sorted(told, key=lambda name: -abs(told[name]["change"]))
    assert "The first and the last 1,024 rows compared" in text(browser, "#drift-note")
    assert {row[0]: row[-2:] for row in rows}["speed"] == ["17", "%"]
    assert browser.find_element(By.ID, "key-missing").is_displayed()


def test_newer_data_are_drawn_and_what_the_reader_did_stays(show: Any) -> None:
    old = recorded(n=2_000, long=40, times=MINUTES[:2_000])
    browser = show(page(old))
    newer = json.loads(re.search(r'id="data">(.*?)</script>', page(recorded(long=40, times=MINUTES)), re.S)[1])  # type: ignore[index]
    browser.execute_script("show(arguments[0])", newer)
    assert seen(browser) == WHOLE  # all was seen, so all is
    assert "3,000\nrows" in texts(browser, ".figure")
    assert len(texts(browser, "#incidents tr.row")) == 20

    browser.execute_script("setView(arguments[0], arguments[1])", MINUTES[100], MINUTES[700])
    browser.find_element(By.CSS_SELECTOR, "#alerts-filters input").send_keys("heat")
    browser.find_elements(By.CSS_SELECTOR, "#alerts th button")[0].click()
    browser.find_elements(By.CSS_SELECTOR, "#alerts tr.row")[1].click()
    opened = text(browser, "#alerts tr.open td")
    button = browser.find_element(By.CSS_SELECTOR, "#incidents tr.row:nth-child(3) .false")
    browser.execute_script("arguments[0].focus(); arguments[0].click()", button)
    scrolled = browser.execute_script("window.scrollTo(0, 700); return window.scrollY")
    order = texts(browser, "#alerts tr.row td:first-child")
    browser.execute_script("show(arguments[0])", newer | {"title": "newer.csv"})
    assert text(browser, "h1") == "newer.csv"
    assert seen(browser) == (MINUTES[100], MINUTES[700])
    assert texts(browser, "#alerts tr.row td:first-child") == order
    assert text(browser, "#alerts tr.open td") == opened
    assert browser.find_element(By.CSS_SELECTOR, "#alerts-filters input").get_attribute("value") == "heat"
    assert browser.switch_to.active_element.accessible_name == "Incident 3: false alarm"
    assert browser.switch_to.active_element.get_attribute("aria-pressed") == "true"
    assert browser.execute_script("return window.scrollY") == scrolled
    assert len(browser.find_elements(By.CSS_SELECTOR, ".chart")) == 4
    assert browser.get_log("browser") == []
    browser.execute_script("localStorage.clear()")


def test_it_prints_on_a_few_pages_in_light_colours_from_dark_too(show: Any) -> None:
    browser = show(page(recorded(n=3_000, every=20, long=10, times=MINUTES)), dark=True)
    browser.execute_script(
        "window.seen = []; addEventListener('beforeprint', () => seen.push(palette.card, charts[0].plot.width))"
    )
    screen = browser.execute_script("return [palette.card, charts[0].plot.width]")
    browser.execute_script("document.getElementById('alerts-more').click()")
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf)) <= 7
    card, width = browser.execute_script("return window.seen")
    assert card == "#ffffff"
    assert width < 750
    assert browser.execute_script("return [palette.card, charts[0].plot.width]") == screen
    said = browser.find_element(By.ID, "alerts-printed").get_attribute("textContent")
    assert said == "Printed are the first 30 of 150."

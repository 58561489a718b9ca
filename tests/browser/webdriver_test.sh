#!/bin/bash
# The client through which tests drive a browser (webdriver.py) sees what a reader sees, and what a page does that it should not.
# ctest: label=long label=once label=nosan timeout=300
set -uo pipefail
# shellcheck source=tests/browser/browser.sh
source "$(dirname "${BASH_SOURCE[0]}")/browser.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/fine.html" <<'END'
<!doctype html>
<title>fine</title>
<style>
  body { margin: 0; background: rgb(250, 250, 250) }
  @media (prefers-color-scheme: dark) { body { background: rgb(10, 10, 10) } }
  @media (prefers-reduced-motion: reduce) { #still { color: rgb(1, 2, 3) } }
</style>
<button id="button" aria-label="count up">0</button> <input id="input"> <p id="still" hidden></p>
<ol style="height: 400px"><li>one<li>two</ol>
<script>
  document.querySelector("#button").onclick = event => { event.target.textContent++ };
  const pressed = [];
  addEventListener("keydown", event => { pressed.push(event.key) });
  setTimeout(() => { document.body.dataset.late = "yes" }, 200);
</script>
END
# Each of these is a fault that a test of a page must see.
echo '<!doctype html><script>nowhere.x()</script>' >"$work/exception.html"
echo '<!doctype html><script>console.error("a word")</script>' >"$work/word.html"
echo '<!doctype html><img src="other.png">' >"$work/file.html"
echo '<!doctype html><script>fetch("https://example.com/x").catch(() => {})</script>' >"$work/network.html"

browse - "$work" <<'END' || exit 1
import os
import pathlib
import struct
import sys

import webdriver

work = pathlib.Path(sys.argv[1])


def size_of(png):
    return struct.unpack(">II", png.read_bytes()[16:24])


def refuses(what):
    try:
        what()
    except webdriver.WebDriverError:
        return True
    return False


with webdriver.Browser() as browser:
    driver = browser._driver.pid
    browser.view(width=500, height=300)
    browser.open(work / "fine.html")
    button, still = browser.find("#button"), browser.find("#still")
    button.click()
    button.click()
    assert (button.text(), button.role(), button.label()) == ("2", "button", "count up")
    assert [item.text() for item in browser.find_all("li")] == ["one", "two"]
    assert len(browser.find("ol").find_all("li")) == 2 and not browser.find_all("#nowhere")
    assert button.is_shown() and not still.is_shown()
    assert browser.wait("return document.body.dataset.late") == "yes"
    assert refuses(lambda: browser.find("#nowhere")) and refuses(lambda: browser.wait("return false", seconds=0.1))
    assert refuses(lambda: browser.run("return nowhere"))

    browser.press("Tab", "a", "+", "Shift+ArrowLeft", "Space")
    assert browser.run("return pressed") == ["Tab", "a", "+", "Shift", "ArrowLeft", " "]
    # A space stands where the plus was, which was selected.
    assert browser.focused().attribute("id") == "input" and browser.focused().property("value") == "a "
    browser.find("#input").type("z")
    assert browser.run("return arguments[0].value", browser.find("#input")).count("z") == 1

    assert browser.find("body").style("background-color") == "rgba(250, 250, 250, 1)"
    assert browser.run("return [innerWidth, innerHeight]") == [500, 300] and button.box()[2] > 0
    browser.screenshot(work / "window.png")
    assert size_of(work / "window.png") == (500, 300)
    browser.view(width=320, height=100, dark=True, reduced_motion=True, scale=2)
    assert browser.find("body").style("background-color") == "rgba(10, 10, 10, 1)"
    assert still.style("color") == "rgba(1, 2, 3, 1)"
    browser.screenshot(work / "window.png")
    browser.screenshot(work / "page.png", whole=True)
    sizes = size_of(work / "window.png"), size_of(work / "page.png")
    assert sizes[0] == (640, 200) and sizes[1][1] > 800, sizes

    assert browser.complaints() == []
    assert browser.requests() == [(work / "fine.html").resolve().as_uri()]
    for page, asks, complains in [("exception", 1, True), ("word", 1, True), ("file", 2, True), ("network", 2, True)]:
        browser.open(work / f"{page}.html")
        browser.wait("return document.readyState == 'complete'")
        said = browser.complaints()
        for _ in range(100):
            if said:
                break
            browser.run("return 0")
            said = browser.complaints()
        assert bool(said) == complains, (page, said)
        assert len(browser.requests()) == asks, page

try:
    os.kill(driver, 0)
    sys.exit("the driver is still there")
except ProcessLookupError:
    pass
END
echo "all fine"

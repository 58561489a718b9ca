#!/bin/bash
# The page of tutti-trace report in a browser: its timeline by mouse and by keys, tables that sort, by day and by night, wide and narrow, and
# that it asks for nothing. What the page says is in tests/tools/trace_report_test.sh.
# ctest: label=long label=once label=nosan timeout=600
set -uo pipefail
# shellcheck source=tests/browser/browser.sh
source "$(dirname "${BASH_SOURCE[0]}")/browser.sh"
trace=${TUTTI_BIN:-}/tutti-trace
[[ -x $trace ]] || { echo "TUTTI_BIN names no tutti-trace: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

browse - "$work" <<'END' || exit 1
"""Dumps: `job` of four ranks, of which rank 1 is late to the last call, rank 3 comes last to all others, and rank 2 has left no dump, with a small
communicator beside it; `large` of 500 ranks; `evil`, whose names are programs."""
import json
import pathlib
import sys

MS = 1000000


def call(number, begin, end, name="allreduce", **more):
    return {"sequence": number, "call": name, "count": 1024, "dtype": "float32", "op": "sum", "algorithm": "ring", "expected_ns": 2 * MS,
            "begin_ns": begin, "end_ns": end, "state": "done", **more}


def dump(folder, communicator, rank, size, calls, messages=(), host="node"):
    folder.mkdir(exist_ok=True)
    (folder / f"tutti-{communicator}-rank{rank}.json").write_text(json.dumps({
        "tutti_trace": 1, "communicator": communicator, "rank": rank, "size": size, "host": host, "pid": 100 + rank,
        "wall_ns": 1790000000000000000, "monotonic_ns": 9000 * MS, "calls": len(calls), "messages": list(messages), "operations": calls}))


work = pathlib.Path(sys.argv[1])
for rank in (0, 1, 3):
    calls = [call(n, (10 * n + (4 if rank == 3 else rank)) * MS, (10 * n + 8) * MS, "allgather" if n % 10 == 0 else "allreduce")
             for n in range(1, 41 - (rank == 1))]
    if rank != 1:
        calls[-1].update(state="running", waits_for={"rank": 1, "host": "node", "pid": 101, "since_ns": 450 * MS})
        del calls[-1]["end_ns"]
    dump(work / "job", "aa", rank, 4, calls, [{"number": 1, "call": "send", "count": 3, "dtype": "int8", "peer": (rank + 1) % 4, "tag": 5,
                                               "begin_ns": 380 * MS, "end_ns": 395 * MS, "state": "done"}])
for rank in range(2):
    dump(work / "job", "bb", rank, 2, [call(1, 10 * MS, 12 * MS, "broadcast", root=0), call(2, 20 * MS, 25 * MS)])
for rank in range(500):
    dump(work / "large", "cc", rank, 500, [call(n, (10 * n + rank % 7) * MS, (10 * n + 8) * MS) for n in range(1, 131)])
evil = "</script><img src=x onerror=window.broken=1><script>window.broken=1</script>"
for rank in range(2):
    dump(work / "evil", "dd", rank, 3, [call(1, MS, 2 * MS, "<b onclick=broken=1>"), call(2, 3 * MS, 4 * MS, algorithm=evil, ways=evil)], host=evil)
END
for job in job large evil; do
    "$trace" report "$work/$job" -o "$work/$job.html" || { echo "$job: no report"; exit 1; }
done

browse - "$work" <<'END' || exit 1
import pathlib
import sys
import time

import webdriver

work = pathlib.Path(sys.argv[1])
SHOWN = ".comm:not([hidden])"
CALL_39 = f'{SHOWN} .bar[aria-label^="rank 0: allreduce(count 1024, float32, sum) #39"]'


def labels():
    return browser.run(f"return [...document.querySelectorAll('{SHOWN} .rows .bar')].map(bar => bar.getAttribute('aria-label'))")


def width():
    return browser.find(CALL_39).box()[2]


def focused():
    return browser.focused().attribute("aria-label")


def heading():
    return browser.find(".details h3").text()


def column(table, number):
    return browser.run(f"return [...document.querySelectorAll('{SHOWN} table.sortable')[arguments[0]].tBodies[0].rows]"
                       ".map(row => row.cells[arguments[1]].textContent)", table, number)


def heads(table):
    return browser.find_all(f"{SHOWN} table.sortable")[table].find_all("th")


def sort(table, number):
    heads(table)[number].find_all("button")[0].click()


def contrast(element):
    """Of an element's text with what lies behind it, as WCAG computes it."""
    return browser.run("""
        const rgb = text => text.match(/[\\d.]+/g).map(Number);
        const light = text => rgb(text).slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        let behind = arguments[0];
        while (behind.parentElement && rgb(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
        const [a, b] = [light(getComputedStyle(arguments[0]).color), light(getComputedStyle(behind).backgroundColor)];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)""", element)


with webdriver.Browser() as browser:
    browser.view(width=1280, height=900, reduced_motion=True)
    browser.open(work / "job.html")
    assert browser.find("h1").text() == "Rank 1 is late", browser.find("h1").text()

    # At first: the call that hangs and those before it, what a rank owes, and the rank that left no dump.
    seen = labels()
    assert any(label.startswith("rank 0: ") and "#40, not over after " in label and label.endswith("waits for rank 1") for label in seen), seen
    assert "rank 3: allreduce(count 1024, float32, sum) #39, done after 4.0 ms, came last" in seen, seen
    notes = [note.text() for note in browser.find_all(".note")]
    assert notes == ["has not called #40", "left no dump"], notes
    assert browser.find(".label.culprit").text().startswith("rank 1")
    assert browser.find(".rows svg").role() == "group" and browser.find(".details .about").attribute("aria-live") == "polite"

    # By mouse: a click on a bar tells about that call, on all ranks.
    bar = browser.find(CALL_39)
    assert bar.role() == "button" and bar.label() == "rank 0: allreduce(count 1024, float32, sum) #39, done after 8.0 ms"
    bar.click()
    assert heading() == "allreduce(count 1024, float32, sum) #39"
    facts = browser.find(".details dl").text()
    for words in ["done after 8.0 ms", "ring", "2.0 ms", "there after 4.0 ms, done after 4.0 ms more", "rank 3, 3.0 ms after all others"]:
        assert words in facts, (words, facts)
    rows = [row.text() for row in browser.find_all(".details tbody tr")]
    assert rows == ["rank 0 + 0 ns 8.0 ms 4.0 ms done –", "rank 1 + 1.0 ms 7.0 ms 3.0 ms done –", "rank 2 – – – no dump –",
                    "rank 3 + 4.0 ms 4.0 ms – done –"], rows
    assert [len(browser.find_all(selector)) for selector in (".bar.selected", ".bar.same", ".link")] == [1, 2, 1]

    # A message has details of its own.
    browser.find('.bar.message[aria-label^="rank 0: send"]').click()
    assert heading() == "send(count 3, int8, to rank 1, tag 5)" and not browser.find_all(".details table")

    # By keys alone.
    browser.run("document.querySelector('.end').focus()")
    browser.press("Tab")
    for _ in range(3):
        if focused() and focused().startswith("rank "):
            break
        browser.press("Tab")
    assert focused().startswith("rank 0: send"), focused()
    assert browser.focused().style("outline-style") == "solid"
    browser.press("Escape")
    assert browser.find(".details").text() == "No call is selected."
    browser.find(CALL_39).click()
    browser.press("ArrowLeft", "ArrowLeft")
    assert focused().startswith("rank 0: allreduce(count 1024, float32, sum) #37"), focused()
    browser.press("ArrowDown")
    assert focused().startswith("rank 1: allreduce(count 1024, float32, sum) #37"), focused()
    browser.press("ArrowDown")
    assert focused().startswith("rank 3: allreduce(count 1024, float32, sum) #37"), focused() # rank 2 has no call to go to
    browser.press("Enter")
    assert heading().endswith("#37")
    browser.press("Home")
    assert "#1," in focused() and 0 <= browser.focused().box()[0] < 1280, focused()
    browser.press("End", "ArrowUp", "ArrowUp")
    assert focused().startswith("rank 0: ") and "#40" in focused(), focused()
    browser.press("ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowRight")
    before = width()
    browser.press("+")
    assert 1.8 < width() / before < 2.2
    browser.press("-", "-")
    assert 0.4 < width() / before < 0.6
    browser.press("0")
    assert "8 s" in browser.find(".ruler").text(), browser.find(".ruler").text()
    assert focused().startswith("rank 0: ") and "#39" in focused(), "the focus stays"

    # Bars that are too narrow to tell apart are one bar, which a click opens.
    many, count = browser.find_all(".many"), len(labels())
    assert many and "calls, from " in many[0].label()
    browser.run("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", many[0])
    assert len(labels()) > count

    # Zoom and pan: buttons, Ctrl with the wheel, and a drag.
    browser.find(".end").click()
    before = width()
    browser.find(".zoom-in").click()
    assert 1.8 < width() / before < 2.2
    browser.find(".zoom-out").click()
    assert 0.95 < width() / before < 1.05
    turn = "document.querySelector('.rows svg').dispatchEvent(new WheelEvent('wheel', {deltaY: -1, ctrlKey: arguments[0], clientX: 700, bubbles: true, cancelable: true}))"
    browser.run(turn, False)
    assert 0.95 < width() / before < 1.05, "a wheel without Ctrl scrolls"
    browser.run(turn, True)
    assert 1.2 < width() / before < 1.3
    place = browser.find(CALL_39).box()[0]
    browser.run("""const at = (kind, x, on) => on.dispatchEvent(new PointerEvent(kind, {clientX: x, clientY: 5, bubbles: true}));
                   at('pointerdown', 700, document.querySelector('.rows svg')); at('pointermove', 650, window); at('pointerup', 650, window)""")
    assert abs(browser.find(CALL_39).box()[0] - place + 50) < 2

    # By call: a number has one place on all ranks.
    browser.find(".by-call").click()
    assert [browser.find(button).attribute("aria-pressed") for button in (".by-call", ".by-time")] == ["true", "false"]
    places = [round(bar.box()[0], 1) for bar in browser.find_all(".bar") if "#38" in bar.label()]
    assert len(places) == 3 and len(set(places)) == 1 and "#38" in browser.find(".ruler").text(), places
    assert not browser.find_all(".bar.message")

    # Tables sort, by the mouse and by keys, numbers as numbers.
    assert heads(0)[3].attribute("aria-sort") == "descending" and column(0, 0) == ["3", "0", "1"], column(0, 0)
    sort(0, 0)
    assert column(0, 0) == ["3", "1", "0"] and heads(0)[0].attribute("aria-sort") == "descending" and heads(0)[3].attribute("aria-sort") is None
    browser.press("Enter")
    assert column(0, 0) == ["0", "1", "3"] and heads(0)[0].attribute("aria-sort") == "ascending"
    sort(1, 0)
    assert column(1, 0) == ["allgather float32", "allreduce float32"], column(1, 0)
    sort(1, 3)
    assert column(1, 3) == ["36", "3"], column(1, 3)

    # The number of a call in a table leads to it.
    link = browser.find("a.call")
    link.click()
    assert heading().endswith(link.text()) and link.text() in focused() and focused().startswith("rank 3: "), (link.text(), focused())

    # Another communicator.
    browser.run("const chooser = document.getElementById('chooser'); chooser.value = 'comm-1'; chooser.dispatchEvent(new Event('change'))")
    assert not browser.find("#comm-0").is_shown() and browser.find("#comm-1 .verdict").text() == "Communicator bb: nothing is wrong."
    browser.wait("return document.querySelectorAll('#comm-1 .bar').length == 4")

    # By day and by night, wide and narrow.
    grounds = set()
    for dark in (False, True):
        for wide in (1280, 400):
            browser.view(width=wide, height=800, dark=dark, reduced_motion=True)
            browser.open(work / "job.html")
            assert browser.run("return document.documentElement.scrollWidth") <= wide
            assert len(labels()) > 4
            grounds.add(browser.find("body").style("background-color"))
            for selector in ("h1", ".why", ".next", "dt", "dd", "li", "th button", "td", ".legend li", "button[aria-pressed=true]", "a.call", "footer"):
                ratio = contrast(browser.find(selector))
                assert ratio >= 4.5, (selector, dark, ratio)
    assert len(grounds) == 2

    # Whoever does not ask for less motion sees the view glide, and arrive.
    browser.view(width=1280, height=900)
    browser.open(work / "job.html")
    before = width()
    browser.find(".zoom-in").click()
    browser.wait(f"return document.querySelector('{CALL_39}').getBoundingClientRect().width > arguments[0]", 1.8 * before)

    # A large job is drawn as far as it is seen.
    started = time.monotonic()
    browser.open(work / "large.html")
    browser.run("document.querySelector('.all').click(); document.querySelector('.rows').scrollTop = 4000")
    browser.wait("return [...document.querySelectorAll('.label')].some(label => label.textContent.startsWith('rank 230'))")
    assert browser.run("return document.querySelectorAll('.rows svg *').length") < 20000
    print(f"500 ranks with 130 calls: {time.monotonic() - started:.1f} s")

    assert browser.complaints() == [], "the console is silent"
    assert set(browser.requests()) == {(work / f"{name}.html").resolve().as_uri() for name in ("job", "large")}, "the pages ask for nothing"

    # Names are text.
    browser.open(work / "evil.html")
    browser.find(".by-call").click()
    browser.find_all(".bar")[-1].click()
    assert browser.find(".details").text().count("onerror=window.broken=1") == 2, "algorithm and ways"
    assert browser.run("return [window.broken, document.images.length, document.scripts.length]") == [None, 0, 2]
    assert browser.complaints() == [] and browser.requests() == [(work / "evil.html").resolve().as_uri()]
END
echo "all fine"

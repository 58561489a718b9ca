#!/usr/bin/env python3
"""Makes a picture of the upper part of a page that `tutti-trace report` has written, for docs/pictures: the verdict, its evidence, the timeline.

    scripts/report_picture.py report.html > docs/pictures/report.webp     needs chromium and chromium-driver
"""
import base64
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "browser"))
import webdriver

WIDTH, QUALITY = 960, 60

with webdriver.Browser() as browser:
    browser.view(width=WIDTH, height=1000, reduced_motion=True)
    browser.open(pathlib.Path(sys.argv[1]))
    height = browser.run("return document.querySelector('.details').getBoundingClientRect().top")
    browser.view(width=WIDTH, height=int(height), reduced_motion=True)
    picture = browser.command("POST", "goog/cdp/execute", {"cmd": "Page.captureScreenshot",
                                                           "params": {"format": "webp", "quality": QUALITY}})
sys.stdout.buffer.write(base64.b64decode(picture["data"]))

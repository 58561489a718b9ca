#!/bin/bash
# The rendered site in a browser: two widths, light and dark; navigation, search, the choice of a scheme and redirects work, and no page
# asks for anything that is not on the site. Its looks are in build/site/screenshots, for people.
# ctest: label=long label=nosan label=once timeout=600 needs=site
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1
# shellcheck source=tests/browser/browser.sh
source tests/browser/browser.sh
folder=${TUTTI_BUILD:?}/site
[[ -f $folder/html/index.html ]] || { echo "the site could not be built here"; exit 77; }
rm -rf "$folder/screenshots"
mkdir "$folder/screenshots"
version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* \([0-9][0-9]*\)$/\1/p' include/tutti/tutti.h | paste -sd.)

browse - "$folder" "$version" <<'END'
import functools
import http.server
import pathlib
import re
import sys
import threading

import webdriver

folder, version = pathlib.Path(sys.argv[1]), sys.argv[2]
PAGES = ["index", "start/tour", "how-to/failures", "reference/api/tutti", "reference/gallery", "reference/programs/tutti-run"]
SHELVES = ["Start", "How to", "Reference", "Explanation", "Develop"]
WIDTHS = [1280, 390]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder / "html"))
threading.Thread(target=server.serve_forever, daemon=True).start()
site = "http://127.0.0.1:%d/" % server.server_port


def brightness(colour):
    """From 0 to 1, of a computed colour."""
    red, green, blue = [int(number) for number in re.findall(r"\d+", colour)[:3]]
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255


def contrast(browser, selector):
    text = brightness(browser.find(selector).style("color"))
    return abs(text - brightness(browser.find("body").style("background-color")))


def look(browser, page, width, dark):
    place = "%s, %d pixels, %s" % (page, width, "dark" if dark else "light")
    browser.open("%s%s.html" % (site, page))
    browser.screenshot(folder / "screenshots" / ("%s-%d-%s.png" % (page.replace("/", "-"), width, "dark" if dark else "light")))
    ground = brightness(browser.find("body").style("background-color"))
    assert ground < 0.2 if dark else ground > 0.9, "%s: the ground is %.2f bright" % (place, ground)
    assert browser.find("h1").is_shown() and contrast(browser, "h1") > 0.5, place
    assert contrast(browser, "article p") > 0.5, place
    wide = browser.run("return document.documentElement.scrollWidth")
    assert wide <= width, "%s: is %d pixels wide" % (place, wide)
    for picture in browser.find_all("article img"):
        assert picture.property("naturalWidth") > 0 or picture.property("complete") is False, "%s: a picture is not there" % place
        assert picture.property("alt"), "%s: a picture without words" % place
        assert picture.style("color-scheme") == "light dark", place
    assert version in browser.find(".sidebar-brand-text" if width > 1000 else ".header-center").text(), "%s: no version" % place


with webdriver.Browser() as browser:
    for width in WIDTHS:
        for dark in (False, True):
            browser.view(width=width, height=900, dark=dark)
            for page in PAGES:
                look(browser, page, width, dark)

    # The shelves are in the navigation, which a narrow window has behind a button.
    browser.view(width=1280, height=900)
    browser.open(site + "start/tour.html")
    captions = [caption.text().lower() for caption in browser.find_all(".sidebar-tree .caption-text")]
    assert captions == [shelf.lower() for shelf in SHELVES], captions
    browser.view(width=390, height=900)
    browser.open(site + "start/tour.html")
    assert browser.find(".sidebar-drawer").box()[0] < 0, "the navigation covers a narrow window"
    browser.find(".mobile-header .nav-overlay-icon").click()
    browser.wait("return document.querySelector('.sidebar-drawer').getBoundingClientRect().x >= 0")

    # A reader may choose another scheme than the system's, which stays, and which pictures take, too.
    browser.view(width=1280, height=900)
    browser.open(site + "start/tour.html")
    for _ in range(3):
        if browser.run("return document.body.dataset.theme") != "dark":
            browser.find(".content-icon-container .theme-toggle").click()
    browser.open(site + "index.html")
    assert browser.run("return document.body.dataset.theme") == "dark" and brightness(browser.find("body").style("background-color")) < 0.2
    assert browser.find("article img").style("color-scheme") == "dark"
    browser.screenshot(folder / "screenshots" / "chosen-dark.png")
    browser.run("localStorage.clear()")

    # Search finds a function, and says where.
    browser.open(site + "index.html")
    browser.find(".sidebar-search").click()
    browser.press(*"tutti_mesh_create", "Enter")
    browser.wait("return document.querySelectorAll('#search-results li a').length > 0")
    browser.wait("return /found/.test(document.querySelector('#search-results').textContent)", seconds=30)
    found = [link.attribute("href") for link in browser.find_all("#search-results li a")]
    assert "reference/api/tutti.html#tutti-mesh-create" in [re.sub(r"\?[^#]*", "", address) for address in found], found
    browser.screenshot(folder / "screenshots" / "search.png")

    # The anchors of a forge, too, are places of a page.
    browser.open(site + "reference/api/tutti.html#tutti_mesh_create")
    browser.wait("return Math.abs(document.querySelector('#tutti_mesh_create').getBoundingClientRect().y) < 150")

    # Links to where a page was lead to where it is, and to the same place in it.
    browser.open(site + "failures.html#hosts-that-vanish")
    browser.wait("return location.pathname == '/how-to/failures.html' && location.hash == '#hosts-that-vanish'")
    browser.wait("return document.readyState == 'complete' && Math.abs(document.querySelector('#hosts-that-vanish').getBoundingClientRect().y) < 100")

    strangers = [address for address in browser.requests() if not address.startswith(site)]
    assert not strangers, strangers
    complaints = [text for text in browser.complaints() if "Changed to" not in text]    # the theme says which scheme it has taken
    assert not complaints, complaints
server.shutdown()
END

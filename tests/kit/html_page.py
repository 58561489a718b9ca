"""A page that a tool has written, as a browser would take it apart: whether its elements are closed in order, and whether it asks for nothing.

    page = html_page.read(pathlib.Path("page.html"))       raises AssertionError, which says where and why
    page.text                                               what a reader sees, scripts and styles not
    page.elements                                           [(name, {attribute: value})] in order
    page.data("id")                                         the JSON in the script with that id
"""

import html.parser
import json

# Elements that have no end.
EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
# Attributes whose values are addresses, and with which a page may do something of its own.
ADDRESSES = {"action", "background", "data", "formaction", "href", "poster", "src", "srcset", "xlink:href"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.words, self.scripts, self.ids = [], [], [], {}, set()

    def fail(self, why):
        raise AssertionError(f"line {self.getpos()[0]}: {why}")

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        if len(given) != len(attributes):
            self.fail(f"<{name}> has an attribute twice")
        for key, value in given.items():
            if key in ADDRESSES and not (value.startswith("#") or value == "data:,"):
                self.fail(f"<{name} {key}={value!r}> asks for something")
            if key.startswith("on") or key == "style":
                self.fail(f"<{name}> has {key}")
        if "id" in given and given["id"] in self.ids:
            self.fail(f"two elements are #{given['id']}")
        self.ids.add(given.get("id"))
        self.elements.append((name, given))
        if name not in EMPTY:
            self.open.append((name, given))

    def handle_endtag(self, name):
        if not self.open or self.open[-1][0] != name:
            self.fail(f"</{name}> ends {self.open[-1][0] if self.open else 'nothing'}")
        self.open.pop()

    def handle_data(self, text):
        name, given = self.open[-1] if self.open else ("", {})
        if name == "style" and ("url(" in text or "@import" in text):
            self.fail("a style asks for something")
        if name == "script":
            self.scripts[given.get("id")] = self.scripts.get(given.get("id"), "") + text
        elif name != "style":
            self.words.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def data(self, name):
        return json.loads(self.scripts[name])

    def count(self, name):
        return sum(element == name for element, _ in self.elements)


def read(path):
    page = Page()
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>"), "no doctype"
    assert all(ord(c) >= 32 or c == "\n" for c in text), "a control character"
    page.feed(text)
    page.close()
    assert not page.open, f"<{page.open[-1][0]}> is not closed"
    return page

"""html_check.py - what is wrong with the rendered site, as lines for people.

    html_check.py FOLDER REDIRECTS       REDIRECTS: lines OLD NEW, as in docs/site/redirects.txt

Every link within the site leads to a page and a place that are there. No page takes anything from elsewhere: no script, style, font or
picture. A page that has moved leads to where it is.
"""
import html.parser
import pathlib
import re
import sys
import urllib.parse

# The things that a browser fetches by itself, by element and attribute.
FETCHED = {("script", "src"), ("img", "src"), ("img", "srcset"), ("source", "src"), ("source", "srcset"), ("iframe", "src"), ("link", "href"),
           ("video", "src"), ("audio", "src"), ("object", "data"), ("embed", "src"), ("use", "href"), ("image", "href")}
LINKED = FETCHED | {("a", "href"), ("area", "href"), ("form", "action")}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.places, self.links, self.refresh, self.styles = set(), [], None, []
        self.in_style = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.places.update(named[name] for name in ("id", "name") if named.get(name))
        self.in_style = tag == "style"
        if named.get("style"):
            self.styles.append(named["style"])
        if tag == "meta" and (named.get("http-equiv") or "").lower() == "refresh":
            self.refresh = re.sub(r"^.*?url=", "", named.get("content") or "")
        for name, value in attributes:
            if value is not None and (tag, name) in LINKED and not (tag == "link" and named.get("rel") == "canonical"):
                targets = [part.split()[0] for part in value.split(",")] if name == "srcset" else [value]
                self.links += [((tag, name) in FETCHED, target) for target in targets]

    def handle_data(self, data):
        if self.in_style:
            self.styles.append(data)


def is_elsewhere(target):
    return bool(re.match(r"(?!data:|mailto:)[a-z][a-z+.-]*:|//", target, re.I))


def style_faults(place, style):
    targets = re.findall(r"url\(\s*['\"]?([^'\")]+)", style) + re.findall(r"@import\s+['\"]([^'\"]+)", style)
    return ["%s: takes %s from elsewhere" % (place, target) for target in targets if is_elsewhere(target)]


def find_faults(folder, redirects):
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    faults, count = [], 0
    for path, page in pages.items():
        name = path.relative_to(folder)
        for style in page.styles:
            faults += style_faults(name, style)
        for fetched, target in page.links:
            if is_elsewhere(target):
                if fetched:
                    faults.append("%s: takes %s from elsewhere" % (name, target))
                continue
            if target.startswith(("data:", "mailto:")):
                continue
            count += 1
            parts = urllib.parse.urlsplit(target)
            there = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if there.is_dir():
                there = there / "index.html"
            if not there.is_relative_to(folder) or not there.is_file():
                faults.append("%s: %s is not there" % (name, target))
            elif parts.fragment and there in pages and urllib.parse.unquote(parts.fragment) not in pages[there].places:
                faults.append("%s: %s: there is no such place" % (name, target))
    for path in sorted(folder.rglob("*.css")):
        faults += style_faults(path.relative_to(folder), path.read_text(encoding="utf-8"))
    for old, new in redirects:
        page = pages.get((folder / (old + ".html")).resolve())
        target = page and page.refresh and (folder / (old + ".html")).parent / page.refresh
        if not target or target.resolve() != (folder / (new + ".html")).resolve() or not target.is_file():
            faults.append("%s.html does not lead to %s.html" % (old, new))
    if len(pages) < 3 or count < 3:
        faults.append("there is hardly anything: %d pages, %d links" % (len(pages), count))
    return faults, len(pages), count


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    lines = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").split("\n")
    faults, pages, links = find_faults(folder, [line.split() for line in lines if line and not line.startswith("#")])
    print("\n".join(faults + ["%d pages, %d links, %d faults" % (pages, links, len(faults))]))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())

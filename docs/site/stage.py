#!/usr/bin/env python3
"""stage.py - writes the source tree that Sphinx reads for the site.

    docs/site/stage.py OUT --bin FOLDER      FOLDER has the programs, for what they say to --help

The pages of docs/ are Markdown for a forge. Here they become pages of a site:
  * README.md of a folder is its index.md;
  * the reference is made anew from the public headers, and a page for each program from its manual page and its --help;
  * a file of the source tree that a page links to gets a page below source/, so that no link leaves the site;
  * docs/README.md, the list of the shelves, says what the navigation has, in which order.
A link that leads nowhere, or a page that is on no shelf, is an error.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

SITE = pathlib.Path(__file__).resolve().parent
ROOT = SITE.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(SITE), str(ROOT / "scripts")]
import man_page  # noqa: E402
import reference  # noqa: E402

# Inline code; or the target of a link or a picture.
LINK = re.compile(r"(?P<code>(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))|(?P<open>\]\()(?P<target>[^)\s]+)(?P<close>\))", re.S)
LEXERS = {".c": "c", ".h": "c", ".inc": "c", ".py": "python", ".sh": "bash", ".json": "json", ".svg": "xml"}
PROGRAMS = "reference/programs"
SOURCE_NOTE = "---\norphan: true\nnosearch: true\n---\n\n"


class StageError(Exception):
    """The pages do not make a site."""


def split_fences(text):
    """[(is_code, text)]: fenced blocks and comments, and what is between them."""
    parts, position = [], 0
    for block in re.finditer(r"^(?P<fence> *(?:```+|~~~+)).*?^(?P=fence)[^\S\n]*$|<!--.*?-->", text, re.S | re.M):
        parts += [(False, text[position:block.start()]), (True, block.group())]
        position = block.end()
    return parts + [(False, text[position:])]


def rewrite_links(text, change):
    """The page with change(target) in place of every link's target."""
    def replace(match):
        if match["code"]:
            return match.group()
        return match["open"] + change(match["target"]) + match["close"]
    return "".join(part if is_code else LINK.sub(replace, part) for is_code, part in split_fences(text))


def title_of(text):
    return re.search(r"^# (.*)$", text, re.M).group(1)


def toctree(entries, caption=None, depth=1):
    head = [":hidden:", ":maxdepth: %d" % depth] + ([":caption: " + caption] if caption else [])
    return "\n```{toctree}\n%s\n\n%s\n```\n" % ("\n".join(head), "\n".join(entries))


class Stage:
    def __init__(self, out, programs):
        self.out, self.programs = out, programs
        self.pages = {}      # of each page that is written, without its suffix: its text
        self.sources = []    # paths of the source tree that pages link to, and that have no page yet

    # ------------------------------------------------------------------------------------------- where things go

    def place(self, path):
        """The page, without suffix, that a path of the source tree has on the site; None: it has none."""
        if path == "docs":
            return "index"
        if path.startswith("docs/") and path.endswith(".md"):
            return re.sub(r"(^|/)README$", r"\1index", path[len("docs/"):-len(".md")])
        program = re.fullmatch(r"man/(tutti-\w+)\.1", path)
        if program:
            return "%s/%s" % (PROGRAMS, program[1])
        if path == "man":
            return PROGRAMS
        if path.startswith("docs/"):
            return None
        return "source/" + (re.sub(r"\.md$", "", path) if path.endswith(".md") else path)

    def change(self, target, path, page):
        """A link of the file `path`, as from the page."""
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return target
        name, mark, anchor = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(path), name))
        if not (ROOT / there).exists():
            raise StageError("%s: %s is not there" % (path, target))
        place = self.place(there)
        here = os.path.dirname(page)
        if place is None:    # a picture, say
            return os.path.relpath(there[len("docs/"):], here or ".") + mark + anchor
        if place.startswith("source/"):
            self.sources.append(there)
        return os.path.relpath(place + ".md", here or ".") + mark + anchor

    def add(self, page, text, path, front=""):
        """A page whose links are as from the file `path`."""
        self.pages[page] = front + rewrite_links(text, lambda target: self.change(target, path, page))

    # ---------------------------------------------------------------------------------------------- kinds of pages

    def add_documents(self):
        made = reference.Markdown(reference.Interface(str(ROOT))).pages()
        for file in sorted((ROOT / "docs").rglob("*.md")):
            path = str(file.relative_to(ROOT))
            if path not in made and not path.startswith(reference.PAGES):
                self.add(self.place(path), file.read_text(encoding="utf-8"), path)
        for path, text in made.items():
            self.add(self.place(path), text, path)

    def add_programs(self):
        """A page for each program: what it is for, how it is called, its manual page, what --help says."""
        rows = []
        for file in sorted((ROOT / "man").glob("*.1")):
            name, summary, body = man_page.as_markdown(file.read_text(encoding="utf-8"))
            body = re.sub(r"`(tutti-\w+)`\(1\)", lambda match: match[0] if match[1] == name else
                          "[%s](%s.md)" % (match[0], match[1]), body)
            if not (self.programs / name).is_file():
                raise StageError("%s has no program %s" % (self.programs, name))
            done = subprocess.run([self.programs / name, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                raise StageError("%s --help: exit status %d: %s" % (name, done.returncode, done.stdout))
            self.pages["%s/%s" % (PROGRAMS, name)] = "# %s\n\n%s.\n\n%s\n## In short\n\nThis is what `%s --help` says:\n\n```text\n%s\n```\n" % (
                name, summary[0].upper() + summary[1:], body, name, done.stdout.rstrip("\n"))
            rows.append("| [`%s`](%s/%s.md) | %s |" % (name, PROGRAMS.rpartition("/")[2], name, summary))
        self.pages[PROGRAMS] = ("# Programs\n\nEach program has a manual page, which `man` shows, too, once Tutti is installed.\n\n"
                                "| program | what it does |\n|---|---|\n%s\n" % "\n".join(rows))

    def add_sources(self):
        """Pages of files and folders that other pages link to, and of those that these link to."""
        while self.sources:
            path = self.sources.pop()
            page, file = self.place(path), ROOT / path
            if page in self.pages:
                continue
            if file.is_dir():
                names = sorted(entry.name for entry in file.iterdir() if entry.is_file() and not entry.name.startswith("."))
                readme = "README.md" if "README.md" in names else None
                text = "# `%s/`\n\n" % path + ("[About this folder](%s/README.md).\n\n" % file.name if readme else "")
                text += "".join("* [`%s`](%s/%s)\n" % (name, file.name, name) for name in names if name != readme)
                self.add(page, text, path, SOURCE_NOTE)
            elif path.endswith(".md"):
                self.add(page, file.read_text(encoding="utf-8"), path, SOURCE_NOTE)
            else:
                text = file.read_text(encoding="utf-8").rstrip("\n")
                fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
                self.pages[page] = "%s# `%s`\n\n%s{code-block} %s\n:force:\n:linenos:\n\n%s\n%s\n" % (
                    SOURCE_NOTE, path, fence, LEXERS.get(file.suffix, "text"), text, fence)

    # ---------------------------------------------------------------------------------------------- the navigation

    def add_navigation(self):
        """Every page stands on a shelf, or in the folder of the page that has its name."""
        shelved, index = set(), self.pages["index"]
        for section in re.split(r"^## ", index, flags=re.M)[1:]:
            entries = [target[:-len(".md")] for target in re.findall(r"^(?:\d+\.|[-*]) \[[^]]*\]\(([^)#\s]+\.md)\)", section, re.M)]
            if entries:
                self.pages["index"] += toctree(entries, section.partition("\n")[0].strip())
                shelved.update(entries)
        for page in sorted(self.pages):
            children = sorted((other for other in self.pages if re.fullmatch(re.escape(page) + r"/[^/]+", other)),
                              key=lambda other: self.rank(page, other))
            if children and not page.startswith("source/"):
                self.pages[page] += toctree([os.path.relpath(child, os.path.dirname(page) or ".") for child in children])
                shelved.update(children)
        for page in self.pages:
            if page in shelved:
                self.pages[page] = self.pages[page].replace(SOURCE_NOTE, "", 1)
            elif page != "index" and not page.startswith("source/"):
                raise StageError("docs/README.md does not list %s" % page)

    def rank(self, page, child):
        """Children in the order in which their parent names them."""
        place = self.pages[page].find("(%s.md" % os.path.relpath(child, os.path.dirname(page) or "."))
        return place if place >= 0 else len(self.pages[page]), child

    def write(self):
        """Files that would not change stay as they are, so that Sphinx does not read them again."""
        wanted = {page + ".md": text.encode() for page, text in self.pages.items()}
        for picture in (ROOT / "docs/pictures").rglob("*.*"):
            wanted[str(picture.relative_to(ROOT / "docs"))] = picture.read_bytes()
        for file in list(self.out.rglob("*")):
            if file.is_file() and str(file.relative_to(self.out)) not in wanted:
                file.unlink()
        for name, data in wanted.items():
            file = self.out / name
            if not file.is_file() or file.read_bytes() != data:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)


def stage(out, programs):
    """Writes the tree; returns how many pages it has."""
    made = Stage(out, programs)
    made.add_documents()
    made.add_programs()
    made.add_sources()
    made.add_navigation()
    made.write()
    return len(made.pages)


def main():
    parser = argparse.ArgumentParser(description="the source tree of the site")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    wishes = parser.parse_args()
    print("%d pages" % stage(wishes.out, wishes.bin.resolve()))


if __name__ == "__main__":
    try:
        main()
    except (StageError, man_page.ManError, reference.HeaderError) as error:
        sys.exit("stage.py: %s" % error)

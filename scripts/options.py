"""options.py - reads the table of options, src/base/option_list.h, and writes the tables of docs/reference/options.md and, for options of
tests, of docs/develop/options.md.

A table of a page stands between two comments; reference.py writes anew what is between them:

    <!-- options: JOB -->
    | variable | value | meaning | default |
    <!-- end of options -->
"""
import re
from collections import namedtuple

LIST = "src/base/option_list.h"
PAGE = "docs/reference/options.md"
TEST_PAGE = "docs/develop/options.md"
PREFIX = "TUTTI_"
PAGES = {PAGE: ("LAUNCH", "JOB", "NETWORK", "PYTHON"), TEST_PAGE: ("TEST",)}
GROUPS = sum(PAGES.values(), ())

Option = namedtuple("Option", "group variable kind words default meaning")


class OptionError(Exception):
    """The table is not as option_list.h says."""


def split_columns(text):
    """What is between the parentheses of X(...), at its commas; strings that touch are one."""
    columns, depth, word = [], 0, ""
    for piece in re.findall(r'"(?:[^"\\]|\\.)*"|[^"]', text):
        if piece == "," and depth == 0:
            columns.append(word)
            word = ""
            continue
        depth += (piece == "(") - (piece == ")")
        word += piece
    return [re.sub(r'"\s+"', "", column.strip()) for column in columns + [word]]


def strings_of(text):
    return re.findall(r'"((?:[^"\\]|\\.)*)"', text)


def read_option(text):
    columns = split_columns(text)
    kind = re.fullmatch(r"([A-Z]+)(?:\((.*)\))?", columns[2]) if len(columns) == 5 else None
    if kind is None or columns[0] not in GROUPS or not re.fullmatch(r"[A-Z][A-Z0-9_]*", columns[1]):
        raise OptionError("%s: not an option: X(%s)" % (LIST, text.strip()))
    words = strings_of(kind.group(2) or "") or re.findall(r"\d+", kind.group(2) or "")
    default, meaning = ("".join(strings_of(column)) for column in columns[3:])
    if not meaning.endswith("."):
        raise OptionError("%s: %s is not documented by a sentence" % (LIST, columns[1]))
    return Option(columns[0], PREFIX + columns[1], kind.group(1), words, default, meaning)


def parse_options(source):
    """Every Option of the table, in its order."""
    block = re.search(r"#define OPTION_LIST\(X\)((?:[^\n]*\\\n)*[^\n]*)", source).group(1).replace("\\\n", "\n")
    rows, rest = [], block.strip()
    while rest:
        row = re.match(r'X\(((?:"(?:[^"\\]|\\.)*"|[^"()]|\((?:"(?:[^"\\]|\\.)*"|[^"()])*\))*)\)\s*', rest)
        if row is None:
            raise OptionError("%s: what is this: %.60s" % (LIST, rest))
        rows.append(read_option(row.group(1)))
        rest = rest[row.end():]
    return rows


def code(words):
    marked = ["`%s`" % word for word in words]
    return " or ".join([", ".join(marked[:-1])] * (len(marked) > 1) + marked[-1:])


def value_of(option):
    """What a value should be, for people; option.c says the same in its errors."""
    words = option.words
    if option.kind in ("DURATION", "BYTES"):
        return {"DURATION": "duration", "BYTES": "size"}[option.kind]
    if option.kind in ("COUNT", "SECONDS", "MILLISECONDS"):
        unit = {"COUNT": "", "SECONDS": "seconds, ", "MILLISECONDS": "milliseconds, `0` or "}[option.kind]
        return "%s`%s` to `%s`" % (unit, words[0], words[1])
    if option.kind == "BOOLEAN":
        return code(["0", "1"])
    if option.kind in ("CHOICE", "WISH"):
        return code(words)
    if option.kind == "TEXT":
        return words[0]
    raise OptionError("%s: %s is of a kind that is not known: %s" % (LIST, option.variable, option.kind))


def default_of(option):
    in_words = re.fullmatch(r"\((.*)\)", option.default)
    if in_words:
        return in_words.group(1)
    return "`%s`" % option.default if option.default else ""


def table(options, group):
    lines = ["| variable | value | meaning | default |", "|---|---|---|---|"]
    for option in options:
        if option.group == group:
            cells = ["`%s`" % option.variable, value_of(option), option.meaning, default_of(option)]
            lines.append(" ".join(("| %s |" % " | ".join(cells)).split()))
    return "\n".join(lines)


def page_with_tables(path, page, options):
    """The text of a page at a path of PAGES, with its tables as the options have them."""
    marks = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- end of options -->)", re.S)
    shown = [group for _, group, _ in marks.findall(page)]
    if sorted(shown) != sorted(PAGES[path]):
        raise OptionError("%s: has tables of %s, and needs one of each of %s" % (path, shown, list(PAGES[path])))
    return marks.sub(lambda match: match.group(1) + table(options, match.group(2)) + "\n" + match.group(3), page)


def section(page, title):
    """The text below a heading of the page; "": that above the first."""
    if title:
        return re.search(r"\n## %s\n(.*?)(?=\n## |\Z)" % re.escape(title), page, re.S).group(1).strip()
    return re.match(r"# [^\n]*\n(.*?)(?=\n## |\Z)", page, re.S).group(1).strip()

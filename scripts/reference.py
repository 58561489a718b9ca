#!/usr/bin/env python3
"""reference.py - what the documents say about the interface, from the public headers and the table of options.

    scripts/reference.py                writes docs/reference/api.md and the page of each header in docs/reference/api,
                                        man/tutti.7, include/tutti/forms.h and the tables of docs/reference/options.md and
                                        docs/develop/options.md
    scripts/reference.py --compare      writes nothing; fails when they would change
    scripts/reference.py --check        fails when a comment in the headers leaves out what it must say
    scripts/reference.py --man DIR      writes a manual page for every function (section 3) into DIR

--root DIR names another source tree than the one of this script.
"""
import argparse
import difflib
import glob
import os
import re
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import options  # noqa: E402
from header import (Define, Enum, Function, HeaderError, Section, Struct, Text, Typedef, one_line,  # noqa: E402
                    parse_header, parse_statuses)

PICTURES = "docs/pictures/primitives"
INDEX = "docs/reference/api.md"
PAGES = "docs/reference/api"    # a page of each header, in folders as in include/tutti


class Interface:
    """All that the headers declare."""

    def __init__(self, root):
        self.root = root
        # forms.h is made from the others.
        self.headers = [parse_header(path) for path in sorted(glob.glob(os.path.join(root, "include/tutti/**/*.h"), recursive=True))
                        if not path.endswith("/forms.h")]
        self.headers.sort(key=lambda header: not header.path.endswith("/tutti.h"))
        self.statuses = parse_statuses(os.path.join(root, "src/base/status.h"))
        self.options = options.parse_options(self.read(options.LIST))
        self.version = ".".join(re.findall(r"#define TUTTI_VERSION_\w+ (\d+)", self.read("include/tutti/tutti.h")))
        self.sections = [section for header in self.headers for section in header.sections]
        self.anchors = {}       # of a name: its page and its place there
        for header in self.headers:
            for item in (item for section in header.sections for item in section.items):
                for name in names_of(item):
                    page = header.path if name == item.name.partition("(")[0] or isinstance(item, Enum) else "forms.h"
                    self.anchors[name] = (page_of(page), item.name.partition("(")[0].lower())

    def environment_prose(self):
        """What docs/reference/options.md says of all options, [("text" or "code", words)]."""
        page, prose = self.read(options.PAGE), []
        for title in ("", "Rules for algorithms", "Between a launcher and its ranks"):
            for block in re.split(r"\n\n+", options.section(page, title)):
                if block.startswith("<!--"):
                    continue
                code = re.match(r"```\w*\n(.*)\n```$", block, re.S)
                prose.append(("code", code.group(1)) if code else ("text", one_line(block)))
        return prose

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()


def page_of(header):
    """The page of a header, include/tutti/train/shards.h say."""
    return "%s/%s.md" % (PAGES, re.sub(r"\.h$", "", header.rpartition("include/tutti/")[2]))


def names_of(item):
    if isinstance(item, Text) or is_rules(item):
        return []
    if isinstance(item, Function):
        return [form.name for form in item.forms()]
    if isinstance(item, Enum):
        return [item.name] + [name for name, _, _ in item.values]
    return [item.name.partition("(")[0]]


def is_rules(item):
    """The comment of TUTTI_OPERATION: the common rules of all operations."""
    return isinstance(item, Define) and item.name == "TUTTI_OPERATION"


def version_short(interface):
    return ".".join(interface.version.split(".")[:2])


def prototype(function, columns=100):
    """A prototype, arguments below each other where they need more than one line."""
    head = function.result + ("" if function.result.endswith("*") else " ") + function.name + "("
    lines, line = [], head
    for i, parameter in enumerate(function.parameters):
        piece = parameter + (");" if i + 1 == len(function.parameters) else ",")
        if len(line) + len(piece) + 1 > columns and line.strip() and not line.endswith("("):
            lines.append(line.rstrip())
            line = " " * len(head)
        line += piece if line.endswith("(") or not line.strip() else " " + piece
    return "\n".join(lines + [line])


def definition(struct):
    if struct.fields is None:
        return "struct %s;" % struct.name
    lines = ["struct %s {" % struct.name]
    for one in struct.fields:
        line = "    %s;%s" % (one.declaration, " /* %s */" % one.comment if one.comment else "")
        if len(line) > 80 and one.comment:
            lines.append("    /* %s */" % "\n     * ".join(textwrap.wrap(one.comment, 72)))
            line = "    %s;" % one.declaration
        lines.append(line)
    return "\n".join(lines + ["};"])


def paragraphs(text):
    """[(is_code, lines)]: indented lines are code, which is only the case in texts that stand alone."""
    blocks, current, code = [], [], False
    for line in text.split("\n") + [""]:
        is_code = line.startswith("    ") and (code or not current)
        if current and (not line.strip() or (code and not is_code) or (not code and line.startswith("    "))):
            blocks.append((code, current))
            current, is_code = [], line.startswith("    ")
        if line.strip():
            code = is_code
            current.append(line[4:] if code else line.strip())
    return blocks


def own_comment(function):
    """Without the name that the comments of operations begin with, as a sentence."""
    name = function.name[len("tutti_"):]
    if not function.comment.startswith(name + ": "):
        return function.comment
    text = function.comment[len(name) + 2:]
    is_name = re.match(r"\w+", text).group() in [word for word, _ in function.names()]
    return text if is_name else text[0].upper() + text[1:]


# ------------------------------------------------------------------------------------------------- Markdown

class Markdown:
    """The pages. `page` is the path of the one that is being written: links are as from there."""

    def __init__(self, interface):
        self.interface = interface
        self.page = INDEX
        self.variables = {option.variable for option in interface.options}
        statuses = "|".join(sorted((name for name, _ in interface.statuses), key=len, reverse=True))
        self.code = re.compile(
            r"`[^`]*`"                                          # is code already
            r"|(?<![\w*])\*\w+\*(?!\w)"                         # is emphasis already
            r"|\bdocs/[\w/-]+\.md\b"                            # a page
            r"|\b\w+ == [a-z_]+(?:\[\w+\])?(?: [+*] [a-z_]+(?:\[\w+\])?)*(?= elements|[,. ]|$)"
            r"|\bsizeof\(struct \w+\)|\b(?:tutti|TUTTI)_\w+(?:\([^()]*\))?"
            r"|\b(?:" + statuses + r")\b|\bINVALID_\*|\b(?:errno|NULL)\b"
            r"|(?<!\w)_(?:with|start|prepare)\b"
            r"|(?<![\w*])\*\w+\b"
            r"|\b\w+\[[^\]]+\]"
            r"|\b(?:send|recv)_\w+\b|\brecv\b|\bdispls\b|\bsend\b(?= is )")

    def inline(self, text, own=""):
        def mark(match):
            word = match.group()
            if word.startswith("`") or re.fullmatch(r"\*\w+\*", word):
                return word
            if word.startswith("docs/"):
                return "[%s](%s)" % (self.interface.read(word).partition("\n")[0].lstrip("# "), self.link(word))
            name = re.sub(r"\(.*", "", word)
            if name == "OK":
                return word
            place = self.interface.anchors.get(name) or self.interface.anchors.get("TUTTI_" + name)
            if place and name not in self.variables and place != (self.page, own):
                return "[`%s`](%s#%s)" % (word, "" if place[0] == self.page else self.link(place[0]), place[1])
            return "`%s`" % word

        result, position = "", 0
        for match in self.code.finditer(text):
            result += self.plain(text[position:match.start()]) + mark(match)
            position = match.end()
        return result + self.plain(text[position:])

    def link(self, path):
        """A path of the tree, as from the page."""
        return os.path.relpath(path, os.path.dirname(self.page))

    @staticmethod
    def plain(text):
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("*", "\\*")

    def prose(self, text, own=""):
        out = []
        for is_code, lines in paragraphs(text):
            if is_code:
                statement = any(re.search(r";\s*(//.*)?$", line) for line in lines)   # otherwise a drawing
                out.append("```%s\n%s\n```" % ("c" if statement else "text", "\n".join(lines)))
                continue
            words = one_line_keep(lines)
            lead = re.match(r"([A-Z][a-z]+)\.  ", words)
            if lead:
                out.append("**%s.** %s" % (lead.group(1), self.inline(squeeze(words[lead.end():]), own)))
            else:
                out.append(self.inline(squeeze(words), own))
        return "\n\n".join(out)

    def cell(self, text, own=""):
        return self.inline(text, own).replace("|", "\\|")

    def table(self, heads, rows):
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])

    def item(self, item):
        own = "" if isinstance(item, Text) else item.name.partition("(")[0].lower()
        if isinstance(item, Text):
            return self.prose(item.text)
        if is_rules(item):
            return "### Rules for all operations\n\n" + self.prose(item.comment)
        if isinstance(item, Function):
            return self.function(item, own)
        head = "### `%s`" % item.name
        if isinstance(item, Enum):
            if item.name == "tutti_status":
                texts = {"TUTTI_" + name: text for name, text in self.interface.statuses}
                rows = [("`%s`" % name, str(value), self.cell(comment, own), self.cell(texts[name], own))
                        for name, value, comment in item.values]
                body = self.table(("status", "value", "meaning", "`tutti_status_text`"), rows)
            else:
                body = self.table(("name", "value", "meaning"),
                                  [("`%s`" % name, str(value), self.cell(words, own))
                                   for name, value, words in item.values])
        elif isinstance(item, Struct) and item.fields is None:
            return head + "\n\n" + self.prose("`struct %s`, %s." % (item.name, item.comment.replace(
                "opaque", "an opaque type", 1) if item.comment else "an opaque type"), own)
        elif isinstance(item, Struct):
            rows = [("`%s`" % one.declaration, self.cell(one.comment, own)) for one in item.fields]
            body = self.table(("field", "meaning"), rows)
        elif isinstance(item, Typedef):
            body = "```c\n%s\n```" % wrap_typedef(item.declaration)
        else:
            raise HeaderError("nobody prints " + item.name)
        words = self.prose(item.comment, own)
        return "\n\n".join(part for part in (head, words, body) if part)

    def function(self, function, own):
        """The blocking form, what it does, its picture, and where its other forms are."""
        first, *others = function.forms()
        parts = ["### `%s`" % function.name, "```c\n%s\n```" % prototype(first),
                 self.prose(own_comment(function), own)]
        name = function.name[len("tutti_"):]
        if function.operation and os.path.exists(os.path.join(self.interface.root, PICTURES, name + ".svg")):
            parts.append("![What %s does](%s)" % (name, self.link("%s/%s.svg" % (PICTURES, name))))
        if others:
            parts.append("Other forms: %s." % ", ".join("[`%s`](%s#%s)" % (
                one.name, self.link(page_of("forms.h")), function.name) for one in others))
        return "\n\n".join(part for part in parts if part)

    def constants(self, defines):
        """Neighbours are one table; the initialiser of a struct is shown in use."""
        parts, rows = ["\n".join('<a id="%s"></a>' % one.name.partition("(")[0].lower() for one in defines)], []
        for one in defines:
            if one.name.endswith("_INIT"):
                kind = re.search(r"struct \w+", one.value).group()
                parts.append("```c\n%s options = %s; /* %s */\n```" % (kind, one.name, one.value))
            else:
                rows.append(["`%s`" % one.name, "`%s`" % one.value, self.cell(one_line(one.comment))])
        heads = ["constant", "value", "meaning"]
        if rows and all("(tutti_op)" in row[1] for row in rows):   # handles: their values are nobody's business
            heads, rows = ["constant", "meaning"], [[row[0], row[2]] for row in rows]
        if rows and not any(row[-1] for row in rows):
            heads, rows = heads[:-1], [row[:-1] for row in rows]
        return "\n\n".join(parts + ([self.table(heads, rows)] if rows else []))

    def section(self, section):
        parts, defines = ["## " + title_of(section)], []

        def flush():
            if defines:
                parts.append(self.constants(defines))
                defines.clear()
        for item in section.items:
            if isinstance(item, Define) and not is_rules(item):
                comment_is_below = any(isinstance(other, Function) and other.comment == item.comment
                                       for other in section.items)
                defines.append(Define(item.name, item.value, "" if comment_is_below else item.comment))
                continue
            flush()
            parts.append(self.item(item))
        flush()
        return "\n\n".join(parts)

    def contents(self, sections):
        """What the sections declare, with links from the page."""
        lines = []
        for section in sections:
            links = []
            for item in section.items:
                if not isinstance(item, (Text, Define)):
                    page, anchor = self.interface.anchors[item.name]
                    links.append("[`%s`](%s#%s)" % (re.sub(r"^tutti_", "", item.name), "" if page == self.page else self.link(page), anchor))
            lines.append("* %s: %s" % (title_of(section), ", ".join(links)) if links else "* " + title_of(section))
        return "\n".join(lines)

    def header_page(self, header):
        self.page = page_of(header.path)
        path = header.path[header.path.index("include/tutti/"):]
        parts = ["# %s" % path.partition("/")[2],
                 "<!-- Made by scripts/reference.py from %s: change that, then `make reference`. -->" % path,
                 "The source is [`%s`](%s)." % (path, self.link(path)),
                 self.inline(header.title[0].upper() + header.title[1:]), self.prose(header.text), "On this page:", self.contents(header.sections)]
        return "\n\n".join(parts + [self.section(section) for section in header.sections]) + "\n"

    def forms_page(self):
        """The page of forms.h: its prototypes, in the order of tutti.h."""
        self.page = page_of("forms.h")
        path = "include/tutti/forms.h"
        parts = ["# tutti/forms.h",
                 "<!-- Made by scripts/reference.py: change tutti.h, then `make reference`. -->",
                 "The source is [`%s`](%s)." % (path, self.link(path)),
                 "The forms `_with`, `_start` and `_prepare` of every operation. Programs include `tutti.h`, which includes this "
                 "file, and says what each operation does, what its arguments are, and which [rules](%s#rules-for-all-operations) "
                 "hold for all forms. Each form takes the arguments of the operation, and then" % self.link(page_of("tutti.h")),
                 self.table(("argument", "forms", "meaning"),
                            [("`options`", "all", "a deadline, an algorithm or a priority for this call; or `NULL`"),
                             ("`request`", "`_start`", self.cell("receives the operation in flight, for tutti_wait, tutti_test, "
                                                                 "tutti_cancel and tutti_notify; NULL on failure")),
                             ("`prepared`", "`_prepare`", self.cell("receives the prepared operation, for tutti_start and "
                                                                    "tutti_prepared_free; NULL on failure"))]),
                 FORMS_EXAMPLE]
        for section in self.interface.sections:
            operations = [item for item in section.items if isinstance(item, Function) and item.operation]
            if operations:
                parts.append("## %s" % title_of(section))
            for item in operations:
                parts.append("### `%s`" % item.name)
                parts.append("The blocking form, [`%s`](%s#%s), says what these forms do." % (
                    item.name, self.link(self.interface.anchors[item.name][0]), item.name))
                parts.append("```c\n%s\n```" % "\n".join(prototype(form) for form in item.forms()[1:]))
        return "\n\n".join(parts) + "\n"

    def index(self):
        self.page = INDEX
        parts = ["# Every function",
                 "<!-- Made by scripts/reference.py from include/tutti: change the header, then `make reference`. -->",
                 "Each public header has a page, which says of every function what it does, which thread may call it, whether it "
                 "blocks and what it returns. For a first look take the [tour](../start/tour.md), for pictures the "
                 "[gallery](gallery.md)."]
        for header in self.interface.headers:
            page = page_of(header.path)
            parts.append("## [%s](%s)" % (header.path[header.path.index("tutti/", header.path.index("include/")):], self.link(page)))
            parts.append(self.inline(header.title[0].upper() + header.title[1:]))
            parts.append(self.contents(header.sections))
            if header.path.endswith("/tutti/tutti.h"):
                parts.append("## [tutti/forms.h](%s)" % self.link(page_of("forms.h")))
                parts.append("The forms `_with`, `_start` and `_prepare` of every operation. `tutti.h` includes it.")
        return "\n\n".join(parts) + "\n"

    def pages(self):
        """{path: text}"""
        made = {page_of(header.path): self.header_page(header) for header in self.interface.headers}
        made[page_of("forms.h")] = self.forms_page()
        made[INDEX] = self.index()
        return made


FORMS_EXAMPLE = """\
An allreduce that moves while the program computes:

<!-- compile: float mine[4] = {0}, sums[4]; struct tutti_comm *comm = NULL; -->
```c
struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
struct tutti_request *request;
options.timeout_ns = 2000000000; /* two seconds */
tutti_allreduce_start(mine, sums, 4, TUTTI_FLOAT32, TUTTI_SUM, &options, comm, &request);
/* compute; mine and sums belong to the operation meanwhile */
tutti_wait(&request); /* or tutti_test, until it says done */
```"""


def one_line_keep(lines):
    return " ".join(lines)


def squeeze(text):
    return re.sub(r" {2,}", " ", text)


def title_of(section):
    return section.title[0].upper() + section.title[1:]


def anchor_of(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def wrap_typedef(declaration):
    if len(declaration) <= 100:
        return declaration
    head, _, arguments = declaration.partition("(")
    return prototype(Function(head.rpartition(" ")[2], head.rpartition(" ")[0],
                              [one_line(one) for one in arguments[:-2].split(",")]))


# ------------------------------------------------------------------------------------------ the header of forms

FORMS_HEADER = """\
/* forms.h - the forms _with, _start and _prepare of every operation. Programs include tutti.h,
 * which includes this file.
 *
 * Made by scripts/reference.py from tutti.h, where tutti_X says what the operation does and what
 * its arguments are. Each form takes the same arguments, and then
 *     options   a deadline, an algorithm or a priority for this call; or NULL
 *     request   receives the operation in flight, for tutti_wait, tutti_test, tutti_cancel and
 *               tutti_notify; NULL on failure
 *     prepared  receives the prepared operation, for tutti_start and tutti_prepared_free; NULL on
 *               failure
 * "Forms" at the top of tutti.h has the rules.
 */
#ifndef TUTTI_FORMS_H
#define TUTTI_FORMS_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */

%s

/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif
"""
FORM_COMMENTS = {
    "_with": '{name} with options for this call: see "Forms" in tutti.h.',
    "_start": 'Starts {name}, which uses its buffers until done: see "Forms" in tutti.h.',
    "_prepare": 'Plans {name} once, for tutti_start to start often: see "Forms" in tutti.h.',
}


def forms_header(interface):
    """include/tutti/forms.h: a plain prototype for every form that tutti.h does not declare itself."""
    parts = []
    for section in interface.sections:
        for item in section.items:
            if not isinstance(item, Function) or not item.operation:
                continue
            lines = ["", "/* %s %s */" % ("-" * (93 - len(item.name)), item.name)]
            for form in item.forms()[1:]:
                name, result = form.name, form.result
                lines.append("/* %s */" % FORM_COMMENTS[name[len(item.name):]].format(name=item.name))
                lines.append("TUTTI_API TUTTI_MUST_USE %s" % result)
                lines.append(prototype(Function(name, "", form.parameters)).replace(" " + name, name, 1)
                             .replace("\n ", "\n"))
            parts.append("\n".join(lines))
    return FORMS_HEADER % "\n".join(parts).strip("\n")


# ---------------------------------------------------------------------------------------------- manual pages

def roff(text):
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)   # of a link the words
    text = text.replace("\\", "\\\\").replace("-", "\\-").replace("`", "")
    text = re.sub(r"(?<![\w*])\*(\w+)\*(?!\w)", r"\\fI\1\\fR", text)
    text = re.sub(r"\b((?:tutti|TUTTI)_\w+)", r"\\fB\1\\fR", text)
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def roff_prose(text, headings=False):
    out = []
    for is_code, lines in paragraphs(text):
        if is_code:
            out.append(".PP\n.EX\n%s\n.EE" % "\n".join(roff_code(line) for line in lines))
            continue
        words = " ".join(lines)
        lead = re.match(r"([A-Z][a-z]+)\.  ", words)
        if lead and headings:
            out.append(".SS %s\n%s" % (lead.group(1), sentences(words[lead.end():])))
        else:
            out.append(".PP\n" + sentences(words))
    return "\n".join(out)


def roff_code(line):
    return re.sub(r"^([.'])", r"\\&\1", line.replace("\\", "\\\\").replace("-", "\\-"))


def sentences(text):
    """One a line, as manual pages are written."""
    return "\n".join(roff(line) for line in re.split(r"(?<=[.:;])  ?(?=[A-Z`])", squeeze(text)))


def th(interface, name, section, book):
    return '.TH %s %d "" "Tutti %s" "%s"' % (name.upper() if section != 3 else name, section,
                                             version_short(interface), book)


def man_overview(interface):
    header = interface.headers[0]
    lines = [".\\\" Made by scripts/reference.py from the public header: change that, then `make reference`.",
             th(interface, "tutti", 7, "Tutti"), ".SH NAME",
             "tutti \\- collective communication for distributed training", ".SH SYNOPSIS", ".EX",
             "#include <tutti/tutti.h>", "", "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs tutti)", ".EE",
             ".SH DESCRIPTION", roff_prose(header.text, headings=True)]
    lines += [".SH FUNCTIONS", "Each has a page of its own in section 3; the four forms of an operation share one."]
    for section in interface.sections:
        names = [item.name for item in section.items if isinstance(item, Function)]
        lines += [".TP", title_of(section), ",\n".join(".BR %s (3)" % name for name in names).replace(",\n", " ,\n")]
    lines += [".SH ENVIRONMENT"]
    for option in interface.options:
        if option.group == "TEST":
            continue
        default = options.default_of(option)
        lines += [".TP", ".B " + option.variable, roff("%s%s." % (options.value_of(option),
                                                                  " (default: %s)" % default if default else "")),
                  sentences(option.meaning)]
    for kind, text in interface.environment_prose():
        lines += [".PP", ".EX", roff_code(text), ".EE"] if kind == "code" else [".PP", sentences(text)]
    lines += [".SH ERRORS", "Functions return one of these;",
              ".BR tutti_status_text (3)", "gives the text,", ".BR tutti_error_message (3)",
              "the whole story of a failure in this thread."]
    for name, text in interface.statuses:
        lines += [".TP", ".B TUTTI_" + name, roff(text)]
    lines += [".SH EXAMPLE", ".EX", "\n".join(roff_code(line) for line in EXAMPLE.strip("\n").split("\n")), ".EE", ".PP",
              "Three ranks of it:", ".PP", ".EX", "\n".join(roff_code(line) for line in EXAMPLE_RUN.strip("\n").split("\n")), ".EE"]
    lines += [".SH SEE ALSO", ",\n".join(".BR tutti\\-%s (1)" % name for name in (
        "info", "perf", "plan", "run", "schedule", "synth", "topo", "trace", "tune"))]
    return "\n".join(lines) + "\n"


# A whole program for tutti(7), which tests/repo/reference_test.sh compiles.
EXAMPLE = """
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
    struct tutti_comm *comm;
    if (tutti_comm_create(NULL, &comm) != TUTTI_OK) {
        fprintf(stderr, "%s\\n", tutti_error_message());
        return 1;
    }
    float mine[3] = {1, 2, (float)tutti_comm_rank(comm)}, sums[3];
    enum tutti_status status =
        tutti_allreduce(mine, sums, 3, TUTTI_FLOAT32, TUTTI_SUM, comm);
    if (status == TUTTI_OK) printf("%g %g %g\\n", sums[0], sums[1], sums[2]);
    else fprintf(stderr, "%s\\n", tutti_error_message());
    tutti_comm_free(comm);
    return status != TUTTI_OK;
}
"""
EXAMPLE_RUN = """
cc sums.c $(pkg-config --cflags --libs tutti) -o sums
tutti-run -n 3 ./sums
"""


def rules_for(interface, section, function):
    """Texts that hold for a function: the common rules of the operations, the text that begins its section, and the text further down
    until the next struct."""
    texts, local = [], []
    for i, item in enumerate(section.items):
        if item is function:
            break
        if isinstance(item, Struct):
            local = []
        elif isinstance(item, Text):
            (local if i > 0 else texts).append(item.text)
    rules = [item.comment for one in interface.sections for item in one.items if is_rules(item)] if function.operation else []
    return rules + texts + local


def types_of(interface, function):
    words = " ".join(parameter for form in function.forms() for parameter in form.parameters)
    used = set(re.findall(r"struct (\w+)", words))
    return [item for section in interface.sections for item in section.items
            if isinstance(item, Struct) and item.name in used and item.fields is not None]


def header_of(interface, section):
    return next(os.path.basename(header.path) for header in interface.headers if section in header.sections)


def example_of(interface, section):
    """The lines of the first program in the comment that begins the section's header; drawings are none."""
    header = next(header for header in interface.headers if section in header.sections)
    return next((lines for is_code, lines in paragraphs(header.text)
                 if is_code and re.search(r"\btutti_\w+\(.*\);", " ".join(lines))), [])


def man_function(interface, section, function):
    forms = function.forms()
    names = ", ".join(form.name for form in forms)
    first = re.split(r"(?<=[.;])\s", one_line(own_comment(function) or section.title))[0].rstrip(".;")
    lines = [th(interface, function.name, 3, "Tutti"), ".SH NAME", "%s \\- %s" % (names, roff(first).replace("\n", " ")),
             ".SH SYNOPSIS", ".EX", "#include <tutti/%s>" % header_of(interface, section), ""]
    lines.insert(1, ".nh")
    lines += [roff_code(line) for form in forms for line in prototype(form, 80).split("\n")]
    lines += [".EE", ".SH DESCRIPTION"]
    if own_comment(function):
        lines.append(roff_prose(own_comment(function)))
    lines += [roff_prose(text) for text in rules_for(interface, section, function)]
    types = types_of(interface, function)
    if types:
        lines.append(".SH TYPES")
        for one in types:
            if one.comment:
                lines.append(roff_prose(one.comment))
            lines += [".EX", "\n".join(roff_code(line) for line in definition(one).split("\n")), ".EE"]
    if function.result == "enum tutti_status":
        lines += [".SH RETURN VALUE", "TUTTI_OK, or a status that", ".BR tutti (7)", "lists;",
                  ".BR tutti_error_message (3)", "tells more."]
    example = example_of(interface, section)
    if example:
        lines += [".SH EXAMPLE", ".EX", "\n".join(roff_code(line) for line in example), ".EE"]
    others = [item.name for item in section.items if isinstance(item, Function) and item is not function]
    lines += [".SH SEE ALSO", " ,\n".join([".BR tutti (7)"] + [".BR %s (3)" % name for name in others])]
    return "\n".join(lines) + "\n"


def write_manual(interface, folder):
    os.makedirs(folder, exist_ok=True)
    count = 0
    for section in interface.sections:
        for item in section.items:
            if not isinstance(item, Function):
                continue
            for form in item.forms():
                text = man_function(interface, section, item) if form.name == item.name else \
                    ".so man3/%s.3\n" % item.name
                write(os.path.join(folder, form.name + ".3"), text)
                count += 1
    print("%d manual pages" % count)


# ---------------------------------------------------------------------------------------------------- checks

def find_faults(interface):
    """What comments do not say, as lines for people."""
    faults = []
    statuses = {name for name, _ in interface.statuses}
    if not re.search(r"Threads\.  Any thread may call anything", interface.headers[0].text):
        faults.append("the header's first comment has no rule about threads")
    for section in interface.sections:
        for item in section.items:
            comment = item.text if isinstance(item, Text) else item.comment
            for word in re.findall(r"\b(?!TUTTI_|WORLD_SIZE|MASTER_)[A-Z]{2,}(?:_[A-Z]+)+\b", comment):
                if word not in statuses:
                    faults.append("%s: %s is no status" % (section.title, word))
            if isinstance(item, Function):
                faults += function_faults(interface, section, item)
            elif isinstance(item, Struct) and item.fields is not None:
                first = item.fields[0]
                if first.name == "size_bytes" and "sizeof(struct %s)" % item.name not in first.comment:
                    faults.append("%s: size_bytes does not say which size" % item.name)
    listed = {"TUTTI_" + name for name, _ in interface.statuses}
    declared = {name for section in interface.sections for item in section.items
                if isinstance(item, Enum) and item.name == "tutti_status" for name, _, _ in item.values}
    for name in sorted(listed ^ declared):
        faults.append("%s: in one of enum tutti_status and STATUS_LIST only" % name)
    return faults


def function_faults(interface, section, function):
    """Says something; says whether it blocks; says about each pointer whose it is or what it is for."""
    rules = rules_for(interface, section, function)
    said = one_line(" ".join([own_comment(function)] + rules))
    if not function.comment and not isinstance(section.items[0], Text):
        return ["%s: has no comment" % function.name]
    faults = []
    if not re.search(r"\bblock", said, re.I):
        faults.append("%s: does not say whether it blocks" % function.name)
    for name, declaration in function.names():
        if "*" not in declaration or name == "comm" and "**" not in declaration:
            continue
        words = [name] + ([name.rpartition("_")[2]] if "_" in name else [])
        if not any(re.search(r"\b" + word + r"\b", said, re.I) for word in words):
            faults.append("%s: says nothing about its pointer %s" % (function.name, name))
    return faults


# ------------------------------------------------------------------------------------------------------ main

def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description="documents from the public headers")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--compare", action="store_true")
    action.add_argument("--check", action="store_true")
    action.add_argument("--names", action="store_true", help="prints every function")
    action.add_argument("--man", metavar="DIR")
    wishes = parser.parse_args()
    interface = Interface(wishes.root)
    if wishes.man:
        write_manual(interface, wishes.man)
        return 0
    if wishes.names:
        functions = [item for section in interface.sections for item in section.items if isinstance(item, Function)]
        print("\n".join(sorted(form.name for item in functions for form in item.forms())))
        return 0
    if wishes.check:
        faults = find_faults(interface)
        print("\n".join(faults + ["%d faults" % len(faults)]))
        return 1 if faults else 0
    made = {**Markdown(interface).pages(), "man/tutti.7": man_overview(interface),
            "include/tutti/forms.h": forms_header(interface),
            **{path: options.page_with_tables(path, interface.read(path), interface.options) for path in options.PAGES}}
    stale = 0
    for place in glob.glob(os.path.join(wishes.root, PAGES, "**/*.md"), recursive=True):
        path = os.path.relpath(place, wishes.root)
        if path in made:
            continue
        if wishes.compare:
            print("%s: no header has this page any more" % path)
            stale = 1
        else:
            os.remove(place)
    for path, text in made.items():
        place = os.path.join(wishes.root, path)
        if not wishes.compare:
            write(place, text)
            continue
        old = interface.read(path) if os.path.exists(place) else ""
        difference = list(difflib.unified_diff(old.splitlines(), text.splitlines(), path, "from the headers", lineterm=""))
        if difference:
            print("\n".join(difference[:40]))
            print("above: %s is not what the headers say; `make reference` writes it anew" % path)
            stale = 1
    return stale


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (HeaderError, options.OptionError) as error:
        sys.exit("reference.py: " + str(error))

"""man_page.py - a manual page of man/ as Markdown, for the site.

It knows the requests that those pages use and no others; what it does not know is an error, so that nothing is left out in silence.
Bold is code and italic is emphasis there, as a reader of Markdown expects; .TP becomes a definition list of MyST.
"""
import re
import shlex
import textwrap

FONTS = {"B": "bold", "I": "italic", "R": "roman", "P": "roman"}
SPECIAL = {"-": "-", "~": "\N{NO-BREAK SPACE}", " ": "\N{NO-BREAK SPACE}", "&": "", "e": "\\", "c": ""}
CHARACTERS = {"dq": '"', "bu": "\N{BULLET}", "aq": "'"}


class ManError(Exception):
    """The page says something that is not known here."""


def pieces_of(text, font):
    """[(font, plain text)] of a line with its escapes."""
    pieces, plain, position = [], "", 0
    while position < len(text):
        if text[position] != "\\":
            plain, position = plain + text[position], position + 1
            continue
        escape = text[position + 1:position + 2]
        if escape == "f":
            pieces.append((font, plain))
            plain, font = "", FONTS[text[position + 2]]
            position += 3
        elif escape == "(":
            plain += CHARACTERS[text[position + 2:position + 4]]
            position += 4
        elif escape in SPECIAL:
            plain, position = plain + SPECIAL[escape], position + 2
        else:
            raise ManError("the escape \\%s is not known" % escape)
    return pieces + [(font, plain)]


def arguments_of(text):
    """Words of a request: blanks part them, but for those that are escaped or in quotes."""
    lexer = shlex.shlex(text.replace("\\ ", "\\~"), posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.quotes, lexer.escape, lexer.commenters = True, '"', "", ""
    return list(lexer)


def markdown(pieces):
    """One line of Markdown."""
    merged = []
    for font, text in pieces:
        if text and merged and (merged[-1][0] == font or not text.strip() and font == "roman" and merged[-1][0] == "roman"):
            merged[-1] = (font, merged[-1][1] + text)
        elif text:
            merged.append((font, text))
    out = ""
    for font, text in merged:
        core = text.strip(" \N{NO-BREAK SPACE}")
        if font == "roman" or not core:
            out += re.sub(r"([\\`*_\[\]<>|$])", r"\\\1", text)
            continue
        before, _, after = text.partition(core)
        mark = "``" if font == "bold" and "`" in core else "`" if font == "bold" else "*"
        if font == "italic":
            core = re.sub(r"([\\`*_\[\]<>|$])", r"\\\1", core)
        out += before + mark + core + mark + after
    return out


def request_pieces(name, words):
    """What .B, .BR and so on make of their words: the letters are the fonts in turn."""
    if len(name) == 1:
        return pieces_of(" ".join(words), FONTS[name])
    pieces = []
    for i, word in enumerate(words):
        pieces += pieces_of(word, FONTS[name[i % 2]])
    return pieces


def wrap(lines, columns=100):
    """Each line of a synopsis, with what does not fit below its first argument."""
    return [part for line in lines
            for part in textwrap.wrap(line, columns, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False)]


class Page:
    def __init__(self):
        self.title, self.summary = "", ""
        self.blocks = []          # lines of Markdown; an empty string parts blocks
        self.words = []           # of the paragraph that is open
        self.term = None          # None; "next": the line that comes is a term; "text": its description comes; "item": of a list
        self.first = False        # the next paragraph is the first of that description
        self.usage = None         # lines of the synopsis, while that is read

    def flush(self):
        """The end of a paragraph."""
        if self.usage is not None:
            if self.usage != [""]:
                self.blocks += ["", "```text", *wrap(self.usage), "```"]
            self.usage = None
        if not self.words:
            return
        lines, self.words = self.words, []
        if self.term == "next":
            self.blocks += ["", *lines]
            self.term, self.first = "text", True
            return
        lead = {None: "", "text": ":   " if self.first else "    ", "item": "* " if self.first else "  "}[self.term]
        rest = "" if self.term is None else " " * (2 if self.term == "item" else 4)
        if not (self.first and self.term == "text"):
            self.blocks.append("")
        self.blocks += [(lead if i == 0 else rest) + line for i, line in enumerate(lines)]
        self.first = False

    def code(self, lines):
        indent = "" if self.term is None else "    "
        self.blocks += ["", indent + "```text", *[indent + line for line in lines], indent + "```"]

    def text(self, pieces):
        if self.usage is not None:
            line = "".join(text for _, text in pieces).replace("\N{NO-BREAK SPACE}", " ").strip()
            self.usage[-1] = (self.usage[-1] + " " + line).strip()
            return
        line = markdown(pieces)
        self.words.append(re.sub(r"^([-+#]|\d+[.)])(?=\s)", r"\\\1", line))   # begins no list
        if self.term == "next":
            self.flush()


def parse(source):
    page, code, heading = Page(), None, ""
    for number, line in enumerate(source.rstrip("\n").split("\n"), 1):
        request = re.match(r"\.([A-Za-z]+)(?: +(.*))?$", line)
        if code is not None and line != ".EE":
            code.append("".join(text for _, text in pieces_of(line, "roman")))
            continue
        if line.startswith('.\\"'):
            continue
        if not request:
            if line.startswith("."):
                raise ManError("line %d: what is this: %s" % (number, line))
            plain = pieces_of(line, "roman")
            if heading == "NAME":
                page.summary += ("" if not page.summary else " ") + "".join(text for _, text in plain)
            elif line:
                page.text(plain)
            continue
        name, words = request.group(1), arguments_of(request.group(2) or "")
        if name == "TH":
            page.title = words[0].lower()
        elif name in ("SH", "SS"):
            page.flush()
            page.term = None
            heading = " ".join(words)
            if heading == "SYNOPSIS":
                page.usage = [""]
            if heading != "NAME":
                page.blocks += ["", "%s %s" % ("##" if name == "SH" else "###", heading.capitalize() if name == "SH" else heading)]
        elif name == "PP":
            page.flush()
            page.term = None
        elif name == "TP":
            page.flush()
            page.term = "next"
        elif name == "IP" and words[:1] == ["\\(bu"]:
            page.flush()
            page.term, page.first = "item", True
        elif name == "br":
            if page.usage is not None:
                page.usage.append("")
            elif page.words:
                page.words[-1] += "\\"
        elif name in ("RS", "RE"):    # around examples, which are set off anyway
            page.flush()
        elif name == "EX":
            page.flush()
            code = []
        elif name == "EE":
            page.code(code)
            code = None
        elif re.fullmatch(r"[BIR]{1,2}", name):
            page.text(request_pieces(name, words))
        else:
            raise ManError("line %d: the request .%s is not known" % (number, name))
    page.flush()
    return page


def as_markdown(source):
    """(name and section, what it is for, the body without a title) of a manual page."""
    page = parse(source)
    return page.title, page.summary.partition(" - ")[2], "\n".join(page.blocks).strip("\n") + "\n"

"""header.py - reads the public headers: sections, comments, and what is declared, as data.

It knows the way in which include/tutti/*.h are written and no other C:
  * a comment `/* ----- title` starts a section; what follows the title is the section's text;
  * a comment directly above a declaration belongs to it (and to #defines between the two); a comment alone, with a
    blank line below, is a text of the section, and a rule for what follows;
  * a comment behind a field, an enumerator or a #define, on its line, belongs to that;
  * TUTTI_OPERATION, in place of TUTTI_API, declares the blocking form of an operation, which has three more (tutti/forms.h).
What it does not understand is an error, so that nothing is left out in silence.
"""
import re
from dataclasses import dataclass, field


@dataclass
class Function:
    name: str
    result: str
    parameters: list          # of str, as written
    comment: str = ""
    must_use: bool = False
    operation: bool = False   # has four forms; then without the communicator, which is the last parameter of each

    def names(self):
        """The parameters' names: [(name, declaration)]."""
        return [(re.search(r"(\w+)(\[\w*\])?$", p).group(1), p) for p in self.parameters if p != "void"]

    def forms(self):
        """The function itself, or the four of an operation."""
        if not self.operation:
            return [self]
        comm, options = "struct tutti_comm *comm", "const struct tutti_call_options *options"
        last = {"": [comm], "_with": [options, comm],
                "_start": [options, comm, "struct tutti_request **request"],
                "_prepare": [options, comm, "struct tutti_prepared **prepared"]}
        own = [p for p in self.parameters if p != "void"]
        return [Function(self.name + form, self.result, own + more, self.comment, self.must_use)
                for form, more in last.items()]


@dataclass
class Field:
    name: str
    declaration: str
    comment: str = ""


@dataclass
class Struct:
    name: str
    fields: list              # of Field; None: opaque
    comment: str = ""


@dataclass
class Enum:
    name: str
    values: list              # of (name, value, comment)
    comment: str = ""


@dataclass
class Define:
    name: str
    value: str
    comment: str = ""


@dataclass
class Typedef:
    name: str
    declaration: str
    comment: str = ""


@dataclass
class Text:
    text: str


@dataclass
class Section:
    title: str
    items: list = field(default_factory=list)


@dataclass
class Header:
    path: str
    title: str                # the first paragraph of its first comment, without the file's name
    text: str                 # the rest of that comment
    sections: list


class HeaderError(Exception):
    pass


def clean_comment(comment):
    """The words of a comment; line breaks and deeper indentation stay."""
    body = comment[2:-2]
    lines = body.split("\n")
    lines = [lines[0]] + [re.sub(r"^\s*\* ?", "", line) for line in lines[1:]]
    lines[0] = lines[0].lstrip()
    return "\n".join(line.rstrip() for line in lines).strip("\n").rstrip()


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


def split_arguments(text):
    """At the commas that are in no brackets."""
    parts, depth, current = [], 0, ""
    for char in text:
        depth += char in "([{"
        depth -= char in ")]}"
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [one_line(part) for part in parts + [current] if part.strip()]


TOKEN = re.compile(r"(?P<comment>/\*.*?\*/)|(?P<directive>^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)|(?P<blank>\n[ \t]*(?=\n))"
                   r"|(?P<space>\s+)|(?P<other>[^\s])", re.S | re.M)


def tokens(source):
    """(kind, text): comments, directives, blank lines, and declarations up to their ; or the { of extern "C"."""
    position, declaration, depth = 0, "", 0
    while position < len(source):
        match = TOKEN.match(source, position)
        kind, text = match.lastgroup, match.group()
        if kind == "directive" and declaration:
            raise HeaderError("a directive inside of a declaration: " + text)
        if kind == "directive" and "/*" in text:     # a comment behind it
            text, kind = re.match(r"(?:[^\n]*\\\n)*[^\n]*?(?=\s*/\*)", text).group(), "directive"
            match = re.compile(re.escape(text)).match(source, position)
        position = match.end()
        if declaration and kind != "directive":
            declaration += text
            if kind == "other":
                depth += text in "({"
                depth -= text in ")}"
                if text == ";" and depth == 0:
                    yield "declaration", declaration
                    declaration = ""
                elif text == "{" and declaration.startswith("extern"):
                    declaration, depth = "", 0
        elif kind == "other":
            if text == "}":   # of extern "C"
                continue
            declaration, depth = text, 0
        elif kind == "space":
            if "\n\n" in text:
                yield "blank", text
            elif "\n" in text:
                yield "newline", text
        else:
            yield kind, text
    if declaration:
        raise HeaderError("a declaration without an end: " + declaration)


def trailing_comments(body, separator):
    """Pieces of a struct or enum with the comment before or behind them: [(piece, comment)]."""
    pieces, piece, before = [], "", ""
    for match in re.finditer(r"/\*.*?\*/|[^/" + separator + r"]+|/|" + separator, body, re.S):
        text = match.group()
        if text.startswith("/*"):
            same_line = "\n" not in piece and not before and (pieces or one_line(piece))
            if one_line(piece):              # the last enumerator has no comma behind it
                pieces.append([one_line(piece), before])
                piece, before, same_line = "", "", True
            if same_line and pieces and not pieces[-1][1]:
                pieces[-1][1] = clean_comment(text)
            else:
                before = clean_comment(text)
        elif text == separator:
            pieces.append([one_line(piece), before])
            piece, before = "", ""
        else:
            piece += text
    if one_line(piece):
        pieces.append([one_line(piece), before])
    return [(piece, one_line(comment)) for piece, comment in pieces]


def parse_struct(text, comment):
    match = re.match(r"struct (\w+) \{(.*)\} *;$", text, re.S)
    fields = []
    for piece, words in trailing_comments(match.group(2), ";"):
        name = re.search(r"\(\*(\w+)\)|(\w+)(\[\w*\])?$", piece)
        fields.append(Field(name.group(1) or name.group(2), piece, words))
    return Struct(match.group(1), fields, comment)


def parse_enum(text, comment):
    match = re.match(r"enum (\w+) \{(.*)\} *;$", text, re.S)
    values, next_value = [], 0
    for piece, words in trailing_comments(match.group(2), ","):
        name, _, value = piece.partition("=")
        if value:
            next_value = int(value, 0)
        values.append((name.strip(), next_value, words))
        next_value += 1
    return Enum(match.group(1), values, comment)


def parse_declaration(text, comment):
    flat = one_line(re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    if flat.startswith("TUTTI_OPERATION"):
        name, parameters = re.match(r"TUTTI_OPERATION enum tutti_status (\w+)\((.*)\);$", flat).groups()
        *parameters, comm = split_arguments(parameters)
        if comm != "struct tutti_comm *comm":
            raise HeaderError(name + ": an operation's last parameter is struct tutti_comm *comm, not " + comm)
        return Function(name, "enum tutti_status", parameters, comment, True, True)
    if flat.startswith("typedef"):
        name = re.search(r"(\w+)(?:\(.*\))?;$", flat)
        return Typedef(name.group(1), flat, comment)
    if re.match(r"struct \w+;$", flat):
        return Struct(flat[len("struct "):-1], None, comment)
    if re.match(r"struct \w+ \{", flat):
        return parse_struct(text, comment)
    if re.match(r"enum \w+ \{", flat):
        return parse_enum(text, comment)
    if flat.startswith("TUTTI_API"):
        must_use = "TUTTI_MUST_USE" in flat
        flat = re.sub(r"TUTTI_(API|MUST_USE) ", "", flat)
        match = re.match(r"(.*?)(\w+)\((.*)\);$", flat)
        return Function(match.group(2), match.group(1).strip(), split_arguments(match.group(3)), comment, must_use)
    raise HeaderError("not understood: " + flat)


def parse_define(text, comment):
    match = re.match(r"\s*#\s*define\s+(\w+)(\([^)]*\))?(.*)", text, re.S)
    if not match or re.fullmatch(r"TUTTI_(\w+_)?H\w*", match.group(1)) or match.group(1) in ("TUTTI_API", "TUTTI_MUST_USE"):
        return None
    value = one_line(match.group(3).replace("\\\n", " "))
    return Define(match.group(1) + (match.group(2) or ""), value, comment)


def parse_header(path):
    with open(path, encoding="utf-8") as file:
        source = file.read()
    sections, section, comment, last, on_line = [], Section(""), None, None, False
    title = text = None

    def flush():
        """A comment with nothing below it is a text of its own."""
        if comment:
            section.items.append(Text(comment))

    held = ""   # the comment that still holds for what follows
    for kind, word in tokens(source):
        if kind == "comment":
            words = clean_comment(word)
            ruled = re.match(r"-{8,} *\S", words)
            if title is None:
                first, _, text = words.partition("\n\n")
                title = one_line(first.partition(" - ")[2] or first)
            elif ruled:
                flush()
                comment, held, last = None, "", None
                name, _, rest = words.lstrip("- ").partition("\n")
                section = Section(name.strip())
                sections.append(section)
                if rest.strip():
                    section.items.append(Text(rest.strip("\n")))
            elif on_line and last is not None and not (isinstance(last, Function)):
                last.comment = one_line(words)
            else:
                flush()
                comment = words
        elif kind == "newline":
            on_line = False
        elif kind == "blank":
            flush()
            comment, held, on_line = None, "", False
        elif kind in ("declaration", "directive"):
            if comment is not None:
                held, comment = comment, None
            item = parse_define(word, held) if kind == "directive" else parse_declaration(word, held)
            if item is not None and sections:
                section.items.append(item)
                last, on_line = item, True
            elif item is not None:
                raise HeaderError("outside of the sections: " + item.name)
            if kind == "declaration" or item is None:
                held = ""
    return Header(path, title, text.strip("\n"), sections)


def parse_statuses(path):
    """[(name, text)] of STATUS_LIST in src/base/status.h."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    block = re.search(r"#define STATUS_LIST\(X\)((?:[^\n]*\\\n)*[^\n]*)", source).group(1).replace("\\\n", " ")
    return [(name, "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', rest)))
            for name, rest in re.findall(r'X\((\w+),((?:\s*"(?:[^"\\]|\\.)*")+)\)', block)]

#!/bin/bash
# docs/reference/errors.md has every status of the public header in its first table, every line that the library logs as a warning, and only
# messages that are in the sources: in its other tables, a text in backquotes at the beginning of a row is a message, in which "..." stands for
# what is filled in.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
check_errors() {
    python3 - "$1" <<'END_OF_PYTHON'
import glob, os, re, sys

os.chdir(sys.argv[1])
FILLED = "\0"                # where a format puts something
SHORT = 10                   # letters: a format with fewer has no words of its own
faults = []


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def unescape(text):
    return text.replace('\\"', '"').replace("\\\\", "\\").replace("\\n", "\n")


STRING = r'"(?:[^"\\\n]|\\.)*"'
NEXT = r'(?:\s*(?:PRI\w+|%s))*' % STRING


def format_of(literals):
    """The text of adjacent strings of C; a macro between them completes the conversion before it."""
    text = "".join(unescape(one[1:-1]) if one[0] == '"' else "d" for one in re.findall(STRING + r"|\w+", literals))
    return re.sub(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|z|j)?[a-zA-Z]", FILLED, text)


def is_source(path):
    return not re.search(r"_(test|fuzz)\.[ch]$", path)


code, formats, warnings = {}, set(), {}
for pattern in ("src/**/*.[ch]", "src/**/*.inc", "tools/**/*.[ch]", "train/**/*.[ch]"):
    for path in sorted(filter(is_source, glob.glob(pattern, recursive=True))):
        code[path] = re.sub(r'(%s)|/\*.*?\*/' % STRING, lambda found: found.group(1) or "\n" * found.group(0).count("\n"),
                            read(path), flags=re.S)
for path, text in code.items():
    formats |= {format_of(found) for found in re.findall(STRING + NEXT, text)}
    for call in re.finditer(r"log_write\(([^;\"]*LOG_WARN[^;\"]*),\s*(%s)" % (STRING + NEXT), text):
        line = text.count("\n", 0, call.start()) + 1
        warnings.setdefault(format_of(call.group(2)), "%s:%d" % (path, line))
for path in sorted(glob.glob("bindings/*/src/**/*.py", recursive=True)):
    for found in re.findall(r'f?%s(?:\s*f?%s)*' % (STRING, STRING), read(path)):
        text = "".join(unescape(one[1:-1]) for one in re.findall(STRING, found))
        formats.add(re.sub(r"\{[^{}]*\}", FILLED, text))

page = "docs/reference/errors.md"
section, statuses, messages = "", set(), {}
for number, line in enumerate(read(page).split("\n"), 1):
    if line.startswith("## "):
        section = line[3:]
    cell = re.match(r"\| `([^`]+)` \|", line.replace("\\|", "\1"))
    if cell is None:
        continue
    if section == "Statuses":
        statuses.add(cell.group(1))
    else:
        text = cell.group(1).replace("\1", "|")
        if text in messages:
            faults.append("%s:%d: `%s` stands in line %d, too" % (page, number, text, messages[text]))
        messages.setdefault(text, number)


def is_in(message, text):
    """Whether the parts of a message stand in a format, in their order."""
    at = 0
    for part in filter(None, (part.strip() for part in message.split("..."))):
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


header = re.search(r"enum tutti_status \{(.*?)\};", read("include/tutti/tutti.h"), re.S).group(1)
wanted = set(re.findall(r"\bTUTTI_(\w+)", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
faults += ["%s: the status %s has no row" % (page, one) for one in sorted(wanted - statuses)]
faults += ["%s: there is no status %s" % (page, one) for one in sorted(statuses - wanted)]
for message, line in messages.items():
    if not any(is_in(message, text) for text in formats):
        faults.append("%s:%d: no source says `%s`" % (page, line, message))


def is_explained(text):
    return any(is_in(message, text) and max(map(len, message.split("..."))) >= SHORT for message in messages)


for text, place in warnings.items():
    if len(re.findall("[a-zA-Z]", text)) >= SHORT and not is_explained(text):
        faults.append("%s: %s does not explain \"%s\"" % (place, page, text.replace(FILLED, "...")))
print("\n".join(faults + ["%d statuses, %d messages, %d warnings of the sources, %d faults" %
                          (len(statuses), len(messages), len(warnings), len(faults))]))
sys.exit(bool(faults))
END_OF_PYTHON
}
bad=0
check_errors . || bad=1

# It can fail: a tree with one fault of each sort.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{docs/reference,include/tutti,src,bindings/python/src}
printf 'enum tutti_status {\n    TUTTI_OK = 0, /* no TUTTI_SUM */\n    TUTTI_LOST\n};\n' >"$work/include/tutti/tutti.h"
cat >"$work/src/a.c" <<'END'
/* "a comment is no source" */
error_set(TUTTI_LOST, "rank %d of \"%.40s\" is " "lost, %" PRIu64 " bytes with it", 1);
log_write(count > 0 ? LOG_WARN : LOG_INFO, "%s: this is explained", name);
log_write(LOG_WARN, "nobody explains this: %s",
          why);
log_write(LOG_WARN, "%s: %s", name, why);
log_write(LOG_INFO, "this is no warning at all", why);
END
echo 'raise invalid(f"{name} is not " f"what {call} takes")' >"$work/bindings/python/src/a.py"
cat >"$work/docs/reference/errors.md" <<'END'
## Statuses
| `OK` | no error |
| `GONE` | no status |
## Messages
| `... of "..." is lost, ... bytes` | is there |
| `is not what ... takes` | is there |
| `is lost, ... of "..."` | the order is wrong |
| `a comment is no source` | is not there |
| `this is explained` | is there |
| `this is explained` | twice |
END
said=$(check_errors "$work" || true)
# shellcheck disable=SC2016 # backquotes are Markdown's
for words in 'the status LOST has no row' 'there is no status GONE' ':7: no source says `is lost, ... of "..."`' \
    ':8: no source says `a comment is no source`' ':10: `this is explained` stands in line 9' \
    'src/a.c:4: docs/reference/errors.md does not explain "nobody explains this: ..."' '2 statuses, 5 messages, 3 warnings of the sources, 6 faults'; do
    grep -qF -- "$words" <<<"$said" || { echo "this test does not work: '$words' is not in: $said"; bad=1; }
done
exit $bad

#!/bin/bash
# Pages read as a technical editor would leave them, as far as a machine can tell. Each finding is a line FILE:LINE: rule: text; counts
# of every shelf follow. Findings in the shelves of `strict` fail this test; those of the other shelves are counted, and shown with
# PROSE_SHOW=all.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# A shelf is a page or a directory of pages. Move a shelf to `strict` when it has no findings.
strict='README.md docs/README.md docs/start docs/how-to docs/explanation docs/develop'
counted='docs/reference'
# Shelves for users, whose pages name no file of the sources.
for_users='README.md docs/README.md docs/start docs/how-to docs/reference'

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
check_prose() { # tree; PROSE_SHOW=all shows the findings of all shelves
    python3 - "$1" "$strict" "$counted" "$for_users" "${PROSE_SHOW:-}" <<'PYTHON'
import os, re, sys

WORDS_MAX = 45
os.chdir(sys.argv[1])
strict, counted, for_users = (argument.split() for argument in sys.argv[2:5])
show_all = sys.argv[5] == "all"

# A path of the sources, alone or as the target of a link.
SOURCE = re.compile(r"(?<![\w./-])(?:\.\./)*(?:src|tests|train|studio|tools|bindings)/[\w./*-]+\.(?:c|h|py|sh|inc)\b")
# A noun is left out: "ones", "the other one", "that of", "the same of".
ADJECTIVE = ("first|second|last|next|same|own|new|old|large|larger|largest|small|smaller|smallest|right|wrong|latest|earlier|later|lower|"
             "higher|fast|faster|fastest|slow|slower|slowest|common|private|long|longer|short|shorter|best|better|usual|remote|local|newest|oldest|"
             "primary|single|main|whole|wide|narrow|near|far|free|full|empty|idle|busy")
ELLIPSIS = re.compile(r"\bones\b|\b(?:%s) one\b|\b(?:the|this|that|such|other|another) one\b(?=[.,;:!?)]|$| (?:is|are|was|were|has|had|that|which|"
                      r"and|or|in|on|from|with|for|to|by|as|does|can|may|must|until|before|after|comes|gets|goes)\b)|"
                      r"\b(?:that|those) of\b|\bthe same of\b" % ADJECTIVE, re.I)
# A word that the field says otherwise.
WORDS = {r"folders?": "directory", r"(?:network |rdma )?cards?": "NIC", r"under way|on (?:its|their) way": "in flight",
         r"in vain": "say what happens", r"numbers for Prometheus": "metrics"}
WORDS = [(re.compile(r"\b(?:%s)\b" % word, re.I), better) for word, better in WORDS.items()]
RULES = "heading", "source path", "long sentence", "ellipsis", "word", "free who"


def pages_of(shelf):
    if os.path.isfile(shelf):
        return [shelf]
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(shelf) for name in names if name.endswith(".md"))


def blocks_of(text):
    """(line number, text) of headings, paragraphs, items and cells, without code, comments and targets of links."""
    blocks, lines, first, fenced = [], [], 0, False

    def end():
        if lines:
            blocks.append((first, " ".join(lines)))
            lines.clear()

    text = re.sub(r"<!--.*?-->", lambda comment: "\n" * comment.group().count("\n"), text, flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if re.match(r"\s*(```|~~~)", line):
            end()
            fenced = not fenced
        elif fenced:
            continue
        elif not stripped or stripped.startswith("#") or stripped.startswith("!["):
            end()
            if stripped.startswith("#"):
                blocks.append((number, stripped))
        elif stripped.startswith("|"):
            end()
            blocks += [(number, cell.strip()) for cell in re.split(r"(?<!\\)\|", stripped)[1:-1] if re.search(r"\w", cell)]
        else:
            if re.match(r"([-*]|\d+\.)\s", stripped):
                end()
                stripped = re.sub(r"^([-*]|\d+\.)\s+", "", stripped)
            if not lines:
                first = number
            lines.append(stripped)
    end()
    return blocks


def plain(block):
    block = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "CODE", block)
    block = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", block)
    block = re.sub(r'"[^"]{1,200}"', "QUOTE", block)
    return re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", block)


def sentences(text):
    return [part for part in re.split(r"(?<=[.!?])[\")]*\s+(?=[A-Z\"(0-9])", text) if part]


def findings_of(page, is_for_users):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    found = []
    if is_for_users:
        for number, line in enumerate(re.sub(r"<!--.*?-->", lambda comment: "\n" * comment.group().count("\n"), text,
                                             flags=re.S).split("\n"), 1):
            found += [(number, "source path", match.group()) for match in SOURCE.finditer(line)]
    for number, block in blocks_of(text):
        words = plain(block)
        if block.startswith("#"):
            if re.match(r"#+ (What|Who|Whose|How it (is|comes) that)\b", words):
                found.append((number, "heading", words))
            words = words.lstrip("# ")
        else:
            for sentence in sentences(words):
                if len(sentence.split()) > WORDS_MAX:
                    found.append((number, "long sentence", "%d words: %s" % (len(sentence.split()), sentence[:60])))
                if re.match(r"(Who|What|Whose)\b", sentence) and not sentence.rstrip("\"')").endswith("?"):
                    found.append((number, "free who", sentence[:60]))
        found += [(number, "ellipsis", words[max(0, match.start() - 20):match.end() + 20]) for match in ELLIPSIS.finditer(words)]
        for pattern, better in WORDS:
            found += [(number, "word", "%s: say %s" % (match.group(), better)) for match in pattern.finditer(words)]
    return found


bad = False
print("%-20s %6s %s" % ("shelf", "pages", " ".join("%13s" % rule for rule in RULES)))
for shelf in strict + counted:
    pages, counts, said = pages_of(shelf), dict.fromkeys(RULES, 0), []
    for page in pages:
        user = any(page == one or page.startswith(one + "/") for one in for_users)
        for number, rule, words in sorted(findings_of(page, user)):
            counts[rule] += 1
            said.append("%s:%d: %s: %s" % (page, number, rule, words))
    print("%-20s %6d %s" % (shelf, len(pages), " ".join("%13d" % counts[rule] for rule in RULES)))
    if said and (shelf in strict or show_all):
        print("\n".join(said))
    bad = bad or (bool(said) and shelf in strict)
sys.exit(bad)
PYTHON
}
bad=0
check_prose . || bad=1

# It can fail.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/docs"/{start,how-to,reference,explanation,develop}
{
    printf '# What it is\n\nSee `src/a.c` and [b](../tests/b.sh), but build/tests/c.sh and `tutti/train.h`.\n'
    printf 'The old one is that of a folder.\n\n```\nThe ones in a folder.\n```\n\n| Who waits. | Who waits? |\n\n'
    printf -- '- Some%s.\n- Some%s.\n' "$(printf ' word%.0s' {1..44})" "$(printf ' word%.0s' {1..45})"
} >"$work/docs/start/a.md"
printf '# A\n\nSee `src/a.c`.\n' | tee "$work/docs/develop/b.md" >"$work/README.md"
cp "$work/docs/develop/b.md" "$work/docs/reference/c.md"
said=$(PROSE_SHOW='' check_prose "$work" || true)
expected='README.md:3:source path
docs/start/a.md:1:heading
docs/start/a.md:3:ellipsis
docs/start/a.md:3:ellipsis
docs/start/a.md:3:source path
docs/start/a.md:3:source path
docs/start/a.md:3:word
docs/start/a.md:10:free who
docs/start/a.md:13:long sentence'
if [[ $(sed -n 's/^\([^ :]*:[0-9]*\): \([a-z ]*\):.*/\1:\2/p' <<<"$said") != "$expected" ]] ||
    ! grep -qE '^docs/reference +1 +0 +1 ' <<<"$said"; then
    echo "this test does not work: it says $said"
    bad=1
fi
exit $bad

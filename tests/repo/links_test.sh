#!/bin/bash
# Links between the pages lead to files and headings that are there; so do pages that code, messages and scripts name. The list of the
# shelves, docs/README.md, has every page of docs/, but for those in the folder of a page, such as reference/algorithms/ring.md.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
check_links() {
    python3 - "$1" <<'END'
import os, re, sys

os.chdir(sys.argv[1])
# Made, foreign, or about files that are not there on purpose.
SKIPPED = re.compile(r"(\./)?(build[^/]*|\.git|docs/pictures|bench/results|tests/corpus|tests/repo)(/|$)")
files = [os.path.normpath(os.path.join(folder, name)) for folder, folders, names in os.walk(".")
         if not folders.__setitem__(slice(None), [one for one in folders if not SKIPPED.match(os.path.join(folder, one)) and not one.startswith(".")])
         for name in names]
pages = sorted(path for path in files if path.endswith(".md"))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def slug(head):
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head)
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


text, anchors = {}, {}
for page in pages:
    words = re.sub(r"^( *)```.*?^\1```", "", read(page), flags=re.S | re.M)
    text[page] = re.sub(r"<!--.*?-->", "", words, flags=re.S)
    anchors[page], seen = set(re.findall(r'<a id="([^"]+)"', text[page])), {}
    for name in map(slug, re.findall(r"^#+ (.*)$", text[page], re.M)):
        anchors[page].add(name if name not in seen else "%s-%d" % (name, seen[name]))    # as a forge does
        seen[name] = seen.get(name, 0) + 1

faults, listed = [], set()


def check(place, target, home):
    """A target as from a folder; returns the file."""
    path, _, anchor = target.partition("#")
    there = os.path.normpath(os.path.join(home, path)) if path else place
    if not os.path.exists(there):
        faults.append("%s: %s is not there" % (place, target))
    elif there.startswith(".."):
        faults.append("%s: %s is outside of the tree" % (place, target))
    elif anchor and there in anchors and anchor not in anchors[there]:
        faults.append("%s: %s has no such heading" % (place, target))
    return there


for page in pages:
    bare = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text[page], flags=re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", bare) + re.findall(r"^\[[^]\n]+\]:\s+(\S+)", bare, re.M) + \
        re.findall(r'(?:src|href)="([^"]+)"', bare)
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        there = check(page, target, os.path.dirname(page))
        if page == "docs/README.md":
            listed.add(there)

for page in pages:
    folder = os.path.dirname(page)
    while folder and folder + ".md" not in pages:
        folder = os.path.dirname(folder)
    if page.startswith("docs/") and page != "docs/README.md" and page not in listed and not folder:
        faults.append("%s: docs/README.md does not list it" % page)

named = 0
for path in files:
    try:
        words = read(path)
    except (UnicodeDecodeError, OSError):
        continue
    for target in re.findall(r"(?<![\w./(-])docs/[\w./-]+\.md(?:#[\w-]+)?", words):
        check(path, target, "")
        named += 1
print("\n".join(faults + ["%d pages, %d named, %d faults" % (len(pages), named, len(faults))]))
sys.exit(bool(faults))
END
}
bad=0
check_links . || bad=1

# It can fail.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{docs/d/e,src,build}
# shellcheck disable=SC2016 # backquotes are Markdown's
{
    printf '# Here\n[a](docs/a.md) [`b`](docs/a.md#there) and `x` [c](nowhere.md) [d](#here) `[e](no.md)` [f](docs/a.md#a-1)\n'
    printf '[g](docs/a.md#a-2) [h]\n\n```\n[i](no.md)\n```\n\n[h]: gone.md\n<img src="gone.svg"> [j](../j.md)\n'
} >"$work/README.md"
printf '# A\n## A\n' >"$work/docs/a.md"
printf '# B\n' | tee "$work/docs/b.md" "$work/docs/d.md" "$work/docs/d/e/f.md" >"$work/build/c.md"
printf '[a](a.md) [d](d.md)\n' >"$work/docs/README.md"
printf '/* docs/a.md and docs/b.md#b, but docs/h.md and docs/a.md#c; see/docs/x.md */' >"$work/src/a.c"
said=$(check_links "$work" || true)
for words in 'README.md: docs/a.md#there has no such heading' 'README.md: nowhere.md is not there' 'docs/a.md#a-2 has no' 'gone.md is not' \
    'gone.svg is not there' '../j.md is not there' 'docs/b.md: docs/README.md does not list it' 'src/a.c: docs/h.md is not there' \
    'src/a.c: docs/a.md#c has no such heading' '6 pages, 4 named, 9 faults'; do
    grep -qF -- "$words" <<<"$said" || { echo "this test does not work: '$words' is not in: $said"; bad=1; }
done
exit $bad

#!/bin/bash
# Links between the documents lead to files and headings that are there, and every page is linked from somewhere.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
check_links() {
    python3 - "$1" <<'END'
import glob, os, re, sys

os.chdir(sys.argv[1])
pages = [page for page in ["README.md"] + sorted(glob.glob("*/**/*.md", recursive=True))
         if not page.startswith(("build", "bench/results"))]
text, anchors = {}, {}
for page in pages:
    with open(page, encoding="utf-8") as file:
        words = re.sub(r"^```.*?^```", "", file.read(), flags=re.S | re.M)
    text[page] = re.sub(r"<!--.*?-->", "", words, flags=re.S)
    heads = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).lower()).replace(" ", "-")
             for head in re.findall(r"^#+ (.*)$", text[page], re.M)]
    anchors[page] = set(heads) | set(re.findall(r'<a id="([^"]+)"', text[page]))
faults, linked = [], {"README.md"}
for page in pages:
    bare = re.sub(r"(?<!\[)`[^`\n]*`(?!\])", "", text[page])
    for target in re.findall(r"\]\(([^)\s]+)\)", bare):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(there):
            faults.append("%s: %s is not there" % (page, target))
        elif anchor and there in anchors and anchor not in anchors[there]:
            faults.append("%s: %s has no such heading" % (page, target))
        if there != page:
            linked.add(there)
for page in pages:
    if page.startswith("docs/") and page not in linked:
        faults.append("%s: no page links to it" % page)
print("\n".join(faults + ["%d pages, %d faults" % (len(pages), len(faults))]))
sys.exit(bool(faults))
END
}
bad=0
check_links . || bad=1

# It can fail.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/docs"
# shellcheck disable=SC2016 # backquotes are Markdown's
printf '# Here\n[a](docs/a.md) [b](docs/a.md#there) [c](nowhere.md) [d](#here) `[e](no.md)`\n' >"$work/README.md"
printf '# A\n' >"$work/docs/a.md"
printf '# B\n' >"$work/docs/b.md"
said=$(check_links "$work" || true)
for words in 'docs/a.md#there has no such heading' 'nowhere.md is not there' 'docs/b.md: no page' '3 faults'; do
    grep -qF "$words" <<<"$said" || { echo "this test does not work: '$words' is not in: $said"; bad=1; }
done
exit $bad

#!/bin/bash
# Every link of the rendered site leads somewhere, pages that moved lead to where they are, and nothing comes from elsewhere (html_check.py).
# ctest: label=long label=nosan label=once timeout=600 needs=site
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1
html=${TUTTI_BUILD:?}/site/html
[[ -f $html/index.html ]] || { echo "the site could not be built here"; exit 77; }
check_html() { PYTHONDONTWRITEBYTECODE=1 python3 tests/site/html_check.py "$@"; }

# It can fail: a small site with one fault of each sort, and as many links that are fine.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/sub"
cat >"$work/index.html" <<'END'
<link rel="stylesheet" href="style.css"><link rel="canonical" href="https://example.com/">
<a href="sub/b.html#there">b</a> <a href="https://example.com/">elsewhere</a> <a href="#here" id="here">here</a> <a href="sub/">a folder</a>
<a href="gone.html">1</a> <a href="sub/b.html#gone">2</a> <a href="#gone">3</a>
<script src="https://example.com/a.js"></script> <img src="//example.com/a.png"> <p style="background: url(http://example.com/b.png)">
END
printf '<p id="there"><img src="../c.svg">' >"$work/sub/b.html"
printf '<a href="b.html">b</a><style>@import "https://example.com/c.css";</style>' >"$work/sub/index.html"
printf '<meta http-equiv="refresh" content="0; url=sub/b.html">' | tee "$work/old.html" >"$work/older.html"
printf 'p { background: url("data:x") } @font-face { src: url(https://example.com/d.woff) }' >"$work/style.css"
printf '# OLD NEW\nold sub/b\nolder index\noldest index\n' >"$work/redirects.txt"
said=$(check_html "$work" "$work/redirects.txt")
for words in 'index.html: gone.html is not there' 'index.html: sub/b.html#gone: there is no such place' 'index.html: #gone: there is no' \
    'takes https://example.com/a.js' 'takes //example.com/a.png' 'takes http://example.com/b.png' 'sub/b.html: ../c.svg is not there' \
    'sub/index.html: takes https://example.com/c.css' 'style.css: takes https://example.com/d.woff' 'older.html does not lead to index.html' \
    'oldest.html does not lead to index.html' '5 pages, 9 links, 11 faults'; do
    grep -qF -- "$words" <<<"$said" || { echo "this test does not work: '$words' is not in: $said"; exit 1; }
done

check_html "$html" docs/site/redirects.txt

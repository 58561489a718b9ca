#!/bin/bash
# What the documents show compiles, runs, and says what they say (docs_blocks.py tells how blocks are marked).
# ctest: label=nosan label=once timeout=300 waits
set -euo pipefail
cd "${TUTTI_ROOT:?}"

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
shopt -s globstar
pages=()
for page in README.md docs/**/*.md; do
    if [[ $page != docs/start/python.md ]] && grep -qE '^<!-- (run|compile|quote)' "$page"; then pages+=("$page"); fi
done

# It can fail, and tells where: a page with one mistake of each sort.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/page.md" <<'END'
<!-- run -->
```c
printf("right\n");
```
```text
wrong
```
<!-- run -->
```c
tutti_nonsense();
```
<!-- run -->
```sh
false
```
<!-- run -->
```console
$ echo one; echo two
one
three
```
<!-- run 2 -->
```c
printf("%s of 2\n", getenv("TUTTI_RANK"));
```
says:
```text
[1] 1 of ...
[0] 0 of 2
```
<!-- run: int x = 3; -->
```c
return x;
```
```c
this is not marked;
```
<!-- quote README.md -->
```c
int nowhere;
```
<!-- run has: one | three -->
```console
$ echo one
one
```
<!-- run has: two -->
```console
$ echo one
two
```
<!-- run 2: number = 3 -->
```python
assert number == 4
```
<!-- quote tests/repo/docs_blocks.py -->
```python
import functools
...
import tempfile
```
<!-- quote tests/repo/docs_blocks.py -->
```python
import tempfile
...
import functools
```
<!-- run: int x;
int y; -->
```c
return x + y;
```
END
said=$(python3 tests/repo/docs_blocks.py "$work/page.md" || true)
for words in 'page.md:2: says' 'page.md:9: does not compile' 'page.md:13: exit status 1' 'page.md:17: says' \
    'page.md:32: exit status 3' 'page.md:39: does not stand in README.md' "page.md:43: no line 'three' is shown" "page.md:48: no line 'two' was printed" \
    'page.md:53: exit status 1' 'page.md:63: does not stand in tests/repo/docs_blocks.py' 'page.md:68: is a mark that does not end in its line' \
    '2 passed, 11 failed, 0 skipped'; do
    if ! grep -qF "$words" <<<"$said"; then
        echo "this test does not work: '$words' is not in:"
        echo "$said"
        exit 1
    fi
done

if ((${#pages[@]} < 4)); then
    echo "hardly a page has a marked block: ${pages[*]}"
    exit 1
fi
python3 tests/repo/docs_blocks.py "${pages[@]}"

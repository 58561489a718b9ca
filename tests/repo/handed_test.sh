#!/bin/bash
# Functions that are handed from one file to another are listed, with their reasons, in docs/develop/architecture.md.  Prints the headers
# of src/ that declare such functions and are not in the list, and those in the list that declare none.
# ctest: label=once label=nosan
set -euo pipefail

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi

# Findings of one tree: its root.
find_offences() {
    python3 - "$1" <<'END'
import pathlib, re, sys

root = pathlib.Path(sys.argv[1])
declaring = set()
for header in sorted([*root.glob("src/**/*.h"), *root.glob("studio/**/*.h")]):
    code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    member = re.search(r"\(\*\w+\)\(", code)
    type_of_function = re.search(r"^typedef [\w *]+\b(?!VECTOR_OF|__attribute__)\w+\((?!.*\) *vector)", code, re.M)
    if member or (type_of_function and not header.name.startswith("kernel_")):
        declaring.add(str(header.relative_to(root)))

page = (root / "docs/develop/architecture.md").read_text()
section = re.search(r"^## Functions that are handed over$(.*?)^## ", page + "\n## ", re.M | re.S)
rows = re.findall(r"^\| ([^|]*) \|", section[1], re.M) if section else []
listed = {name for row in rows for name in re.findall(r"`((?:src|studio)/[^`]*)`", row)}

for header in sorted(declaring - listed):
    print(f"{header}: functions are handed over here, and docs/develop/architecture.md does not say why")
for header in sorted(listed - declaring):
    print(f"{header}: docs/develop/architecture.md lists functions that this header does not declare")
sys.exit(declaring != listed)
END
}

# The test can fail.
self_test() {
    local tree=$work/tree offences expected
    mkdir -p "$tree"/{src/{os,plan},docs/develop}
    echo 'struct a { int (*run)(void); };' >"$tree/src/os/a.h"
    echo '/* struct a { int (*run)(void); }; */ typedef int number;' >"$tree/src/os/b.h"
    echo 'typedef void told(const char *text);' >"$tree/src/plan/c.h"
    echo 'void plain(int (*sort)(int a));' >"$tree/src/plan/d.h"
    printf '# X\n\n## Functions that are handed over\n\n| in |\n|---|\n| `src/os/b.h`, `src/plan/d.h` | |\n\n## Y\n' \
        >"$tree/docs/develop/architecture.md"
    offences=$(find_offences "$tree" || true)
    expected='src/os/a.h: functions are handed over here, and docs/develop/architecture.md does not say why
src/plan/c.h: functions are handed over here, and docs/develop/architecture.md does not say why
src/os/b.h: docs/develop/architecture.md lists functions that this header does not declare'
    if [[ $offences != "$expected" ]]; then
        echo "this test does not work: it found (<) instead of what is there (>):"
        diff <(echo "$offences") <(echo "$expected")
        return 1
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
self_test
find_offences "${TUTTI_ROOT:?}"

#!/bin/bash
# Nothing in the repository knows on which machine, or in which folder, it was written.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# Tracked files and those that may become it; without git, all but the build.
list_files() {
    if git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -z 2>/dev/null; then return; fi
    find . -path ./build -prune -o -path ./.git -prune -o -type f -print0
}

# Absolute paths only: "build/home/me/x" or "https://home/..." are none.
# shellcheck disable=SC2001
escaped=$(sed 's/[][\.*^$+?(){}|]/\\&/g' <<<"$PWD")
pattern="(^|[^[:alnum:]_.:/-])($escaped(/|[^[:alnum:]_.-]|\$)|/(home|Users)/[[:alnum:]_.-]+/)"

if [[ " $PWD/x" =~ $pattern ]] && [[ ! "my$PWD/x" =~ $pattern ]]; then :; else
    echo "this test does not work: its pattern is $pattern"
    exit 1
fi
found=$(
    list_files | while IFS= read -r -d '' file; do
        if [[ -f $file ]]; then printf '%s\0' "$file"; fi
    done | xargs -0 grep -InE "$pattern" -- || true
)
if [[ $found ]]; then
    echo "$found"
    echo "above: paths that exist on one machine only"
    exit 1
fi

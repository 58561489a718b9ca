#!/bin/bash
# libtutti holds what a job runs: each of its files is reached from a function that it exports. Prints those that are not: what only tools
# use belongs into studio/, what only tests use into tests/.  Read from the objects; tables of functions count.
# ctest: label=once label=nosan
set -euo pipefail

for program in python3 nm; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is not here"
        exit 77
    fi
done

# Findings of one tree: its root, its build folder, the list of what it exports.
find_offences() {
    python3 - "$@" <<'END'
import json, os, re, shlex, subprocess, sys

root, build, exports = sys.argv[1:]
with open(os.path.join(build, "compile_commands.json")) as commands:
    objects = {}
    for command in json.load(commands):
        words = shlex.split(command["command"])
        place = words[words.index("-o") + 1]
        if re.search(r"\btutti_objects\.dir/", place):
            objects[os.path.join(command["directory"], place)] = os.path.relpath(command["file"], root)
printed = subprocess.run(["nm", "-P", "-A", *objects], check=True, capture_output=True, text=True).stdout
home, lacks = {}, {file: set() for file in objects.values()}
for line in printed.splitlines():
    place, name, kind = re.match(r"(.*\.o): (\S+) (\S)", line).groups()
    if kind in "Uw":
        lacks[objects[place]].add(name)
    elif kind.isupper():
        home[name] = objects[place]
with open(exports) as listed:
    left = [home[name] for name in re.findall(r"\b(tutti_\w+);", listed.read()) if name in home]
reached = set(left)
while left:
    for name in lacks[left.pop()]:
        file = home.get(name)
        if file is not None and file not in reached:
            reached.add(file)
            left.append(file)
if not reached:
    print("nothing is exported")
for file in sorted(lacks.keys() - reached):
    print(f"{file}: nothing that libtutti exports reaches it")
sys.exit(not reached or lacks.keys() != reached)
END
}

# The test can fail.
self_test() {
    local tree=$work/tree offences file
    mkdir -p "$tree/src" "$tree/build/tutti_objects.dir"
    echo 'int tutti_a(void), b(void); int tutti_a(void) { return b(); }' >"$tree/src/a.c"
    echo 'int b(void), c(void); int (*table)(void) = c; int b(void) { return table(); }' >"$tree/src/b.c"
    echo 'int c(void); int c(void) { return 1; }' >"$tree/src/c.c"
    echo 'int c(void), d(void); int d(void) { return c(); }' >"$tree/src/d.c"
    echo 'TUTTI_1 { global: tutti_a; local: *; };' >"$tree/map"
    (
        cd "$tree"
        for file in src/*.c; do
            "${CC:-cc}" -c "$file" -o "build/tutti_objects.dir/${file//\//_}.o"
            echo ",{\"directory\": \"$tree/build\", \"file\": \"$tree/$file\","
            echo " \"command\": \"cc -c -o tutti_objects.dir/${file//\//_}.o $file\"}"
        done >build/commands
        echo "[$(sed '1s/^,//' build/commands)]" >build/compile_commands.json
    )
    offences=$(find_offences "$tree" "$tree/build" "$tree/map" || true)
    if [[ $offences != 'src/d.c: nothing that libtutti exports reaches it' ]]; then
        echo "this test does not work: it found '$offences'"
        return 1
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
self_test
find_offences "${TUTTI_ROOT:?}" "${TUTTI_BUILD:?}" "$TUTTI_ROOT/src/tutti.map"

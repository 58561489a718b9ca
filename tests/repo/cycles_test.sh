#!/bin/bash
# Files of the library use each other's symbols in one direction only: there is no cycle of files, and folders use each
# other as the table of docs/develop/architecture.md says.  Prints the edges of each cycle with their symbols, and every use that
# the table does not allow.  Read from the objects, so that macros, inline functions and tables of functions count.
# ctest: label=once label=nosan
set -euo pipefail

for program in python3 nm; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is not here"
        exit 77
    fi
done
# shellcheck source=tests/repo/layers.sh
source "${TUTTI_ROOT:?}/tests/repo/layers.sh"

# Findings of one tree: its root, its build folder.
find_offences() {
    python3 - "$@" "$(layers_table)" <<'END'
import collections, json, os, re, shlex, subprocess, sys

root, build, table = sys.argv[1:]
allowed = {line.split(":")[0]: line.split(":")[1].split() for line in table.splitlines()}


def folder_of(file):
    return re.match(r"src/[^/]+|[^/]+", file)[0]


def objects_of_library():
    """Those that are built now, by source file: a build folder may hold others, of sources that are gone."""
    with open(os.path.join(build, "compile_commands.json")) as commands:
        for command in json.load(commands):
            words = shlex.split(command["command"])
            place = words[words.index("-o") + 1]
            if re.search(r"\btutti_(studio_)?objects\.dir/", place):
                yield os.path.relpath(command["file"], root), os.path.join(command["directory"], place)


def read_symbols(files):
    """Of each source file: the names that its object defines for others, and those that it lacks. files: sources by their objects."""
    defined, lacking = {file: set() for file in files.values()}, {file: set() for file in files.values()}
    printed = subprocess.run(["nm", "-P", "-A", *files], check=True, capture_output=True, text=True).stdout
    for line in printed.splitlines():
        place, name, kind = re.match(r"(.*\.o): (\S+) (\S)", line).groups()
        if kind in "Uvw":
            lacking[files[place]].add(name)
        elif kind.isupper():
            defined[files[place]].add(name)
    return defined, lacking


def read_uses():
    """uses[file][other]: the symbols of the other file that the file uses."""
    files = {place: file for file, place in objects_of_library()}
    if not files:
        return {}
    defined, lacking = read_symbols(files)
    home = {name: file for file, names in defined.items() for name in names}
    uses = {file: collections.defaultdict(set) for file in defined}
    for file, names in lacking.items():
        for name in names & home.keys():
            uses[file][home[name]].add(name)
    return uses


def find_cycles(uses):
    """Sets of two files or more that all reach each other (Tarjan)."""
    number, lowest, stack, cycles = {}, {}, [], []

    def visit(file):
        number[file] = lowest[file] = len(number)
        stack.append(file)
        for other in uses[file]:
            if other not in number:
                visit(other)
            if other in stack:
                lowest[file] = min(lowest[file], lowest[other])
        if lowest[file] == number[file]:
            cycle = set(stack[stack.index(file):])
            del stack[stack.index(file):]
            if len(cycle) > 1:
                cycles.append(sorted(cycle))

    for file in sorted(uses):
        if file not in number:
            visit(file)
    return sorted(cycles)


def offence(text):
    global is_clean
    is_clean = False
    print(text)


is_clean = True
sys.setrecursionlimit(10000)
uses = read_uses()
if not uses:
    offence("no objects of the library are in " + build)
cycles = find_cycles(uses)
for cycle in cycles:
    offence(f"a cycle of {len(cycle)} files:")
    for file in cycle:
        for other in cycle:
            if uses[file][other]:
                offence(f"    {file} -> {other}: {' '.join(sorted(uses[file][other]))}")
for file in sorted(uses):
    folder = folder_of(file)
    if folder not in allowed:
        offence(f"{file}: the table of layers does not know {folder}")
        continue
    for other in sorted(uses[file]):
        target = folder_of(other)
        if target == folder or target.replace("src/", "", 1) in allowed[folder]:
            continue
        names = uses[file][other]
        if not file.startswith("src/"):  # over include/, as users do
            names = {name for name in names if not name.startswith("tutti_")}
        if names:
            offence(f"{file} -> {other}: {folder} may not use {' '.join(sorted(names))}")
sys.exit(not is_clean)
END
}

# The test can fail: a small tree with offences of each sort, and as many uses that are fine.
self_test() {
    local tree=$work/tree offences expected file
    mkdir -p "$tree"/{train,src/{base,os,plan,algo,surprise}} "$tree/build/tutti_objects.dir"
    # Downwards, also to a table of data.
    echo 'int base_a = 1;' >"$tree/src/base/a.c"
    echo 'extern int base_a; int os_a(void); int os_a(void) { return base_a; }' >"$tree/src/os/a.c"
    # A cycle of three files, with one more file above it and one below.
    echo 'int os_a(void), plan_c(void), plan_a(void); int plan_a(void) { return os_a() + plan_c(); }' >"$tree/src/plan/a.c"
    echo 'int plan_a(void), plan_b(void); int plan_b(void) { return plan_a(); }' >"$tree/src/plan/b.c"
    echo 'int plan_b(void), plan_c(void); int (*plan_table)(void) = plan_b; int plan_c(void) { return 3; }' >"$tree/src/plan/c.c"
    echo 'int plan_a(void), algo_a(void); int algo_a(void) { return plan_a(); }' >"$tree/src/algo/a.c"
    # Over the library, through its public functions and past them.
    echo 'int tutti_a(void), os_a(void); int tutti_a(void) { return os_a(); }' >"$tree/src/algo/d.c"
    echo 'int tutti_a(void), algo_a(void), train_a(void); int train_a(void) { return tutti_a() + algo_a(); }' >"$tree/train/a.c"
    # Upwards; of an unknown folder; names that two files have for themselves; a file that is built no longer.
    echo 'int algo_a(void), os_b(void); int os_b(void) { return algo_a(); }' >"$tree/src/os/b.c"
    echo 'static int own; int *surprise_a(void); int *surprise_a(void) { return &own; }' >"$tree/src/surprise/a.c"
    echo 'static int own; int *base_b(void); int *base_b(void) { return &own; }' >"$tree/src/base/b.c"
    echo 'int plan_a(void), base_c(void); int base_c(void) { return plan_a(); }' >"$tree/src/base/c.c"
    (
        cd "$tree"
        for file in src/*/*.c train/*.c; do
            "${CC:-cc}" -c "$file" -o "build/tutti_objects.dir/${file//\//_}.o"
            if [[ $file == src/base/c.c ]]; then continue; fi
            echo ",{\"directory\": \"$tree/build\", \"file\": \"$tree/$file\","
            echo " \"command\": \"cc -c -o tutti_objects.dir/${file//\//_}.o $file\"}"
        done >build/commands
        echo "[$(sed '1s/^,//' build/commands)]" >build/compile_commands.json
    )
    offences=$(find_offences "$tree" "$tree/build" || true)
    expected='a cycle of 3 files:
    src/plan/a.c -> src/plan/c.c: plan_c
    src/plan/b.c -> src/plan/a.c: plan_a
    src/plan/c.c -> src/plan/b.c: plan_b
src/os/b.c -> src/algo/a.c: src/os may not use algo_a
src/surprise/a.c: the table of layers does not know src/surprise
train/a.c -> src/algo/a.c: train may not use algo_a'
    if [[ $offences != "$expected" ]]; then
        echo "this test does not work: it found (<) instead of what is there (>):"
        diff <(echo "$offences") <(echo "$expected")
        return 1
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
self_test
find_offences "$TUTTI_ROOT" "${TUTTI_BUILD:?}"

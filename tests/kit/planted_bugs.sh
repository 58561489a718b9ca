# shellcheck shell=bash
# planted_bugs.sh - for tests that plant bugs and let a simulation find them. Each is an edit of a source, compiled apart and linked before
# the library: the library knows nothing of them.
#
#     begin_planting MAIN SOURCE...            a program that is MAIN(argc, argv); finds nothing in what is not edited
#     seeds=10000 clean_seeds=500              in so many schedules each has to be found; in so many nothing without it
#     libraries=()                              that the program needs besides
#     bug NAME SOURCE OLD NEW [OLD NEW]...     the lines OLD, which are in the source once, become NEW
#     end_planting                             false when one was not found
#
# With TUTTI_TEST_PLANTING=only each bug is planted and compiled, and nobody looks for it: so that every change of a source is told which bug
# it took the ground from (tests/repo/planting_test.sh).
#
# Needs the folder of the sources as the current one.

seeds=10000 clean_seeds=500 libraries=()
found=0 missed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() { "${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -O1 -w -I. -Isrc -Iinclude "$@"; }
link() { compile "$@" "${TUTTI_BUILD:?}"/lib/libtutti_testing.a "$TUTTI_BUILD"/lib/libtutti_internal.a "${libraries[@]}" -lm -lpthread; }

only_plants() { [[ ${TUTTI_TEST_PLANTING:-} == only ]]; }

begin_planting() {
    local name=$1 source
    shift
    if only_plants; then return; fi
    printf 'int %s(int, char **);\nint main(int c, char **v) { return %s(c, v); }\n' "$name" "$name" >"$work/main.c"
    compile -c "$work/main.c" -o "$work/main.o"
    # With nothing edited, each source by itself, nothing is found.
    for source in "$@"; do
        if ! link "$source" "$work/main.o" -o "$work/good" || ! "$work/good" --seeds 0 >/dev/null 2>&1; then
            echo "what the compiler makes does not run here"
            exit 77
        fi
        "$work/good" --seeds "$clean_seeds"
    done
}

bug() {
    local name=$1 file=$2 source rest result
    shift 2
    source=$(cat "$file")
    while (($# > 1)); do
        rest=${source//"$1"/}
        if ((${#source} - ${#rest} != ${#1})); then
            echo "$name: what it edits is not in $file just once"
            missed=$((missed + 1))
            return
        fi
        source=${source/"$1"/"$2"}
        shift 2
    done
    printf '%s\n' "$source" >"$work/bug.c"
    if only_plants; then
        if compile -fsyntax-only "$work/bug.c"; then
            found=$((found + 1))
        else
            echo "$name: it does not compile"
            missed=$((missed + 1))
        fi
        return
    fi
    link "$work/bug.c" "$work/main.o" -o "$work/bug"
    if result=$("$work/bug" --seeds "$seeds" 2>&1); then
        echo "$name: NOT FOUND in $seeds schedules"
        missed=$((missed + 1))
    elif [[ $result != seed* ]]; then
        echo "$name: it did not run: $result"
        missed=$((missed + 1))
    else
        echo "$name: $result"
        found=$((found + 1))
    fi
}

end_planting() {
    echo "$found bugs $(only_plants && echo planted || echo found), $missed not"
    ((missed == 0))
}

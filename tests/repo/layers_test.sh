#!/bin/bash
# Includes point down, no folder includes what is private to another (X_state.h), and none names members of another's part of a
# communicator. Prints every line that breaks a rule as FILE:LINE; the table of docs/develop/architecture.md says which includes are
# allowed.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/repo/layers.sh
source tests/repo/layers.sh
# Tests and fuzzers (X_test.c, X_fuzz.c) may look anywhere: nothing is built on them.
table=$(layers_table)

# Findings of one tree, the current folder.
find_offences() {
    local folder folders=() files
    for folder in include src studio tools bench train examples; do
        if [[ -d $folder ]]; then folders+=("$folder"); fi
    done
    files=$(find "${folders[@]}" -name '*.[ch]' -o -name '*.inc' | sort)
    # shellcheck disable=SC2086 # a list of files without blanks
    awk -v table="$table" '
        BEGIN {
            line_count = split(table, lines, "\n")
            for (i = 1; i <= line_count; i++) {
                word_count = split(lines[i], words, /[: ]+/)
                if (word_count == 0 || words[1] == "") continue
                folder = words[1]
                known[folder] = 1
                for (j = 2; j <= word_count; j++) if (words[j] != "") allowed[folder, words[j]] = 1
            }
        }
        # Members of an embedded part are for its own folder; its address may be passed to its functions.
        function names_members_of_another(line) {
            gsub(/\/\*.*\*\//, "", line)
            if (line ~ /^ \*|^ *#/) return ""
            if (folder != "src/domain" && line ~ /[^a-z_]domain(\.|->)[a-z]/) return "src/domain"
            if (folder != "src/health" && line ~ /[^a-z_]health(\.|->)(control_rings|recovery|unnumbered|network)[^a-z_]/) return "src/health"
            if (folder != "src/health" && line ~ /[^a-z_]health(\.|->)[a-z_]+(\.|->)[a-z]/) return "src/health"
            if (folder != "src/call" && line ~ /(\.|->)(calls|requests|messages|programs)(\.|->)[a-z]/) return "src/call"
            if (folder != "src/comm" && line ~ /(\.|->)derivations(\.|->)[a-z]/) return "src/comm"
            return ""
        }
        function offence(why) { print FILENAME ":" FNR ": " why; found = 1 }
        FNR == 1 {
            split(FILENAME, parts, "/")
            folder = parts[1] == "src" ? "src/" parts[2] : parts[1]
            if (!(folder in known)) offence("the table of layers does not know " folder "/")
        }
        FILENAME ~ /_(test|fuzz)\.c$/ { next }
        /(\.|->)[a-z_]+(\.|->)[a-z]|[^a-z_](domain|health)(\.|->)[a-z]/ {
            other = names_members_of_another($0)
            if (other != "") offence("members that are for " other " alone")
        }
        /^[ \t]*#[ \t]*include[ \t]*["<]/ {
            target = $0
            sub(/^[^"<]*["<]/, "", target)
            sub(/[">].*$/, "", target)
            quoted = $0 ~ /include[ \t]*"/
            if (target ~ /(^|\/)\.\.?(\/|$)/) { offence("\"" target "\" is not written from the root of src/"); next }
            if (target !~ /\//) next                     # the system, or the same folder
            other = target
            sub(/\/.*/, "", other)
            if (target ~ /_state\.h$/) {
                home = other in known ? target : "src/" other # studio/foreign, src/transport
                sub(/\/[^\/]*\.h$/, "", home)
                if (index(FILENAME, home "/") != 1) offence("\"" target "\" is private to " home)
            }
            if (other == "tutti" || folder == other || folder == "src/" other || (folder, other) in allowed) next
            if (("src/" other) in known || other in known) offence(folder " may not include \"" target "\"")
            else if (quoted) offence("\"" target "\": no such folder in src/")
        }
        END { exit found }' $files </dev/null
}

# The test can fail: a small tree with one offence of each sort, and as many lines that are fine.
self_test() {
    local tree expected
    tree=$(mktemp -d)
    mkdir -p "$tree"/{include/tutti,src/{base,os,plan,engine,surprise},studio/{foreign,plan},tools,examples}
    cd "$tree"
    printf '#include "plan/plan.h"\n#include <stdio.h>\n' >src/base/a.c
    printf '#include "base/a.h"\n#include "plan/plan.h"\n' >src/os/a.c
    printf '#include "os/a.h"\n#  include "engine/a.h"\n#include "../base/a.h"\n' >src/plan/a.c
    printf '#include "engine/a.h"\n' >src/plan/a_test.c
    printf '#include "plan/plan.h"\n#include "tutti/tutti.h"\n#include "nowhere/a.h"\n' >src/engine/a.h
    printf '#include "plan/a_state.h"\n' >src/engine/b.c
    printf '#include "plan/a_state.h"\n' >src/plan/b.c
    printf '#include "studio/foreign/a_state.h"\n' | tee studio/foreign/a.c studio/plan/a.c >tools/b.c
    printf '\n' >src/surprise/a.c
    printf 'f(&comm->team.domain);\n/* domain.lock */\nx = team->domain.lock;\ncomm->calls.begun = 1;\ng(&health->recorder);\n' >src/engine/c.c
    printf 'x = health->recorder.memory;\nx = domain->wanted; comm->derivations.count++;\n' >src/engine/d.c
    printf '#include "plan/plan.h"\n#include "health/a.h"\n#include <sys/mman.h>\n' >tools/a.c
    printf '#include "tutti/tutti.h"\n#include "base/a.h"\n' >examples/a.c
    expected='examples/a.c:2 src/base/a.c:1 src/engine/a.h:3 src/engine/b.c:1 src/engine/c.c:3 src/engine/c.c:4 src/engine/d.c:1 src/engine/d.c:2 src/os/a.c:2 src/plan/a.c:2 src/plan/a.c:3'
    expected+=' src/surprise/a.c:1 studio/plan/a.c:1 tools/a.c:2 tools/b.c:1'
    local offences
    offences=$(find_offences || true)
    # shellcheck disable=SC2001
    offences=$(sed 's/^\([^:]*:[0-9]*\):.*/\1/' <<<"$offences" | sort | tr '\n' ' ')
    cd - >/dev/null
    rm -rf "$tree"
    if [[ $offences != "$expected " ]]; then
        echo "this test does not work: it found $offences"
        echo "                        instead of $expected"
        return 1
    fi
}

self_test
find_offences

#!/bin/bash
# One word for one thing (docs/reference/glossary.md).  Prints every word that the list below has replaced as FILE:LINE, with the word to
# use.
# And the actor first: prints every sentence that begins with a free "Who" or "What" in the texts that everybody reads.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# Where the old words must not come back: in names, comments and messages of all C files there. Elsewhere some of them mean something
# else: a message arrives, a search visits. Pages (docs/ and README.md) count always.
folders='src/algo src/api src/base src/bootstrap src/call src/comm src/connect src/domain src/engine src/format src/gpu src/health src/kernel
         src/membership src/memory src/path src/plan src/process src/team src/topo src/tune tools bindings'

# old word, an extended regular expression : the word of the field
words='
doors?                          : listener, or the port of the process
guests?                         : incoming connection, or peer
visit(s|ed|ing|ors?)?           : connect, connector, attempt
knock(s|ed|ing)?                : callback request
arrivals?                       : accepted connection
roll[ -]?calls?                 : rank discovery
far (ranks?|hosts?|notes?)      : remote
beat                            : heartbeat
lend(s|ing)?|lent               : share, shared slot
lagging|spill(s|ed|ing)?        : staged
bur(y|ies|ied)                  : declare dead
wakefulness                     : backoff
'
# The texts whose sentences may begin with "Who" or "What" only if they are questions.
plain='README.md include/tutti/tutti.h include/tutti/plan.h include/tutti/sparse.h include/tutti/exclude.h include/tutti/train.h include/tutti/train/checkpoint.h include/tutti/train/pipeline.h
       include/tutti/train/shards.h include/tutti/train/compress.h include/tutti/train/local.h include/tutti/train/adapt.h
       docs/README.md docs/start/running.md docs/how-to/failures.md docs/reference/glossary.md docs/reference/options.md
       docs/develop/faults.md docs/explanation/start-up.md docs/explanation/hosts.md docs/explanation/point-to-point.md'

# These are bytes that other builds expect.
kept='"roll call"|"doors"'

# Findings of one tree, the current folder.  Words in names are separated by underscores.
find_offences() {
    local folder found=() pages=()
    for folder in $folders; do
        if [[ -d $folder ]]; then found+=("$folder"); fi
    done
    if [[ -d docs ]]; then pages+=(docs); fi
    if [[ -f README.md ]]; then pages+=(README.md); fi
    {
        find "${found[@]}" -name '*.[ch]'
        find "${pages[@]}" -name '*.md'
    } | LC_ALL=C sort | xargs awk -v words="$words" -v kept="$kept" '
        BEGIN {
            line_count = split(words, lines, "\n")
            for (i = 1; i <= line_count; i++) {
                if (lines[i] !~ /:/) continue
                word = better = lines[i]
                sub(/ *:.*/, "", word)
                sub(/^[^:]*: */, "", better)
                pattern[++count] = "(^|[^a-z0-9])(" word ")([^a-z0-9]|$)"
                instead[count] = better
            }
        }
        {
            text = $0
            gsub(kept, "", text)
            text = tolower(text)
            gsub(/_/, " ", text)
            for (i = 1; i <= count; i++)
                if (match(text, pattern[i])) {
                    word = substr(text, RSTART, RLENGTH)
                    gsub(/^[^a-z0-9]|[^a-z0-9]$/, "", word)
                    print FILENAME ":" FNR ": \"" word "\": say " instead[i]
                    bad = 1
                }
        }
        END { exit bad }'
}

# Sentences that begin with "Who" or "What" and are no questions.  Titles may.
find_free_words() {
    local file bad=0
    for file in $plain; do
        if [[ ! -f $file ]]; then continue; fi
        awk '
            # \001 stands where a comment, a cell, an item or a paragraph begins or ends.
            {
                line = $0
                if (line ~ /^#+ /) line = "\001"
                gsub(/\/\*+|\*+\/|\|/, "\001", line)
                sub(/^[ \t]*[-*]+([ \t]|$)/, FILENAME ~ /\.md$/ ? "\001" : "", line)
                if (line ~ /^[ \t]*$/) line = "\001"
                text = text line "\n"
            }
            END {
                line_number = 1
                text = "\001" text
                while (match(text, /[\001.!?][ \t\n\001]*(Who|What)[ \n]/)) {
                    before = substr(text, 1, RSTART + RLENGTH - 2)
                    line_number += gsub(/\n/, "", before)
                    text = substr(text, RSTART + RLENGTH - 1)
                    match(text, /[.!?][ \t\n\001]|\001|$/)
                    if (substr(text, RSTART, 1) == "?") continue
                    print FILENAME ":" line_number ": begins with a free \"Who\" or \"What\": say who acts"
                    bad = 1
                }
                exit bad
            }' "$file" || bad=1
    done
    return $bad
}

# The test can fail: a small tree with one offence of each sort, and as many lines that are fine.
self_test() {
    local tree expected offences
    tree=$(mktemp -d)
    mkdir -p "$tree"/{docs/how-to,include/tutti,src/{connect,process},tests}
    cd "$tree"
    printf 'struct door *front;\nint doorbell;\nint open_door(void);\n' >src/connect/a.h
    printf '/* A guest, */\nlog("%%d Visitors");\nchar what[] = "roll call";\n' >src/connect/a.c
    printf 'enum { PORT_KNOCK };\nbool is_visible, is_revisited;\n' >src/process/a.c
    printf 'struct door *front;\n' >tests/a.h
    printf 'The roll call.\nArrivals\nAn arrivals_count\n' >docs/how-to/a.md
    printf '# Who may\n\nAsks what. Who\nwaits sleeps.\nWhat is it? A guess.  What else. What\nnow?\n- What waits\n' >README.md
    printf '/* Who waits. */\nint a; /* What b is */\n/* It says\n * What is said.\n * what? */\n' >include/tutti/tutti.h
    expected='README.md:3 README.md:5 README.md:7'
    expected+=' docs/how-to/a.md:1 docs/how-to/a.md:2 docs/how-to/a.md:3'
    expected+=' include/tutti/tutti.h:1 include/tutti/tutti.h:2'
    expected+=' src/connect/a.c:1 src/connect/a.c:2 src/connect/a.h:1 src/connect/a.h:3 src/process/a.c:1'
    offences=$(find_offences || true; find_free_words || true)
    # shellcheck disable=SC2001
    offences=$(sed 's/^\([^:]*:[0-9]*\):.*/\1/' <<<"$offences" | LC_ALL=C sort | tr '\n' ' ')
    cd - >/dev/null
    rm -rf "$tree"
    if [[ $offences != "$expected " ]]; then
        echo "this test does not work: it found $offences"
        echo "                        instead of $expected"
        return 1
    fi
}

self_test
bad=0
find_offences || bad=1
find_free_words || bad=1
exit $bad

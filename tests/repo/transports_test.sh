#!/bin/bash
# Nothing above src/transport knows which transports there are, and few lines ask where a peer is.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# Lines of src/ outside src/transport that do one thing or another by where a peer is, or by what leads to it. Each asks a question that
# src/team/team.h and src/health/health.h document; those files have the answers. The fewer the better.
branches_max=30

files_above() {
    find src -name '*.[ch]' ! -path 'src/transport/*' ! -path src/team/team.h ! -path src/health/health.h ! -name '*_test.c' ! -name '*_fuzz.c' | LC_ALL=C sort
}

# Files outside src/transport that include one of its folders.
find_offences() {
    files_above | xargs grep -HnE '^#include "transport/[a-z0-9_]+/' || true
}

# Lines that ask.
find_branches() {
    files_above | xargs grep -HnE '\b(health_has_network|team_spans_hosts|team_shares_host)\(|transports\.over_tcp\b|members\.hosts [!=]= NULL|health(\.|->)remote [!=]= NULL' |
        grep -E '\b(if|while|for|return)\b|[?]|&&|\|\|' | grep -vE '^[^:]*:[0-9]+: *(\*|/\*)' || true
}

# The test can fail: a small tree with one offence of each sort.
self_test() {
    local tree offences branches
    tree=$(mktemp -d)
    mkdir -p "$tree"/src/{comm,transport/tcp}
    cd "$tree"
    printf '#include "transport/tcp/tcp.h"\nif (team_shares_host(team, rank)) return;\n/* health_has_network(health) */\n' >src/comm/a.c
    printf '#include "transport/tcp/tcp.h"\n' >src/transport/open.c
    printf '#include "transport/tcp/tcp.h"\n' >src/comm/a_test.c
    offences=$(find_offences)
    branches=$(find_branches)
    cd - >/dev/null
    rm -rf "$tree"
    if [[ $offences != 'src/comm/a.c:1:'* || $(wc -l <<<"$offences") != 1 || $branches != 'src/comm/a.c:2:'* ||
        $(wc -l <<<"$branches") != 1 ]]; then
        echo "this test does not work: it found $offences and $branches"
        return 1
    fi
}

self_test
offences=$(find_offences)
if [[ -n $offences ]]; then
    echo "$offences"
    echo 'only src/transport/open.c knows which transports there are'
    exit 1
fi
branches=$(find_branches)
count=$(grep -c . <<<"$branches" || true)
if ((count > branches_max)); then
    echo "$branches"
    echo "$count lines ask where a peer is, $branches_max at most: known.h answers for any rank"
    exit 1
fi

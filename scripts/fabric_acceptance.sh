#!/bin/bash
# Tries an RDMA card between two hosts, with everything that can be wrong in between, and prints a report: see docs/how-to/fabric.md.
set -uo pipefail

usage() {
    cat <<'TEXT'
usage: fabric_acceptance.sh [OPTIONS] HOST1 HOST2
       fabric_acceptance.sh [OPTIONS] --here
  tries the RDMA card that Tutti uses between two hosts, and TCP beside it; prints a report
  --here           two ranks on this machine, as if they were on two hosts
  --fabric WISH    the card, as for TUTTI_FABRIC (default: what TUTTI_FABRIC says, or auto)
  --bin FOLDER     where tutti-run, tutti-perf and tutti-topo are, on both hosts (default: beside this script's
                   tree, or PATH)
  --rsh COMMAND    the remote shell, as for tutti-run
  --quick          fewer sizes, and no measurement
  --help           this text
The exit status is 0 if all of it works, 1 if something fails, 2 for wrong usage, and 3 if all that ran works,
but Tutti used no card.
TEXT
}

wrong_usage() {
    echo "fabric_acceptance.sh: $*" >&2
    usage >&2
    exit 2
}

fabric=${TUTTI_FABRIC:-auto}
bin='' here=false quick=false
remote=() hosts=()
while (($# > 0)); do
    case $1 in
    --fabric | --bin | --rsh)
        (($# > 1)) || wrong_usage "$1 needs a value"
        case $1 in
        --fabric) fabric=$2 ;;
        --bin) bin=$2 ;;
        --rsh) remote=(--rsh "$2") ;;
        esac
        shift
        ;;
    --here) here=true ;;
    --quick) quick=true ;;
    --help | -h) usage && exit 0 ;;
    -*) wrong_usage "what is $1?" ;;
    *) hosts+=("$1") ;;
    esac
    shift
done
if $here && ((${#hosts[@]} > 0)); then wrong_usage "--here needs no hosts"; fi
if ! $here && ((${#hosts[@]} != 2)); then wrong_usage "two hosts are needed"; fi
[[ $fabric != off ]] || wrong_usage "--fabric off leaves nothing to try"

if [[ ! $bin ]]; then
    bin=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/bin
    if [[ ! -x $bin/tutti-run ]] && command -v tutti-run >/dev/null; then bin=$(dirname "$(command -v tutti-run)"); fi
fi
bin=$(realpath -m "$bin")
for program in tutti-run tutti-perf tutti-topo; do
    [[ -x $bin/$program ]] || wrong_usage "$bin has no $program"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
say() { # verdict, text
    printf '%-4s  %s\n' "$1" "$2"
    case $1 in
    ok) passed=$((passed + 1)) ;;
    FAIL) failed=$((failed + 1)) ;;
    esac
}

# ranks SECONDS COMMAND...: a rank on each host.  Output is in $work/out, what goes to stderr in $work/err.
ranks() {
    local seconds=$1
    shift
    if $here; then
        # shellcheck disable=SC2016 # the ranks' variables
        "$bin/tutti-run" -n 2 --timeout "$seconds" bash -c 'TUTTI_HOSTID=host$TUTTI_RANK exec "$@"' _ "$@"
    else
        "$bin/tutti-run" -H "${hosts[0]},${hosts[1]}" "${remote[@]}" --timeout "$seconds" "$@"
    fi >"$work/out" 2>"$work/err" </dev/null
}

last_words() { tail -n 3 "$work/err" | tr '\n' ' ' | cut -c1-400; }

# ------------------------------------------------------------------------------------------------------- the hosts

check_hosts() {
    echo "== Hosts: tutti-topo --check-fabric"
    if $here; then
        TUTTI_FABRIC=$fabric "$bin/tutti-topo" --check-fabric >"$work/out" 2>"$work/err" </dev/null
    else
        TUTTI_FABRIC=$fabric ranks 60 "$bin/tutti-topo" --check-fabric
    fi
    local code=$?
    if $here; then cat "$work/out"; else sort -s -t ']' -k1,1 "$work/out"; fi | sed 's/^/    /'
    if ((code == 0)); then
        say ok "check-fabric finds nothing that keeps the card from being used"
    else
        say FAIL "check-fabric: see the lines with FAIL above $(last_words)"
    fi
}

# What ranks use: $card, empty for none, and $reason. Every rank has to use the same provider.
find_card() {
    card='' reason='this Tutti says nothing about cards'
    if ! TUTTI_FABRIC=$fabric TUTTI_LOG=info ranks 60 "$bin/tutti-perf" pingpong --sizes 8 -n 5 --timeout 30; then
        say FAIL "two ranks do not meet with TUTTI_FABRIC=$fabric: $(last_words)"
        reason='two ranks do not meet'
        return
    fi
    grep -hoE 'fabric: .*' "$work/err" | sort -u >"$work/choices"
    # A rank that has a card says "not used" where another rank has none, or the job asks for protection.
    if grep -E 'fabric: (none|not used)' "$work/choices" >"$work/none"; then
        reason=$(paste -sd ';' "$work/none")
    elif [[ -s $work/choices ]]; then
        card=$(paste -sd ';' "$work/choices")
    fi
}

# --------------------------------------------------------------------------------------------------- conformance

operations='allreduce reduce broadcast gather scatter allgather reduce_scatter alltoall barrier
            gatherv scatterv allgatherv reduce_scatterv alltoallv sendrecv pingpong'

# conform NAME WISH: every operation, with every element checked, in plain, mapped and misaligned buffers.
conform() {
    local name=$1 wish=$2 operation way words broken=0 count=0
    local sizes=8,4K,64K,1M,16M ways='plain mapped misaligned'
    if $quick; then sizes=8,64K,1M ways=plain; fi
    echo "== Every operation over $name"
    for operation in $operations; do
        for way in $ways; do
            words=(--sizes "$sizes")
            case $operation:$way in
            barrier:plain) words=() ;;
            barrier:*) continue ;;
            *:mapped) words+=(--mapped) ;;
            *:misaligned) words=(--sizes 4,4100,65540,1000004 --misalign 1) ;;
            esac
            count=$((count + 1))
            if ! TUTTI_FABRIC=$wish ranks 120 "$bin/tutti-perf" "$operation" "${words[@]}" -n 5 -w 1 -c 3 --timeout 60; then
                say FAIL "$operation, $way, over $name: $(last_words)"
                broken=$((broken + 1))
            fi
        done
    done
    if ((broken == 0)); then say ok "$count runs over $name, every element checked"; fi
}

# --------------------------------------------------------------------------------------------------- measurement

# measure WISH SIZE: the time of a message of that many bytes one way, in microseconds, to $time; empty if that fails.
measure() {
    time=''
    TUTTI_FABRIC=$1 ranks 60 "$bin/tutti-perf" pingpong --sizes "$2" --format csv --timeout 30 || return
    time=$(sed 's/^\[[0-9]*\] //' "$work/out" | awk -F , '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == "p50_us") column = i; next }
        column && $column + 0 > 0 { time = $column }
        END { print time }')
}

# The same of fi_pingpong: all sizes at once, to $work/pingpong.
measure_pingpong() {
    local provider domain
    provider=$(sed 's/^fabric: //; s/, card .*//; q' "$work/choices")
    domain=$(sed -n 's/.*, card \([^ ]*\).*/\1/p' "$work/choices" | sort -u)
    if [[ $domain == *$'\n'* ]]; then domain=''; fi # the hosts' cards have different names
    # shellcheck disable=SC2016 # the ranks' variables
    ranks 90 bash -c '
        command -v fi_pingpong >/dev/null || exit 9
        port=$((MASTER_PORT % 20000 + 30000))
        words=(-p "$1" ${2:+-d "$2"} -e rdm -I 200 -S all)
        if ((RANK == 0)); then exec timeout 60 fi_pingpong "${words[@]}" -B $port; fi
        for ((i = 0; i < 20; i++)); do
            sleep 0.5
            timeout 60 fi_pingpong "${words[@]}" -P $port "$MASTER_ADDR" && exit 0
        done
        exit 1' _ "$provider" "$domain" || return
    sed 's/^\[[0-9]*\] //' "$work/out" >"$work/pingpong"
}

row() { printf '%10s  %14s  %14s  %14s  %14s\n' "$@"; }

# of_pingpong SIZE: its microseconds a message, or "-".
of_pingpong() {
    [[ -s $work/pingpong ]] || { echo - && return; }
    awk -v size="$1" '
        function bytes(text) { return text + 0 == 0 ? 0 : text * (text ~ /k$/ ? 1024 : text ~ /m$/ ? 1048576 : 1) }
        NF >= 7 && bytes($1) == size { time = $(NF - 1) }
        END { print time == "" ? "-" : time }' "$work/pingpong"
}

measure_all() {
    local size over_card='' over_tcp megabytes
    echo "== A message one way, in microseconds (and MB/s)"
    if [[ $card ]] && ! measure_pingpong; then echo "      fi_pingpong is not on both hosts, or fails: left out"; fi
    row bytes "Tutti, card" "Tutti, TCP" "fi_pingpong" "card / TCP"
    for size in 8 1024 65536 1048576 16777216; do
        over_card='' time=''
        if [[ $card ]]; then
            measure "$fabric" "$size"
            over_card=$time
            [[ $over_card ]] || say FAIL "pingpong of $size bytes over the card: $(last_words)"
        fi
        measure off "$size"
        over_tcp=$time
        [[ $over_tcp ]] || say FAIL "pingpong of $size bytes over TCP: $(last_words)"
        megabytes() { awk -v t="$1" -v b="$size" 'BEGIN { if (t > 0) printf "%.1f (%.0f)", t, b / t; else print "-" }'; }
        row "$size" "$(megabytes "$over_card")" "$(megabytes "$over_tcp")" "$(of_pingpong "$size")" \
            "$(awk -v a="${over_card:-0}" -v b="${over_tcp:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b; else print "-" }')"
    done
}

# ----------------------------------------------------------------------------------------------------------- all

echo "fabric_acceptance.sh: $("$bin/tutti-perf" --version | head -n 1), TUTTI_FABRIC=$fabric, $($here && echo "two ranks here" || echo "${hosts[*]}"), $(date -u +%FT%TZ)"
check_hosts
find_card
if [[ $card ]]; then
    say ok "$card"
    conform "the card" "$fabric"
else
    say "-" "no card is used: $reason"
fi
conform TCP off
if ! $quick; then measure_all; fi
echo "$passed ok, $failed failed$([[ $card ]] || echo ", and no card was used")"
if ((failed > 0)); then exit 1; fi
[[ $card ]] || exit 3

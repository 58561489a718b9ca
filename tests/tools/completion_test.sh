#!/bin/bash
# Words of the programs are completed in bash.
# ctest: label=nosan
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=${TUTTI_BIN:?}:$PATH
bad=0
# shellcheck source=../tools/completion/tutti.bash
source tools/completion/tutti.bash || exit 1

# complete_line WORDS...: the last one is being typed.  Words come to $reply, one a line.
complete_line() {
    local function
    function=$(complete -p "${1##*/}" | sed 's/.*-F \([a-z_]*\).*/\1/')
    # shellcheck disable=SC2034
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    "$function" "$1" "${!#}" "${COMP_WORDS[$# - 2]}"
    reply=$(printf '%s\n' "${COMPREPLY[@]}" | sort)
}

gives() { # expected words, --, the line
    local expected=()
    while [[ $1 != -- ]]; do
        expected+=("$1")
        shift
    done
    shift
    complete_line "$@"
    if [[ $reply != "$(printf '%s\n' "${expected[@]-}" | sort)" ]]; then
        echo "'$*' is completed to: ${reply//$'\n'/ }"
        echo "       instead of: ${expected[*]-}"
        bad=1
    fi
}

includes() { # a word, the line
    local word=$1
    shift
    complete_line "$@"
    if ! grep -qxF -- "$word" <<<"$reply"; then
        echo "'$*' is not completed to $word, but to: ${reply//$'\n'/ }"
        bad=1
    fi
}

gives draw explain export list paths show verify -- tutti-plan ''
gives show -- tutti-plan s
gives reduce reduce_scatter -- tutti-plan show red
gives oneshot -- tutti-plan draw allreduce one
gives -- tutti-plan draw allreduce oneshot o
gives --racks --radix --ranks --root -- tutti-plan verify --r
gives --order -- tutti-plan verify --or
gives reduce reduce_scatter -- tutti-plan show --order 0,2,1,3 --ranks 4 red
gives allgather allreduce alltoall -- tutti-plan list --collective all
gives torus two_way_ring -- tutti-plan show allgather t
gives tree -- tutti-plan show --ranks 4 broadcast tre
includes --in-place tutti-plan show allreduce ring -
touch "$work/mine.plan"
gives "$work/mine.plan" -- tutti-plan show "$work/mi"
gives "$work/mine.plan" -- tutti-plan draw allreduce ring -o "$work/mi"
gives html svg -- tutti-plan draw allreduce ring --format ''
gives msccl mscclpp -- tutti-plan export allreduce ring --format ms

gives --timeout -- tutti-run --t
gives --no-prefix --np -- tutti-run --n
gives -np -- tutti-run -np
gives --host --hosts -- tutti-run --ho
gives node -- tutti-run --map-by n
gives "$work/mine.plan" -- tutti-run --hosts "$work/mi"
includes bash tutti-run --hosts here -x NAME bas
includes bash tutti-run --rsh bas
includes bash tutti-run -n 4 bas
gives "$work/mine.plan" -- tutti-run -n 4 cat "$work/mi"
gives "$work/mine.plan" -- tutti-run -n 4 "$work/mi"
mkdir "$work/logs"
gives "$work/logs" -- tutti-run --output "$work/"

gives gather gatherv -- tutti-perf gat
includes sendrecv tutti-perf s
gives bfloat16 -- tutti-perf allreduce -d bf
gives chain circulant -- tutti-perf allreduce --algo c
gives dissemination -- tutti-perf barrier --algo di
gives --started --stepbytes --stepfactor --stream -- tutti-perf allreduce --st
gives prepared -- tutti-perf allreduce --form p
gives device -- tutti-perf allreduce --memory d
gives two_way_ring -- "$TUTTI_BIN/tutti-perf" allgather --algo two

gives matrix -- tutti-topo --format m
gives --format -- tutti-topo --f
gives json matrix racks svg tree -- tutti-topo --format ''
gives "$work/mine.plan" -- tutti-topo "$work/mi"
gives "$work/mine.plan" -- tutti-topo --levels -o "$work/mi"
gives -- tutti-topo "$work/mine.plan" "$work/mi"
gives --calibrate --calibration --check-fabric -- tutti-topo --c
mkdir "$work/host"
gives "$work/host" -- tutti-topo --check-fabric "$work/ho"
gives "$work/mine.plan" -- tutti-topo --calibration "$work/mi"
gives "$work/mine.plan" -- tutti-topo --calibrate -o "$work/mi"

gives compare query report show verdict -- tutti-trace ''
includes --help tutti-trace -
gives --why -- tutti-trace query --w
gives "$work/logs" -- tutti-trace verdict "$work/l"
gives "$work/mine.plan" -- tutti-trace show "$work/mi"
gives "$work/mine.plan" -- tutti-trace compare "$work/mi"
gives "$work/mine.plan" -- tutti-trace compare --calibration "$work/mi"
gives "$work/logs" -- tutti-trace report "$work/l"
gives "$work/mine.plan" -- tutti-trace report "$work/logs" -o "$work/mi"

gives --margin --mapped --merge -- tutti-tune --m
gives allgather allreduce alltoall -- tutti-tune --collectives all
gives bfloat16 -- tutti-tune --datatype bf
gives nccl -- tutti-tune --export n
gives "$work/mine.plan" -- tutti-tune --export nccl "$work/mi"
gives "$work/mine.plan" -- tutti-tune --merge a -o "$work/mi"

gives reduce reduce_scatter -- tutti-synth re
gives --time --topo -- tutti-synth allgather --t
gives --root --rounds -- tutti-synth allgather --ro
gives gather -- tutti-synth --greedy --size 1M ga
gives "$work/mine.plan" -- tutti-synth allgather --topo "$work/mi"
gives gpipe -- tutti-schedule g
gives --draw -- tutti-schedule 1f1b --d
gives "$work/mine.plan" -- tutti-schedule "$work/mi"
gives "$work/mine.plan" -- tutti-schedule 1f1b --stages 4 --micro 8 --draw "$work/mi"
gives "$work/mine.plan" -- tutti-synth --topo x allgather -o "$work/mi"

gives --timeout -- tutti-info --t
gives -- tutti-info x

# The words that are listed in the script are those of --help.
COMP_WORDS=(tutti-perf) COMP_CWORD=0
help=$(_tutti_help)
for option in --datatype --op --place --form --memory --skew --displs --rotate --format; do
    described=$(sed -n "/ $option /,/^ *\(-[a-z], \)\?--/p" <<<"$help" | tr -c 'a-z0-9_-' '\n')
    for word in $(_tutti_values "$option"); do
        grep -qxF -- "$word" <<<"$described" || { echo "tutti-perf --help does not know $option $word"; bad=1; }
    done
done
COMP_WORDS=(tutti-run)
for word in $(_tutti_values --map-by); do
    _tutti_help | sed -n '/--map-by/,/^ *--/p' | grep " $word: " >/dev/null || { echo "tutti-run --help does not know --map-by $word"; bad=1; }
done
COMP_WORDS=(tutti-topo)
for word in $(_tutti_values --format); do
    _tutti_help | grep -E "^ +(--format FORMAT +)?$word: " >/dev/null || { echo "tutti-topo --help does not know --format $word"; bad=1; }
done
exit $bad

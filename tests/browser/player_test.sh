#!/bin/bash
# The page that plays a plan, in a browser: it shows what its data says, by every button and key, in both schemes of colours and at two
# widths, and asks for nothing. Screenshots are in browser/ of the build folder.
# ctest: label=long label=once label=nosan timeout=600
set -uo pipefail
# shellcheck source=tests/browser/browser.sh
source "$(dirname "${BASH_SOURCE[0]}")/browser.sh"
plan=${TUTTI_BIN:?}/tutti-plan
tests=$(realpath "${BASH_SOURCE[0]%/*}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

draw() { # NAME, arguments of draw
    local name=$1
    shift
    "$plan" draw "$@" --format html -o "$name.html" || exit 1
}
draw ring allreduce ring --ranks 8
draw bruck alltoall bruck --ranks 5
draw hosts allreduce hierarchical --hosts 2,1,3 --interleaved
draw barrier barrier dissemination --ranks 6
draw reduce reduce tree --ranks 7 --root 3
draw scatter scatter tree --ranks 6 --root 1
draw gather allgather circulant --ranks 7
draw values allreduce ring --ranks 3 --values 2,4,6/1,2,3/4,8,12.5
draw all-ports allreduce twoshot --ranks 8 --ports 0
draw alone allreduce ring --ranks 1
draw large allreduce ring --ranks 64
printf 'plan allgather ranks 2 parts 1\nrank 0\nlane 0\nin[0] -> to 1\nfrom 1 -> out[1]\n' >in-place.plan
printf 'rank 1\nlane 0\nin[0] -> to 0\nfrom 0 -> out[0]\n' >>in-place.plan
draw in-place in-place.plan --in-place
"$plan" show allreduce ring --ranks 4 | sed '0,/ + in\[2\]/s///' >wrong.plan
draw wrong wrong.plan
draw hostile allreduce ring --ranks 3 --title '</script><img src=x onerror=document.title=1><!--<script>"&'

pictures=${TUTTI_BUILD:-$work}/browser
mkdir -p "$pictures"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tests:$tests/../plans python3 "$tests/player_check.py" "$work" "$pictures" || exit 1

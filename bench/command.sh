# shellcheck shell=bash disable=SC2034
# command.sh - what the commands of this folder share: each sources it, after `set`.
#
#     $here, $root           this folder, and the repository
#     usage                  prints the comment at the head of the command
#     complain WORDS...      ends it with exit code 2, after saying so
#     need_lists LIST...     complains about what is no list of words or numbers
#     need_tools TOOL...     sets bin, the folder of the tools, and complains when one of them is not there
#     build_limits FOLDER    the program FOLDER/limits, which measures what the machine can do
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")

usage() {
    sed -n '2,/^set -/p' "$0" | sed 's/^# \{0,1\}//; /^set -/d'
}

complain() {
    echo "${0##*/}: $*" >&2
    exit 2
}

need_lists() {
    local list
    for list; do
        [[ $list =~ ^[0-9a-zA-Z_.,]+$ ]] || complain "'$list' is no list"
    done
}

need_tools() {
    local tool
    bin=$(realpath -m "${TUTTI_BIN:-$root/build/bin}")
    for tool; do
        [[ -x $bin/$tool ]] || complain "$bin/$tool is not there: build first, or set TUTTI_BIN"
    done
    unset RANK TUTTI_RANK # what is started here has no launcher
}

build_limits() {
    mkdir -p "$1" || exit 2
    if [[ ! -x $1/limits || $here/peers/limits.c -nt $1/limits ]]; then
        ${CC:-cc} -O3 -march=native -pthread -o "$1/limits" "$here/peers/limits.c" || exit 2
    fi
}

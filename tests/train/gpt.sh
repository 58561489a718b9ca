# shellcheck shell=bash disable=SC2034
# gpt.sh - tests of examples/gpt: each that sources it names the program in $gpt, and runs in an empty folder.
#
#     write_text LINES    text that is learnt fast, in ./text
#     from tool.sh        exits, fail and the like; $tool is $gpt unless the test has set it
if [[ ! -x $gpt ]]; then
    echo "there is no gpt here: it needs OpenBLAS"
    exit 77
fi
tool=${tool:-$gpt}
# shellcheck source=tests/kit/tool.sh
source "${TUTTI_ROOT:?}/tests/kit/tool.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

write_text() {
    local i
    for ((i = 1; i <= $1; i++)); do echo "line $i: the quick brown fox number $((i * i % 97)) jumps"; done >text
}

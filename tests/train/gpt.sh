# shellcheck shell=bash disable=SC2034
# gpt.sh - tests of examples/gpt: each that sources it names the program in $gpt, and runs in an empty folder.
#
#     write_text LINES    text that is learnt fast, in ./text
#     step_folder, expect_same, goes_on    checkpoints: below
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

# ------------------------------------------------------------------------------------------------ checkpoints

step_folder() { # FOLDER STEP
    printf '%s/step-%012d' "$1" "$2"
}

# Two checkpoints of one mesh have the same bits: all but their heads, in which the number of the checkpoint is.
expect_same() { # WORDS ONE OTHER
    local file
    for file in "$2"/shard-*; do
        cmp -s -i 64 "$file" "$3/${file##*/}" || fail "$1: ${file##*/} differs"
    done
    [[ $(find "$2" -type f | wc -l) -gt 1 ]] || fail "$1: nothing was compared"
}

# N MESH WORDS...: a run of 6 steps of gpt with the words in `small`, and one that goes on from its step 3; the tool is tutti-run.
goes_on() {
    local n=$1 mesh=$2 name="$2 ${*:3}"
    shift 2
    rm -rf whole part
    exits 0 -n "$n" "$gpt" "${small[@]}" --steps 6 --mesh "$mesh" --checkpoint whole --checkpoint-every 3 "$@"
    local told
    told=$(grep 'held out ' out)
    mkdir part
    cp -r "$(step_folder whole 3)" part
    exits 0 -n "$n" "$gpt" "${small[@]}" --steps 6 --mesh "$mesh" --checkpoint part --checkpoint-every 3 --resume "$@"
    grep -q 'goes on  *after step 3' out || fail "$name: it begins anew: $(cat out)"
    [[ $told && $(grep 'held out ' out) == "$told" ]] || fail "$name: it goes on to something else: $(cat out)"
    expect_same "$name" "$(step_folder whole 6)" "$(step_folder part 6)"
}

#!/bin/bash
# The pages that play plans, from outside: tutti-plan writes one for every algorithm, and a program that knows no more than the
# form of their data runs the plans in them. Texts from outside stay texts, broken data is found, and what is too large is refused.
# ctest: label=nosan label=once timeout=240
set -uo pipefail
tests=$(realpath "${BASH_SOURCE[0]%/*}")
plan=${TUTTI_BIN:?}/tutti-plan
command -v python3 >/dev/null || { echo "no python3 here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
complain() {
    echo "$*"
    bad=1
}
run() { PYTHONDONTWRITEBYTECODE=1 python3 "$tests/player_run.py" "$@"; }

# Every algorithm, separate buffers and in place.
declare -A hosts=([1]=1 [2]=1,1 [3]=2,1 [5]=2,2,1 [8]=2x4)
mkdir good
count=0
write() { # NAME, arguments of draw
    local name=good/$1.html
    shift
    if "$plan" draw "$@" --format html -o "$name" 2>said; then
        count=$((count + 1))
    elif ! grep -q 'cannot do' said; then
        complain "$name: $(<said)"
    fi
}
for collective in $("$plan" list | grep -E '^[a-z]'); do
    "$plan" list --collective "$collective" --markdown | sed -n 's/^| `\([a-z_]*\)` .*| \([^|]*\) | [^|]* |$/\1 \2/p' >algorithms
    while read -r algorithm properties; do
        for ranks in 1 2 3 5 8; do
            where="--ranks $ranks"
            if [[ $properties == *hosts* ]]; then where="--hosts ${hosts[$ranks]}"; fi
            # shellcheck disable=SC2086
            write "$collective.$algorithm.$ranks" "$collective" "$algorithm" $where
            # shellcheck disable=SC2086
            write "$collective.$algorithm.$ranks-in-place" "$collective" "$algorithm" $where --in-place
        done
    done <algorithms
done
[[ $count -ge 690 ]] || complain "only $count pages"

# Other numbers of ports, roots, radixes, orders; example values; plans from files, some of which are in place.
write ports allreduce twoshot --ranks 5 --ports 0
write two-ports alltoall direct --ranks 5 --ports 2
write root scatter tree --ranks 7 --root 4 --radix 3
write order allreduce chain --ranks 4 --order 2,0,3,1
write racks allreduce hierarchical --hosts 2,1,2 --racks 1,2 --interleaved
write values allreduce ring --ranks 3 --values 2,4,6.5/1,-2,3e300/4,8,1e-9
write large alltoall pairwise --ranks 32
"$plan" show allreduce double_tree --ranks 6 >tree.plan
write file tree.plan
write file-with-hosts tree.plan --hosts 3x2
"$plan" export allgather ring --ranks 4 --format msccl --in-place -o ring.xml
write schedule ring.xml
cat >gathers.plan <<'END'
plan allgather ranks 2 parts 1
rank 0
lane 0
out[0] -> to 1
from 1 -> out[1]
rank 1
lane 0
in[0] -> to 0
from 0 -> out[0]
END
write in-place gathers.plan --in-place # it stores nothing where a rank has its own block already
printf 'plan alltoall ranks 2 parts 1\nrank 0\nlane 0\nin[1] -> scratch[0], to 1\nfrom 1 -> out[1]\n' >swaps.plan
sed -i 's/^rank 0/&\nscratch like 1/' swaps.plan
printf 'rank 1\nscratch like 2\nlane 0\nin[0] -> scratch[0], to 0\nfrom 0 -> out[0]\n' >>swaps.plan
write all-in-place swaps.plan --in-place
run good/* >said || complain "$(<said)"
grep -qx "$count right, 0 wrong" said || complain "of $count pages: $(tail -n 1 said)"
grep -q '"in_place": true' good/schedule.html || complain "a schedule in place is not in place"
grep -q '"hosts": \[0, 0, 1, 1, 2, 2\]' good/file-with-hosts.html || complain "hosts of a file's plan: $(grep hosts good/file-with-hosts.html)"
grep -q '"values": \[\[2, 4, 6.5\], \[1, -2, 3e+300\]' good/values.html || complain "values: $(grep '"values"' good/values.html)"

# The same every time.
"$plan" draw allreduce ring --ranks 8 --format html >once.html
cmp -s once.html good/allreduce.ring.8.html || complain "a page differs from the last one of the same plan"

# Texts from outside. In the last one are bytes that are no UTF-8, and characters that turn the direction of writing.
hostile() { # TITLE, TITLE AS READ, [arguments of draw]
    local title=$1 expected=$2
    shift 2
    "$plan" draw "$@" --format html -o hostile.html ${title:+--title "$title"} || complain "$expected is refused"
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tests python3 - "$expected" <<'END' || complain "$expected"
import pathlib, sys, player_run
title = player_run.read(pathlib.Path("hostile.html"))["title"]
if title != sys.argv[1]:
    sys.exit(f"{title} instead of {sys.argv[1]}")
END
}
ring="allreduce ring --ranks 3"
# shellcheck disable=SC2086
{
    hostile '</script><script>alert(1)</script>' '</script><script>alert(1)</script>' $ring
    hostile '</title><!--<script>' '</title><!--<script>' $ring
    hostile '"\u0022},&quot;&lt;\' '"\u0022},&quot;&lt;\' $ring
    hostile '{{plan}}{{script}}' '{{plan}}{{script}}' $ring
    hostile $'a\tb\nc\x1b\xff\xe2\x80\xaed' 'a?b?c???d' $ring
}
cp tree.plan "<!--<script>&'\".plan"
hostile "" "<!--<script>&'\".plan: allreduce of 6 ranks" "<!--<script>&'\".plan"
cp tree.plan $'\xff.plan'
hostile "" "?.plan: allreduce of 6 ranks" ./$'\xff.plan'

# A plan that is wrong is shown, and said to be.
sed 's/ final//' tree.plan >wrong.plan
"$plan" draw wrong.plan --format html -o wrong.html || complain "a wrong plan has no page"
grep -q '"proof": {"proven": false, "text": "rank [0-9]* lane' wrong.html || complain "a wrong plan: $(grep proof wrong.html)"
run wrong.html >said && complain "a wrong plan is right"

# Broken data, each with what should be said of it.
mkdir broken
: >reasons
broken() { # NAME PATTERN SED-SCRIPT [FILE]
    sed -E "$3" "good/${4:-allreduce.ring.3}.html" >"broken/$1.html"
    cmp -s "broken/$1.html" "good/${4:-allreduce.ring.3}.html" && complain "$1: not broken"
    echo "broken/$1.html: wrong: .*$2" >>reasons
}
broken script 'scripts' 's|^</body>|<script>x</script></body>|'
broken picture 'asks for' 's|^</body>|<a href="x">y</a></body>|'
broken address 'address' 's|^<footer>|<footer>https://x|'
broken nesting 'within' 's|^</main>|</div>|'
broken title 'titles' 's|"title": "ring|"title": "sing|'
broken member 'members' 's|"busiest":|"business":|'
broken json '(delimiter|Expecting)' 's|"messages": \[|"messages": |'
broken busiest 'busiest' 's|"busiest": [0-9.]*|"busiest": 1|'
broken least 'least' 's|"least": [0-9.]*|"least": 1.3|'
broken inputs 'inputs' 's|"inputs": \[\[0, 1|"inputs": [[1, 0|'
broken contribution 'holds' 's|(from 2 -> out\[2\][^\[]*\[2, )6|\15|'
broken source 'no message from' 's|from 1 channel 1 \+|from 0 channel 1 +|'
broken local 'sources' 's|from 2 \+ in\[1\]|from 2 + in[0]|'
broken round 'takes a message' 's|^\[1, 2, 0, 3, 6\]|[4, 2, 0, 3, 6]|'
broken early 'a message of' 's|^\[3, 0, 1, 7, 10\]|[2, 0, 1, 7, 10]|'
broken untaken 'no message' 's|^\[4, 2, 0, 12, 14\]|[4, 2, 0, 12, -1]|'
broken lost 'no message' '/^\[3, 0, 1, 7, 10\],/d'
broken frame 'frame 3' 's|^\[0, 2, 2, 6, 1, 0, 0, 6, |[0, 2, 2, 6, |'
broken frames 'frames' 's|^\[0, 2, 2, 6, 1, 0, 0, 6, 2, 1, 1, 6\],$||'
broken ports 'a lane sends more' 's|"ports": 0|"ports": 1|' ports
broken place 'sources' 's|"in_place": true|"in_place": false|' in-place
broken all-places 'output chunk 0 ends with None' 's|"in_place": true|"in_place": false|' all-in-place
run broken/* >said && complain "broken pages are right"
grep -v -x -E -f <(sed 's/$/.*/' reasons) said | grep -v ' right, ' && complain "wrong for other reasons"
while read -r reason; do
    grep -q -x -E "$reason.*" said || complain "not said: $reason"
done <reasons

# A plan that is too large is refused by name of the limit, soon, and leaves no file.
refused() { # WORDS, arguments of draw
    local words=$1
    shift
    timeout 20 "$plan" draw "$@" --format html -o refused.html >said 2>&1
    [[ $? == 1 ]] || complain "$*: not refused"
    grep -qF "$words" said || complain "$*: $(<said)"
    [[ ! -e refused.html ]] || complain "a refused page leaves a file"
}
refused "at most 64 ranks can be shown, and there are 1024" allreduce ring --ranks 1024
refused "at most 64 ranks can be shown, and there are 65536" allreduce ring --ranks 65536
refused "a page shows at most 8192 chunks on all ranks together, and this plan has" allreduce torus --ranks 64
{
    echo "plan barrier ranks 65 parts 1"
    for ((rank = 0; rank < 65; rank++)); do echo "rank $rank"; done
} >many.plan
refused "a page shows at most 64 ranks, and this plan has 65" many.plan
{
    printf 'plan allreduce ranks 1 parts 1\nrank 0\nlane 0\n'
    yes 'in[0] -> out[0]' | head -n 20001
} >long.plan
refused "a page shows at most 20000 steps, and this plan has 20001" long.plan
{
    echo "plan alltoall ranks 64 parts 1"
    for ((rank = 0; rank < 64; rank++)); do
        printf 'rank %d\n  group 0: 0..63\n  lane 0\n' $rank
        for ((i = 0; i < 6; i++)); do echo 'in[0] -> to group 0'; done
    done
} >messages.plan
refused "a page shows at most 20000 messages, and this plan has 24192" messages.plan
printf 'plan allreduce ranks 2 parts 1\nrank 0\nlane 0\nfrom 1 -> out[0]\nrank 1\n' >halt.plan
refused "comes to a halt" halt.plan
refused "the hosts have another number of ranks" tree.plan --hosts 2x2

for words in "draw $ring --format pdf" "draw $ring --format" "show $ring --format html" \
    "draw tree.plan --ranks 6 --format html" "draw $ring --format html --values 1"; do
    # shellcheck disable=SC2086
    "$plan" $words >written 2>said
    [[ $? == 2 && ! -s written ]] || complain "$words: not refused"
done
"$plan" draw tree.plan --format svg | grep '^<svg' >/dev/null || complain "svg is no format"
exit $bad

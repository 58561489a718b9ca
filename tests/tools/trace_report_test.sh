#!/usr/bin/env bash
# trace_report_test.sh - tutti-trace report from outside: what it says of real jobs, and of dumps made by hand that are hostile, cut off, of many
# ranks, or without sense. What the page does in a browser is in tests/browser/report_test.sh.
#
#     TUTTI_BUILD=build TUTTI_BIN=build/bin tests/tools/trace_report_test.sh
#
# Exit code 77 means skipped.
# ctest: label=nosan label=once timeout=120
set -u
shared=$(realpath "${BASH_SOURCE[0]%/*}/../kit/tool.sh")
kit=${shared%/*}

trace=${TUTTI_BIN:-}/tutti-trace
player=${TUTTI_BUILD:-}/tests/tests_faults_tracing_test
if [ ! -x "$trace" ] || [ ! -x "$player" ] || ! command -v python3 >/dev/null; then
    echo "TUTTI_BIN names no tutti-trace, TUTTI_BUILD no tests_faults_tracing_test, or python3 is not here: skipped"
    exit 77
fi
tool=$(realpath "$trace")
player=$(realpath "$player")
work=$(mktemp -d) || exit 1
children=()
# shellcheck disable=SC2317
clean_up() {
    if ((${#children[@]} > 0)); then kill -9 "${children[@]}" 2>/dev/null; fi
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work" || exit 1
umask 077
unset TUTTI_TRACE_DIR TUTTI_TRACE_SIGNAL TUTTI_METRICS_DIR TUTTI_PLANS TUTTI_ALGORITHMS
export TUTTI_LOG=off PYTHONPATH=$kit PYTHONDONTWRITEBYTECODE=1
# shellcheck source=tests/kit/tool.sh
source "$shared"

# check PAGE CODE: a program in Python that has the page as `page`, and fails by assertions.
check() {
    { printf 'import pathlib, sys, html_page\npage = html_page.read(pathlib.Path("%s"))\n' "$1" && cat <<<"$2"; } | python3 - >said 2>&1 ||
        fail "$1: $(tail -n 3 said)"
}

# play SCENE: three ranks play it as a job, and leave dumps in a folder of that name.
jobs=0
play() {
    local rank child
    jobs=$((jobs + 1))
    for rank in 0 1 2; do
        RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 TUTTI_TRACE_DIR=$work/$1 \
            MASTER_PORT=$((20000 + $$ % 20000 + jobs)) "$player" scene "$1" >"$rank.out" 2>&1 &
        children+=($!)
    done
    for child in "${children[@]}"; do wait "$child" 2>/dev/null; done
    children=()
}

echo "wrong command lines are refused with 2"
for words in "" "-o x" "x -o" "x --calibration" "x --csv" "x --output="; do
    # shellcheck disable=SC2086 # words are words
    exits 2 report $words
    [ -s err ] || fail "'$words' is refused without a word"
    [ -s out ] && fail "'$words' is refused and prints"
done

echo "a rank that is late"
TUTTI_TIMEOUT=1 play late
exits 0 report late -o late.html
[ -s out ] && fail "it prints: $(head -c 100 out)"
check late.html '
assert "Rank 1 is late" in page.text, page.text[:200]
for words in ["Culprit rank 1 , host", "In call allreduce(count 4, float32, sum) #4", "First failure TIMEOUT", "Job 3 ranks on 1 host", "Dumps 3 of 3 ranks",
              "which it has not called; it is in no call for", "Rank 1 is in no call for", "Ranks 0 and 2 waited there for rank 1 (host"]:
    assert words in page.text, words
data, = page.data("data")
assert data["size"] == 3 and data["culprit"] == 1 and data["sequence"] == 4 and data["clock"] == "one"
assert [row["rank"] for row in data["rows"]] == [0, 1, 2]
calls = [row["calls"] for row in data["rows"]]
assert [len(call) for call in calls] == [28, 21, 28], "four calls, three, four"
assert [sum(call[0::7]) for call in calls] == [4, 3, 4], "the numbers of the last ones"
assert all(kind["call"] == "allreduce" and kind["count"] == 4 and kind["op"] == "sum" for kind in data["kinds"])
assert data["left_out"] == {"bars": 0, "rows": 0} and len(data["late"]) == 15'

echo "a rank that dies and leaves no dump"
TUTTI_TIMEOUT=20 play die
exits 0 report die -o die.html
check die.html '
for words in ["Rank 1 is dead or gone", "Rank 1 left no dump.", "Dumps 2 of 3 ranks", "reported PROC_FAILED: ", "First failure PROC_FAILED, found by rank",
              "it is not in the tables, and what it did is known only"]:
    assert words in page.text, words
rows = page.data("data")[0]["rows"]
assert rows[1]["rank"] == 1 and "dump" not in rows[1] and rows[1]["pid"] > 0, rows[1]'

echo "nothing is wrong"
play fine
exits 0 report fine # to standard output
cp out fine.html
check fine.html '
for words in ["Nothing is wrong", "First failure none was reported"]:
    assert words in page.text, words
assert page.text.count("Culprit") == 0
assert ("ul", {"class": "unknown"}) in page.elements
assert page.count("script") == 2 and page.count("table") == 2'

echo "the same dumps give the same page, in any order"
exits 0 report late/*-rank2.json late/*-rank0.json late/*-rank1.json -o again.html
cmp -s late.html again.html || fail "another page"

echo "a page is replaced as a whole, or stays"
exits 2 report nowhere -o again.html
exits 2 report late --calibration nowhere.json -o again.html
says err nowhere.json
cmp -s late.html again.html || fail "nothing was to be written"
exits 2 report late -o nowhere/page.html
says err nowhere

# entry NUMBER CALL BEGIN END [MORE]: in us
entry() {
    printf '{"sequence": %d, "call": "%s", "algorithm": "ring", "begin_ns": %d000, "end_ns": %d000, "count": 1048576, "dtype": "float32",
 "state": "done"%s}' "$1" "$2" "$3" "$4" "${5:-}"
}
# dump FOLDER RANK HOST WALL ENTRY...: of 4 ranks
dump() {
    local IFS=,
    mkdir -p "$1"
    printf '{"tutti_trace": 1, "communicator": "5eed", "rank": %d, "size": 4, "host": "%s", "pid": %d, "wall_ns": %d,
 "monotonic_ns": 900000000, "calls": 9, "messages": [], "operations": [%s]}' "$2" "$3" "$((70 + $2))" "$4" "${*:5}" >"$1/tutti-5eed-rank$2.json"
}
wall=1790000000000000000

echo "two dumps of a rank: a verdict and a report count the newer one"
for rank in 0 1 2 3; do dump twice $rank node$rank $wall "$(entry 1 allreduce 100000 184000)"; done
mv twice/tutti-5eed-rank2.json twice/tutti-5eed-rank2-again.json
dump twice 2 node2 $((wall + 1000000000)) "$(entry 1 allreduce 100000 184000)"
exits 0 verdict twice
says out 'nothing is wrong: nothing failed, and no rank waits (1 dump is not counted: of a rank the newest counts'
exits 0 report twice -o twice.html
check twice.html '
for words in ["Nothing is wrong", "Dumps 4 of 4 ranks", "1 dump is not counted: of a rank the newest counts"]:
    assert words in page.text, words'

echo "a rank that waits for itself: its dump is not believed, and why"
for rank in 0 1 2 3; do dump itself $rank node$rank $wall "$(entry 1 allreduce 100000 184000)"; done
dump itself 2 node2 $wall "$(entry 1 allreduce 100000 184000 ', "waits_for": {"rank": 2, "host": "node2", "since_ns": 100000000}')"
exits 2 verdict itself
says err 'rank2.json: operations[0] waits_for'
says err 'no rank waits for itself in a collective'
exits 1 report itself -o itself.html
check itself.html 'assert "no rank waits for itself in a collective" in page.text, page.text'

echo "measured times, and who came last"
for rank in 0 1 2 3; do
    late=$((rank == 2 ? 31000 : 100 * rank))
    dump slow $rank node$rank $wall "$(entry 1 allreduce $((100000 + late)) 184000 ', "expected_ns": 26500000')" \
        "$(entry 2 allreduce $((200000 + late)) 284000 ', "expected_ns": 26500000')" "$(entry 3 broadcast 300000 367000 ', "root": 0')"
done
exits 0 report slow -o slow.html
check slow.html '
assert "Ended last 2 node2 2 of 3 61.4 ms 30.7 ms in #1" in page.text, page.text
assert "allreduce float32 4.0 MiB ring 2 53.0 ms 106.0 ms 26.5 ms 2.00 31.0 ms rank 2 (host node2) came last in 2 of 2, 30.7 ms after the others." in page.text, page.text
assert "broadcast float32, root 0 4.0 MiB ring 1 67.0 ms 67.0 ms – – – " in page.text, page.text
assert "Clocks: hosts are compared by their own clocks" in page.text
assert "Predicted" not in page.text'
echo '{"tutti_calibration": 1, "parameters": {"card_byte_fs": {"value": 8000000, "known": "measured"}}}' >cards.json
exits 0 report slow --calibration cards.json -o slow.html
check slow.html '
assert "Predicted with cards.json, 1 of" in page.text
assert "allreduce float32 4.0 MiB ring 2 53.0 ms 106.0 ms 26.5 ms 50.4 ms 1.05 31.0 ms" in page.text, page.text'
sed -i 's/, "expected_ns": 26500000//g' slow/*.json
exits 0 report slow -o slow.html
check slow.html '
assert "The dumps hold no prediction of these calls. With --calibration FILE the report has one." in page.text
assert "allreduce float32 4.0 MiB ring 2 53.0 ms 106.0 ms – – 31.0 ms" in page.text, page.text'
cp -r slow clocks
sed -i 's/"wall_ns": 179/"wall_ns": 178/' clocks/*rank1.json
exits 0 report clocks -o clocks.html
check clocks.html '
assert "Clocks: those of rank" in page.text and page.data("data")[0]["clock"] == "none", page.text
assert "One call is not in the tables: only clocks could compare it." in page.text, page.text'

echo "a dump that is cut off, and one that is none, are named, and the others tell"
cp -r slow cut
head -c 300 slow/tutti-5eed-rank1.json >cut/tutti-5eed-rank1.json
echo 'nothing' >'cut/tutti-<b>&-rank9.json'
exits 1 report cut -o cut.html
check cut.html '
assert "Not read" in page.text and "cut/tutti-<b>&-rank9.json: line 1: " in page.text and "cut/tutti-5eed-rank1.json: line " in page.text, page.text
assert "Rank 1 left no dump" in page.text and "Ranks 0, 2 and 3 are in no call for" in page.text, page.text
assert page.data("data")[0]["rows"][1] == {"rank": 1}'
mkdir none
echo 'nothing' >none/tutti-5eed-rank0.json
exits 2 report none -o none.html
says err "no dump can be read"
[ -e none.html ] && fail "there is nothing to tell, and a page of it"

echo "an older dump of a rank, and one of another job, are not counted"
cp -r slow older
mkdir older/more
sed 's/"pid": 72/"pid": 999/; s/"wall_ns": 179/"wall_ns": 178/' slow/tutti-5eed-rank2.json >older/more/tutti-5eed-rank2.json
sed 's/"size": 4/"size": 9/; s/"rank": 3/"rank": 8/' slow/tutti-5eed-rank3.json >older/more/tutti-5eed-rank8.json
exits 0 report older older/more -o older.html
check older.html '
assert "2 dumps are not counted" in page.text, page.text
assert [row["pid"] for row in page.data("data")[0]["rows"]] == [70, 71, 72, 73]'

echo "names from dumps stay text"
evil='</script></style><img src=x onerror=alert(1)><!--&amp;{{data}}\"'\''\u202e\u00e4'
for rank in 0 1 2; do
    dump evil $rank "$evil" $wall "$(entry 1 allreduce 100000 184000)" "$(entry 2 '<b>call' 200000 284000 ', "ways": "</script>"')"
    sed -i 's/"float32"/"<i>\\"t"/g; s/"ring"/"<script>alert(2)<\/script>"/g; $ s/"done"/"<done>"/' evil/*-rank$rank.json
    sed -i "s|\"messages\"|\"failure\": {\"status\": \"<u>BAD\", \"reporter\": 0, \"message\": \"$(sed 's/[\\&|]/\\&/g' <<<"$evil")\", \"culprit\": {\"rank\": 1, \"host\": \"<h>\"}}, &|" \
        evil/*-rank$rank.json
done
exits 0 report evil -o evil.html
check evil.html '
name = "</script></style><img src=x onerror=alert(1)><!--&amp;{{data}}\"'"'"'?ä"
assert page.count("script") == 2 and page.count("style") == 1 and page.count("img") == 0 and page.count("b") == 0
assert name in page.text, page.text
data, = page.data("data")
assert data["rows"][0]["host"] == name and data["rows"][3] == {"rank": 3}
assert {kind["call"] for kind in data["kinds"]} == {"allreduce", "<b>call"} and "<done>" in data["states"]
assert all("</script>" not in text for text in page.scripts.values())'

echo "numbers that no dump has do no harm"
for rank in 0 1 2 3; do
    dump huge $rank node$rank 9223372036854775807 "$(entry $((1 + rank)) allreduce $((1 + rank % 2)) 9223372036854775 | sed 's/1048576/9223372036854775807/')" \
        "$(entry 9223372036854775807 barrier 9223372036854775 1)"
done
exits 0 report huge -o huge.html
check huge.html '
data, = page.data("data")
assert len(data["rows"]) == 4 and all(abs(number) <= 2 ** 63 for row in data["rows"] for number in row["calls"])'

echo "many ranks and calls: the page has bounds, and says what it leaves out"
python3 - <<'PYTHON'
import json, pathlib
folder = pathlib.Path("many")
folder.mkdir()
for rank in range(700):
    calls = [{"sequence": n, "call": "barrier", "begin_ns": 1000 * n, "end_ns": 1000 * n + 500, "state": "done"} for n in range(1, 201)]
    if rank == 600: # all wait for it
        calls.pop()
    else:
        del calls[-1]["end_ns"]
        calls[-1].update(state="running", waits_for={"rank": 600, "host": "a", "pid": 600, "since_ns": 200600})
    (folder / f"tutti-ab-rank{rank}.json").write_text(json.dumps({
        "tutti_trace": 1, "communicator": "ab", "rank": rank, "size": 700, "host": "a", "pid": rank, "monotonic_ns": 9000000000, "calls": 200 - (rank == 600),
        "messages": [], "operations": calls}))
for number in range(3400): # communicators beside it
    (folder / f"tutti-c{number}-rank0.json").write_text(json.dumps({
        "tutti_trace": 1, "communicator": f"c{number}", "rank": 0, "size": 1, "host": "a", "pid": 0, "monotonic_ns": 1, "calls": 0, "messages": [], "operations": []}))
PYTHON
exits 0 report many -o many.html
check many.html '
assert "Rank 600 is late" in page.text
data = page.data("data")
assert len(data) == 32 and "3365 more communicators: a report shows 32." in page.text
assert "4 more dumps: a report reads the first 4096, or 4194304 calls and messages." in page.text
rows = data[0]["rows"]
bars = sum(len(row["calls"]) // 7 for row in rows)
assert len(rows) == 512 and rows[-1]["rank"] == 600 and "The timeline shows 512 ranks and leaves out 188." in page.text
assert 0 < bars <= 2 ** 16 / 32 + 512 and data[0]["left_out"]["bars"] == 700 * 200 - 1 - bars
assert f"The timeline leaves out {700 * 200 - 1 - bars} calls and messages" in page.text
assert rows[0]["calls"][0] > 190, "the newest ones"
assert "Ranks 0–599 and 601–699 waited there for rank 600 (host a, pid 600), up to 9.00 s." in page.text'
[ "$(stat -c %s many.html)" -lt 1000000 ] || fail "a page of $(stat -c %s many.html) bytes"

[ $failures = 0 ] || echo "$failures failures"
[ $failures = 0 ]

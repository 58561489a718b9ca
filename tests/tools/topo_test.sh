#!/usr/bin/env bash
# topo_test.sh - tutti-topo from outside: exit codes, what it prints, and files that are wrong.
#
#     TUTTI_BIN=build/bin TUTTI_ROOT=. tests/tools/topo_test.sh
#
# Exit code 77 means skipped.
# ctest: label=longsan
set -u
shared=$(realpath "${BASH_SOURCE[0]%/*}/../kit/tool.sh")

topo=${TUTTI_BIN:-}
[ -d "$topo" ] && topo=$topo/tutti-topo
if [ ! -x "$topo" ]; then
    echo "TUTTI_BIN names no tutti-topo: skipped"
    exit 77
fi
topo=$(realpath "$topo")
examples=$(realpath "${TUTTI_ROOT:-.}/examples")

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset HWLOC_XMLFILE HWLOC_SYNTHETIC
tool=$topo
# shellcheck source=tests/kit/tool.sh
source "$shared"

# What looks at PCI for hwloc (libpciaccess) keeps a few bytes; a leak sanitizer would call them ours.
echo leak:hwloc_topology_load >suppressions
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"
export LSAN_OPTIONS="suppressions=$PWD/suppressions:print_suppressions=0"

echo "wrong command lines are refused with 2"
for words in "a b" "--format" "--format sofa" "--levels --format tree" "--title x" "--format tree --title x" \
    "--probe x.json" "--probe --levels" "--probe --ranks 2" "--probe --title x" "--ranks 0" "--ranks -1" "--ranks 4x" "--ranks 99999999999999999999" "--ranks 65537" "--unknown" "-o"; do
    # shellcheck disable=SC2086 # words are words
    exits 2 $words
    [ -s err ] || fail "'$words' is refused without a word"
    [ -s out ] && fail "'$words' is refused and prints"
done

echo "help and version"
exits 0 --help
says out "tutti-topo [FILE]"
exits 0 --version
says out "tutti-topo "

echo "this machine"
exits 0
says out "machine"
says out "pu "
exits 0 --format json
cp out here.json
exits 0 here.json --format json
cmp -s out here.json || fail "this machine changes when it is written and read"
exits 0 --format svg
says out "</svg>"
exits 1 --levels
says err "no ranks"
exits 0 --levels --ranks 1
[ "$(cat out)" = "all: 0" ] || fail "levels of one rank: $(cat out)"

echo "a machine that hwloc describes"
export HWLOC_SYNTHETIC='package:2 [numa] l3:1 core:2 pu:2'
exits 0 --format json
says out '"kind": "numa"'
exits 0 --levels --ranks 8
cat >expected <<'LEVELS'
core: 4 groups
   0: 0 4
   1: 1 5
   2: 2 6
   3: 3 7
package: 2 groups
   0: 0-1 4-5
   1: 2-3 6-7
all: 0-7
LEVELS
cmp -s out expected || fail "levels of eight ranks: $(diff out expected)"
exits 0 --format matrix
[ "$(sed -n 's/^pu2 *//p' out | tr -s ' ')" = "L3 L3 X CORE HOST HOST HOST HOST" ] || fail "matrix: $(cat out)"
says out "L3     the same third level cache"
grep -q PKG out && fail "the legend tells of what is not in the matrix"
grep -q GB/s out && fail "a bandwidth that nobody told"
unset HWLOC_SYNTHETIC

echo "racks from a file"
exits 0 "$examples/two_racks.json"
says out "├─ rack 0"
says out "machine a, nic eth0 ══ rack 0, switch leaf  12.5 GB/s, 1.5 us, measured"
exits 0 "$examples/two_racks.json" --levels
says out "rack: 2 groups"
says out "   1: 8-15"
exits 0 "$examples/two_racks.json" --format matrix
says out "FAR    the same cluster"
says out "12.5"
exits 0 "$examples/two_racks.json" --format svg --title 'a & b' -o racks.svg
[ -s out ] && fail "the picture is on standard output, too"
says racks.svg "a &amp; b"
exits 1 "$examples/two_racks.json" --ranks 3
says err "ranks of its own"
timeout 60 "$topo" - --format json <"$examples/two_racks.json" >racks.json 2>err || fail "standard input: $(cat err)"
exits 0 racks.json --format svg --title 'a & b'
cmp -s out racks.svg || fail "a topology is drawn differently when it is written and read"

echo "NCCL's and hwloc's files are told by what is in them"
cat >nccl.xml <<'XML'
<?xml version="1.0"?>
<!-- two gpus -->
<system version="1">
  <cpu numaid="0" affinity="0000000f">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="80" rank="0"><nvlink target="0000:02:00.0" count="12" tclass="0x030200"/></gpu>
    </pci>
    <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="80" rank="1"/>
    </pci>
    <weather/>
  </cpu>
</system>
XML
timeout 60 "$topo" nccl.xml >out 2>err
code=$?
if [ $code = 1 ] && grep -q 'without expat' err; then
    echo "  built without expat: not asked"
else
    [ $code = 0 ] || fail "nccl.xml: exit $code: $(cat err)"
    says out "accelerator 0 sm 80  0000:01:00.0  up 31.51 GB/s, nominal"
    says out "300 GB/s, nominal"
    says err "nccl.xml: line 11: <weather> is not known"
    exits 0 nccl.xml --format matrix
    says out "LINK   a link between the two"
    sed '/rank="1"/s/sm/rank="1" sm/' nccl.xml >twice.xml
    exits 1 twice.xml
    says err "twice.xml: line 9: duplicate attribute"
fi
printf '<topology version="2.0"><object type="Sofa"/></topology>' >sofa.xml
exits 1 sofa.xml
says err "sofa.xml: topology: hwloc"

echo "wrong files are told with name and line"
printf '{"tutti_topology": 1,\n "root": {"kind": "sofa"}}' >sofa.json
exits 1 sofa.json
says err 'sofa.json: line 2: "kind": one of cluster, rack'
exits 1 nowhere.json
exits 1 .
exits 1 /dev/null
exits 1 sofa.json --format svg -o sofa.svg
[ -e sofa.svg ] && fail "a file that cannot be read leaves a picture"
exits 1 "$examples/dgx1.json" -o nowhere/picture.svg

if [ $failures -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi
echo "all fine"

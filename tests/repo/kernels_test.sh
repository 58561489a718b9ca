#!/bin/bash
# src/gpu/kernels.ptx is what `make kernels` would make now, for the oldest devices and drivers, with arithmetic that gives the CPU's bits,
# and nothing that needs memory of its own for each thread.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

find_offences() { # a file
    local bad=0
    grep -qx '\.version 7\.0' "$1" || { echo "it is not PTX 7.0"; bad=1; }
    grep -qx '\.target sm_70' "$1" || { echo "it is not for sm_70"; bad=1; }
    if grep -nE '\.ftz|\<fma\>|\<mad\.[a-z.]*f[0-9]+|\.approx|\.full|add\.f|mul\.f|div\.f' "$1"; then
        echo "above: denormals are lost, or roundings are"
        bad=1
    fi
    if grep -nE '\.local' "$1"; then
        echo "above: variables that are not in registers"
        bad=1
    fi
    grep -qF '.entry tutti_worker(' "$1" || { echo "there is no kernel tutti_worker"; bad=1; }
    if grep -nE '\<call\>' "$1"; then
        echo "above: calls, which need a stack"
        bad=1
    fi
    return $bad
}

bad=0
find_offences src/gpu/kernels.ptx || bad=1

# It can fail.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for change in 's/^\.version 7\.0/.version 7.5/' 's/^\.target sm_70/.target sm_90/' 's/add\.rn\.f32/add.f32/' \
    's/mul\.rn\.f32/mul.rn.ftz.f32/' 's/add\.rn\.f64/fma.rn.f64/' 's/mul\.rn\.f32/mad.rn.f32/' 's/ld\.u64/ld.local.u64/' \
    's/tutti_worker/worker/' 's/bar\.sync/call.uni f;bar.sync/'; do
    sed "$change" src/gpu/kernels.ptx >"$work/kernels.ptx"
    if find_offences "$work/kernels.ptx" >/dev/null; then
        echo "this test does not work: it finds nothing after $change"
        bad=1
    fi
done

# Where CUDA's assembler is: a block of 512 threads has room for 128 registers each. What does not fit lies on a stack, which is memory: a few bytes
# that a worker does not need meanwhile do no harm.
if command -v ptxas >/dev/null; then
    for device in sm_80 sm_90; do
        said=$(ptxas -arch=$device -v src/gpu/kernels.ptx -o "$work/kernels.cubin" 2>&1) || bad=1
        registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' <<<"$said")
        stack=$(sed -n 's/^ *\([0-9]*\) bytes stack frame.*/\1/p' <<<"$said")
        if ((${stack:-999} > 64 || ${registers:-999} > 128)); then
            echo "$said"
            echo "above: what ptxas says for $device"
            bad=1
        fi
    done
fi

if ((bad)); then exit 1; fi
if ! scripts/kernels.sh --compiler; then exit 77; fi
scripts/kernels.sh >"$work/made.ptx"
if ! cmp -s "$work/made.ptx" src/gpu/kernels.ptx; then
    diff "$work/made.ptx" src/gpu/kernels.ptx | head -20 || true
    echo "src/gpu/kernels.ptx is old: 'make kernels' makes it anew"
    exit 1
fi

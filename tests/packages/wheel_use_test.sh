#!/bin/bash
# The wheels of wheel_build_test.sh do what they are for on a fresh system without compilers, without a network, and as a user who is not root:
# programs start, ranks of a plain Python program add, DistributedDataParallel trains to gloo's losses. What does not fit, or is missing, is
# said in words, and pip leaves nothing behind.
# ctest: label=long label=nosan label=once timeout=2400 needs=wheels
set -uo pipefail
root=${TUTTI_ROOT:?}
folder=${TUTTI_BUILD:?}/packages/wheels

skip() {
    echo "$1"
    exit 77
}
fail() {
    echo "$1"
    exit 1
}
[[ -e $folder/is_whole ]] || skip "the wheels could not be made here; tests/packages/wheel_build says why"
if ((EUID != 0)); then skip "a fresh system is made by root"; fi
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not here (Debian: mmdebstrap)"
command -v ip >/dev/null || skip "ip is not here (Debian: iproute2)"
release=$(. /etc/os-release && echo "${ID:-}:${VERSION_CODENAME:-}")
if [[ $release != debian:?* ]]; then skip "this is no release of Debian"; fi

work=$(mktemp -d --suffix=-tutti-wheels)
system=$work/system
trap 'rm -rf --one-file-system "$work"' EXIT
cd "$work" || exit 1

# It gets its packages from where this machine does.
apt-config dump | grep -E '^Acquire::(Check-|http|https|Retries)' | grep -v '""' >apt.conf
shopt -s nullglob
sources=()
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    if grep -sqE "^(deb |Suites:).*${release#*:}" "$file" && grep -q debian "$file"; then sources+=("$file"); fi
done
began=$SECONDS
mmdebstrap --quiet --variant=minbase --include=python3,python3-venv --aptopt="$work/apt.conf" "${release#*:}" "$system" "${sources[@]}" \
    >log 2>&1 || { tail -n 20 log; skip "no fresh system can be had here"; }
echo "a fresh system: $((SECONDS - began)) s"

# A command in it, as a user, with /proc, /dev and a loopback of its own as long as it runs. Nothing of it is left after a while.
seconds=600
inside() {
    timeout -k 10 "$seconds" unshare --mount --pid --net --fork --kill-child bash -c '
        cd "$1" && shift && ip link set lo up || exit 1
        mount -t proc proc proc && mount -t tmpfs tmpfs dev && mkdir dev/shm && mount -t tmpfs tmpfs dev/shm || exit 1
        for device in null zero full random urandom tty; do touch "dev/$device" && mount --bind "/dev/$device" "dev/$device" || exit 1; done
        chmod 1777 dev/shm && ln -s /proc/self/fd dev/fd
        exec chroot --userspec=1000:1000 . env -i HOME=/srv/user PATH=/srv/user/env/bin:/usr/bin:/bin LC_ALL=C.UTF-8 \
            PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONWARNINGS="${PYTHONWARNINGS:-ignore}" GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 \
            TUTTI_TORCH_BACKEND="${TUTTI_TORCH_BACKEND:-}" bash -c "cd && $*"' inside "$system" "$@"
}
# A command that must succeed, and what it printed in `said`: do_inside WORD...
do_inside() { said=$(inside "$*" 2>&1) || fail "$*: ended with $?: $said"; }
# A command that must fail, and say that: fails_inside PATTERN WORD...
fails_inside() {
    local pattern=$1 status
    shift
    said=$(inside "$*" 2>&1)
    status=$?
    if ((status == 0 || status >= 124)); then fail "$*: ended with $status, and should have failed: $said"; fi
    grep -qE "$pattern" <<<"$said" || fail "$*: does not say '$pattern': $said"
}
says() { grep -qE "$1" <<<"$said" || fail "not '$1': $said"; }

mkdir -p "$system/srv/user"
echo "user:x:1000:1000::/srv/user:/bin/bash" >>"$system/etc/passwd"
echo "user:x:1000:" >>"$system/etc/group"
echo "127.0.0.1 localhost $(hostname)" >"$system/etc/hosts"
cp -r "$folder/house" "$folder"/*.whl "$root/examples/torch/ddp.py" "$system/srv/user"
cat >"$system/srv/user/plain.py" <<'END'
import array
import sys
import tutti

with tutti.init() as comm:
    mine, sums = array.array("f", [1, 2, 3]), array.array("f", [0] * 3)
    comm.allreduce(mine, out=sums)
    assert sums.tolist() == [comm.size * element for element in mine], sums
    assert tutti.library_path().startswith(sys.prefix), tutti.library_path()
    print("rank", comm.rank, "has", sums.tolist())
END
cat >"$system/srv/user/dies.py" <<'END'
import os
import numpy
import tutti

with tutti.init() as comm:
    comm.barrier()
    if comm.rank == 1:
        os._exit(3)
    comm.allreduce(numpy.ones(3))
END
chown -R 1000:1000 "$system/srv/user"

# There is nothing to compile with.
for program in cc gcc g++ c++ clang clang++ tcc cpp as ld make cmake ninja; do
    if inside "command -v $program" >/dev/null; then fail "the fresh system has $program"; fi
done
fails_inside 'Could not find|No matching|Network is unreachable|name resolution|NewConnectionError' \
    "python3 -m venv env && pip --retries 0 --timeout 5 install numpy"
pip="pip -q --no-input install --no-index --find-links house"

# ----------------------------------------------------------------------------------------------------------- without PyTorch

do_inside "$pip ./tutti_comm-*.whl"
do_inside "ls env/bin | grep ^tutti-"
programs=$said
version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* \([0-9][0-9]*\)$/\1/p' "$root/include/tutti/tutti.h" | paste -sd.)
[[ $(wc -w <<<"$programs") -ge 9 ]] || fail "only these programs: $programs"
for program in $programs; do
    do_inside "$program --version"
    [[ $said == "$program $version" ]] || fail "$program --version: $said"
done
do_inside "tutti-run -n 2 python3 plain.py"
says 'rank 0 has \[2.0, 4.0, 6.0\]'
says 'rank 1 has \[2.0, 4.0, 6.0\]'
# Over connections, which OpenSSL in the library authenticates and encrypts.
do_inside "TUTTI_TRANSPORT=tcp TUTTI_ENCRYPTION=on tutti-run -n 2 python3 plain.py"
says 'rank 1 has \[2.0, 4.0, 6.0\]'
# The library reads JSON, by jansson in the wheel.
fails_inside 'bad.json: line 1: ' "echo '{\"a\": }' >bad.json; TUTTI_CALIBRATION=bad.json tutti-run -n 2 python3 plain.py"
do_inside "tutti-plan verify allreduce ring --ranks 8"
do_inside "tutti-schedule --help"
do_inside "tutti-info --json"
says "\"$version\""
do_inside "tutti-topo"
says 'package 0'
do_inside "tutti-run -n 2 tutti-perf allreduce --sizes 1K --time 0.01"
says 'Wrong elements *: 0 OK'
do_inside "tutti-run -n 2 tutti-tune --collectives allreduce --sizes 1k-1k --time 0.01 -o table.json && tutti-tune --show table.json"
cat >"$system/srv/user/ring.xml" <<'END'
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" affinity="1">
    <pci busid="0000:01:00.0" class="0x030200"><gpu dev="0" sm="80" rank="0"><nvlink target="0000:02:00.0" count="1" tclass="0x030200"/></gpu></pci>
    <pci busid="0000:02:00.0" class="0x030200"><gpu dev="1" sm="80" rank="1"><nvlink target="0000:01:00.0" count="1" tclass="0x030200"/></gpu></pci>
  </cpu>
</system>
END
do_inside "tutti-synth allgather --topo ring.xml -o mine.plan && tutti-plan verify mine.plan"
fails_inside 'rank 1 .* died' "mkdir dumps && TUTTI_TRACE_DIR=dumps tutti-run -n 2 python3 dies.py"
fails_inside '^rank 1 .*is dead or gone' "tutti-trace verdict dumps" # it ends with 1 where it finds a culprit

fails_inside 'tutti_torch: PyTorch cannot be imported by /srv/user/env/bin/python3? .*pip install torch' "python3 -m tutti_torch"

# -------------------------------------------------------------------------------------------------------- with it, and no compiler

do_inside "$pip torch"
export TUTTI_TORCH_BACKEND=cpp
fails_inside 'there is no C\+\+ compiler; the wheel tutti-torch, which needs no compiler, is not installed' "tutti-run -n 2 python3 ddp.py"
TUTTI_TORCH_BACKEND=auto PYTHONWARNINGS=default do_inside "tutti-run -n 2 python3 ddp.py"
says "Tutti's backend in C\\+\\+ is not there: .*The one in Python takes its place"
says 'step 7 loss'

# ------------------------------------------------------------------------------------------------------------ with both wheels

do_inside "$pip ./tutti_torch-*.whl && pip check"
do_inside "python3 -m tutti_torch"
says 'the backend in C\+\+ is /srv/user/env/lib/.*/tutti_torch_ready/_backend\..*\.so'
losses() { grep -o 'step [0-9] loss [0-9.]*' <<<"$said"; }
do_inside "python3 -m torch.distributed.run --standalone --nproc_per_node 2 ddp.py --backend gloo"
gloo=$(losses)
[[ $(wc -l <<<"$gloo") == 8 ]] || fail "gloo: $said"
do_inside "tutti-run -n 2 python3 ddp.py"
[[ $(losses) == "$gloo" ]] || fail "other losses than with gloo: $said"
do_inside "python3 -m torch.distributed.run --standalone --nproc_per_node 2 ddp.py"
[[ $(losses) == "$gloo" ]] || fail "other losses than with gloo, under torchrun: $said"
do_inside "ls -A .cache 2>/dev/null || true"
if [[ $said == *tutti* ]]; then fail "something was compiled: $said"; fi

# ------------------------------------------------------------------------------------------------ what does not fit, or is missing

ready=$(echo "$system"/srv/user/env/lib/python3*/site-packages/tutti_torch_ready)
cp "$ready/built_for.json" "$work"
# As if it were for another one: facts NAME VALUE
pretend() {
    python3 - "$work/built_for.json" "$ready/built_for.json" "$1" "$2" <<'END'
import json, sys
facts = json.load(open(sys.argv[1]))
assert sys.argv[3] in facts
facts[sys.argv[3]] = sys.argv[4]
json.dump(facts, open(sys.argv[2], "w"))
END
}
run="tutti-run -n 2 python3 ddp.py"
pretend torch 2.12.0+cpu
fails_inside 'no C\+\+ compiler; the installed tutti-torch is for PyTorch 2.12.0\+cpu, and here is PyTorch 2.13.0\+cpu' "$run"
pretend python cpython-312-x86_64-linux-gnu
fails_inside 'the installed tutti-torch is for Python cpython-312-x86_64-linux-gnu, and here is Python cpython-3' "$run"
pretend cxx11_abi 0
fails_inside 'the installed tutti-torch is for a PyTorch with _GLIBCXX_USE_CXX11_ABI=0, and here is' "$run"
pretend tutti 0.0.9
fails_inside "the installed tutti-torch is for tutti-comm 0.0.9, and here is tutti-comm $version" "$run"
TUTTI_TORCH_BACKEND=auto do_inside "$run" # goes on without
cp "$work/built_for.json" "$ready"
for file in "$ready"/_backend.*.so; do mv "$file" "$file.away" && echo nothing >"$file"; done
fails_inside 'tutti_torch_ready/_backend.* cannot be loaded' "$run"
for file in "$ready"/_backend.*.so; do mv "$file.away" "$file"; done

# pip refuses what is for another Python.
wheel=$(echo "$folder"/tutti_torch-*.whl)
IFS=- read -r _ _ own _ platform <<<"${wheel##*/}"
other="pip download -q --no-deps --no-index --find-links . --only-binary :all: -d other --platform ${platform%.whl} --implementation cp"
do_inside "$other --python-version ${own#cp} --abi $own tutti-torch && $other --python-version ${own#cp} --abi $own tutti-comm"
fails_inside 'No matching distribution found for tutti-torch' "$other --python-version 399 --abi cp399 tutti-torch"
do_inside "$other --python-version 399 --abi cp399 tutti-comm"
fails_inside "requires a different Python: 3.8.0 not in '>=3.9'|No matching distribution found for tutti-comm" \
    "$other --python-version 38 --abi cp38 tutti-comm"
do_inside "tutti-run -n 2 python3 ddp.py"

libtorch=("$system"/srv/user/env/lib/python3*/site-packages/torch/lib/libtorch_cpu.so)
mv "${libtorch[0]}" "$work/libtorch_cpu.so"
fails_inside 'tutti_torch: PyTorch cannot be imported .*libtorch_cpu.so' "python3 -m tutti_torch"
do_inside "tutti-run -n 2 python3 plain.py"

do_inside "pip -q uninstall -y tutti-torch tutti-comm && find env -name '*tutti*'"
[[ -z $said ]] || fail "pip leaves: $said"

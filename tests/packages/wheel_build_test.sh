#!/bin/bash
# scripts/wheels makes both wheels: with all programs, for other machines than this one, and with a list of the libraries in them.
# What wheel_use_test.sh installs, too, is in build/packages/wheels: the wheels, and in house/ the packages that they need.
# ctest: label=long label=nosan label=once timeout=3000 makes=wheels first
set -uo pipefail
root=${TUTTI_ROOT:?}
cd "$root" || exit 1
folder=${TUTTI_BUILD:?}/packages/wheels
torch=2.13.0+cpu

skip() {
    rm -f "$folder/is_whole"
    echo "$1"
    exit 77
}
fail() {
    echo "$1"
    exit 1
}

mkdir -p "$folder"
rm -f "$folder/is_whole"
# The system's Python is that of a fresh system of the same release, whatever Python is first in PATH.
/usr/bin/python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    skip "/usr/bin/python3 is not Python 3.11 or later with venv (Debian: python3-venv)"
command -v dpkg-query >/dev/null || skip "this is no Debian, whose packages tell the licences"
c++ --version >/dev/null 2>&1 || skip "no C++ compiler is here (Debian: g++)"
[[ -e $(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]] ||
    skip "Python.h is not here (Debian: libpython3-dev)"

python=$folder/torch/bin/python
if [[ ! -e $folder/torch/is_whole ]]; then
    rm -rf "$folder/torch" "$folder/house"
    /usr/bin/python3 -m venv "$folder/torch" >"$folder/pip.log" 2>&1 || fail "$(cat "$folder/pip.log")"
    "$folder/torch/bin/pip" --disable-pip-version-check download -q --only-binary :all: --retries 1 --timeout 60 -d "$folder/house" \
        "torch==$torch" numpy >"$folder/pip.log" 2>&1 ||
        skip "PyTorch $torch cannot be had by pip: $(grep -m 1 ERROR "$folder/pip.log" || tail -n 1 "$folder/pip.log")"
    "$folder/torch/bin/pip" --disable-pip-version-check install -q --no-index --find-links "$folder/house" "torch==$torch" numpy \
        >"$folder/pip.log" 2>&1 || fail "$(cat "$folder/pip.log")"
    touch "$folder/torch/is_whole"
fi

began=$SECONDS
CMAKE_BUILD_PARALLEL_LEVEL=2 nice scripts/wheels -o "$folder" "$python" >"$folder/said" 2>&1
case $? in
0) ;;
3) skip "$(tail -n 1 "$folder/said")" ;;
*) cat "$folder/said"; exit 1 ;;
esac
echo "making the wheels: $((SECONDS - began)) s"

version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* \([0-9][0-9]*\)$/\1/p' include/tutti/tutti.h | paste -sd.)
wheels=("$folder"/*.whl)
main=${wheels[0]} part=${wheels[1]-}
tag="manylinux_2_[0-9]+_$(uname -m)"
[[ ${#wheels[@]} == 2 && ${main##*/} =~ ^tutti_comm-$version-py3-none-$tag\.whl$ &&
    ${part##*/} =~ ^tutti_torch-$version\+torch${torch//+/.}-cp3[0-9]+-cp3[0-9]+-$tag\.whl$ ]] ||
    fail "other wheels than expected: ${wheels[*]##*/}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m zipfile -e "$main" "$work/main" && "$python" -m zipfile -e "$part" "$work/part" || fail "a wheel cannot be unpacked"
main=$work/main part=$work/part

# All programs, and nothing that the machine must have but libc.
(cd tools && for file in */*.c; do echo "tutti-${file%%/*}"; done) | sort -u >"$work/tools"
(cd "$main/tutti_comm-$version.data/scripts" && find . -type f -printf '%P\n') | sort >"$work/programs"
diff "$work/tools" "$work/programs" || fail "the wheel has other programs than tools/ (<)"
[[ -s $work/tools ]] || fail "this test does not work: there are no tools"
while read -r file; do
    readelf -d "$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r needed; do
        case $needed in
        libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux-*) ;;
        libtutti.so) [[ -e $main/tutti/libtutti.so ]] || echo "${file#"$work"/} needs $needed" ;; # it finds it beside its package
        *) [[ -e $main/tutti_comm.libs/$needed ]] || echo "${file#"$work"/} needs $needed" ;;
        esac
    done
done < <(find "$main" -type f) >"$work/needs"
[[ ! -s $work/needs ]] || fail "$(cat "$work/needs")"

# PyTorch brings its own libraries, and the compiler's are on every system with Python packages in C++.
readelf -d "$part"/tutti_torch_ready/*.so | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$work/needs"
grep -qx libtorch_cpu.so "$work/needs" || fail "this test does not work: the part for PyTorch needs no libtorch"
if grep -vE '^(libtorch|libtorch_python|libtorch_cpu|libc10|libstdc\+\+|libgcc_s|libc|libm|ld-linux-.*)\.so(\.[0-9]+)?$' "$work/needs"; then
    fail "the part for PyTorch needs that"
fi
[[ ! -e $part/tutti_torch.libs ]] || fail "libraries were put into the part for PyTorch: $(ls "$part/tutti_torch.libs")"

# The library exports Tutti's names alone, though OpenSSL is within.
nm -D --defined-only "$main/tutti/libtutti.so" | awk '{ print $NF }' >"$work/exported"
grep -q '^tutti_allreduce' "$work/exported" || fail "this test does not work: no tutti_allreduce"
if grep -v '^tutti_\|^TUTTI_' "$work/exported" | head; [[ $(grep -cv '^tutti_\|^TUTTI_' "$work/exported") != 0 ]]; then
    fail "libtutti.so exports that"
fi

# No file names the machine that made it.
if grep -rlF -e "$root" -e "$folder" "$main" "$part"; then fail "these files name folders of this machine"; fi

# Each library in the wheel is listed, and has its licence's text.
list=$main/tutti_comm-$version.dist-info/licenses
for library in "$main"/tutti_comm.libs/*; do
    name=${library##*/lib} name=${name%%-*}
    if [[ $name == udev ]]; then name=systemd; fi
    # shellcheck disable=SC2016 # the backticks are the list's
    grep -q "^| $name | [0-9].* | \`tutti_comm.libs\` | [A-Z]" "$list/BUNDLED.md" || fail "BUNDLED.md does not list ${library##*/}"
done
for name in openssl jansson expat; do
    grep -q "^| $name | [0-9].* | linked in | [A-Z]" "$list/BUNDLED.md" || fail "BUNDLED.md does not list $name"
done
while read -r notice; do
    [[ $(wc -c <"$list/$notice") -gt 1000 ]] || fail "$notice is no notice"
done < <(sed -n 's/.*](\(bundled.*\)) |$/\1/p' "$list/BUNDLED.md")
grep -q 'GNU LESSER GENERAL PUBLIC LICENSE' "$list/bundled/systemd.txt" || fail "the licence of libudev is not there"

# It can fail: a library whose licence nobody has read is not put into a wheel.
cp "${wheels[0]}" "$work"
echo /usr/bin/env >"$work/archives"
if PYTHONPATH=$(echo "$folder"/tools-*) "$python" bindings/wheel/bundled.py "$work/${wheels[0]##*/}" "$work/archives" >"$work/said" 2>&1; then
    fail "a file without a licence passed"
fi
grep -q 'no licence of coreutils' "$work/said" || fail "this test does not work: $(cat "$work/said")"
touch "$folder/is_whole"

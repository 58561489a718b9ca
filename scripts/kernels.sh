#!/bin/bash
# Prints src/gpu/kernels.ptx, made anew from src/gpu/kernels.cu (or another source) and what it includes, by clang 14 alone: nothing of CUDA
# is needed. `make kernels` stores it. With --compiler it only says whether that compiler is here.
set -euo pipefail
cd "$(dirname "$0")/.."

version=14.0.6 # another one gives other, equally good code, which could not be compared
clang=
for candidate in clang-14 clang; do
    if command -v "$candidate" >/dev/null && "$candidate" --version | grep -qF "clang version $version" &&
        "$candidate" --print-targets 2>/dev/null | grep -q nvptx64; then
        clang=$candidate
        break
    fi
done
if [[ -z $clang ]]; then
    echo "clang $version with the target nvptx64 is not here" >&2
    exit 77
fi
if [[ ${1:-} == --compiler ]]; then exit 0; fi
source=${1:-src/gpu/kernels.cu}

# sm_70 is the first device whose threads of a warp go on one by one, and whose memory has scopes. Of PTX, 7.0 is known to all drivers
# from CUDA 11.0 on. Nothing is contracted, nothing flushed to zero: bits are those of the CPU.
"$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -Xclang -target-feature -Xclang +ptx70 \
    -O2 -ffp-contract=off -fno-cuda-flush-denormals-to-zero -Wall -Wextra -Wshadow -Werror -Wno-unknown-cuda-version -Wno-c99-designator \
    -Isrc -Iinclude -S "$source" -o - |
    sed '/^\t\/\/ \(begin\|end\) inline asm$/d'

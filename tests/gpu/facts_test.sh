#!/bin/bash
# bench/gpu_facts asks the test double for CUDA's driver (cuda_standin.h) what it would ask a device's: everything is as expected, and is told
# where the double is made to say something else.
# ctest: label=nosan label=once waits
set -u
source "${BASH_SOURCE[0]%/*}/../kit/tool.sh"
tool=$(realpath "${TUTTI_BUILD:?}/bench/gpu_facts")
driver=$(realpath "$TUTTI_BUILD/lib/libcuda_standin.so")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export TUTTI_STANDIN_DEVICES=1 TUTTI_STANDIN_SEED=0

exits 0 "$driver"
says out "device: stand-in 0"
says out "mapping: cuMemExportToShareableHandle: OK"
says out "mapping that may not be exported: cuMemExportToShareableHandle: CUDA_ERROR_NOT_SUPPORTED"
says out "cuMemAllocAsync of 5 MiB: cuIpcGetMemHandle: CUDA_ERROR_INVALID_VALUE"
says out "while a kernel runs, cuMemFree WAITS FOR IT"
says out "while cuMemFree waits so, cuPointerGetAttributes of another thread goes on"
says out "while cuMemFree waits so, cuStreamQuery of another thread WAITS, TOO"
says out "while a kernel runs, cuMemSetAccess takes "
says out "other process: 5 MiB: can be read, holds 0x5a 0x5a"
says out "other process: mapping of another process: can be read, holds 0xa5 0xa5"
says out "all is as expected"
if grep -q UNEXPECTED out; then fail "$(grep UNEXPECTED out)"; fi

TUTTI_STANDIN_WAIT=1 exits 0 "$driver" waiting
says out "while a kernel runs, cuMemSetAccess WAITS FOR IT"
TUTTI_STANDIN_MAPPED=3 exits 1 "$driver" memory
says out "UNEXPECTED: mappings have no number"
TUTTI_STANDIN_MAPPED=4 exits 1 "$driver" memory
says out "UNEXPECTED: cuMemGetAddressRange does not tell a mapping"
TUTTI_STANDIN_DEVICES=0 exits 77 "$driver"
says out "skipped: the driver finds no device"
exits 77 "$work/none.so" memory
says out "skipped: no driver"
exit $((failures > 0))

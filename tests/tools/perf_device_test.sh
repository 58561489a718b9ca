#!/bin/bash
# tutti-perf with memory of devices and with streams, over the test double for CUDA's driver (cuda_standin.h): what is measured is
# checked, reports say where buffers lie, and what cannot be is refused. tutti-topo shows the double's devices.
# ctest: label=longsan label=notsan timeout=300
set -u
source "${BASH_SOURCE[0]%/*}/../kit/tool.sh"
bin=$(realpath "${TUTTI_BIN:?}")
driver=$(realpath "$bin/../lib/libcuda_standin.so")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export TUTTI_CUDA_DRIVER=$driver TUTTI_STANDIN_DEVICES=2
tool=$bin/tutti-perf
once="-n 1 -w 0 --timeout 90"

says() { # fixed string
    cat out err | grep -qF -- "$1" || fail "no '$1' in: $(cat out err | head -c 1500)"
}
perf() { # exit code, words
    # shellcheck disable=SC2086 # words are words
    exits $1 $2 $once
}

perf 0 "allreduce -t 2 --device 0 --memory device --sizes 8,20K -d float32,bfloat16 -o sum,avg --misalign 2"
says "# device memory, blocking calls; time"
says "Wrong elements    : 0 OK"
perf 0 "alltoallv --ranks 2 --memory device --stream --counts 1,700 --skew linear --displs gaps --format csv"
says ",blocking,device,linear,gaps,0,0,0,1"
perf 0 "reduce --ranks 2 --memory device --form prepared --tensors 3 --sizes 5K -r all --format json"
says '"memory": "device", "form": "prepared"'
says '"stream": false'
perf 0 "allgather --ranks 2 --memory device --stream --form started --sizes 9K"
says "# device memory, started calls in a stream; time"
perf 0 "broadcast --ranks 2 --stream --form grouped --sizes 9K"
says "# private memory, grouped calls in a stream; time"
perf 0 "barrier -t 2 --device 1 --stream"
# Threads whose streams need more hardware queues than CUDA gives by default: with too few they stand still after some calls. With a sanitizer
# on a busy machine all the calls take more than 20 s.
once="-n 150 -w 0 --timeout 90" TUTTI_GPU_BLOCKS=1 perf 0 "allreduce -t 8 --device 0 --memory device --stream --sizes 8"

perf 0 "pingpong --ranks 2 --memory device --sizes 8,300K"
says "Wrong elements    : 0 OK"
perf 0 "sendrecv -t 2 --device 0 --memory device --form prepared --sizes 9K"
says "# device memory, prepared calls; time"

# Memory of a device on one rank, the host's on the other one.
# shellcheck disable=SC2016 # the ranks' shells expand it
"$bin/tutti-run" -n 2 bash -c 'if ((TUTTI_RANK)); then memory=(--memory device); fi; exec "$@" "${memory[@]}"' - "$tool" \
    reduce_scatter --sizes 12K -o max --timeout 90 -n 1 -w 0 >out 2>err || fail "different memory: $(head -c 500 err)"
says "Wrong elements    : 0 OK"

perf 2 "sendrecv --ranks 2 --stream --sizes 8"
says "sendrecv is not supported with --stream"
perf 2 "allreduce --ranks 2 --memory device -o sum,user --sizes 8"
says "the CPU runs operations made from functions"
perf 2 "allreduce --ranks 2 --device 0 --sizes 8"
says "--device is for --memory device and --stream"
perf 1 "allreduce -t 1 --memory device --device 2 --sizes 8"
says "there is no CUDA device 2: they are 0 to 1"
TUTTI_CUDA_DRIVER=$work/none.so perf 1 "allreduce -t 1 --memory device --sizes 8"
says "--memory device and --stream need a GPU's driver: "
says "$work/none.so"
TUTTI_STANDIN_DEVICES=0 perf 1 "allreduce -t 1 --memory device --sizes 8"
says "need a GPU, but the driver finds none"

# One of two GPUs stands where hwloc has a device, beside a network card; the other one nobody else has found.
tool=$bin/tutti-topo
if [[ -x $tool ]]; then
    sets='cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"'
    cat >host.xml <<END
<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
<object type="Machine" os_index="0" $sets allowed_cpuset="0x1" allowed_nodeset="0x1" gp_index="1">
<object type="NUMANode" os_index="0" $sets gp_index="2" local_memory="1073741824"/>
<object type="Package" os_index="0" $sets gp_index="3"><object type="Core" os_index="0" $sets gp_index="4">
<object type="PU" os_index="0" $sets gp_index="5"/></object>
<object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[9f-a2]">
<object type="Bridge" gp_index="7" bridge_type="1-1" depth="1" bridge_pci="0000:[a0-a1]" pci_busid="0000:9f:00.0" pci_type="0604 [8086:1901] [0000:0000] 07" pci_link_speed="31.5">
<object type="PCIDev" gp_index="8" pci_busid="0000:a0:00.0" pci_type="0302 [10de:2335] [10de:18be] a1" pci_link_speed="31.5"/>
<object type="PCIDev" gp_index="9" pci_busid="0000:a2:00.0" pci_type="0200 [15b3:1017] [15b3:0008] 00" pci_link_speed="15.75"/>
</object></object></object></object></topology>
END
    export HWLOC_XMLFILE=$work/host.xml ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" # hwloc's own
    exits 0
    says "accelerator 0 "
    says " multiprocessors"
    grep -q '^.* switch PCI  0000:9f:00.0' out && grep -q '│.*├─ accelerator 0 .*  0000:a0:00.0' out || fail "$(cat out)"
    grep -q '^└─ accelerator 1 .*  0000:a1:00.0' out || fail "the second GPU: $(cat out)"
    exits 0 --format matrix
    says "acc0"
    TUTTI_CUDA_DRIVER='' exits 0
    if grep -q multiprocessors out; then fail "GPUs without a driver: $(cat out)"; fi
    TUTTI_CUDA_DRIVER=$work/none.so exits 1
    says "$work/none.so"
fi
exit $((failures > 0))

#!/bin/bash
# tutti-info says what is here and what is set, names what cannot work, shows no secret, and waits for nobody for ever.
# ctest: label=nosan
set -uo pipefail

root=${TUTTI_ROOT:?} build=${TUTTI_BUILD:?} bin=${TUTTI_BIN:?}
tool=$(realpath "$bin/tutti-info")
# shellcheck source=tests/kit/tool.sh
source "$root/tests/kit/tool.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
for variable in $(compgen -e TUTTI_); do unset "$variable"; done
unset RANK WORLD_SIZE

# ------------------------------------------------------------------------------------------------ what is here
exits 0
[ ! -s err ] || fail "on stderr: $(cat err)"
! grep -q $'[\e\t]\|[ ]$' out || fail "colours, tabs or blanks at the end: $(cat -A out)"
says out "Tutti          $("$tool" --version | sed 's/tutti-info //')"
says out "host           $(uname -n), Linux $(uname -r)"
says out "limits         descriptors $(ulimit -n)"
says out 'within a host  shared memory'
[[ $(tail -n 1 out) == 'options set    none' ]] || fail "the last line: $(tail -n 1 out)"
TUTTI_KERNEL=scalar TUTTI_TRANSPORT=tcp TUTTI_TIMEOUT=2m exits 0
says out 'kernels        scalar'
says out 'within a host  TCP'
says out '  TUTTI_TIMEOUT=2m     (default 30m)'
! grep -q '^problems\|^!' out || fail "problems: $(cat out)"
"$bin/tutti-run" -n 2 --no-prefix "$tool" >out 2>err </dev/null || fail "under tutti-run: $(cat out err)"
says out 'launcher       tutti-run, rank 1 of 2'

# GPUs are those of the test double for CUDA's driver.
standin=$build/lib/libcuda_standin.so
if [[ -e $standin ]]; then
    TUTTI_CUDA_DRIVER=$standin TUTTI_STANDIN_DEVICES=2 exits 0
    [[ $(grep -c '^\(GPUs\|    \) .*[01]: .* multiprocessors, ' out) == 2 ]] || fail "GPUs: $(cat out)"
fi

# -------------------------------------------------------------------------------------------- what cannot work
echo 'no such thing' >garbage
other=neon # kernels of other processors
[[ $(uname -m) != aarch64 ]] || other=avx2
# Each is blamed for itself, whatever else is wrong.
env TUTTI_RAILS=9 TUTTI_LOG=loud TUTTI_ALGORITHMS=allreduce=fast TUTTI_CALIBRATION=garbage TUTTI_TABLE=garbage TUTTI_PLANS=none \
    TUTTI_TRACE_SIGNAL=KILL TUTTI_SOCKET_IFNAME==no-such TUTTI_PORT_RANGE=7-x TUTTI_FABRIC=no-such TUTTI_CUDA_DRIVER=./garbage \
    TUTTI_SECRET_FILE=none TUTTI_RENDEZVOUS_DIR=none TUTTI_RANK=1 TUTTI_PROGRESS_CPUS=x TUTTI_TOPO_FILE=none TUTTI_TRACE_DIR=garbage \
    TUTTI_KERNEL=$other TUTTI_TIMOUT=1 TUTTI_PROBE=0 TUTTI_METRICS_DIR=fresh TUTTI_TIMEOUT=1m "$tool" >out 2>err </dev/null
[ $? = 1 ] || fail "not 1 with much that is wrong"
sed '1,/^problems$/d' out >problems
while read -r problem; do says problems "  $problem"; done <<'END'
TUTTI_RAILS=9: a number from 1 to 4 is needed
TUTTI_LOG=loud: off, warn, info or debug is needed
TUTTI_ALGORITHMS: algorithm rules, at "fast"
TUTTI_CALIBRATION: garbage
TUTTI_TABLE: garbage
TUTTI_PLANS: the folder none
TUTTI_TRACE_SIGNAL=KILL:
TUTTI_SOCKET_IFNAME: no network interface fits
TUTTI_PORT_RANGE=7-x:
TUTTI_FABRIC=no-such:
TUTTI_CUDA_DRIVER:
TUTTI_SECRET_FILE=none:
TUTTI_RENDEZVOUS_DIR: none:
TUTTI_RANK: no launcher is recognised: TUTTI_RANK is set, but TUTTI_SIZE is not
TUTTI_PROGRESS_CPUS=x:
TUTTI_TOPO_FILE: none:
TUTTI_TRACE_DIR: garbage is no folder
TUTTI_TIMOUT is set, but there is no such option: is TUTTI_TIMEOUT meant?
END
says problems "  TUTTI_KERNEL=$other: this processor does not have it"
[[ $(wc -l <problems) == 19 ]] || fail "not 19 problems: $(cat problems)"
diff <(cut -d= -f1 <problems | cut -d: -f1 | awk '{print $1}' | sort) <(sed -n 's/^! \(TUTTI_[A-Z_]*\).*/\1/p' out | sort) ||
    fail "others are marked: $(cat out)"
[[ $(grep -c '^  TUTTI_\(PROBE\|METRICS_DIR\|TIMEOUT\)=' out) == 3 ]] || fail "what is right: $(cat out)"

# A file in the cache folder that is wrong is no fault of an option.
mkdir -p cache/tutti && cp garbage "cache/tutti/calibration-$(uname -n).json"
XDG_CACHE_HOME=$work/cache TUTTI_ALGORITHMS=allreduce=ring exits 0

# ----------------------------------------------------------------------------------------------------- secrets
(umask 077 && echo open-sesame-in-a-file >secret)
for secret in TUTTI_SECRET=open-sesame-and-more TUTTI_SECRET_FILE=secret; do
    for format in '' --json; do
        # shellcheck disable=SC2086 # none, or one word
        env "$secret" TUTTI_JOB_ID=open-sesame TUTTI_SERCET=open-sesame "$tool" $format >out 2>err </dev/null
        for name in "${secret%%=*}" TUTTI_JOB_ID TUTTI_SERCET; do says out "$name"; done
        ! grep -q open-sesame out err || fail "a secret is shown: $(cat out err)"
    done
done

# -------------------------------------------------------------------------------------------------------- JSON
if command -v python3 >/dev/null; then
    [ ! -e "$standin" ] || export TUTTI_CUDA_DRIVER=$standin
    TUTTI_RAILS=2 TUTTI_PORT_RANGE='1-"\' TUTTI_TIMOUT=1 exits 1 --json
    unset TUTTI_CUDA_DRIVER
    sed -n '/^\.SH JSON/,/^\.SH ENV/s/^\.B \([a-z]\)/\1/p' "$root/man/tutti-info.1" >documented
    python3 - "$build/CMakeCache.txt" <<'END' || fail "JSON: $(cat out)"
import json, re, sys
report = json.load(open("out"))
def keys(value, path):
    if isinstance(value, dict):
        for key, inner in value.items(): yield from keys(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for inner in value: yield from keys(inner, path + "[]")
    else:
        yield path
found, documented = set(keys(report, "")), set(open("documented").read().split())
unknown = {key for key in found - documented if key + "[]" not in documented and not any(d.startswith(key + "[]") for d in documented)}
missing = {key for key in documented - found if not any(key.startswith(empty + "[]") for empty in found)}
assert not unknown, f"not in the manual page: {unknown}"
assert not missing, f"only in the manual page: {missing}"
options = {option["name"]: option for option in report["options"]}
assert options["TUTTI_RAILS"]["value"] == "2" and options["TUTTI_RAILS"]["default"] == "1" and options["TUTTI_RAILS"]["valid"]
assert options["TUTTI_PORT_RANGE"]["value"] == '1-"\\' and not options["TUTTI_PORT_RANGE"]["valid"]
assert report["unknown_options"] == [{"name": "TUTTI_TIMOUT", "meant": "TUTTI_TIMEOUT"}]
assert len(report["problems"]) == 2, report["problems"]
cache = dict(re.findall(r"^(\w+):\w+=(.*)$", open(sys.argv[1]).read(), re.M))
for key, variable in {"libfabric": "OFI_INCLUDE_DIR", "pmix": "PMIX_INCLUDE_DIR", "jansson": "JANSSON_INCLUDE_DIR", "openssl": "TUTTI_OPENSSL"}.items():
    assert report["build"][key] == (not cache[variable].endswith("NOTFOUND") and cache[variable] != "OFF"), key
END
fi

# ------------------------------------------------------------------------------- libraries that hang, or crash
cat >broken.c <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void)
{
    if (getenv("CRASHES")) abort();
    const int fd = open(getenv("PIDS"), O_CREAT | O_APPEND | O_WRONLY, 0600);
    dprintf(fd, "%d\n", (int)getpid());
    for (;;) pause();
}
END
mkdir broken
"${CC:-cc}" -shared -fPIC -o broken/libfabric.so.1 broken.c && cp broken/libfabric.so.1 broken/libcuda.so.1 || fail "no library"
export LD_LIBRARY_PATH=$work/broken PIDS=$work/pids
started=$SECONDS
export TUTTI_FABRIC=off # also where there are RDMA cards
exits 0 --timeout 1
says out 'CUDA: no answer within 1 s'
says out 'within a host  shared memory'
TUTTI_CUDA_DRIVER=libcuda.so.1 TUTTI_RAILS=2 exits 1 --timeout 1
[[ $(sed '1,/^problems$/d' out) == '  TUTTI_CUDA_DRIVER: no answer within 1 s' ]] || fail "one that hangs: $(cat out)"
[ $((SECONDS - started)) -lt 20 ] || fail "it took $((SECONDS - started)) s"
[ -s pids ] || fail "nothing has hung"
while read -r pid; do [ ! -e "/proc/$pid" ] || fail "process $pid is left: $(cat "/proc/$pid/status")"; done <pids
CRASHES=1 TUTTI_CUDA_DRIVER=libcuda.so.1 exits 1
says out 'TUTTI_CUDA_DRIVER: it crashed: Aborted'
unset LD_LIBRARY_PATH TUTTI_FABRIC

# ------------------------------------------------------------------------------------------------- wrong usage
for words in --frob 'more' '--timeout 0' '--timeout soon' --timeout; do
    # shellcheck disable=SC2086
    exits 2 $words
    says err 'see tutti-info --help'
done
"$tool" >/dev/full 2>err </dev/null
[ $? = 1 ] && grep -q 'standard output' err || fail "a full disk: $(cat err)"
exit $((failures > 0))

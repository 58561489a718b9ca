#!/bin/bash
# fork() knows every lock of the library: each takes part in it (src/os/fork.h), or stands below with the reason why no child of fork() waits for
# it.  Locks are mutexes, read-write locks, spin locks and what runs once, of C and C++, wherever they are declared.  Prints those that do
# neither, names that two locks of a file share, and reasons for locks that are not there.
# ctest: label=once label=nosan
set -euo pipefail

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi

# What libc runs once it runs again in a child that was forked meanwhile (os/fork_test.c): so it must bear that.
reasons='
bindings/tensorflow/front/communicators.c lock of the front: a child is refused before
bindings/tensorflow/front/service.c lock of the service: a child is refused before
src/bootstrap/mac_openssl.c once        fork() waits for who is between at_exit_enter and at_exit_leave
src/bootstrap/pmix_service.c lock       of one answer for one thread, which is not in the child
src/call/request.h lock                 of a communicator: a child may only free it, and tries the lock first
src/comm/knowledge.c once               computes numbers, which may be done again
src/format/jansson.c once               loads a library, which may be done again
src/gpu/cuda.c opening                  a child is refused before
src/gpu/cuda_state.h bounce_lock        of a device: a child is refused before
src/gpu/cuda_state.h lock               of a device: a child is refused before
src/gpu/cuda_state.h read_lock          of a device: a child is refused before
src/gpu/executor.c making               only tried in a child, which has no device to make runs for
src/gpu/executor.c ordering             of a run of a device: a child leaves its parent'"'"'s alone
src/gpu/executor.c starting             taken to start work on a device: a child is refused before
src/gpu/shares.c opening                only tried
src/health/trace.h lock                 of a communicator: taken to dump, and a child may only free it
src/memory/given.c change               made anew in the child (forget_all)
src/memory/unmapped.c life              made anew in the child (forget_all)
src/memory/unmapped.c lock              made anew in the child (forget_all)
src/os/at_exit.c once                   registers a handler, which may be done again
src/os/tls_openssl.c once               fork() waits for who is between at_exit_enter and at_exit_leave
studio/synth/z3.c once                     of a tool, which does not fork
src/transport/local/state.h sharing_lock of a communicator: a child may only free it, which does not take the lock
src/transport/ofi/regions.c lock        of a network card, which a child does not close
tools/plan/verify.c lock          of a tool, which does not fork
src/server/serve_state.h lock            of a server, whose communicators a child may only free
src/server/server_state.h function_lock        of the threads of one, which a child does not have
train/buckets.c lock                    of buckets, whose communicator a child may only free
train/compress_state.h lock             of a compressor, whose communicator a child may only free
'

# Findings of one tree: its root, and reasons as above.
find_offences() {
    python3 - "$1" "$2" <<'END'
import collections, pathlib, re, sys

root = pathlib.Path(sys.argv[1])
reasons = {tuple(line.split()[:2]): line.split()[2:] for line in sys.argv[2].splitlines() if line.strip()}
kinds = (r"(?:pthread_(?:mutex|rwlock|spinlock|once)_t|(?:mtx_t|once_flag)|"
         r"std::(?:(?:recursive_|shared_)?(?:timed_)?mutex|shared_timed_mutex|once_flag))")
suffixes = {".c", ".h", ".inc", ".cc", ".cpp", ".cxx", ".hpp", ".cu"}
bad = []
found = set()

for folder in ("include", "src", "studio", "train", "bindings", "tools"):
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in suffixes or re.search(r"_(test|fuzz)$", path.stem) or "tests" in path.parts:
            continue
        name_of_file = str(path.relative_to(root))
        text = path.read_text()
        if not re.search(rf"\b{kinds}|FORK_LOCK", text):
            continue
        code = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)
        declared = collections.Counter()
        for declaration in re.finditer(rf"\b{kinds}\s+(\w[^;]*);", code):
            for declarator in re.split(r",(?![^({]*[)}])", declaration[1]):
                name = re.fullmatch(r"\s*(\w+)\s*(?:\[[^\]]*\])?\s*(?:[={].*)?", declarator, re.S)
                declared.update([name[1]] if name else [])
        taking_part = set(re.findall(r"\bFORK_LOCK\((\w+)", code)) | set(re.findall(r"\.lock = &(?:\w+\.)?(\w+)", code))
        for name, count in sorted(declared.items()):
            found.add((name_of_file, name))
            if count > 1:
                bad.append(f"{name_of_file}: {count} locks are called {name}: give each a name of its own")
            if name not in taking_part and not reasons.get((name_of_file, name)):
                bad.append(f"{name_of_file}: {name} takes no part in fork() (src/os/fork.h), and this test has no reason for that")
            if name in taking_part and (name_of_file, name) in reasons:
                bad.append(f"{name_of_file}: {name} takes part in fork(), but this test has a reason why not")

for name_of_file, name in sorted(set(reasons) - found):
    bad.append(f"{name_of_file}: there is no lock {name}, but this test has a reason for it")
print("\n".join(sorted(bad)), end="\n" if bad else "")
sys.exit(bool(bad))
END
}

# The test can fail.
self_test() {
    local tree=$work/tree offences expected
    mkdir -p "$tree"/{src/os,bindings/torch/tests}
    cat >"$tree/src/os/good.c" <<'END'
FORK_LOCK(told, FORK_PORT, NULL);
static pthread_mutex_t list = /* a comment; */ PTHREAD_MUTEX_INITIALIZER;
static const struct fork_participant participant = {.lock = &list, .child = forget};
void lock_both(pthread_mutex_t *a, pthread_mutex_t *b);
/* static pthread_mutex_t gone; */
static pthread_once_t once = PTHREAD_ONCE_INIT;
list = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
END
    cat >"$tree/src/os/bad.c" <<'END'
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second =
    PTHREAD_MUTEX_INITIALIZER;
struct a { int x; pthread_rwlock_t inner; pthread_mutex_t many[3], last; };
struct b { pthread_mutex_t last; };
FORK_LOCK(held, FORK_PORT, NULL);
void f(void) { static pthread_once_t once; pthread_spinlock_t here; }
END
    echo 'class a { mutable std::shared_mutex mine; std::once_flag flag{}; std::lock_guard<std::mutex> guard(other); };' \
        >"$tree/bindings/torch/a.cpp"
    echo 'static std::mutex of_a_test;' >"$tree/bindings/torch/tests/a.cpp"
    offences=$(find_offences "$tree" $'src/os/good.c once it may\nsrc/os/bad.c here\nsrc/os/bad.c gone it is' || true)
    expected='bindings/torch/a.cpp: flag takes no part in fork() (src/os/fork.h), and this test has no reason for that
bindings/torch/a.cpp: mine takes no part in fork() (src/os/fork.h), and this test has no reason for that
src/os/bad.c: 2 locks are called last: give each a name of its own
src/os/bad.c: first takes no part in fork() (src/os/fork.h), and this test has no reason for that
src/os/bad.c: here takes no part in fork() (src/os/fork.h), and this test has no reason for that
src/os/bad.c: inner takes no part in fork() (src/os/fork.h), and this test has no reason for that
src/os/bad.c: last takes no part in fork() (src/os/fork.h), and this test has no reason for that
src/os/bad.c: many takes no part in fork() (src/os/fork.h), and this test has no reason for that
src/os/bad.c: once takes no part in fork() (src/os/fork.h), and this test has no reason for that
src/os/bad.c: second takes no part in fork() (src/os/fork.h), and this test has no reason for that
src/os/bad.c: there is no lock gone, but this test has a reason for it'
    if [[ $offences != "$expected" ]]; then
        echo "this test does not work: it found (<) instead of what is there (>):"
        diff <(echo "$offences") <(echo "$expected")
        return 1
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
self_test
find_offences "${TUTTI_ROOT:?}" "$reasons"

#!/bin/bash
# ./check and ./demo ask for packages by the names that apt-get, dnf or zypper knows, whichever is here; stand-ins for these three tell
# what they were asked for.
# ctest: label=nosan label=once
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

fail() {
    echo "$1"
    bad=1
}

# Nothing but these is in PATH, so that package managers of this machine are not there.
mkdir "$work/tools"
for tool in bash env awk tail cat rm touch gcc; do ln -s "$(command -v "$tool")" "$work/tools/$tool"; done
printf '#!/bin/bash\nexec "$@"\n' >"$work/tools/sudo"
printf '#!/bin/bash\nexit 1\n' >"$work/tools/python3" # has no modules
# It "installs" by making what was missing, and fails the first time if it is to.
cat >"$work/manager" <<'END'
#!/bin/bash
echo "${0##*/} $*" >>"$asked"
if [[ -e $stale && $* == *install* ]]; then rm "$stale"; exit 1; fi
[[ $* != *install* ]] || touch "$made" "$made.rpm"
END
# A need that is there once something was installed.
printf '#!/bin/bash\n[[ -e $made.rpm && $1 == -q ]]\n' >"$work/rpm"
chmod +x "$work"/tools/{sudo,python3} "$work"/{manager,rpm}

# What is said when all this is missing: say MANAGER ANSWER [stale]
say() {
    local place=$work/run
    rm -rf "$place"
    mkdir "$place"
    for name in $1; do
        cp "$work/manager" "$place/$name"
        [[ $name == apt-get ]] || cp "$work/rpm" "$place/rpm"
    done
    if [[ ${3-} ]]; then touch "$place/stale"; fi
    touch "$place/asked"
    asked=$place/asked made=$place/made stale=$place/stale PATH=$place:$work/tools bash -c '
        setup_answer=$1 setup_log=$2/log
        source scripts/setup.sh
        setup_need command bash make
        setup_need file "$made*" ninja-build
        setup_need file "$made*" libhwloc-dev
        setup_need file "$made*" libssl-dev
        setup_need file "$made*" libclang-rt-dev
        setup_need file "$made*" clang
        setup_need command mpirun.openmpi openmpi-bin
        setup_install
        echo all is here' setup "$2" "$place" </dev/null >"$place/said" 2>&1
    status=$?
}
# expect STATUS LINES... : what the manager was asked, or, for a status other than 0, what was said
expect() {
    local wanted=$1 file=asked
    shift
    if ((wanted != 0)); then file=said; fi
    [[ $status == "$wanted" ]] || fail "ends with $status instead of $wanted: $(cat "$work/run/said")"
    printf '%s\n' "$@" | cmp -s - "$work/run/$file" || fail "instead of '$*': $(cat "$work/run/asked" "$work/run/said")"
}

sudo=
if ((EUID != 0)); then sudo='sudo '; fi
say dnf yes
expect 0 'dnf install -y --setopt=install_weak_deps=False ninja-build hwloc-devel openssl-devel compiler-rt clang'
grep -q 'skipped: openmpi-bin ' "$work/run/said" || fail "it does not say what it leaves out: $(cat "$work/run/said")"
say zypper yes
expect 0 'zypper --non-interactive install --no-recommends ninja hwloc-devel libopenssl-devel clang' # clang once, for two needs
say zypper yes stale
expect 0 'zypper --non-interactive install --no-recommends ninja hwloc-devel libopenssl-devel clang' \
    'zypper --non-interactive refresh' 'zypper --non-interactive install --no-recommends ninja hwloc-devel libopenssl-devel clang'
say dnf yes stale
expect 0 'dnf install -y --setopt=install_weak_deps=False ninja-build hwloc-devel openssl-devel compiler-rt clang' 'dnf makecache' \
    'dnf install -y --setopt=install_weak_deps=False ninja-build hwloc-devel openssl-devel compiler-rt clang'
say 'apt-get dnf' yes # Debian has a dnf, too
grep -q '^apt-get .*install -y --no-install-recommends ninja-build libhwloc-dev libssl-dev libclang-rt-dev clang' "$work/run/asked" ||
    fail "apt-get was not asked: $(cat "$work/run/asked")"
say dnf no
names='ninja-build hwloc-devel openssl-devel compiler-rt clang'
left_out="not looked for in this system's packages, so tests that need them are skipped: openmpi-bin (Debian's names)"
expect 3 "$left_out" "missing here: $names" "install them first: ${sudo}dnf install $names"
say '' yes
names='ninja-build libhwloc-dev libssl-dev libclang-rt-dev clang openmpi-bin'
expect 3 "missing here: $names" "install them first: ${sudo}apt-get install $names"

# Every package that is asked for has a line in the list, and no line has more or fewer than three names.
asked_for=$(sed -nE 's/^ *setup_need .* ([^ ]+)$/\1/p' check demo | sort -u)
(($(wc -l <<<"$asked_for") > 20)) || fail "this test does not work: ./check and ./demo ask for: $asked_for"
# shellcheck source=scripts/setup.sh disable=SC1091
setup_names=$(PATH=$work/tools bash -c 'source scripts/setup.sh && echo "$setup_names"')
for package in $asked_for; do
    grep -qE "^ *${package//+/\\+} " <<<"$setup_names" || fail "scripts/setup.sh has no names for $package"
done
awk 'NF != 0 && NF != 3 { print "scripts/setup.sh: " $0; bad = 1 } seen[$1]++ && NF { print "scripts/setup.sh has " $1 " twice"; bad = 1 }
    END { exit bad }' <<<"$setup_names" || bad=1
exit $bad

#!/bin/bash
# The packages of debian/ are built, and lintian has nothing against them. In a fresh Debian, to which nothing but what they depend on is
# added, they are installed and used, and leave no file when they are purged.
# ctest: label=nosan label=once label=long timeout=2400 lock=apt
set -euo pipefail
root=${TUTTI_ROOT:?}

skip() {
    echo "$1"
    exit 77
}
if ((EUID != 0)); then skip "a fresh Debian is made by root"; fi
for need in dpkg-buildpackage:dpkg-dev dh:debhelper lintian:lintian mmdebstrap:mmdebstrap dh_python3:dh-python; do
    command -v "${need%:*}" >/dev/null || skip "${need%:*} is not here (Debian: ${need#*:})"
done
release=$(. /etc/os-release && echo "${ID:-}:${VERSION_CODENAME:-}")
if [[ $release != debian:?* ]]; then skip "this is not a release of Debian"; fi

work=$(mktemp -d --suffix=-tutti-debian)
system=$work/system
trap 'rm -rf --one-file-system "$work"' EXIT
cd "$work"

# A step: step NAME COMMAND...; what it says is shown when it fails.
step() {
    local name=$1 began=$SECONDS
    shift
    "$@" >log 2>&1 || { tail -n 60 log; echo "$name failed"; exit 1; }
    echo "$name: $((SECONDS - began)) s"
}

# ------------------------------------------------------------------------------------------------------------------- the packages

# From a copy of what git has or may get; without git, of all but builds.
mkdir source
if git -C "$root" -c safe.directory="$root" rev-parse >/dev/null 2>&1; then
    git -C "$root" -c safe.directory="$root" ls-files --cached --others --exclude-standard -z | (cd "$root" && xargs -0 ls -d 2>/dev/null) >names || true
    tar -C "$root" --verbatim-files-from --files-from=names -cf - | tar -C source -xf -
else
    tar -C "$root" --exclude=./.git --exclude=./build --exclude='./build-*' -cf - . | tar -C source -xf -
fi
version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* \([0-9]*\)$/\1/p' source/include/tutti/tutti.h | paste -sd.)
[[ $(dpkg-parsechangelog -l source/debian/changelog -S Version) == "$version"-* ]] ||
    { echo "debian/changelog does not begin with version $version"; exit 1; }
tar -C source --exclude=./debian --transform "s,^\.,tutti-$version," -czf "tutti_$version.orig.tar.gz" .

build() (
    # A cache that the user has serves here, too: debhelper gives builds another home.
    cd source && CCACHE_DIR=${CCACHE_DIR:-${HOME:-/root}/.cache/ccache} DEB_BUILD_OPTIONS='nocheck parallel=2' \
        nice dpkg-buildpackage -us -uc -j2 "$@"
)
missing=$(cd source && dpkg-checkbuilddeps 2>&1) || skip "${missing#dpkg-checkbuilddeps: error: }"
step "building" build -b
step "the source package" build -S -d
packages=(libtutti0 libtutti-dev tutti-tools tutti-doc python3-tutti)
for package in "${packages[@]}"; do
    compgen -G "${package}_$version-*.deb" >/dev/null || { echo "there is no package $package: $(echo ./*.deb)"; exit 1; }
done
step "lintian" lintian --fail-on error,warning --allow-root --tag-display-limit 0 ./*.changes

# ----------------------------------------------------------------------------------------------------------------- a fresh Debian

# It gets its packages from where this machine does.
apt-config dump | grep -E '^Acquire::(https?::|Check-|Retries|Force).* "..*";$' >apt.conf || true
shopt -s nullglob
sources=()
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    if [[ -f $file ]] && grep -qE "^(deb |Suites:).*${release#*:}" "$file" && grep -q debian "$file"; then sources+=("$file"); fi
done
mmdebstrap --variant=apt --aptopt=apt.conf "${release#*:}" "$system" "${sources[@]}" >log 2>&1 || {
    tail -n 20 log
    skip "no fresh Debian can be had here"
}

# A command in it, for which /proc and /dev are there as long as it runs.
inside() {
    timeout 1200 unshare --mount --pid --fork --kill-child bash -c '
        cd "$1" && shift
        mount -t proc proc proc && mount -t tmpfs tmpfs dev && mkdir dev/shm dev/pts && mount -t tmpfs tmpfs dev/shm || exit 1
        for device in null zero full random urandom tty; do touch "dev/$device" && mount --bind "/dev/$device" "dev/$device" || exit 1; done
        ln -s /proc/self/fd dev/fd
        exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' inside "$system" "$@"
}
# All files but those in which the system notes what was installed, and caches that it makes anew.
list_files() {
    find "$system" -xdev \( -path "$system/var/lib/dpkg" -o -path "$system/var/lib/apt" -o -path "$system/var/cache" -o -path "$system/var/log" \
        -o -path "$system/proc" -o -path "$system/dev" -o -path "$system/etc/ld.so.cache" \) -prune -o -printf '%P\n' | LC_ALL=C sort
}

# Their dependencies come first, so that everything new afterwards is theirs.
wanted=gcc,libc6-dev,pkg-config
for package in "${packages[@]}"; do wanted+=,$(dpkg-deb -f "${package}"_*.deb Depends); done
wanted=$(tr ',' '\n' <<<"$wanted" | grep -vE '^ *(libtutti|tutti|python3-tutti|$)' | sort -u | paste -sd,)
cp -L /etc/resolv.conf "$system/etc/resolv.conf"
step "the lists of packages" inside apt-get update
step "their dependencies" inside apt-get satisfy -y --no-install-recommends "$wanted"
list_files >before

mkdir "$system/debs"
for package in "${packages[@]}"; do cp "${package}"_*.deb "$system/debs"; done
cp source/debian/tests/use "$system/debs"
names=()
for file in "$system"/debs/*.deb; do names+=("./debs/${file##*/}"); done
step "installing" inside apt-get install -y --no-install-recommends "${names[@]}"
grep -q '^0 upgraded, 5 newly installed, 0 to remove' log || { cat log; echo "more than these packages was installed"; exit 1; }
list_files >installed
new=$(comm -13 before installed | grep -vcE '^debs(/|$)')
((new > 100)) || { echo "they have only $new files"; exit 1; }

# By somebody who cannot write to where they are installed.
inside useradd --no-create-home --shell /bin/bash somebody
inside setpriv --reuid somebody --regid somebody --clear-groups bash /debs/use >log 2>&1 || { cat log; echo "the packages cannot be used"; exit 1; }
tail -n 1 log

for library in "$system"/usr/lib/*/libtutti.so.0.*; do
    file=${library#"$system"}
    inside dpkg -S "$file" | grep -q '^libtutti0:' || { echo "$file is of no package"; exit 1; }
done

inside userdel somebody >log 2>&1 || { cat log; exit 1; }
rm -r "$system/debs"
step "purging" inside apt-get purge -y "${packages[@]}"
list_files >after
touch "$system/usr/share/left" # the list has what is left
list_files | comm -13 after - | grep -qx usr/share/left || { echo "this test does not work: it does not see files that are left"; exit 1; }
# shadow keeps the files that it had.
left=$(comm -13 before after | grep -vE '^etc/(passwd|group|shadow|gshadow|subuid|subgid)-$' || true)
[[ -z $left ]] || { printf 'left after purging:\n%s\n' "$left"; exit 1; }
gone=$(comm -23 before after)
[[ -z $gone ]] || { printf 'purging took away what was there before:\n%s\n' "$gone"; exit 1; }
echo "$new files came with the packages, none stays"

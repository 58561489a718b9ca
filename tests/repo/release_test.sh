#!/bin/bash
# All files that name the version name the same one; scripts/release.py changes them together, and finds each that is left behind. Every
# command of the checklist in docs/develop/releasing.md is there.
# ctest: label=once label=nosan
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1
command -v python3 >/dev/null || { echo "python3 is not here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

fail() {
    echo "$1"
    bad=1
}
scripts/release.py check >"$work/version" || bad=1
version=$(cat "$work/version")
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "the version is '$version'"

# A copy of what it reads and writes, in a repository of its own.
recipe=share/spack/spack_repo/tutti/packages/tutti/package.py
places=(include/tutti/tutti.h CITATION.cff CHANGELOG.md debian/changelog "$recipe")
tar -cf - scripts/release.py debian/control "${places[@]}" | tar -C "$work" -xf -
cd "$work" || exit 1
says() { # status, words, arguments of release.py
    local wanted=$1 words=$2 said status
    shift 2
    said=$(scripts/release.py "$@" 2>&1)
    status=$?
    [[ $status == "$wanted" && $said == *"$words"* ]] || fail "release.py $*: status $status instead of $wanted, or no '$words' in: $said"
}
sed -i '/^## Next$/d' CHANGELOG.md
says 1 "below '## Next'" set 98.7.6
sed -i "0,/^## /s//## Next\n\n- All is better.\n\n## /" CHANGELOG.md
says 0 "$version" check
says 1 'is no version' set 98.7
says 1 'is not later' set "$version"
says 0 'make reference' set 98.7.6
says 0 98.7.6 check
for place in "${places[@]}"; do
    cmp -s "$place" "$TUTTI_ROOT/$place" && fail "$place was not changed"
done
[[ $(dpkg-parsechangelog -l debian/changelog -S Version 2>/dev/null || echo 98.7.6-1) == 98.7.6-1 ]] || fail "debian/changelog is not one: $(head -5 debian/changelog)"
grep -qF "version(\"$version\", tag=\"v$version\")" "$recipe" || fail "the recipe has lost version $version"
for place in "${places[@]}"; do
    cp "$place" kept
    sed -i -E 's/98\.7\.6/98.7.5/; s/(VERSION_PATCH) 6/\1 5/' "$place"
    said=$(scripts/release.py check 2>&1) && fail "release.py does not find that $place has another version"
    [[ $said == *"$place"* ]] || fail "release.py does not name $place: $said"
    cp kept "$place"
done
rm kept version
sed -i 's/^date-released: .*/date-released: 2001-01-01/' CITATION.cff
says 1 'released on 2001-01-01' check
sed -i "s/^date-released: .*/date-released: $(sed -n 's/^## 98.7.6, //p' CHANGELOG.md)/" CITATION.cff

if command -v git >/dev/null; then
    git init -q . && git add . && git -c user.name=x -c user.email=x@y.invalid commit -q -m x || fail "no repository can be made"
    says 0 out/tutti-98.7.6.tar.gz archive out
    cp out/SHA256SUMS before
    echo >>CITATION.cff
    says 1 'in no commit' archive out
    git checkout -q CITATION.cff
    mv before .git/before && rm -r out
    says 0 out/tutti-98.7.6.tar.gz archive out
    cmp -s out/SHA256SUMS .git/before || fail "the archive of one commit has other bytes the second time"
    (cd out && sha256sum -c --quiet SHA256SUMS) || fail "SHA256SUMS is wrong"
    names=$(tar -tzf out/tutti-98.7.6.tar.gz)
    grep -qx tutti-98.7.6/include/tutti/tutti.h <<<"$names" || fail "the archive has no folder of its version"
fi
says 2 'scripts/release.py check' nothing

# The checklist.
cd "$TUTTI_ROOT" || exit 1
commands=$(awk '/^## Checklist/ { on = 1 } on && /^ *```/ { block = !block; next } on && block { sub(/^ */, ""); print }' docs/develop/releasing.md)
(($(wc -l <<<"$commands") > 8)) || fail "this test does not work: the checklist has $commands"
options=$(./check --help) verbs=$(scripts/release.py 2>&1)
while read -r program first rest; do
    case $program in
    make) grep -q "^$first[a-z ]*:" Makefile || grep -qE "^[a-z ]*\<$first\>[a-z ]*:" Makefile || fail "make has no target $first" ;;
    ./check) for option in $first $rest; do grep -q -- "$option" <<<"$options" || fail "./check has no option $option"; done ;;
    scripts/release.py) grep -q "release.py $first" <<<"$verbs" || fail "release.py has no $first" ;;
    git | pip | dpkg-buildpackage) ;;
    */*) [[ -x $program ]] || fail "$program is not there" ;;
    *) fail "this test knows nothing of $program" ;;
    esac
done <<<"$commands"
exit $bad

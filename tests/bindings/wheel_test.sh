#!/bin/bash
# `pip wheel` makes a package that brings its own library, programs and headers; the tests of the bindings run from where pip installs it.
#
# It is made from a copy of the tree, which is gone afterwards, and installed in an environment with no other packages than those
# that the base has: NumPy, pytest and, where it is, PyTorch. Compilers are asked for what the build asks them for, so that
# ccache, where it is installed, knows the answers.
# ctest: label=nosan label=once timeout=600 makes=wheel first
set -euo pipefail
root=${TUTTI_ROOT:?}
link=${TUTTI_BUILD:?}/wheel

unset PYTHONPATH PYTHONHOME TUTTI_LIBRARY
if [[ -L $link ]]; then rm -rf "$(realpath -m "$link")"; fi
place=$(mktemp -d --suffix=-tutti-wheel)
ln -sfn "$place" "$link"
cd "$place"

# The first that has PyTorch, else the first that has what the tests of the Python package need.
base=
for modules in numpy,pytest,torch numpy,pytest; do
    for candidate in ${TUTTI_TORCH_PYTHON:+"$TUTTI_TORCH_PYTHON"} python3 /usr/bin/python3; do
        if [[ -z $base ]] && "$candidate" -W ignore -c "import sys, ensurepip, venv, $modules; sys.exit(sys.version_info < (3, 9))" \
            2>/dev/null; then base=$candidate; fi
    done
done
if [[ -z $base ]]; then
    echo "no python3 (3.9 or later) with numpy, pytest and venv is here (Debian: python3-numpy python3-pytest python3-venv)"
    exit 77
fi
"$base" -m venv venv
pip=(venv/bin/pip --disable-pip-version-check --retries 1 --timeout 20)
if ! "${pip[@]}" install -q --target tools 'scikit-build-core>=0.10' >log 2>&1; then
    echo "what the wheel is built with cannot be had from PyPI: $(grep -m 1 ERROR log || tail -n 1 log)"
    exit 77
fi

mkdir source home
tar -C "$root" --exclude=./.git --exclude=./build --exclude='./build-*' -cf - . | tar -C source -xf -
CMAKE_BUILD_PARALLEL_LEVEL=2 PYTHONPATH=$place/tools "${pip[@]}" wheel -q --no-deps --no-build-isolation -w . \
    --config-settings=build-dir=build --config-settings=cmake.define.TUTTI_WERROR=ON ./source >log 2>&1 || { cat log; exit 1; }
rm -rf source tools
"${pip[@]}" install -q --no-deps tutti_comm-*.whl >log 2>&1 || { cat log; exit 1; }

packages=$(echo "$place"/venv/lib/python3*/site-packages)
said=$(venv/bin/python -c 'import sys; print("torch" in sys.modules or "tutti" in sys.modules)')
[[ $said == False ]] || { echo "programs that import nothing of Tutti load it, or PyTorch"; exit 1; }
"$base" -W ignore >"$packages/base.pth" - <<'END_OF_PROGRAM'
import importlib.util, os
found = [importlib.util.find_spec(name) for name in ("numpy", "pytest", "torch")]
print(*sorted({os.path.dirname(os.path.dirname(spec.origin)) for spec in found if spec}), sep="\n")
END_OF_PROGRAM
library=$packages/tutti/libtutti.so
said=$(venv/bin/python -c 'import tutti, tutti_torch; print(tutti.library_path(), tutti_torch.__file__, tutti.__version__)')
version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* \([0-9][0-9]*\)$/\1/p' "$root/include/tutti/tutti.h" | paste -sd.)
[[ $said == "$library $packages/tutti_torch/__init__.py $version" ]] || { echo "not what was installed: $said"; exit 1; }

# Programs of the wheel, not of the machine. What is built without hwloc and jansson lacks some.
programs=(tutti-run tutti-perf tutti-plan tutti-schedule tutti-info)
if [[ -e venv/bin/tutti-topo ]] || ldconfig -p | grep 'libhwloc\.so$' >/dev/null; then programs+=(tutti-topo tutti-trace tutti-tune tutti-synth); fi
for program in "${programs[@]}"; do
    said=$("venv/bin/$program" --version 2>&1) || { echo "$program does not start: $said"; exit 1; }
    [[ $said == "$program $version" ]] || { echo "$program --version says: $said"; exit 1; }
done
# What most people use needs no library that a machine may lack.
for file in venv/bin/tutti-run venv/bin/tutti-plan "$library"; do
    ldd "$file" >needs
    if grep -E 'hwloc|jansson|expat' needs; then echo "$file needs that"; exit 1; fi
done

# All that the compiler gets for PyTorch: the headers of the library, and the sources.
for folder in include bindings/torch/src/tutti_torch/native; do (cd "$root/$folder" && find . -name '*.h' -o -name '*.cpp'); done | sort >wanted
(cd "$packages/tutti_torch/native" && find . -type f) | sort | diff wanted - || { echo "the wheel has other sources than the tree"; exit 1; }

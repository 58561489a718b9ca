# shellcheck shell=bash disable=SC2154
# Installs what is missing; for ./check and ./demo, which source it.
#
#     setup_need command ninja ninja-build     the command and the Debian package that brings it
#     setup_need header cmocka.h libcmocka-dev
#     setup_need file "/a/glob*" package
#     setup_need python numpy python3-numpy    a module of the python3 in PATH, or of Debian's
#     setup_install                            asks, installs, or exits with 3
#     setup_jax build/jax                      an environment there with JAX
#     setup_torch build/torch                  an environment there with a PyTorch that the backend in C++ is for
#
# Variables of the caller: setup_answer is "ask", "yes" or "no"; setup_log is a file for apt's talk.

setup_missing=()
setup_packages=()

setup_has() {
    case $1 in
    command) command -v "$2" >/dev/null ;;
    header) printf '#include <%s>\n' "$2" |
        gcc -include stdarg.h -include stddef.h -include setjmp.h -include stdint.h -E - >/dev/null 2>&1 ;;
    file) compgen -G "$2" >/dev/null ;;
    python) python3 -c "import $2" 2>/dev/null || /usr/bin/python3 -c "import $2" 2>/dev/null ;;
    *) echo "setup_has: $1 is not a kind" >&2; exit 2 ;;
    esac
}

setup_need() {
    setup_has "$1" "$2" && return
    setup_missing+=("$1 $2 $3")
    setup_packages+=("$3")
}

setup_apt() {
    local sudo=()
    if ((EUID != 0)); then sudo=(sudo); fi
    if [[ -t 1 ]]; then
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"
    else
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >>"$setup_log" 2>&1
    fi
}

setup_install() {
    ((${#setup_packages[@]})) || return 0
    local command="apt-get install ${setup_packages[*]}"
    if ((EUID != 0)); then command="sudo $command"; fi
    echo "missing here: ${setup_packages[*]}"
    if [[ $setup_answer == ask && -t 0 && -t 1 ]] && command -v apt-get >/dev/null; then
        local reply
        read -r -p "install with '$command'? [Y/n] " reply
        if [[ -z $reply || $reply == [yY]* ]]; then setup_answer=yes; fi
    fi
    if [[ $setup_answer != yes ]] || ! command -v apt-get >/dev/null; then
        echo "install them first: $command"
        exit 3
    fi
    if ((EUID != 0)) && ! command -v sudo >/dev/null; then
        echo "there is no sudo here; as root: apt-get install ${setup_packages[*]}"
        exit 3
    fi

    # A fresh machine has no package lists, an old one stale ones.
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || setup_apt update || true
    setup_apt install -y --no-install-recommends "${setup_packages[@]}" ||
        { setup_apt update && setup_apt install -y --no-install-recommends "${setup_packages[@]}"; } ||
        {
            [[ -t 1 ]] || tail -n 20 "$setup_log"
            echo "installing failed: $command"
            exit 3
        }
    hash -r

    local need kind name package
    for need in "${setup_missing[@]}"; do
        read -r kind name package <<<"$need"
        if ! setup_has "$kind" "$name"; then
            echo "$package is installed, but the $kind $name is still missing"
            exit 3
        fi
    done
}

# Tests take $TUTTI_TORCH_PYTHON, and skip what they cannot do without it. Only builds without CUDA have this version.
setup_torch() {
    local place=$PWD/$1 python
    for python in python3 /usr/bin/python3; do
        if [[ ! -e $place/is_whole ]]; then
            rm -rf "$place"
            { "$python" -m venv "$place" && "$place/bin/pip" install -q --only-binary :all: --retries 1 --timeout 60 \
                'torch==2.13.0+cpu' numpy pytest expecttest && touch "$place/is_whole"; } >>"$setup_log" 2>&1
        fi
    done
    if [[ -e $place/is_whole ]]; then
        export TUTTI_TORCH_PYTHON=$place/bin/python
    else
        rm -rf "$place"
        echo "PyTorch 2.13 without CUDA cannot be had from pip (see $setup_log)"
    fi
}

# Makes an environment with JAX in the folder, or says why there is none. Tests take $TUTTI_JAX_PYTHON.
setup_jax() {
    local place=$PWD/$1
    if [[ ! -e $place/is_whole ]]; then
        rm -rf "$place"
        { python3 -m venv "$place" && "$place/bin/pip" install -q --only-binary :all: --retries 1 --timeout 60 jax &&
            touch "$place/is_whole"; } >>"$setup_log" 2>&1
    fi
    if [[ -e $place/is_whole ]]; then
        export TUTTI_JAX_PYTHON=$place/bin/python
    else
        rm -rf "$place"
        echo "JAX cannot be had from pip (see $setup_log)"
    fi
}

# Configures and builds a preset: with a terminal as ninja does it, else silently unless it fails.
# setup_build PRESET COMPILER LOG TARGET [cmake options]
setup_build() {
    local preset=$1 compiler=$2 log=$3 target=$4 folder=build/$1
    shift 4
    if [[ $preset == release ]]; then folder=build; fi
    # Another compiler's folder is configured anew: CMake would do so itself, but forget the preset's options.
    if [[ -f $folder/CMakeCache.txt ]] &&
        ! grep -qxE "CMAKE_C_COMPILER:[A-Z]+=($compiler|$(command -v "$compiler"))" "$folder/CMakeCache.txt"; then
        rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
    fi
    if [[ -t 1 ]]; then
        CC=$compiler cmake --preset "$preset" "$@" >"$log" 2>&1 &&
            cmake --build --preset "$preset" --target "$target" -j "$(nproc)"
    else
        {
            CC=$compiler cmake --preset "$preset" "$@" &&
                cmake --build --preset "$preset" --target "$target" -j "$(nproc)"
        } >"$log" 2>&1
    fi
}

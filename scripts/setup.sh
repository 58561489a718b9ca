# shellcheck shell=bash disable=SC2154
# Installs what is missing; for ./check and ./demo, which source it.
#
#     setup_need command ninja ninja-build     the command and the Debian package that brings it
#     setup_need header cmocka.h libcmocka-dev
#     setup_need file "/a/glob*" package
#     setup_need python numpy python3-numpy    a module of the python3 in PATH, or of Debian's
#     setup_install                            asks, installs, or exits with 3
#     setup_jax build/jax                      an environment there with JAX; setup_tensorflow one with TensorFlow
#     setup_torch build/torch                  an environment there with a PyTorch that the backend in C++ is for
#
# It knows apt-get, dnf and zypper. Only apt-get is tried on a machine of its own; tests give the other two to it as stand-ins
# (tests/repo/setup_test.sh). RHEL has some of these packages in EPEL and CodeReady Builder.
#
# Variables of the caller: setup_answer is "ask", "yes" or "no"; setup_log is a file for the package manager's talk.

setup_missing=()
setup_packages=()
setup_elsewhere=()

# Each package by its name in Debian, in Fedora and RHEL, and in openSUSE. "-": it has none there, or its files are not where Tutti and
# the tests look for them, and tests that need them are skipped.
setup_names='
    binutils               binutils               binutils
    ccache                 ccache                 ccache
    chromium               chromium               chromium
    chromium-driver        chromedriver           chromedriver
    clang                  clang                  clang
    clang-format           clang-tools-extra      clang
    cmake                  cmake                  cmake
    debhelper              -                      -
    dh-python              -                      -
    dpkg-dev               -                      -
    fonts-dejavu-core      dejavu-sans-fonts      dejavu-fonts
    g++                    gcc-c++                gcc-c++
    gcc                    gcc                    gcc
    gcc-aarch64-linux-gnu  -                      -
    iproute2               iproute                iproute2
    libc6-dev              glibc-devel            glibc-devel
    libc6-dev-arm64-cross  -                      -
    libclang-rt-dev        compiler-rt            clang
    libcmocka-dev          libcmocka-devel        libcmocka-devel
    libexpat1-dev          expat-devel            libexpat-devel
    libfabric-dev          libfabric-devel        libfabric-devel
    libhwloc-dev           hwloc-devel            hwloc-devel
    libjansson-dev         jansson-devel          libjansson-devel
    libopenblas-dev        openblas-devel         libopenblas_pthreads-devel
    libpmix-dev            pmix-devel             pmix-devel
    libpython3-dev         python3-devel          python3-devel
    libssl-dev             openssl-devel          libopenssl-devel
    libz3-4                -                      -
    lintian                -                      -
    make                   make                   make
    mmdebstrap             -                      -
    mpich                  -                      -
    munge                  munge                  munge
    ninja-build            ninja-build            ninja
    openmpi-bin            -                      -
    pkg-config             pkgconf-pkg-config     pkg-config
    prometheus             -                      -
    python3-numpy          python3-numpy          python3-numpy
    python3-pytest         python3-pytest         python3-pytest
    python3-torch          -                      -
    python3-venv           python3                python3
    python3-yaml           python3-pyyaml         python3-PyYAML
    qemu-user-static       qemu-user-static       qemu-linux-user
    slurm-client           slurm                  slurm
    slurmctld              slurm-slurmctld        slurm
    slurmd                 slurm-slurmd           slurm-node
    universal-ctags        -                      -
    valgrind               valgrind               valgrind
    zsh                    zsh                    zsh
'

# The first package manager that is here, or nothing.
setup_manager=
for setup_candidate in apt-get dnf zypper; do
    if command -v "$setup_candidate" >/dev/null; then
        setup_manager=$setup_candidate
        break
    fi
done

# The name of a package on this machine; where no package manager is known, Debian's.
setup_name() {
    local column=1
    case $setup_manager in
    dnf) column=2 ;;
    zypper) column=3 ;;
    esac
    awk -v package="$1" -v column="$column" '$1 == package { print $column; found = 1 } END { exit !found }' <<<"$setup_names" || {
        echo "setup_name: $1 is not in the list of packages" >&2
        exit 2
    }
}

# Whether it is here: setup_has KIND NAME PACKAGE
setup_has() {
    case $1 in
    command) command -v "$2" >/dev/null ;;
    header) printf '#include <%s>\n' "$2" |
        gcc -include stdarg.h -include stddef.h -include setjmp.h -include stdint.h -E - >/dev/null 2>&1 ;;
    # Other systems than Debian have a package's files elsewhere.
    file) compgen -G "$2" >/dev/null || { [[ $setup_manager == dnf || $setup_manager == zypper ]] && rpm -q "$3" >/dev/null 2>&1; } ;;
    python) python3 -c "import $2" 2>/dev/null || /usr/bin/python3 -c "import $2" 2>/dev/null ;;
    *) echo "setup_has: $1 is not a kind" >&2; exit 2 ;;
    esac
}

setup_need() {
    local package
    package=$(setup_name "$3") || exit 2
    setup_has "$1" "$2" "$package" && return
    if [[ $package == - ]]; then
        setup_elsewhere+=("$3")
        return
    fi
    setup_missing+=("$1 $2 $package")
    [[ " ${setup_packages[*]} " == *" $package "* ]] || setup_packages+=("$package")
}

# Runs the package manager as root: its talk is for the terminal, or for the log.
setup_run() {
    local sudo=()
    if ((EUID != 0)); then sudo=(sudo); fi
    if [[ -t 1 ]]; then
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "$@"
    else
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >>"$setup_log" 2>&1
    fi
}

# Reads the lists of packages anew.
setup_refresh() {
    case $setup_manager in
    apt-get) setup_run apt-get -q update ;;
    dnf) setup_run dnf makecache ;;
    zypper) setup_run zypper --non-interactive refresh ;;
    esac
}

# Installs packages, without what they only recommend.
setup_add() {
    case $setup_manager in
    apt-get) setup_run apt-get -q install -y --no-install-recommends "$@" ;;
    dnf) setup_run dnf install -y --setopt=install_weak_deps=False "$@" ;;
    zypper) setup_run zypper --non-interactive install --no-recommends "$@" ;;
    esac
}

setup_install() {
    if ((${#setup_elsewhere[@]})); then
        echo "not looked for in this system's packages, so tests that need them are skipped: ${setup_elsewhere[*]} (Debian's names)"
    fi
    ((${#setup_packages[@]})) || return 0
    local command="${setup_manager:-apt-get} install ${setup_packages[*]}"
    if ((EUID != 0)); then command="sudo $command"; fi
    echo "missing here: ${setup_packages[*]}"
    if [[ $setup_answer == ask && -t 0 && -t 1 && $setup_manager ]]; then
        local reply
        read -r -p "install with '$command'? [Y/n] " reply
        if [[ -z $reply || $reply == [yY]* ]]; then setup_answer=yes; fi
    fi
    if [[ $setup_answer != yes || ! $setup_manager ]]; then
        echo "install them first: $command"
        exit 3
    fi
    if ((EUID != 0)) && ! command -v sudo >/dev/null; then
        echo "there is no sudo here; as root: $setup_manager install ${setup_packages[*]}"
        exit 3
    fi

    # A fresh machine has no package lists, an old one stale ones.
    if [[ $setup_manager == apt-get ]] && ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then setup_refresh || true; fi
    setup_add "${setup_packages[@]}" ||
        { setup_refresh && setup_add "${setup_packages[@]}"; } ||
        {
            [[ -t 1 ]] || tail -n 20 "$setup_log"
            echo "installing failed: $command"
            exit 3
        }
    hash -r

    local need kind name package
    for need in "${setup_missing[@]}"; do
        read -r kind name package <<<"$need"
        if ! setup_has "$kind" "$name" "$package"; then
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

# setup_environment FOLDER VARIABLE NAME PACKAGE...: makes an environment with the packages in the folder, or says why there is none.
# Tests take its Python from the variable.
setup_environment() {
    local place=$PWD/$1 variable=$2 name=$3
    shift 3
    if [[ ! -e $place/is_whole ]]; then
        rm -rf "$place"
        { python3 -m venv "$place" && "$place/bin/pip" install -q --only-binary :all: --retries 1 --timeout 60 "$@" &&
            touch "$place/is_whole"; } >>"$setup_log" 2>&1
    fi
    if [[ -e $place/is_whole ]]; then
        export "$variable=$place/bin/python"
    else
        rm -rf "$place"
        echo "$name cannot be had from pip (see $setup_log)"
    fi
}

setup_jax() { setup_environment "$1" TUTTI_JAX_PYTHON JAX jax; }

setup_tensorflow() { setup_environment "$1" TUTTI_TENSORFLOW_PYTHON TensorFlow 'tensorflow-cpu==2.21.*' 'tf-keras==2.21.*'; }

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

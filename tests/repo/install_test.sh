#!/bin/bash
# An installed Tutti can be used through pkg-config and through CMake, shared and static, also after the
# installed tree was moved.
# ctest: label=nosan timeout=300
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}

cmake --install "${TUTTI_BUILD:?}" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/prefix"
if grep -rIlF -e "${TUTTI_ROOT:?}" -e "$work" "$work/prefix"; then
    echo "above: installed files that name the folder they were built in"
    exit 1
fi

cat >"$work/user.c" <<'END'
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
    struct tutti_id id;
    if (tutti_id_create(&id) != TUTTI_OK) return 1;
    return printf("%s %zu\n", tutti_status_name(TUTTI_PROC_FAILED), tutti_dtype_size(TUTTI_FLOAT64)) < 0;
}
END
expect() {
    local said
    said=$("$@") || { echo "$* failed"; exit 1; }
    if [[ $said != "PROC_FAILED 8" ]]; then
        echo "$* said: $said"
        exit 1
    fi
}
needs_library() { objdump -p "$1" | grep -q 'NEEDED.*libtutti\.so\.0'; }

pc=$(dirname "$(find "$work/prefix" -name tutti.pc)")
libdir=$(dirname "$pc")
export PKG_CONFIG_PATH=$pc
version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$TUTTI_ROOT/include/tutti/tutti.h" | paste -sd.)
[[ $(pkg-config --modversion tutti) == "$version" ]] || { echo "tutti.pc is not of version $version"; exit 1; }
read -ra cflags < <(pkg-config --cflags tutti)
read -ra libs < <(pkg-config --libs tutti)
read -ra static_libs < <(pkg-config --static --libs tutti)

"$cc" -Wall -Werror "${cflags[@]}" "$work/user.c" -o "$work/shared" "${libs[@]}"
needs_library "$work/shared" || { echo "pkg-config does not link libtutti.so.0"; exit 1; }
expect env LD_LIBRARY_PATH="$libdir" "$work/shared"

static_libs=("${static_libs[@]/#-ltutti/-l:libtutti.a}")
"$cc" -Wall -Werror "${cflags[@]}" "$work/user.c" -o "$work/static" "${static_libs[@]}"
needs_library "$work/static" && { echo "libtutti.a was not linked"; exit 1; }
expect "$work/static"

# Every public header is there, and compiles alone for programs in C99 and in C++11.
(cd "$TUTTI_ROOT/include" && find . -name '*.h' | sort) >"$work/wanted"
(cd "$work/prefix/include" && find . -name '*.h' | sort) | diff "$work/wanted" - ||
    { echo "other headers are installed than include/ has"; exit 1; }
while read -r header; do
    for compiler in "$cc -x c -std=c99" "c++ -x c++ -std=c++11"; do
        read -ra words <<<"$compiler -pedantic -Wall -Wextra -Werror -fsyntax-only ${cflags[*]}"
        command -v "${words[0]}" >/dev/null || continue
        printf '#include <%s>\n' "${header#./}" | "${words[@]}" - || { echo "$header does not compile with $compiler"; exit 1; }
    done
done <"$work/wanted"

mkdir "$work/project"
cp "$work/user.c" "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(Tutti 0.1 REQUIRED)
add_executable(shared user.c)
target_link_libraries(shared Tutti::tutti)
add_executable(static user.c)
target_link_libraries(static Tutti::tutti_static)
END
{
    cmake -G Ninja -S "$work/project" -B "$work/project/build" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$work/prefix"
    cmake --build "$work/project/build"
} >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
needs_library "$work/project/build/shared" || { echo "Tutti::tutti is not libtutti.so.0"; exit 1; }
expect "$work/project/build/shared"
expect "$work/project/build/static"

for file in man/man1/tutti-run.1 man/man7/tutti.7 bash-completion/completions/tutti-plan zsh/site-functions/_tutti; do
    [[ -s $work/prefix/share/$file ]] || { echo "share/$file is not installed"; exit 1; }
done
if command -v python3 >/dev/null && [[ ! -s $work/prefix/share/man/man3/tutti_allreduce_start.3 ]]; then
    echo "the manual pages of the functions are not installed"
    exit 1
fi

# Every installed program starts from where it is now.
for program in "$work"/prefix/bin/*; do
    [[ -e $program ]] || continue
    "$program" --help >"$work/log" 2>&1 || { echo "$program --help failed"; cat "$work/log"; exit 1; }
done

#!/bin/bash
# The lists of files (cmake/folder.cmake) take what their conditions say, and lose no file: CMake, also when it builds, stops at a file that no
# list names, that two name, or that is not there.
# ctest: label=once label=nosan
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2034
tool=cmake
# shellcheck source=tests/kit/tool.sh
source "${TUTTI_ROOT:?}/tests/kit/tool.sh"
mkdir -p "$work"/src/{low,high} && cd "$work" || exit 1
touch src/low/{one,one_test,two,two_test,two_fuzz,two_absent,both}.c src/high/three.c

# A project with these statements, one an argument.
project() {
    rm -rf build
    {
        printf 'cmake_minimum_required(VERSION 3.22)\nproject(folders NONE)\n'
        printf 'include(%s/cmake/folder.cmake)\n' "$TUTTI_ROOT"
        printf '%s\n' "$@"
        # shellcheck disable=SC2016
        printf 'message(STATUS "%s is ${%s}.")\n' library_files library_files other_files other_files tests_left_out tests_left_out
    } >CMakeLists.txt
}
low='tutti_folder(library src/low one.c IF HAS two.c two_test.c two_fuzz.c ELSE two_absent.c IF "HAS AND NOT LACKS" both.c)'
high='tutti_folder(other src/high three.c)'
check='tutti_check_folders(src)'

project "$low" "$high" "$check"
exits 0 -S . -B build -DHAS=ON
says out 'library_files is src/low/one.c;src/low/two.c;src/low/both.c.'
says out 'other_files is src/high/three.c.'
says out 'tests_left_out is .'
exits 0 -S . -B build -DHAS=ON -DLACKS=ON
says out 'library_files is src/low/one.c;src/low/two.c.'
exits 0 -S . -B build -DHAS=OFF
says out 'library_files is src/low/one.c;src/low/two_absent.c.'
says out 'tests_left_out is src/low/two_test.c;src/low/two_fuzz.c.'

# In a folder that is known, in one that is not, and while the build folder is there.
exits 0 --build build
touch src/low/four.c src/low/four_test.c
cmake --build build >out 2>&1 && fail "it builds without src/low/four.c"
says out 'src/low/four.c: add four.c to tutti_folder(... src/low ...)'
exits 1 -S . -B build
says err 'CMakeLists.txt does not name all files'
says err 'src/low/four.c: add four.c to tutti_folder(... src/low ...)'
rm src/low/four.c # but not its test, which needs no line
exits 0 -S . -B build
mkdir -p src/high/new && touch src/high/new/five.c
exits 1 -S . -B build
says err 'src/high/new/five.c: add five.c to tutti_folder(... src/high/new ...)'
rm -r src/high/new

project "$low" "$high" "$high" "$check"
exits 1 -S . -B build
says err 'src/high/three.c is named twice'
project "$low" "$high" 'tutti_folder(library src/high IF HAS gone.c)' "$check"
exits 1 -S . -B build
says err 'src/high/gone.c is named here, and does not exist'

exit $((failures > 0))

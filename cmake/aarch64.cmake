# A toolchain file: 64-bit Arm, built with Debian's cross compiler, run by qemu's user mode (./check aarch64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc CACHE FILEPATH "As for any other build folder")
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
find_program(TUTTI_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(TUTTI_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${TUTTI_QEMU} -L /usr/aarch64-linux-gnu)
endif()
# Debian has cmocka for this machine only where its packages are mixed in; the whole of this one is a header.
set(CMOCKA_INCLUDE_DIR ${CMAKE_CURRENT_LIST_DIR}/../tests/cross)
set(CMOCKA_LIBRARY m)
# The same goes for OpenSSL, whose place nothing takes: this build authenticates nobody.
set(TUTTI_OPENSSL OFF CACHE BOOL "As for any other build folder")

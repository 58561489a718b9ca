/* build.h - how this library was built, as CMake says (cmake/programs.cmake). */
#ifndef TUTTI_TOOLS_INFO_BUILD_H
#define TUTTI_TOOLS_INFO_BUILD_H

#include <stdbool.h>

struct build_part {
    const char *name; /* "OpenSSL" */
    const char *key;  /* "openssl" */
    bool is_there;
};
enum { BUILD_PART_COUNT = 6 };

struct build {
    const char *compiler, *type, *flags, *sanitizers, *processor;
    struct build_part parts[BUILD_PART_COUNT];
};

extern const struct build build;

#endif

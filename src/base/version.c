/* version.c - which version the library is of, which may be another one than that of the header
 * that a program saw. */
#include "tutti/tutti.h"

#define TEXT(number) #number
#define JOIN(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

int tutti_version(void)
{
    return TUTTI_VERSION_NUMBER;
}

const char *tutti_version_text(void)
{
    return JOIN(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
}

#include "transport/ofi/shortage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/status.h"

enum { PLENTY = 16 }; /* descriptors: more than the endpoint of any provider needs here */

enum tutti_status ofi_status_of(int error)
{
    switch (error) {
    case ENOMEM: return TUTTI_NO_MEMORY;
    case EMFILE:
    case ENFILE: return TUTTI_NO_DESCRIPTORS;
    default: return TUTTI_UNSUPPORTED;
    }
}

bool ofi_is_shortage(enum tutti_status status)
{
    return status == TUTTI_NO_MEMORY || status == TUTTI_NO_DESCRIPTORS;
}

/* How many descriptors this process can still open, up to PLENTY. Opens none: another thread may
 * need the last one. */
static int count_free(void)
{
    struct rlimit limit;
    int count = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return PLENTY;
    for (rlim_t fd = limit.rlim_cur < INT32_MAX ? limit.rlim_cur : INT32_MAX;
         fd > 0 && count < PLENTY; fd--)
        count += fcntl((int)(fd - 1), F_GETFD) < 0;
    return count;
}

bool ofi_descriptors_are_at_an_end(void)
{
    return count_free() == 0;
}

enum tutti_status ofi_refuse(int error, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const enum tutti_status status = ofi_status_of(error);
    const int left = count_free();
    if (status != TUTTI_UNSUPPORTED || left >= PLENTY) return error_set(status, "%s", text);
    return error_set(TUTTI_NO_DESCRIPTORS, "%.400s; this process can open only %d more descriptors",
                     text, left);
}

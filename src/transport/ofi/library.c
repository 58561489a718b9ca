#include "transport/ofi/library.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "os/clock.h"
#include "os/turn.h"
#include "transport/ofi/shortage.h"

/* The functions that we call: the slot of struct ofi_library, and the name in libfabric. dlsym
 * gives the default version of a symbol, which is the newest. Every object is made by libfabric
 * itself, so a later struct with more fields at its end does no harm. */
#define FUNCTIONS(X)           \
    X(getinfo, "fi_getinfo")   \
    X(freeinfo, "fi_freeinfo") \
    X(dupinfo, "fi_dupinfo")   \
    X(fabric, "fi_fabric")     \
    X(strerror, "fi_strerror") \
    X(version, "fi_version")

static struct ofi_library loaded;
static struct turn loading;
static const uint64_t LOAD_NS = 60000000000;
/* IN_PROGRESS: not tried yet. After a shortage the next one tries again. */
static enum tutti_status status = TUTTI_IN_PROGRESS;
static char missing[256]; /* why it is not loaded */

/* The status for the errno that the dynamic linker names in its reason. */
static enum tutti_status status_of(const char *reason)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strstr(reason, strerror(errors[i])) != NULL) return ofi_status_of(errors[i]);
    return TUTTI_UNSUPPORTED;
}

static void load(void)
{
    status = TUTTI_UNSUPPORTED;
    missing[0] = '\0';
    void *const handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        const char *const reason = dlerror();
        snprintf(missing, sizeof missing, "%.200s", reason != NULL ? reason : "no libfabric.so.1");
        status = status_of(missing);
        return;
    }
#define X(slot, name)                                                                  \
    {                                                                                  \
        void *const symbol = dlsym(handle, name);                                      \
        static_assert(sizeof symbol == sizeof loaded.slot, "POSIX");                   \
        memcpy(&loaded.slot, &symbol, sizeof symbol);                                  \
        if (symbol == NULL)                                                            \
            snprintf(missing, sizeof missing, "libfabric.so.1 has no function " name); \
    }
    FUNCTIONS(X)
#undef X
    dlclose(handle); /* stays, see RTLD_NODELETE */
    if (missing[0] != '\0') return;
    const uint32_t version = loaded.version();
    if (FI_VERSION_LT(version, FI_VERSION(OFI_API_MAJOR, OFI_API_MINOR)))
        snprintf(missing, sizeof missing, "libfabric %u.%u is too old, %d.%d is needed",
                 FI_MAJOR(version), FI_MINOR(version), OFI_API_MAJOR, OFI_API_MINOR);
    else
        status = TUTTI_OK;
}

enum tutti_status ofi_library_load(const struct ofi_library **library)
{
    const enum turn_result turn = turn_take(&loading, clock_now_ns() + LOAD_NS);
    *library = NULL;
    if (turn == TURN_LATE)
        return error_set(TUTTI_TIMEOUT,
                         "libfabric: another thread of this process has been loading it for a "
                         "minute");
    if (turn == TURN_TAKEN_OVER && status != TUTTI_OK) {
        status = TUTTI_UNSUPPORTED;
        snprintf(missing, sizeof missing, "this process was forked while another thread loaded it");
    }
    if (status == TUTTI_IN_PROGRESS || ofi_is_shortage(status)) load();
    *library = status == TUTTI_OK ? &loaded : NULL;
    const enum tutti_status result =
        status == TUTTI_OK
            ? TUTTI_OK
            : error_set(status, "libfabric cannot be used (Debian: libfabric1): %s", missing);
    turn_give(&loading);
    return result;
}

#include "transport/ofi/library.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

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
static bool is_loaded;
static char missing[256]; /* why it is not */

static void load(void)
{
    void *const handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        const char *const reason = dlerror();
        snprintf(missing, sizeof missing, "%.200s", reason != NULL ? reason : "no libfabric.so.1");
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
        is_loaded = true;
}

enum tutti_status ofi_library_load(const struct ofi_library **library)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    *library = is_loaded ? &loaded : NULL;
    return is_loaded ? TUTTI_OK
                     : error_set(TUTTI_UNSUPPORTED,
                                 "libfabric cannot be used (Debian: libfabric1): %s", missing);
}

/* library.h - libfabric, loaded when it is first needed. Its headers are needed when Tutti is built
 * (Debian: libfabric-dev); without them, library_absent.c takes the place of library.c. All other
 * calls of libfabric go through tables that its objects carry (rdma/fi_*.h).
 *
 * Threads: any. Loaded once per process and never unloaded, because its providers have threads and
 * exit handlers of their own. */
#ifndef TUTTI_TRANSPORT_OFI_LIBRARY_H
#define TUTTI_TRANSPORT_OFI_LIBRARY_H

#include <stdint.h>

#include "tutti/tutti.h"

struct fi_info;
struct fid_fabric;
struct fi_fabric_attr;

/* The version of libfabric's interface that Tutti speaks, and the oldest libfabric that will do.
 * Later versions still know that interface. */
enum { OFI_API_MAJOR = 1, OFI_API_MINOR = 15 };

struct ofi_library {
    /* The version to ask for is OFI_API_MAJOR.OFI_API_MINOR. Hints are made by dupinfo(NULL), never
     * by hand: a later libfabric has larger structs. Texts in them are from malloc; freeinfo frees
     * them, too. */
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info); /* of NULL: an empty one */
    int (*fabric)(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
    uint32_t (*version)(void);
};

/* UNSUPPORTED, and why in the error's text: libfabric is not installed or too old, or Tutti was
 * built without it. NO_MEMORY, NO_DESCRIPTORS: it cannot be loaded now. */
enum tutti_status ofi_library_load(const struct ofi_library **library);

#endif

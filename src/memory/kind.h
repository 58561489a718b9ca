/* kind.h - kinds of memory: the host's, which any instruction can reach, and others, a device's
 * say, which only kernels and links touch.
 *
 * The address of its struct identifies a kind; NULL is the host's. The maker of a kind keeps the
 * struct for as long as memory of that kind is in use.
 */
#ifndef TUTTI_MEMORY_KIND_H
#define TUTTI_MEMORY_KIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The owner's word on how another process of this host can get at memory. */
struct memory_share {
    unsigned char handle[64]; /* of the allocation, for the driver, if there is no descriptor */
    uint64_t process;         /* a number that no other process has */
    uint64_t process_at;      /* where the owner has that number: with `pid`, proof of who it is */
    int32_t pid;              /* of the owner, as the reader knows it, who fills it in */
    int32_t descriptor;       /* the owner's, which stands for the allocation; -1: none */
    uint64_t number; /* of the allocation in it, never used again; not 0, below MEMORY_SHARE_NUMBERS */
    uint64_t bytes;  /* of the allocation */
    uint64_t offset; /* of the memory in the allocation; not for `map` */
};
#define MEMORY_SHARE_NUMBERS (UINT64_C(1) << 63)

enum memory_mapping { MEMORY_NOT_YET, MEMORY_MAPPED, MEMORY_REFUSED };

struct memory_kind {
    const char *name;
    /* Returns memory of that kind, 64-byte aligned; NULL when out of memory. Any thread. */
    void *(*allocate)(const struct memory_kind *kind, size_t bytes);
    /* Gives back memory that `allocate` returned, of so many bytes. Any thread. */
    void (*release)(const struct memory_kind *kind, void *address, size_t bytes);
    /* Between memory of that kind and the host's, or within it; waits until it is done. False: the
     * device says no, or has not done it in a minute, and may do it later; the text of the error
     * says which. Any thread. */
    bool (*copy)(const struct memory_kind *kind, void *destination, const void *source,
                 size_t bytes);
    /* Says how other processes get at memory of that kind. False: they do not, or not yet. A driver
     * may take long for it: then that is done elsewhere, and a later call succeeds. NULL: memory of
     * this kind is not shared; then `map` is NULL, too. Any thread; prompt. */
    bool (*share)(const struct memory_kind *kind, const void *address, size_t bytes,
                  struct memory_share *share);
    /* Finds the address at which kernels and `copy` of that kind reach an allocation that another
     * process shares, and how much of it they reach. The address is valid as long as this process
     * lives. A share is foreign: it is checked. MEMORY_NOT_YET: as for `share`. MEMORY_REFUSED: it
     * stays so. Any thread; prompt. */
    enum memory_mapping (*map)(const struct memory_kind *kind, const struct memory_share *share,
                               void **address, size_t *bytes);
    /* As `copy`, from memory of that kind to the host's, for links: an operation waits for it, and
     * other work that waits for the operation may already be queued on the device. NULL: `copy`
     * does it. Any thread. */
    bool (*read)(const struct memory_kind *kind, void *destination, const void *source,
                 size_t bytes);
};

/* The kind of the memory at an address; NULL: the host's. Costs a load where no driver of a device
 * is in use, else about a microsecond. */
typedef const struct memory_kind *memory_kind_finder(const void *address);
extern _Atomic(memory_kind_finder *) memory_kind_driver; /* of the driver that knows other kinds */
static inline const struct memory_kind *memory_kind_of(const void *address)
{
    memory_kind_finder *const find = atomic_load_explicit(&memory_kind_driver, memory_order_acquire);
    return __builtin_expect(find != NULL, 0) ? find(address) : NULL;
}

#endif

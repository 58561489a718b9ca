/* cuda_standin_memory.h - memory that the stand-in's devices reach (cuda_standin.h): which there
 * is, whose it is, and where it really lies.
 *
 *     the program's side   │ device 0 │ device 1 │ ... │ imported │ reservations │    nothing of it can be touched
 *     the other side       │ device 0 │ device 1 │                      files without a name; imported memory lies in others' files
 *
 * A file begins with a table: the number of each allocation while it lives. So processes that have
 * imported one see that it was freed.
 *
 * Any thread, after memory_init. Numbers of devices are checked by the caller.
 */
#ifndef TUTTI_TESTS_GPU_CUDA_STANDIN_MEMORY_H
#define TUTTI_TESTS_GPU_CUDA_STANDIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda_library.h"

enum { STANDIN_DEVICES_MAX = 8 };

enum memory_sort {
    MEMORY_DEVICE,
    MEMORY_BARE,
    MEMORY_FOREIGN,
    MEMORY_IMPORTED,
    MEMORY_PINNED,
    MEMORY_REGISTERED,
    MEMORY_MANAGED,
    MEMORY_MAPPED /* by hand: cuda_standin_mapped.h */
};

struct memory_range {
    uint64_t begin, bytes;
    char *reached; /* where the stand-in reaches it */
    enum memory_sort sort;
    int device, opener;  /* whose it is; imported: from which device on it was opened */
    uint32_t reached_by; /* a bit for each device */
    uint64_t buffer;     /* a number that no other allocation of this process ever has */
    uint64_t block_lead,
        block_rest; /* of an import: what else of its blocks lies before and behind it */
    uint32_t slot; /* of the table of its file; of imported memory: of its owner's; MAPPED: which memory is there */
    /* Imported: how often, whose table, what is mapped, and of which allocation of which
     * process. */
    unsigned opened;
    const _Atomic(uint64_t) *table;
    char *window;
    size_t window_bytes;
    int owner_pid;
    uint64_t owner_buffer;
};

enum { STANDIN_LINE_BYTES = 4096 };
/* Ends the process: "cuda stand-in: ...", up to so many bytes. */
_Noreturn void standin_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

void memory_init(int device_count);

/* Of a device, or of the host (PINNED, MANAGED). CUDA_OUT_OF_MEMORY. */
int memory_allocate(enum memory_sort sort, int device, size_t bytes, uint64_t *address);
/* `what` calls it, for memory of those sorts (bits of 1 << sort); anything else ends the
 * process. */
void memory_release(const char *what, uint32_t sorts, uint64_t address);
/* CUDA_INVALID_VALUE, CUDA_HOST_MEMORY_ALREADY_REGISTERED; CUDA_HOST_MEMORY_NOT_REGISTERED. */
int memory_register(void *memory, size_t bytes);
int memory_unregister(void *memory);

/* A copy of the range in which an address lies; false: it lies in none. */
bool memory_find(uint64_t address, struct memory_range *range);
/* Whether an address is one of the program's side. */
bool memory_is_hidden(uint64_t address);
/* Where the stand-in reaches those bytes. Whoever does not reach them from that device ends the
 * process; `what` wants to. Quick. */
void *memory_reach(const char *what, int device, uint64_t address, size_t bytes);

/* An address that does not begin an allocation ends the process. */
int memory_export(uint64_t address, struct cuda_ipc_handle *handle);
/* are_peers: also from another device on than that whose memory it is; else
 * CUDA_PEER_ACCESS_UNSUPPORTED. */
int memory_import(int device, bool are_peers, const struct cuda_ipc_handle *handle,
                  uint64_t *address);

/* For cuda_standin_mapped.c. Where the program may reserve addresses. */
uint64_t memory_reservable(uint64_t *bytes);
/* For an allocation. */
uint64_t memory_new_number(void);
/* Adds a range; takes away the one that begins there. */
void memory_insert(const struct memory_range *range);
void memory_remove(uint64_t begin);
/* Whether anything is there. */
bool memory_is_in(uint64_t address, size_t bytes);

/* How many ranges of a sort there are. */
unsigned memory_count(enum memory_sort sort);

#endif

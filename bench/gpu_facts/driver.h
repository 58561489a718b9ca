/* driver.h - CUDA's driver and the device, as all parts of gpu_facts use them, and the lines in
 * which they tell what they find. */
#ifndef TUTTI_BENCH_GPU_FACTS_DRIVER_H
#define TUTTI_BENCH_GPU_FACTS_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda_library.h"

enum { FACTS_SMALL = 256, FACTS_LARGE = 5 << 20 }; /* bytes of memory */

/* The functions that this library does not use. */
#define FURTHER_FUNCTIONS(X)                                                    \
    X(context_set, "cuCtxSetCurrent", (struct cuda_context * context))          \
    X(stream_synchronize, "cuStreamSynchronize", (struct cuda_stream * stream)) \
    X(ipc_close, "cuIpcCloseMemHandle", (uint64_t address))                     \
    X(create, "cuMemCreate",                                                    \
      (cuda_memory * memory, size_t bytes, const struct cuda_memory_kind *kind, \
       unsigned long long flags))                                               \
    X(granularity, "cuMemGetAllocationGranularity",                             \
      (size_t * bytes, const struct cuda_memory_kind *kind, int option))

extern struct cuda_library cuda;
extern struct further_functions {
#define X(member, name, parameters) int(*member) parameters;
    FURTHER_FUNCTIONS(X)
#undef X
} further;

extern struct driver {
    bool is_standin; /* tests' double: it ends a process that touches what was freed */
    int number;      /* of the device */
    struct cuda_context *context;
    struct cuda_stream *stream, *other_stream;
    size_t grain; /* bytes of a mapping */
} driver;

/* -------------------------------------------------------------------------------------- telling */

extern unsigned facts_unexpected; /* lines so far */
extern const char *facts_who;     /* before each line: which process */

void facts_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* what: is said if it is not so. */
void facts_expect(bool is_so, const char *what);
/* Ends the process if a call has failed that must not. */
void facts_need(int result, const char *what);
double facts_seconds_now(void);

/* ----------------------------------------------------------------------------------- the driver */

/* Exit status 0, or what it is without a driver or a device. */
int driver_open(const char *file);
/* The name of a result. */
const char *driver_name_of(int result);

uint64_t driver_allocated(size_t bytes);
void *driver_pinned(size_t bytes);
/* Memory of one grain, to be mapped by hand. */
cuda_memory driver_created(bool may_be_exported);
uint64_t driver_reserved(unsigned grains);
int driver_give_access(uint64_t address);
void driver_map(uint64_t address, cuda_memory memory);
bool driver_has_mappings(void);
/* Through pinned memory, in a stream that waits for nothing. */
int driver_move(uint64_t to, uint64_t from, size_t bytes);

#endif

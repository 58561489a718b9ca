/* program.h - programs of calls: algorithm chosen, planned and bound once for each shape, and
 * kept. */
#ifndef TUTTI_CALL_PROGRAM_H
#define TUTTI_CALL_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call/request.h"
#include "engine/bind.h"

enum { PROGRAM_CACHE_SIZE = 256, FINGERPRINT_CACHE_SIZE = 64 };

struct cached_program {
    uint64_t shape; /* see shape_of in program.c */
    size_t count;
    const struct algorithm *algorithm; /* as asked for */
    struct call_wishes wishes;
    uint64_t op_serial;
    size_t *counts; /* of a v form, as in call_extra; or NULL */
    size_t count_bytes;
    const struct gpu_device *device; /* of the buffers' memory; NULL: the host's */
    struct program *program;
};

/* The fingerprint of the plan of all ranks (algo/algo_fingerprint.h), with the parameters that are
 * not the same for all of the communicator's calls. */
struct cached_fingerprint {
    const struct algorithm *algorithm; /* NULL: the place is free */
    unsigned radix;
    int root, level_count;
    const int *order;
    uint64_t fingerprint;
};

enum { PROGRAM_TOLD_MAX = 64 };

struct program_cache {
    struct cached_program cached[PROGRAM_CACHE_SIZE];               /* by a hash of the call */
    struct cached_fingerprint fingerprints[FINGERPRINT_CACHE_SIZE]; /* by a hash of its key */
    uint64_t forgotten; /* programs that have left the cache so far */
    uint64_t told; /* a bit for each of the site's first PROGRAM_TOLD_MAX loaded plans: the log has said why it is not used */
};

/* The program of a call, from the cache or new. INVALID_ALGORITHM and UNSUPPORTED are the same on
 * all ranks. Holds the domain. */
enum tutti_status call_program(struct tutti_comm *comm, const struct call *call,
                               struct program **program);
/* Whether the call can have a program; without the domain. */
enum tutti_status call_program_check(const struct tutti_comm *comm, const struct call *call);
/* UNSUPPORTED: the call is encoded in units, and a buffer of this rank is a list of tensors in memory
 * of a device, in which units may be cut. Without the domain. */
enum tutti_status call_program_check_encoding(const struct tutti_comm *comm,
                                              const struct call *call);
/* Code that runs or keeps a program holds it; the last holder of a program that left the cache
 * frees it. */
static inline void call_program_hold(struct program *program)
{
    program->users++;
}
static inline void call_program_release(struct program *program)
{
    if (--program->users == 0 && program->is_orphan) program_free(program);
}
void call_programs_free(struct tutti_comm *comm);

#endif

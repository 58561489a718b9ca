/* program.c - the programs of a communicator: which one a call needs, and the cache of those it
 * has. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo_fingerprint.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "call/all_memory.h"
#include "call/chosen.h"
#include "call/communicator.h"
#include "call/encoded.h"
#include "call/on_device.h"
#include "call/program.h"
#include "encoding/encoding.h"
#include "tune/choose.h"

static const size_t *counts_of(const struct call *call)
{
    return call->extra->input_counts != NULL ? call->extra->input_counts
                                             : call->extra->output_counts;
}

/* The bits at which the parts of a call's shape begin in its word. */
enum shape_bit {
    SHAPE_COLLECTIVE = 0,
    SHAPE_DTYPE = 8,
    SHAPE_OP = 16,
    SHAPE_STARTED = 24,
    SHAPE_VARIES,
    SHAPE_IN_PLACE, /* from here on: parts that are not in described() */
    SHAPE_DETERMINISTIC,
    SHAPE_ALL_MAPPED,
    SHAPE_ON_DEVICE, /* a bit for each of the two buffers */
    SHAPE_ROOT = 32
};
static_assert(COLLECTIVE_COUNT <= 256 && DTYPE_COUNT <= 256 && OP_COUNT <= 256, "a byte each");
static_assert(SHAPE_ON_DEVICE + 2 <= SHAPE_ROOT, "the parts lie side by side");

static uint64_t described(const struct call_description *what)
{
    return (uint64_t)what->collective << SHAPE_COLLECTIVE | (uint64_t)what->dtype << SHAPE_DTYPE |
           (uint64_t)what->op << SHAPE_OP | (uint64_t)what->started << SHAPE_STARTED |
           (uint64_t)what->varies << SHAPE_VARIES;
}

/* NULL: all ranks are on one host. */
static const struct host_levels *several_hosts(const struct tutti_comm *comm)
{
    const struct host_levels *levels = comm->team.members.levels;
    return levels != NULL && levels->host_count > 1 ? levels : NULL;
}

/* A hash of all that ranks must agree on: everything but addresses, whether the call is in place,
 * deadline and priority. The fingerprint stands for the whole plan. Ranks that know other hosts get
 * different signatures even if that makes no difference here, and so do ranks that ask for another
 * algorithm with the same plan. But the file of a plan may be in another place on each host
 * (algorithm: NULL). */
static uint64_t signature_of(const struct tutti_comm *comm, const struct call *call,
                             const char *algorithm, const struct algo_params *params,
                             const struct call_encoding *encoding, uint64_t fingerprint)
{
    const struct call_description *what = &call->what;
    uint64_t hash = hash_take(0x7475747469u, described(what));
    if (!what->varies)
        hash = hash_take(hash, what->count);
    else if (collective_knows_all_counts(what->collective))
        for (int r = 0; r < comm->team.size; r++) hash = hash_take(hash, counts_of(call)[r]);
    hash = hash_take(hash, (uint64_t)(uint32_t)what->root);
    if (collective_reduces(what->collective)) hash = hash_take(hash, call->op->identity);
    for (const char *c = algorithm; c != NULL && *c != '\0'; c++)
        hash = hash_take(hash, (unsigned char)*c);
    if (params->levels != NULL) hash = hash_take(hash, comm->team.members.levels->fingerprint);
    if (encoding->encoding != NULL)
        hash = hash_take(hash_take(hash, encoding->encoding->id), encoding->wish.links);
    hash = hash_take(hash, path_agreed(&comm->team.transports.set.all->paths));
    return hash_take(hash, fingerprint);
}

/* --------------------------------------------------------------------------------------- choice */

/* Bytes of a block, as far as all ranks know them. */
static size_t shared_bytes(const struct tutti_comm *comm, const struct call *call)
{
    const struct call_description *what = &call->what;
    if (what->collective == COLLECTIVE_BARRIER) return 0;
    size_t count = what->count;
    if (what->varies) {
        count = 0;
        for (int r = 0; collective_knows_all_counts(what->collective) && r < comm->team.size; r++)
            count += counts_of(call)[r];
        count /= (size_t)comm->team.size;
    }
    return count * dtype_size(what->dtype);
}

static struct choose_call wanted_by(const struct tutti_comm *comm, const struct call *call)
{
    const struct call_description *what = &call->what;
    return (struct choose_call){
        .question = {.collective = what->collective,
                     .dtype = what->dtype,
                     .bytes = shared_bytes(comm, call),
                     .is_mapped = call->all_were_mapped || all_memory_is_reached(comm)},
        .site = &comm->team.members.site,
        .root = what->root,
        .deterministic = call->deterministic,
        .in_rank_order = collective_reduces(what->collective) && !call->op->commutative,
        .varies = what->varies,
        .counts_are_local = what->varies && !collective_knows_all_counts(what->collective),
        .algorithm = call->algorithm,
        .radix = call->wishes.radix,
        .rules = comm->team.settings.rules};
}

static void find_encoding(const struct tutti_comm *comm, const struct call *call,
                          struct call_encoding *found)
{
    const struct call_description *what = &call->what;
    const struct call_to_encode asked = {.collective = what->collective,
                                         .dtype = what->dtype,
                                         .op = what->op,
                                         .bytes = shared_bytes(comm, call),
                                         .varies = what->varies,
                                         .deterministic = call->deterministic,
                                         .wish = call->wishes.encoding};
    call_encoding_find(comm, &asked, found);
}

/* Chooses the algorithm of a call, and whether it is encoded: *encoding says why not. */
static enum tutti_status choose(const struct tutti_comm *comm, const struct call *call,
                                struct choose_call *wanted, struct choice *choice,
                                struct call_encoding *encoding)
{
    *wanted = wanted_by(comm, call);
    find_encoding(comm, call, encoding);
    return call_encoding_choose(wanted, encoding, choice);
}

/* Only a wish can be one that no algorithm fulfils. */
enum tutti_status call_program_check(const struct tutti_comm *comm, const struct call *call)
{
    const struct settings *const settings = &comm->team.settings;
    struct choose_call wanted;
    struct choice choice;
    struct call_encoding encoding;
    if (call->algorithm == NULL && settings->rules == NULL && settings->encodings == NULL &&
        call->wishes.encoding == 0)
        return TUTTI_OK;
    return choose(comm, call, &wanted, &choice, &encoding);
}

enum tutti_status call_program_check_encoding(const struct tutti_comm *comm, const struct call *call)
{
    struct call_encoding encoding;
    find_encoding(comm, call, &encoding);
    if (encoding.encoding == NULL || encoding.encoding->unit_elements == 1) return TUTTI_OK;
    if (!call_is_on_device(call)) return TUTTI_OK;
    const struct call_extra *const extra = call->extra;
    const bool is_list = extra->segments[0] != NULL || extra->segments[1] != NULL;
    if (!is_list || (!extra->on_device[0] && !extra->on_device[1])) return TUTTI_OK;
    return error_set(TUTTI_UNSUPPORTED,
                     "encoding %s: tensors of a list in memory of a device may end within one of "
                     "its units of %u elements",
                     encoding.encoding->name, encoding.encoding->unit_elements);
}

/* Bits must not depend on where ranks run when they are to be the same for good, and operands stay
 * in the order of ranks where the operation does not commute. */
static const int *order_for(const struct tutti_comm *comm, const struct call *call)
{
    const bool is_bound = collective_reduces(call->what.collective) &&
                          (call->deterministic || !call->op->commutative);
    if (is_bound) return NULL;
    const struct host_levels *hosts = several_hosts(comm);
    return hosts != NULL ? hosts->order : comm->team.members.order;
}

/* From the cache, or new: it costs as much as the plans of all ranks, and does not depend on
 * counts, dtype and operation. */
static enum tutti_status find_fingerprint(struct tutti_comm *comm, const struct choice *choice,
                                          const struct algo_params *params, uint64_t *fingerprint,
                                          const char **message)
{
    const int level_count = params->levels != NULL ? params->levels->level_count : 0;
    const uint64_t hash = hash_take((uintptr_t)choice->algorithm + choice->radix,
                                    (uint64_t)(uint32_t)params->root << 32 | (uint32_t)level_count);
    struct cached_fingerprint *const place =
        &comm->programs.fingerprints[hash >> 40 & (FINGERPRINT_CACHE_SIZE - 1)];
    if (place->algorithm != choice->algorithm || place->radix != choice->radix ||
        place->root != params->root || place->order != params->order ||
        place->level_count != level_count) {
        uint64_t found;
        TRY(algo_fingerprint(choice->algorithm, params, &found, message));
        *place = (struct cached_fingerprint){.algorithm = choice->algorithm,
                                             .radix = choice->radix,
                                             .root = params->root,
                                             .level_count = level_count,
                                             .order = params->order,
                                             .fingerprint = found};
    }
    *fingerprint = place->fingerprint;
    return TUTTI_OK;
}

static enum tutti_status make_program(struct tutti_comm *comm, const struct call *call,
                                      struct program **program)
{
    const struct call_description *what = &call->what;
    struct choose_call wanted;
    struct choice choice;
    struct call_encoding encoding;
    TRY(choose(comm, call, &wanted, &choice, &encoding));
    if (comm->team.rank == 0 && log_is_wanted(LOG_INFO)) chosen_say(comm, call, &wanted, &choice);
    const struct host_levels *hosts = several_hosts(comm);
    struct algo_levels levels = hosts != NULL ? hosts->levels : (struct algo_levels){0};
    if (choice.only_hosts) levels.level_count = 1;
    const struct algo_params params = {.collective = what->collective,
                                       .rank_count = comm->team.size,
                                       .root = what->root,
                                       .in_place = call->in_place,
                                       .encodes = encoding.encoding != NULL,
                                       .radix = choice.radix,
                                       .order = order_for(comm, call),
                                       .levels = hosts != NULL ? &levels : NULL};
    struct rank_plan *plan = NULL;
    uint64_t fingerprint = 0;
    const char *message = "";
    enum tutti_status built =
        algo_rank_plan(choice.algorithm, &params, comm->team.rank, &plan, &message);
    if (built == TUTTI_OK) built = find_fingerprint(comm, &choice, &params, &fingerprint, &message);
    if (built != TUTTI_OK) {
        plan_rank_free(plan);
        return error_set(built, "%s of %s: %s", choice.algorithm->name,
                         collective_name(what->collective), message);
    }
    struct bind_options options = {
        .count = what->count,
        .input_counts = call->extra != NULL ? call->extra->input_counts : NULL,
        .output_counts = call->extra != NULL ? call->extra->output_counts : NULL,
        .dtype = what->dtype,
        .op = call->op,
        .level = comm->team.settings.level,
        .algorithm = choice.algorithm->name,
        .in_place = call->in_place,
        .shares_cores = comm->team.members.shares_cores};
    struct kernel_set encoding_set;
    if (encoding.encoding != NULL) {
        encoding_set = encoding_kernels(options.level, what->dtype);
        options.encoding = encoding.encoding;
        options.places = encoding.places;
        options.encoding_kernels = &encoding_set;
    }
    if (call_is_on_device(call)) on_device_bind(call, &options);
    bind_to_transport(&options, comm->team.transports.set.all);
    const enum tutti_status status = bind_program(plan, &options, program);
    plan_rank_free(plan);
    if (status != TUTTI_OK) return status;
    (*program)->signature =
        signature_of(comm, call, choice.algorithm->plan == NULL ? choice.algorithm->name : NULL,
                     &params, &encoding, fingerprint);
    chosen_keep(comm, call, &wanted, &choice, (*program)->signature);
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- cache */

/* The buffers of a call that lie in memory of a device, a bit for each. */
static uint64_t device_bits(const struct call *call)
{
    if (!call_is_on_device(call)) return 0;
    return (uint64_t)call->extra->on_device[0] | (uint64_t)call->extra->on_device[1] << 1;
}

/* The shape of a call in one word: a small call should not cost a comparison for each part of it.
 * Its count, what it asks for by name, and counts of blocks are compared by themselves. */
static uint64_t shape_of(const struct call *call)
{
    return described(&call->what) | (uint64_t)call->in_place << SHAPE_IN_PLACE |
           (uint64_t)call->deterministic << SHAPE_DETERMINISTIC |
           (uint64_t)call->all_were_mapped << SHAPE_ALL_MAPPED |
           device_bits(call) << SHAPE_ON_DEVICE | (uint64_t)(uint32_t)call->what.root << SHAPE_ROOT;
}

static bool has_same_counts(const struct cached_program *cached, const struct call *call)
{
    const size_t bytes = call->extra != NULL ? call->extra->count_bytes : 0;
    return cached->count_bytes == bytes &&
           (bytes == 0 || memcmp(cached->counts, counts_of(call), bytes) == 0);
}

static bool is_on_same_device(const struct cached_program *cached, const struct call *call)
{
    return device_bits(call) == 0 || cached->device == call->extra->device;
}

static bool is_same(const struct cached_program *cached, const struct call *call, uint64_t shape)
{
    return cached->program != NULL && cached->shape == shape && cached->count == call->what.count &&
           cached->algorithm == call->algorithm &&
           call_wishes_word(&cached->wishes) == call_wishes_word(&call->wishes) &&
           cached->op_serial == call->op->serial && has_same_counts(cached, call) &&
           is_on_same_device(cached, call);
}

static struct cached_program *cache_place(struct tutti_comm *comm, const struct call *call,
                                          uint64_t shape)
{
    uint64_t hash = hash_take(call->what.count, shape);
    hash = hash_take(hash, (uintptr_t)call->algorithm + call_wishes_word(&call->wishes));
    /* Ranks that are not root have no counts in gatherv and scatterv. */
    if (call->extra != NULL && call->extra->count_bytes > 0)
        hash = hash_take(hash, counts_of(call)[0] ^ counts_of(call)[comm->team.size - 1] << 7);
    return &comm->programs.cached[hash >> 40 & (PROGRAM_CACHE_SIZE - 1)];
}

static void forget(struct tutti_comm *comm, struct cached_program *place)
{
    if (place->program != NULL) {
        comm->programs.forgotten++;
        place->program->is_orphan = true;
        place->program->users++;
        call_program_release(place->program);
    }
    free(place->counts);
    *place = (struct cached_program){0};
}

/* A new program, which takes that place. */
__attribute__((cold, noinline)) static enum tutti_status make_and_keep(struct tutti_comm *comm,
                                                                       const struct call *call,
                                                                       struct cached_program *place,
                                                                       struct program **program)
{
    const size_t count_bytes = call->extra != NULL ? call->extra->count_bytes : 0;
    size_t *counts = NULL;
    if (count_bytes > 0) {
        counts = malloc(count_bytes);
        if (counts == NULL) return error_set(TUTTI_NO_MEMORY, "a program: out of memory");
        memcpy(counts, counts_of(call), count_bytes);
    }
    const enum tutti_status status = make_program(comm, call, program);
    if (status != TUTTI_OK) {
        free(counts);
        return status;
    }
    forget(comm, place);
    *place = (struct cached_program){.shape = shape_of(call),
                                     .count = call->what.count,
                                     .algorithm = call->algorithm,
                                     .wishes = call->wishes,
                                     .op_serial = call->op->serial,
                                     .counts = counts,
                                     .count_bytes = count_bytes,
                                     .device = device_bits(call) != 0 ? call->extra->device : NULL,
                                     .program = *program};
    return TUTTI_OK;
}

enum tutti_status call_program(struct tutti_comm *comm, const struct call *call,
                               struct program **program)
{
    const uint64_t shape = shape_of(call);
    struct cached_program *place = cache_place(comm, call, shape);
    if (!is_same(place, call, shape)) return make_and_keep(comm, call, place, program);
    *program = place->program;
    return TUTTI_OK;
}

void call_programs_free(struct tutti_comm *comm)
{
    for (int i = 0; i < PROGRAM_CACHE_SIZE; i++) forget(comm, &comm->programs.cached[i]);
    memset(comm->programs.fingerprints, 0, sizeof comm->programs.fingerprints);
}

#include "tests/gpu/gpu_game.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/op.h"
#include "gpu/device_code.h"
#include "gpu/executor.h"
#include "gpu/worker_protocol.h"
#include "kernel/kernel.h"
#include "os/clock.h"
#include "tests/gpu/twins.h"
#include "tests/kit/chance.h"
#include "tests/kit/sanitized.h"
#include "tests/sim/sim_seeds.h"

/* ----------------------------------------------------------------------------------- the device */

enum { PINNED_MAX = 64, HOST_BYTES = 16 << 20, GUARD_BYTE = 0xa5 };
#define ELSEWHERE UINT64_C(0x0f00000000000000)
#define PATIENCE_NS UINT64_C(20000000000)

static _Alignas(4096) unsigned char memory[GPU_GAME_MEMORY], host[HOST_BYTES];

/* What the device may touch of the host; without a lock, which would hide races. */
static struct {
    _Atomic uintptr_t begin, end;
} reachable[PINNED_MAX];

static _Atomic uint64_t seed_played;

static void die(const char *text)
{
    fprintf(stderr, "%s\n", text);
    printf("seed %llu: %s\n", (unsigned long long)seed_played, text);
    fflush(stdout);
    _exit(1);
}

static void nap(unsigned us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

/* Of the calling block. */
static _Thread_local unsigned reaches, reaches_between_naps; /* between: 0 for no naps */

static void *reach(uint64_t address, size_t bytes)
{
    if (reaches_between_naps != 0 && ++reaches % reaches_between_naps == 0) nap(50);
    if (address >= ELSEWHERE) {
        const uintptr_t place = (uintptr_t)(address - ELSEWHERE), begin = (uintptr_t)memory;
        if (place < begin || place + bytes > begin + sizeof memory)
            die("beyond the device's memory");
        return (void *)place;
    }
    static _Thread_local int range; /* most looks are where the one before was */
    for (int i = 0; i < PINNED_MAX; i++, range = (range + 1) % PINNED_MAX) {
        const uintptr_t begin = atomic_load_explicit(&reachable[range].begin, memory_order_relaxed);
        if (begin != 0 && address >= begin &&
            address + bytes <= atomic_load_explicit(&reachable[range].end, memory_order_relaxed))
            return (void *)(uintptr_t)address;
    }
    die("the device touches memory of the host that is not pinned");
    return NULL;
}

static void add_reachable(void *begin, size_t bytes)
{
    int i = 0;
    while (atomic_load_explicit(&reachable[i].begin, memory_order_relaxed) != 0)
        if (++i == PINNED_MAX) die("too many ranges are pinned");
    atomic_store_explicit(&reachable[i].end, (uintptr_t)begin + bytes, memory_order_relaxed);
    atomic_store_explicit(&reachable[i].begin, (uintptr_t)begin, memory_order_relaxed);
}

static void remove_reachable(void *begin)
{
    for (int i = 0; i < PINNED_MAX; i++)
        if (atomic_load_explicit(&reachable[i].begin, memory_order_relaxed) == (uintptr_t)begin) {
            atomic_store_explicit(&reachable[i].begin, 0, memory_order_relaxed);
            return;
        }
    die("it is not pinned");
}

static enum tutti_status allocate_pinned(struct gpu_device *device, size_t bytes, void **result)
{
    (void)device;
    bytes = (bytes + 4095) / 4096 * 4096;
    *result = aligned_alloc(4096, bytes);
    if (*result == NULL) return TUTTI_NO_MEMORY;
    memset(*result, 0x5a, bytes);
    add_reachable(*result, bytes);
    return TUTTI_OK;
}

static void release_pinned(struct gpu_device *device, void *released)
{
    (void)device;
    remove_reachable(released);
    free(released);
}

/* Memory of the device for whoever asks for it: the device reaches it as it reaches what is
 * pinned. */
static void *allocate(const struct memory_kind *kind, size_t bytes)
{
    void *made = NULL;
    (void)kind;
    return allocate_pinned(NULL, bytes, &made) == TUTTI_OK ? made : NULL;
}

static void release(const struct memory_kind *kind, void *released, size_t bytes)
{
    (void)kind;
    (void)bytes;
    release_pinned(NULL, released);
}

static bool copy(const struct memory_kind *kind, void *destination, const void *source, size_t bytes)
{
    (void)kind;
    memcpy(destination, source, bytes);
    return true;
}

#define KIND                                                                   \
    {                                                                          \
        .name = "game", .allocate = allocate, .release = release, .copy = copy \
    }

/* -------------------------------------------------------------------------------------- streams */

struct launch {
    struct launch *before; /* in its stream */
    struct stream *stream;
    struct worker_home *home;
    _Atomic unsigned blocks_left;
    unsigned block_count;
    struct block {
        struct launch *launch;
        unsigned late_us;              /* a block that finds no place on the device at once */
        unsigned reaches_between_naps; /* a slow block: far from the memory, say; 0: it is not */
    } blocks[WORKER_BLOCKS_MAX];
};

struct stream {
    struct stream *next; /* of all */
    _Atomic bool is_open;
    struct launch *last;
    uint64_t random;
};

static struct stream *streams;
static unsigned last_block_count;

static void *run_block(void *context)
{
    struct block *const block = context;
    struct launch *const launch = block->launch;
    while (!atomic_load_explicit(&launch->stream->is_open, memory_order_acquire) ||
           (launch->before != NULL &&
            atomic_load_explicit(&launch->before->blocks_left, memory_order_acquire) > 0))
        nap(20);
    if (block->late_us > 0) nap(block->late_us);
    reaches_between_naps = block->reaches_between_naps;
    gpu_twin_find("tutti_worker")((uintptr_t)launch->home, (uint32_t)(block - launch->blocks),
                                  launch->block_count);
    atomic_fetch_sub_explicit(&launch->blocks_left, 1, memory_order_release);
    return NULL;
}

static enum tutti_status start_worker(struct gpu_device *device, void *stream_pointer,
                                      unsigned block_count, struct worker_home *home)
{
    (void)device;
    struct stream *const stream = stream_pointer;
    struct launch *const launch = calloc(1, sizeof *launch);
    if (launch == NULL) return TUTTI_NO_MEMORY;
    launch->before = stream->last;
    launch->stream = stream;
    launch->home = home;
    launch->block_count = block_count;
    atomic_init(&launch->blocks_left, block_count);
    stream->last = launch;
    last_block_count = block_count;
    for (unsigned b = 0; b < block_count; b++) {
        struct block *const block = &launch->blocks[b];
        block->launch = launch;
        const uint64_t draw = elements_mixed(stream->random, 1000 + b);
        stream->random = draw;
        block->late_us = draw % 4 == 0 ? (unsigned)(draw / 4 % 2000) : 0;
        block->reaches_between_naps = (draw >> 32) % 4 == 0 ? 1000 << (draw >> 40) % 4 : 0;
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_block, block) != 0) die("no more threads");
        pthread_detach(thread); /* blocks_left is the last that it touches */
    }
    return TUTTI_OK;
}

void *gpu_game_make_stream(void)
{
    struct stream *const stream = calloc(1, sizeof *stream);
    if (stream == NULL) die("out of memory");
    stream->next = streams;
    streams = stream;
    return stream;
}

void gpu_game_open_stream(void *stream)
{
    atomic_store_explicit(&((struct stream *)stream)->is_open, true, memory_order_release);
}

unsigned gpu_game_blocks(void)
{
    return last_block_count;
}

static bool is_empty(const struct stream *stream)
{
    const uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
    for (struct launch *launch = stream->last; launch != NULL; launch = launch->before)
        while (atomic_load_explicit(&launch->blocks_left, memory_order_acquire) > 0) {
            if (clock_now_ns() > deadline_ns) return false;
            nap(20);
        }
    return true;
}

static bool all_are_empty(void)
{
    for (const struct stream *stream = streams; stream != NULL; stream = stream->next)
        if (!is_empty(stream)) return false;
    return true;
}

bool gpu_game_free_stream(void *pointer)
{
    struct stream *const stream = pointer;
    gpu_game_open_stream(stream);
    if (!is_empty(stream)) return false;
    struct stream **place = &streams;
    while (*place != stream) place = &(*place)->next;
    *place = stream->next;
    for (struct launch *launch = stream->last, *before; launch != NULL; launch = before) {
        before = launch->before;
        free(launch);
    }
    free(stream);
    return true;
}

static enum tutti_status make_stream(struct gpu_device *device, void **stream)
{
    (void)device;
    *stream = gpu_game_make_stream();
    gpu_game_open_stream(*stream);
    return TUTTI_OK;
}

static void free_stream(struct gpu_device *device, void *stream)
{
    (void)device;
    if (!gpu_game_free_stream(stream)) die("a worker is still there");
}

static enum tutti_status stream_check(struct gpu_device *device, void *stream)
{
    (void)device;
    (void)stream;
    return TUTTI_OK;
}

static const struct gpu_driver driver = {.name = "game",
                                         .allocate_pinned = allocate_pinned,
                                         .release_pinned = release_pinned,
                                         .make_stream = make_stream,
                                         .free_stream = free_stream,
                                         .stream_check = stream_check,
                                         .start_worker = start_worker};

static struct gpu_device devices[GPU_GAME_DEVICES] = {
    {.driver = &driver, .number = 0, .kind = KIND, .processor_count = 1},
    {.driver = &driver, .number = 1, .kind = KIND, .processor_count = 4},
    {.driver = &driver, .number = 2, .kind = KIND, .processor_count = 12}};

struct gpu_device *gpu_game_device(unsigned which)
{
    if (gpu_twin_reach != reach) gpu_twin_reach = reach; /* before the first worker; they read it */
    return &devices[which];
}

void *gpu_game_memory(void)
{
    return (void *)(uintptr_t)((uintptr_t)memory + ELSEWHERE);
}

void *gpu_game_place(void *address)
{
    return (uintptr_t)address >= ELSEWHERE ? (void *)(uintptr_t)((uintptr_t)address - ELSEWHERE)
                                           : address;
}

/* ---------------------------------------------------------------------------- kernels in flight */

enum {
    BAYS = 40,
    BAY_BYTES = 400 << 10, /* of each kind of memory */
    PLACES_MAX = 700,
    CALLS_MAX = 4, /* of a group */
    CROWD_MAX = 4, /* groups: their kernels need more room than the arena has */
    GUARD = 16
};
_Static_assert(BAYS *BAY_BYTES <= HOST_BYTES, "");

enum where { HOST, DEVICE };

/* A kernel in flight, with memory of its own. */
struct bay {
    bool is_used;
    size_t used[2]; /* of its memory of each kind */
    struct place {
        void *address; /* as the call has it */
        enum where where;
    } places[PLACES_MAX];
    unsigned destination_count, source_count;
    size_t bytes;
    unsigned char *expected;
    struct kernel_call call; /* but for places and formats */
    struct tutti_operation operation;
};

struct group {
    uint64_t number; /* 0: none, or not started */
    struct bay *bays[CALLS_MAX];
    unsigned bay_count;
};

/* The kernels that a game prefers. */
enum shape {
    MIXED, /* of all sizes, with one source or hundreds */
    SMALL, /* very many small ones: rings are full, and each order has one part */
    /* A few large ones, mostly in the host's memory, on the device of two teams. Each order has a
     * part for both teams, and needs much room in the arena. All of them are prepared before the
     * first is started, because to prepare one takes longer than to run it: otherwise the arena
     * would be empty again when the next one comes. So it is full, others stand in line, and the
     * next one takes an order's room in the same look that finds the order done. In other shapes
     * that hardly ever happens while one team has done its part and the other has not. */
    CROWDED
};

struct game {
    struct chance chance;
    struct gpu_device *device;
    struct gpu_run *run;
    struct kernel_executor *executor;
    struct operation_gate *gate;
    struct group groups[BAYS];
    enum shape shape;
};

static struct bay bays[BAYS];

static unsigned char *memory_of(const struct bay *bay, enum where where)
{
    const size_t offset = (size_t)(bay - bays) * BAY_BYTES;
    return (where == HOST ? host : memory) + offset;
}

/* So many bytes, aligned to whole elements and no more; NULL: no room. */
static void *place_in(struct game *game, struct bay *bay, enum where where, size_t bytes,
                      size_t element)
{
    size_t begin = bay->used[where] + GUARD;
    begin = (begin + 63) / 64 * 64;
    if (chance_below(&game->chance, 2) == 0)
        begin += element * (size_t)chance_below(&game->chance, (int)(64 / element));
    if (begin + bytes + GUARD > BAY_BYTES) return NULL;
    bay->used[where] = begin + bytes;
    unsigned char *const place = memory_of(bay, where) + begin;
    return where == DEVICE ? (void *)((uintptr_t)place + ELSEWHERE) : place;
}

static void fill(struct game *game, unsigned char *bytes, size_t count, enum tutti_dtype dtype)
{
    uint64_t draw = chance_draw(&game->chance);
    for (size_t i = 0; i < count; i += sizeof draw) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        const uint64_t word = draw ^ draw >> 32; /* the low bits of a draw are hardly random */
        memcpy(bytes + i, &word, count - i < sizeof word ? count - i : sizeof word);
    }
    /* No large numbers among floats: so nothing becomes infinite, and no NaN. */
    const size_t element = dtype_size(dtype);
    if (dtype_kind(dtype) == DTYPE_FLOAT)
        for (size_t i = element - 1; i < count; i += element) bytes[i] &= 0x9f;
}

/* Large kernels of CROWDED games have large elements: the CPU takes much longer for as many bytes
 * of small ones. */
static enum tutti_dtype draw_dtype(struct game *game)
{
    for (;;) {
        const enum tutti_dtype dtype = (enum tutti_dtype)chance_below(&game->chance, DTYPE_COUNT);
        if (game->shape != CROWDED || dtype_size(dtype) >= 4) return dtype;
    }
}

static enum op draw_op(struct game *game, enum tutti_dtype dtype)
{
    for (;;) {
        const enum op op = (enum op)chance_below(&game->chance, OP_BUILTIN_COUNT);
        if (op_supports(op_builtin(op), dtype)) return op;
    }
}

struct sizes {
    size_t count;
    unsigned sources, destinations;
};

static struct sizes draw_sizes(struct game *game, size_t element)
{
    struct chance *const chance = &game->chance;
    struct sizes sizes = {.sources = 1 + (unsigned)chance_below(chance, 3), .destinations = 1};
    if (chance_below(chance, 4) == 0) sizes.destinations = 1 + (unsigned)chance_below(chance, 4);
    if (game->shape == CROWDED) {
        sizes.count = (size_t)((96 << 10) + chance_below(chance, 32 << 10)) / element;
        return sizes;
    }
    size_t bytes = 4096;
    switch (chance_below(chance, game->shape == SMALL ? 2 : 8)) {
    case 2: bytes = 64 << 10; break;
    case 3: bytes = 300 << 10; break;
    case 4:
        sizes.sources = 1 + (unsigned)chance_below(chance, 300);
        sizes.destinations = 1 + (unsigned)chance_below(chance, 20);
        bytes = 1000;
        break;
    case 5:
        sizes.sources = 100 + (unsigned)chance_below(chance, 500);
        bytes = 200;
        break;
    default: break;
    }
    if (chance_below(chance, 40) != 0) sizes.count = chance_of_any_size(chance, bytes / element);
    return sizes;
}

static enum where draw_where(struct game *game)
{
    const int draw = chance_below(&game->chance, game->shape == CROWDED ? 12 : 5);
    return draw < 3 || draw >= 5 ? HOST : DEVICE;
}

static void *visible(const struct bay *bay, unsigned i)
{
    return gpu_game_place(bay->places[i].address);
}

/* Draws a kernel and its memory, and computes what it stores. */
static void prepare(struct game *game, struct bay *bay)
{
    struct chance *const chance = &game->chance;
    struct kernel_call *const call = &bay->call;
    struct tutti_operation *const operation = &bay->operation;
    const enum tutti_dtype dtype = draw_dtype(game);
    const size_t element = dtype_size(dtype);
    struct sizes sizes = draw_sizes(game, element);
    memset(bay->used, 0, sizeof bay->used);
    const bool all_host = chance_below(chance, 8) == 0;
    bay->bytes = sizes.count * element;
    bay->source_count = bay->destination_count = 0;
    struct place *const sources = &bay->places[sizes.destinations];
    for (unsigned s = 0; s < sizes.sources; s++) {
        const enum where where = all_host ? HOST : draw_where(game);
        void *const address = place_in(game, bay, where, bay->bytes, element);
        if (address == NULL) break;
        sources[bay->source_count++] = (struct place){address, where};
    }
    for (unsigned d = 0; d < sizes.destinations; d++) {
        const enum where where = all_host ? HOST : draw_where(game);
        void *address = place_in(game, bay, where, bay->bytes, element);
        const unsigned same = (unsigned)chance_below(chance, 8);
        bay->places[d] = (struct place){address, where};
        if (d == 0 && (address == NULL || same < bay->source_count))
            bay->places[d] = sources[same < bay->source_count ? same : 0]; /* in place */
        else if (address == NULL) {                                        /* no more room: fewer */
            memmove(&bay->places[d], sources, bay->source_count * sizeof *sources);
            break;
        }
        bay->destination_count++;
    }
    for (int w = HOST; w <= DEVICE; w++)
        memset(memory_of(bay, (enum where)w), GUARD_BYTE,
               bay->used[w] + GUARD < BAY_BYTES ? bay->used[w] + GUARD : BAY_BYTES);
    for (unsigned s = 0; s < bay->source_count; s++)
        fill(game, visible(bay, bay->destination_count + s), bay->bytes, dtype);

    enum op op = draw_op(game, dtype);
    *operation = *op_builtin(op);
    *call = (struct kernel_call){.source_count = bay->source_count,
                                 .count = sizes.count,
                                 .operation = operation,
                                 .dtype = dtype};
    if (op == OP_AVG) call->divisor = 1 + (unsigned)chance_below(chance, 9);
    if (op == OP_SUM && dtype_kind(dtype) == DTYPE_FLOAT && chance_below(chance, 3) == 0) {
        operation->kind = OP_SCALED_SUM;
        call->factor = 0.375;
    }
    if (call->source_count == 1 && op != OP_AVG && op != OP_SUM && chance_below(chance, 2) == 0)
        call->operation = NULL;

    const void *seen[PLACES_MAX];
    for (unsigned s = 0; s < bay->source_count; s++)
        seen[s] = visible(bay, bay->destination_count + s);
    struct kernel_call twin = *call;
    twin.destination = bay->expected;
    twin.sources = seen;
    twin.operation = operation;
    if (bay->bytes > 0) kernel_get(KERNEL_SCALAR, dtype, operation->kind).reduce(&twin);
    bay->is_used = true;
}

static bool is_all_host(const struct bay *bay)
{
    for (unsigned i = 0; i < bay->destination_count + bay->source_count; i++)
        if (bay->places[i].where == DEVICE) return false;
    return true;
}

static void start_one(struct game *game, struct bay *bay)
{
    struct kernel_call call = bay->call;
    struct kernel_format formats[PLACES_MAX];
    void *places[PLACES_MAX];
    for (unsigned i = 0; i < bay->destination_count + bay->source_count; i++) {
        places[i] = bay->places[i].address;
        formats[i] = (struct kernel_format){
            NULL, bay->places[i].where == DEVICE ? &game->device->kind : NULL};
    }
    const struct kernel_formats all = {.destination = formats[0],
                                       .sources = formats + bay->destination_count,
                                       .others = formats + 1};
    call.destination = places[0];
    call.others = places + 1;
    call.other_count = bay->destination_count - 1;
    call.sources = (const void *const *)(places + bay->destination_count);
    call.formats = &all;
    if (is_all_host(bay) && chance_below(&game->chance, 2) == 0) {
        call.formats = NULL;
        if (call.other_count > 0) {
            call.also = call.others[call.other_count - 1];
            call.other_count--;
        }
    }
    game->executor->ops->start(game->executor, gpu_kernels.reduce, &call);
    /* What the call pointed to is not looked at again. */
    memset(places, 0xee, sizeof places);
    memset(formats, 0xee, sizeof formats);
}

/* A new group, if there is memory for one; NULL: there is none. */
static struct group *prepare_group(struct game *game)
{
    struct group *group = game->groups;
    while (group < game->groups + BAYS && group->bay_count > 0) group++;
    if (group == game->groups + BAYS) return NULL;
    const unsigned wanted = 1 + (unsigned)chance_below(&game->chance, CALLS_MAX);
    for (int b = 0; b < BAYS && group->bay_count < wanted; b++) {
        if (bays[b].is_used) continue;
        prepare(game, &bays[b]);
        group->bays[group->bay_count++] = &bays[b];
    }
    return group->bay_count > 0 ? group : NULL;
}

/* Groups that are started one behind the other. */
static void start_groups(struct game *game)
{
    struct group *groups[CROWD_MAX];
    const int wanted = game->shape == CROWDED ? CROWD_MAX : 1;
    int count = 0;
    while (count < wanted && (groups[count] = prepare_group(game)) != NULL) count++;
    for (int i = 0; i < count; i++) {
        for (unsigned b = 0; b < groups[i]->bay_count; b++) start_one(game, groups[i]->bays[b]);
        groups[i]->number = game->executor->ops->flush(game->executor);
        if (groups[i]->number == 0) die("a group has the number 0");
    }
}

static const char *judge_bay(struct bay *bay)
{
    for (unsigned d = 0; d < bay->destination_count; d++)
        if (memcmp(visible(bay, d), bay->expected, bay->bytes) != 0)
            return bay->places[d].where == HOST ? "a result in the host's memory is wrong"
                                                : "a result in the device's memory is wrong";
    for (unsigned i = 0; i < bay->destination_count + bay->source_count; i++)
        for (int g = 1; g <= GUARD; g++) {
            const unsigned char *const place = visible(bay, i);
            /* Behind a place there may be none but bytes that are nobody's. */
            if (*(place - g) != GUARD_BYTE || place[bay->bytes + (size_t)g - 1] != GUARD_BYTE)
                return "something beside a place was stored to";
        }
    bay->is_used = false;
    return NULL;
}

/* Asks for a group; NULL, or what is wrong with it. */
static const char *ask(struct game *game, struct group *group, bool *has_ended)
{
    *has_ended = false;
    if (group->number == 0 || !game->executor->ops->is_finished(game->executor, group->number))
        return NULL;
    *has_ended = true;
    for (unsigned b = 0; b < group->bay_count; b++) {
        const char *const wrong = judge_bay(group->bays[b]);
        if (wrong != NULL) return wrong;
    }
    *group = (struct group){.number = 0};
    return NULL;
}

static const char *wait_for_all(struct game *game)
{
    uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS; /* of the next one that ends */
    for (bool any = true; any;) {
        any = false;
        for (int g = 0; g < BAYS; g++) {
            bool has_ended;
            const char *const wrong = ask(game, &game->groups[g], &has_ended);
            if (wrong != NULL) return wrong;
            if (has_ended) deadline_ns = clock_now_ns() + PATIENCE_NS;
            any |= game->groups[g].number != 0;
        }
        if (any && clock_now_ns() > deadline_ns) return "a group is never finished";
        if (any) sched_yield();
    }
    return NULL;
}

/* ---------------------------------------------------------------------------------------- games */

static const char *wait_for_gate(struct game *game)
{
    const uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
    while (!game->gate->ops->is_open(game->gate)) {
        if (clock_now_ns() > deadline_ns) return "a gate never opens";
        sched_yield();
    }
    return NULL;
}

static const char *operate(struct game *game, bool gives_up)
{
    static const int turns_max[] = {[MIXED] = 40, [SMALL] = 300, [CROWDED] = 2};
    const int turns = 1 + chance_below(&game->chance, turns_max[game->shape]);
    for (int t = 0; t < turns; t++) {
        if (chance_below(&game->chance, 3) != 0) start_groups(game);
        bool has_ended;
        const char *const wrong =
            ask(game, &game->groups[chance_below(&game->chance, BAYS)], &has_ended);
        if (wrong != NULL) return wrong;
    }
    return gives_up ? NULL : wait_for_all(game);
}

/* Begins, operates, ends or gives up. */
static const char *play_run(struct game *game, void *stream, bool is_open, bool *gave_up)
{
    struct chance *const chance = &game->chance;
    if (gpu_run_begin(game->run, stream != NULL, stream) != TUTTI_OK) return "it does not begin";
    if (stream != NULL && !is_open) {
        if (game->gate->ops->is_open(game->gate))
            return "a gate is open before its stream comes to it";
        const int draw = chance_below(chance, 4);
        if (draw == 0) {
            game->gate->ops->end(game->gate, false);
            return NULL;
        }
        if (draw == 1) {
            gpu_run_cancel(game->run);
            return NULL;
        }
        gpu_game_open_stream(stream);
    }
    const char *wrong = wait_for_gate(game);
    if (wrong != NULL) return wrong;
    const bool gives_up = chance_below(chance, 6) == 0;
    *gave_up |= gives_up;
    wrong = operate(game, gives_up);
    if (wrong != NULL) return wrong;
    game->gate->ops->end(game->gate, !gives_up);
    return NULL;
}

static const char *play_take(struct game *game)
{
    struct chance *const chance = &game->chance;
    void *stream = chance_below(chance, 2) == 0 ? gpu_game_make_stream() : NULL;
    if (stream != NULL) ((struct stream *)stream)->random = chance_draw(chance);
    bool is_open = false, gave_up = false;
    if (gpu_run_take(game->device, &game->run) != TUTTI_OK) return "no run can be taken";
    game->executor = gpu_run_executor(game->run);
    game->gate = gpu_run_gate(game->run);
    const int times = 1 + chance_below(chance, 3);
    for (int i = 0; i < times; i++) {
        const char *const wrong = play_run(game, stream, is_open, &gave_up);
        if (wrong != NULL) return wrong;
        is_open = stream != NULL && ((struct stream *)stream)->is_open;
        /* What was given up keeps its memory: its worker may still be at it. */
        memset(game->groups, 0, sizeof game->groups);
    }
    if (stream != NULL) gpu_game_open_stream(stream);
    gpu_run_give_back(game->run);
    if (stream != NULL && !gpu_game_free_stream(stream)) return "a worker does not leave";
    if (gave_up && !all_are_empty()) return "a worker does not leave";
    for (int b = 0; b < BAYS; b++) bays[b].is_used = false;
    return NULL;
}

const char *gpu_game_play(uint64_t seed)
{
    struct game game = {.chance = {.seed = seed}};
    seed_played = seed;
    for (int b = 0; b < BAYS && bays[b].expected == NULL; b++) {
        bays[b].expected = malloc(BAY_BYTES);
        if (bays[b].expected == NULL) return "out of memory";
    }
    static const enum shape shapes[] = {SMALL, SMALL, CROWDED, CROWDED, MIXED, MIXED, MIXED, MIXED};
    game.shape = shapes[chance_below(&game.chance, (int)(sizeof shapes / sizeof *shapes))];
    game.device =
        gpu_game_device(game.shape == CROWDED ? GPU_GAME_TWO_TEAMS : seed % GPU_GAME_DEVICES);
    return play_take(&game);
}

int gpu_game_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    for (uint64_t i = 0; i < seeds.count; i++) {
        const char *const wrong = gpu_game_play(seeds.first + i);
        if (wrong == NULL) continue;
        printf("seed %llu: %s\n", (unsigned long long)(seeds.first + i), wrong);
        fflush(stdout);
        _exit(1); /* workers may still run */
    }
    return 0;
}

#include "gpu/executor.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "base/status.h"
#include "gpu/device_fault.h"
#include "gpu/orders.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/process.h"

enum {
    /* Workers of a run: while one leaves, the next can be started. */
    WORKERS = 4,
    ARENA_BYTES = 2 << 20,
    TEAM_BLOCKS_LEAST = 2, /* else there is one team */
    TEAMS = 2,
    RUNS_A_RANK = 2, /* of the process */
    AWAIT_NS = 5000000,
    HOMES_BYTES = WORKERS * sizeof(struct worker_home)
};

#define READ_NS UINT64_C(60000000000)

/* The runs of a device. A pool is never freed, as the device never is. */
struct pool {
    struct pool *next;
    struct gpu_device *device;
    int blocks_wanted; /* 0: to be chosen; below 0: the option cannot be read */
    struct gpu_run *idle;
    struct gpu_run *made;             /* all there are */
    unsigned made_blocks, made_count; /* of runs with as many blocks as were wanted last */
};

struct gpu_run {
    struct kernel_executor executor; /* first: the interfaces are runs */
    struct operation_gate gate;
    struct gpu_run *next; /* of the idle runs */
    struct gpu_run *next_made;
    struct pool *pool;
    struct gpu_device *device;
    void *memory;              /* pinned: the arena, then the controls */
    void *stream;              /* of its own, once there was need for it; or NULL */
    struct worker_home *homes; /* of the workers, in the device's memory */
    unsigned block_count, team_count, team_size;
    struct gpu_worker workers[WORKERS];
    unsigned turn;
    uint32_t generation;       /* of the process that made it */
    pthread_mutex_t ordering;  /* held, never for long, to use what follows */
    struct gpu_worker *worker; /* of the operation; NULL: none */
    struct gpu_orders orders;
};

FORK_LOCK(lock, FORK_EXECUTOR, NULL);
/* Held while runs are made. Before `lock`. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
/* Held while a worker is put on a stream, or kept out. Before no other. */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools; /* under the lock, and all they have */
static unsigned sharing =
    1; /* ranks of this process: as many as ever were in one communicator; under the lock */

/* ----------------------------------------------------------------------------------- interfaces */

static void start(struct kernel_executor *executor, kernel_reduce *kernel,
                  const struct kernel_call *call)
{
    struct gpu_run *const run = (struct gpu_run *)executor;
    (void)kernel; /* the device has its own */
    pthread_mutex_lock(&run->ordering);
    gpu_orders_start(&run->orders, call);
    pthread_mutex_unlock(&run->ordering);
}

static uint64_t flush(struct kernel_executor *executor)
{
    struct gpu_run *const run = (struct gpu_run *)executor;
    pthread_mutex_lock(&run->ordering);
    const uint64_t group = gpu_orders_flush(&run->orders);
    pthread_mutex_unlock(&run->ordering);
    return group;
}

static bool is_finished(struct kernel_executor *executor, uint64_t group)
{
    struct gpu_run *const run = (struct gpu_run *)executor;
    pthread_mutex_lock(&run->ordering);
    const bool are_done = gpu_orders_are_done(&run->orders, group);
    pthread_mutex_unlock(&run->ordering);
    return are_done;
}

static const struct kernel_executor_ops executor_ops = {start, flush, is_finished};

static struct gpu_run *run_of(struct operation_gate *gate)
{
    return (struct gpu_run *)((char *)gate - offsetof(struct gpu_run, gate));
}

static bool is_open(struct operation_gate *gate)
{
    struct gpu_run *const run = run_of(gate);
    pthread_mutex_lock(&run->ordering);
    const bool are_taken = gpu_orders_are_taken(&run->orders);
    pthread_mutex_unlock(&run->ordering);
    return are_taken;
}

static void end_worker(struct gpu_run *run)
{
    pthread_mutex_lock(&run->ordering);
    if (run->worker != NULL) {
        gpu_worker_end(run->worker);
        gpu_orders_end(&run->orders);
        run->worker = NULL;
        gpu_fault_ended(run->device);
    }
    pthread_mutex_unlock(&run->ordering);
}

static void end(struct operation_gate *gate, bool is_done)
{
    (void)is_done; /* the stream goes on either way */
    end_worker(run_of(gate));
}

static const struct operation_gate_ops gate_ops = {is_open, end};

struct kernel_executor *gpu_run_executor(struct gpu_run *run)
{
    return &run->executor;
}

struct operation_gate *gpu_run_gate(struct gpu_run *run)
{
    return &run->gate;
}

static void cannot(const struct kernel_call *call)
{
    (void)call;
    assert(!"the kernels of a device were called by the CPU");
}

const struct kernel_set gpu_kernels = {cannot, cannot};

/* ----------------------------------------------------------------------------------------- runs */

static size_t control_bytes(unsigned team_count)
{
    return offsetof(struct worker_control, rings) +
           team_count * sizeof(((struct worker_control *)NULL)->rings[0]);
}

static void free_run(struct gpu_run *run)
{
    const struct gpu_driver *const driver = run->device->driver;
    gpu_orders_release(&run->orders);
    if (run->stream != NULL) driver->free_stream(run->device, run->stream);
    if (run->memory != NULL) driver->release_pinned(run->device, run->memory);
    if (run->homes != NULL) run->device->kind.release(&run->device->kind, run->homes, HOMES_BYTES);
    pthread_mutex_destroy(&run->ordering);
    free(run);
}

/* Allocates the homes of the workers, whose controls exist already. */
static enum tutti_status allocate_homes(struct gpu_run *run)
{
    const struct memory_kind *const kind = &run->device->kind;
    struct worker_home *const homes = calloc(1, HOMES_BYTES);
    if (homes != NULL) run->homes = kind->allocate(kind, HOMES_BYTES);
    for (unsigned w = 0; run->homes != NULL && w < WORKERS; w++) {
        homes[w].control = (uintptr_t)run->workers[w].control;
        homes[w].team_size = run->team_size;
        run->workers[w].home = run->homes + w;
    }
    const bool is_there = run->homes != NULL && kind->copy(kind, run->homes, homes, HOMES_BYTES);
    free(homes);
    return is_there
               ? TUTTI_OK
               : error_set(TUTTI_NO_MEMORY, "GPU %d: no memory for workers", run->device->number);
}

/* Pinned memory comes on a line of its own at least. */
static enum tutti_status allocate_memory(struct gpu_run *run)
{
    const size_t each = control_bytes(run->team_count);
    TRY(run->device->driver->allocate_pinned(run->device, ARENA_BYTES + WORKERS * each,
                                             &run->memory));
    char *memory = run->memory;
    assert((uintptr_t)memory % WORKER_ALIGNMENT == 0);
    memset(memory, 0, ARENA_BYTES + WORKERS * each);
    TRY(gpu_orders_init(&run->orders, run->team_count, memory, ARENA_BYTES));
    memory += ARENA_BYTES;
    for (unsigned w = 0; w < WORKERS; w++, memory += each)
        run->workers[w].control = (struct worker_control *)(void *)memory;
    return allocate_homes(run);
}

static enum tutti_status make_run(struct pool *pool, struct gpu_device *device,
                                  unsigned block_count, struct gpu_run **result)
{
    struct gpu_run *const run = calloc(1, sizeof *run);
    if (run == NULL) return error_set(TUTTI_NO_MEMORY, "GPU %d: out of memory", device->number);
    *run = (struct gpu_run){.executor = {&executor_ops},
                            .gate = {&gate_ops},
                            .pool = pool,
                            .device = device,
                            .block_count = block_count,
                            .generation = process_generation(),
                            .team_count = block_count < TEAMS * TEAM_BLOCKS_LEAST ? 1 : TEAMS};
    pthread_mutex_init(&run->ordering, NULL);
    run->team_size = block_count / run->team_count;
    const enum tutti_status status = allocate_memory(run);
    if (status != TUTTI_OK) {
        free_run(run);
        return status;
    }
    *result = run;
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- pools */

/* With the lock. NULL: out of memory. */
static struct pool *pool_of(struct gpu_device *device)
{
    struct pool *pool = pools;
    while (pool != NULL && pool->device != device) pool = pool->next;
    if (pool != NULL) return pool;
    pool = malloc(sizeof *pool);
    if (pool == NULL) return NULL;
    *pool = (struct pool){.next = pools, .device = device};
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    if (option_count(OPTION_GPU_BLOCKS, &pool->blocks_wanted) != TUTTI_OK) pool->blocks_wanted = -1;
    error_unless_ok(TUTTI_OK, before); /* gpu_run_take tells of it */
    pools = pool;
    return pool;
}

/* Half of the multiprocessors: the application computes meanwhile, and may have another operation
 * on the device. Ranks that share a device share all of them: half would move no more than half of
 * what it can (an H200: 0.42 of its rate of copies with half, 0.56 with all, in an allreduce of 64
 * MiB by 4 ranks). Then one operation at a time is on it, and the others wait in their streams. */
static unsigned blocks_for(const struct pool *pool)
{
    if (pool->blocks_wanted > 0) return (unsigned)pool->blocks_wanted;
    const unsigned fair = pool->device->processor_count / (sharing > 1 ? sharing : 2);
    if (fair == 0) return 1; /* ranks that want more than there are cannot all be there */
    return fair < WORKER_BLOCKS_MAX ? fair : WORKER_BLOCKS_MAX;
}

static bool any_has_left(struct gpu_run *run)
{
    for (unsigned w = 0; w < WORKERS; w++)
        if (gpu_worker_has_left(&run->workers[w], run->team_count)) return true;
    return false;
}

/* With the lock. One with so many blocks that a worker can be started for; NULL: there is none.
 * Others stay where they are: to free them would be to wait for all that the device does. */
static struct gpu_run *take_idle(struct pool *pool, unsigned block_count)
{
    for (struct gpu_run **place = &pool->idle; *place != NULL; place = &(*place)->next) {
        struct gpu_run *const run = *place;
        if (run->block_count != block_count || !any_has_left(run)) continue;
        *place = run->next;
        return run;
    }
    return NULL;
}

/* With the lock. Whether there are as many runs as the process's ranks are likely to have at once,
 * any of which may use the device. */
static bool has_enough(struct pool *pool, unsigned block_count)
{
    if (pool->made_blocks != block_count) pool->made_count = 0;
    pool->made_blocks = block_count;
    return pool->made_count >= sharing * RUNS_A_RANK;
}

/* With the lock. */
static void put_back(struct gpu_run *run)
{
    run->next = run->pool->idle;
    run->pool->idle = run;
}

/* With `making`. Makes runs until there are enough; wanted not NULL: and one for the caller, which
 * alone may fail. A driver that allocates may wait for all that is on the device, and a worker
 * there may wait for the rank that allocates. So it is done before any rank of this process has a
 * worker there, or when a communicator is made, and rarely later. */
static enum tutti_status make_runs(struct pool *pool, struct gpu_run **wanted)
{
    struct gpu_run *kept =
        NULL; /* until all are made: another thread may use one as soon as it finds it */
    enum tutti_status status = TUTTI_OK;
    for (;;) {
        char before[ERROR_TEXT_MAX];
        struct gpu_run *made = NULL;
        pthread_mutex_lock(&lock);
        const unsigned block_count = blocks_for(pool);
        const bool are_enough = has_enough(pool, block_count);
        if (wanted != NULL && *wanted == NULL) *wanted = take_idle(pool, block_count);
        pthread_mutex_unlock(&lock);
        const bool is_wanted = wanted != NULL && *wanted == NULL;
        if (are_enough && !is_wanted) break;
        error_copy(before, sizeof before);
        status = make_run(pool, pool->device, block_count, &made);
        if (status != TUTTI_OK) {
            if (!is_wanted) status = error_unless_ok(TUTTI_OK, before);
            break;
        }
        pthread_mutex_lock(&lock);
        pool->made_count++;
        made->next_made = pool->made;
        pool->made = made;
        pthread_mutex_unlock(&lock);
        if (is_wanted) {
            *wanted = made;
        } else {
            made->next = kept;
            kept = made;
        }
    }
    pthread_mutex_lock(&lock);
    for (struct gpu_run *run = kept, *next; run != NULL; run = next) {
        next = run->next;
        put_back(run);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void gpu_share(unsigned ranks)
{
    pthread_mutex_lock(&lock);
    const bool is_more = sharing < ranks;
    if (is_more) sharing = ranks;
    struct pool *pool = pools;
    pthread_mutex_unlock(&lock);
    /* A thread that is making runs already sees the new number. In a child of fork() the thread
     * that held `making` may not exist, so nobody would release it. */
    if (!is_more || pool == NULL || pthread_mutex_trylock(&making) != 0) return;
    for (; pool != NULL; pool = pool->next) /* none is ever taken out */
        if (pool->blocks_wanted >= 0) (void)make_runs(pool, NULL);
    pthread_mutex_unlock(&making);
}

/* A call that is over gives its run back a moment after its worker has left: to wait for that costs
 * no more than a new run. NULL: none came. */
static struct gpu_run *await_idle(struct pool *pool)
{
    const uint64_t deadline_ns = clock_now_ns() + AWAIT_NS;
    struct gpu_run *found;
    do {
        sched_yield();
        pthread_mutex_lock(&lock);
        found = take_idle(pool, blocks_for(pool));
        pthread_mutex_unlock(&lock);
    } while (found == NULL && clock_now_ns() < deadline_ns);
    return found;
}

enum tutti_status gpu_run_take(struct gpu_device *device, struct gpu_run **run)
{
    pthread_mutex_lock(&lock);
    struct pool *const pool = pool_of(device);
    int wanted = 0;
    bool are_enough = false;
    struct gpu_run *found = NULL;
    if (pool != NULL) {
        wanted = pool->blocks_wanted;
        found = take_idle(pool, blocks_for(pool));
        are_enough = has_enough(pool, blocks_for(pool));
    }
    pthread_mutex_unlock(&lock);
    if (pool == NULL) return error_set(TUTTI_NO_MEMORY, "GPU %d: out of memory", device->number);
    if (wanted < 0) return option_count(OPTION_GPU_BLOCKS, &wanted);
    *run = found == NULL && are_enough ? await_idle(pool) : found;
    if (*run != NULL) return TUTTI_OK;
    pthread_mutex_lock(&making);
    const enum tutti_status status = make_runs(pool, run);
    pthread_mutex_unlock(&making);
    return status;
}

/* In a child of fork() it stays its parent's: a thread of that may have been in the middle of
 * it. */
void gpu_run_give_back(struct gpu_run *run)
{
    if (run->generation != process_generation()) return;
    end_worker(run);
    pthread_mutex_lock(&lock);
    put_back(run);
    pthread_mutex_unlock(&lock);
}

/* ----------------------------------------------------------------------------------- operations */

static struct gpu_worker *find_worker(struct gpu_run *run)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        struct gpu_worker *const worker = &run->workers[run->turn++ % WORKERS];
        if (gpu_worker_has_left(worker, run->team_count)) return worker;
    }
    return NULL;
}

static enum tutti_status start_worker(struct gpu_run *run, void *stream, struct gpu_worker *worker)
{
    pthread_mutex_lock(&starting);
    const enum tutti_status status = run->device->driver->start_worker(
        run->device, stream, run->team_count * run->team_size, worker->home);
    if (status == TUTTI_OK) gpu_fault_began(run->device);
    pthread_mutex_unlock(&starting);
    return status;
}

bool gpu_run_keep_out(const struct gpu_device *device)
{
    pthread_mutex_lock(&starting);
    if (!gpu_fault_any_is_out(device)) return true;
    pthread_mutex_unlock(&starting);
    return false;
}

void gpu_run_let_in(void)
{
    pthread_mutex_unlock(&starting);
}

enum tutti_status gpu_run_begin(struct gpu_run *run, bool has_stream, void *stream)
{
    const struct gpu_driver *const driver = run->device->driver;
    assert(run->worker == NULL);
    if (has_stream) TRY(driver->stream_check(run->device, stream));
    struct gpu_worker *const worker = find_worker(run);
    if (worker == NULL)
        return error_set(
            TUTTI_UNSUPPORTED,
            "GPU %d: this call was started %d times, and their streams have come to none of them",
            run->device->number, WORKERS);
    if (!has_stream && run->stream == NULL) TRY(driver->make_stream(run->device, &run->stream));
    gpu_worker_prepare(worker, run->team_count);
    TRY(start_worker(run, has_stream ? stream : run->stream, worker));
    worker->is_out = true;
    pthread_mutex_lock(&run->ordering);
    run->worker = worker;
    gpu_orders_begin(&run->orders, worker);
    pthread_mutex_unlock(&run->ordering);
    return TUTTI_OK;
}

void gpu_run_cancel(struct gpu_run *run)
{
    end_worker(run);
}

/* -------------------------------------------------------------------------------------- reading */

/* The run of the device that was made last; each run leads to the run made before it. Runs are
 * never freed. NULL: the device has none. */
static struct gpu_run *last_made(const struct gpu_device *device)
{
    pthread_mutex_lock(&lock);
    const struct pool *pool = pools;
    while (pool != NULL && pool->device != device) pool = pool->next;
    struct gpu_run *const made = pool != NULL ? pool->made : NULL;
    pthread_mutex_unlock(&lock);
    return made;
}

static bool read_by(struct gpu_run *run, void *destination, const void *source, size_t bytes)
{
    enum gpu_reading state = GPU_READING;
    pthread_mutex_lock(&run->ordering);
    const uint64_t reading = gpu_orders_read(&run->orders, destination, source, bytes);
    pthread_mutex_unlock(&run->ordering);
    if (reading == 0) return false;
    const uint64_t deadline_ns = clock_now_ns() + READ_NS;
    do {
        sched_yield();
        pthread_mutex_lock(&run->ordering);
        state = gpu_orders_look(&run->orders, reading);
        if (state == GPU_READING &&
            (gpu_fault_of(run->device) != NULL || clock_now_ns() > deadline_ns)) {
            gpu_orders_drop(&run->orders, reading);
            state = GPU_UNREAD;
        }
        pthread_mutex_unlock(&run->ordering);
    } while (state == GPU_READING);
    return state == GPU_READ;
}

bool gpu_run_read(struct gpu_device *device, void *destination, const void *source, size_t bytes)
{
    for (struct gpu_run *run = last_made(device); run != NULL; run = run->next_made)
        if (read_by(run, destination, source, bytes)) return true;
    return false;
}

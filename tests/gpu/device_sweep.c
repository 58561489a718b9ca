#include "tests/gpu/device_sweep.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "base/op.h"
#include "os/clock.h"
#include "tests/gpu/device_case.h"
#include "tests/gpu/device_driver.h"
#include "tests/kit/elements.h"
#include "tests/kit/sanitized.h"

/* Of rank 0, in memory of all ranks. */
static struct counted {
    _Atomic unsigned calls, in_streams;
} * counted;

static void count(const struct device_case *c, int rank)
{
    if (rank != 0) return;
    bool any = false;
    for (int r = 0; r < c->size; r++) any |= device_case_in_stream(c, r);
    atomic_fetch_add(&counted->calls, 1);
    if (any) atomic_fetch_add(&counted->in_streams, 1);
}

static int run_case(const struct device_case *c, const struct device_room *room,
                    struct tutti_comm *comm, int rank)
{
    struct device_run run;
    count(c, rank);
    RANKS_EXPECT(device_run_begin(&run, c, room, comm, rank));
    return device_run_end(&run);
}

/* --------------------------------------------------------------------------------------- sweeps */

static int run_collectives(const struct device_room *rooms, struct tutti_comm *comm, int rank,
                           int size, uint64_t seed)
{
    for (unsigned i = 0; i < COLLECTIVE_COUNT; i++) {
        struct device_case c = {.collective = (enum collective)i, .size = size};
        device_case_draw(&c, elements_mixed(seed, i));
        if (run_case(&c, &rooms[0], comm, rank) != 0) return 1;
    }
    return 0;
}

static int run_algorithms(const struct device_room *rooms, struct tutti_comm *comm, int rank,
                          int size, uint64_t seed)
{
    for (unsigned i = 0; i < (unsigned)algo_count; i++) {
        if (!algo_supports(&algo_list[i], size)) continue;
        if (is_left_out(i + (unsigned)seed % 3)) continue;
        struct device_case c = {
            .collective = algo_list[i].collective, .algorithm = algo_list[i].name, .size = size};
        device_case_draw(&c, elements_mixed(seed, i));
        if (run_case(&c, &rooms[0], comm, rank) != 0) return 1;
    }
    return 0;
}

static int run_types(const struct device_room *rooms, struct tutti_comm *comm, int rank, int size,
                     uint64_t seed)
{
    for (unsigned i = 0; i < (unsigned)DTYPE_COUNT * OP_COUNT; i++) {
        const enum tutti_dtype dtype = (enum tutti_dtype)(i / OP_COUNT);
        const enum op kind = (enum op)(i % OP_COUNT);
        if (kind == OP_USER || !elements_supported(kind, dtype)) continue;
        const enum collective reducing[] = {COLLECTIVE_ALLREDUCE, COLLECTIVE_REDUCE_SCATTER,
                                            COLLECTIVE_REDUCE};
        struct device_case c = {.collective = reducing[elements_mixed(seed, i + 1000) % 3],
                                .size = size};
        device_case_draw(&c, elements_mixed(seed, i));
        if (c.placement == ON_HOST) c.placement = ALL_ON_DEVICE;
        device_case_set_type(&c, dtype, kind);
        if (run_case(&c, &rooms[0], comm, rank) != 0) return 1;
    }
    return 0;
}

/* Two calls are in two streams of a rank at once. */
static int run_pairs(const struct device_room *rooms, struct tutti_comm *comm, int rank, int size,
                     uint64_t seed)
{
    for (unsigned i = 0; i < COLLECTIVE_COUNT; i++) {
        struct device_case cases[2];
        struct device_run runs[2];
        for (unsigned k = 0; k < 2; k++) {
            const uint64_t draw = elements_mixed(seed, i * 2 + k);
            cases[k] = (struct device_case){
                .collective = (enum collective)((i + k * (draw >> 50)) % COLLECTIVE_COUNT),
                .size = size};
            device_case_draw(&cases[k], draw);
            cases[k].streaming = ALL_IN_STREAMS;
            if (cases[k].form >= PREPARED) cases[k].form = STARTED;
            count(&cases[k], rank);
            RANKS_EXPECT(device_run_begin(&runs[k], &cases[k], &rooms[k], comm, rank));
        }
        int result = 0;
        for (unsigned k = 0; k < 2; k++) result |= device_run_end(&runs[k]);
        if (result != 0) return 1;
    }
    return 0;
}

static int sweep(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct device_sweep *const sweep = context;
    const char *reason;
    RANKS_EXPECT(device_driver_open(&reason));
    device_driver_use(rank % sweep->devices % device_driver_count());
    struct device_room rooms[2];
    const int room_count = sweep->calls == DEVICE_PAIRS ? 2 : 1;
    for (int i = 0; i < room_count; i++) device_room_open(&rooms[i]);
    int result = 0;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    for (unsigned round = 0; round < (sweep->rounds != 0 ? sweep->rounds : 1) && result == 0;
         round++) {
        const uint64_t drawn = elements_mixed(seed, round);
        switch (sweep->calls) {
        case DEVICE_COLLECTIVES: result = run_collectives(rooms, comm, rank, size, drawn); break;
        case DEVICE_ALGORITHMS: result = run_algorithms(rooms, comm, rank, size, drawn); break;
        case DEVICE_TYPES: result = run_types(rooms, comm, rank, size, drawn); break;
        case DEVICE_PAIRS: result = run_pairs(rooms, comm, rank, size, drawn); break;
        }
    }
    if (result == 0) RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    for (int i = 0; i < room_count; i++) device_room_close(&rooms[i]);
    return result;
}

int device_sweep_run(const struct device_sweep *asked)
{
    const struct tutti_comm_options comm_options = {
        .size_bytes = sizeof comm_options,
        .rank = -1,
        .size = -1,
        .integrity = asked->checked ? TUTTI_INTEGRITY_ON : TUTTI_INTEGRITY_DEFAULT,
        .timeout_ns = asked->timeout_ns != 0 ? asked->timeout_ns : 60000000000u};
    const struct ranks_options options = {.kind = asked->kind,
                                          .deadline_ms = 200000 + asked->rounds * 5000,
                                          .seed = asked->seed,
                                          .comm_options = &comm_options};
    if (counted == NULL) counted = ranks_share(sizeof *counted);
    if (asked->hosts > 1) setenv("TUTTI_TEST_HOSTS", asked->hosts == 2 ? "2" : "3", 1);
    if (asked->crowded) setenv("TUTTI_GPU_BLOCKS", "6", 1);
    struct device_sweep sweeping = *asked;
    const int failed = ranks_run(asked->size, &options, sweep, &sweeping);
    if (asked->hosts > 1) unsetenv("TUTTI_TEST_HOSTS");
    if (asked->crowded) unsetenv("TUTTI_GPU_BLOCKS");
    return failed;
}

void device_sweep_count(unsigned *calls, unsigned *in_streams)
{
    *calls = counted != NULL ? atomic_load(&counted->calls) : 0;
    *in_streams = counted != NULL ? atomic_load(&counted->in_streams) : 0;
}

/* ---------------------------------------------------------------------------------------- seeds */

static struct device_sweep draw_sweep(uint64_t seed)
{
    static const int sizes[] = {1, 2, 2, 2, 3, 3, 4, 8};
    const uint64_t draw = elements_mixed(seed, 4711);
    const bool are_threads = IS_THREAD_SANITIZED || draw % 2 == 0;
    struct device_sweep sweep = {.kind = are_threads ? RANKS_THREADS : RANKS_PROCESSES,
                                 .size = sizes[(draw >> 8) % (sizeof sizes / sizeof *sizes)],
                                 .devices = 1 + (int)((draw >> 16) % 2),
                                 .calls = DEVICE_COLLECTIVES,
                                 .checked = (draw >> 24) % 8 == 0,
                                 .seed = seed,
                                 .timeout_ns = 20000000000u};
    if (are_threads) return sweep;
    if ((draw >> 32) % 3 == 0) sweep.calls = DEVICE_PAIRS;
    if ((draw >> 40) % 4 == 0 && sweep.size > 1) sweep.hosts = 2;
    sweep.crowded = sweep.calls == DEVICE_PAIRS && (draw >> 48) % 2 == 0;
    return sweep;
}

static void set_number(const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    setenv(name, text, 1);
}

/* Of the stand-in: processes have one, or eight as with a driver that nobody has told anything;
 * threads need many (collectives_test.c). */
static unsigned queues_for(uint64_t seed, const struct device_sweep *sweep)
{
    if (sweep->kind == RANKS_THREADS) return 64;
    return elements_mixed(seed, 4712) % 2 == 0 ? 1 : 8;
}

/* Of those for copies, one of each direction, or none. */
static unsigned copy_queues_for(uint64_t seed, const struct device_sweep *sweep)
{
    return sweep->kind == RANKS_PROCESSES && elements_mixed(seed, 4713) % 4 == 0;
}

/* In a child. */
static void run_drawn(uint64_t seed, const struct device_sweep *sweep, int output)
{
    dup2(output, STDERR_FILENO);
    dup2(output, STDOUT_FILENO);
    set_number("TUTTI_STANDIN_SEED", seed);
    set_number("TUTTI_STANDIN_QUEUES", queues_for(seed, sweep));
    set_number("TUTTI_STANDIN_COPY_QUEUES", copy_queues_for(seed, sweep));
    _exit(device_sweep_run(sweep) != 0);
}

static void tell(uint64_t seed, const struct device_sweep *sweep, int status, int output)
{
    char text[3000];
    const off_t end = lseek(output, 0, SEEK_END);
    const off_t begin = end > (off_t)sizeof text ? end - (off_t)sizeof text : 0;
    const ssize_t length = pread(output, text, sizeof text, begin);
    printf("seed %llu: %d %s, %d devices, %u queues and %u of copies, calls %d, hosts %d%s%s: "
           "status %#x\n%.*s\n",
           (unsigned long long)seed, sweep->size,
           sweep->kind == RANKS_THREADS ? "threads" : "processes", sweep->devices,
           queues_for(seed, sweep), copy_queues_for(seed, sweep), (int)sweep->calls, sweep->hosts,
           sweep->crowded ? ", crowded" : "", sweep->checked ? ", checked" : "", (unsigned)status,
           length > 0 ? (int)length : 0, text);
}

/* Whether it went well. */
static bool run_apart(uint64_t seed)
{
    const struct device_sweep sweep = draw_sweep(seed);
    const int output = memfd_create("output", MFD_CLOEXEC);
    int status = -1;
    fflush(NULL);
    const pid_t child = output >= 0 ? fork() : -1;
    if (child == 0) run_drawn(seed, &sweep, output);
    const bool is_good = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    if (!is_good) tell(seed, &sweep, status, output);
    close(output);
    return is_good;
}

unsigned device_sweep_seeds(uint64_t first, unsigned count, unsigned seconds)
{
    const uint64_t begin_ns = clock_now_ns();
    unsigned run_count = 0, failed = 0;
    while (run_count < count &&
           (seconds == 0 || clock_now_ns() - begin_ns < seconds * UINT64_C(1000000000)))
        failed += !run_apart(first + run_count++);
    printf("%u scenarios, seeds %llu to %llu, %u failed\n", run_count, (unsigned long long)first,
           (unsigned long long)(first + run_count - 1), failed);
    return failed;
}

/* ----------------------------------------------------------------------------- for planted bugs */

/* In a process of its own. Few hidden queues for processes, many for threads: see
 * collectives_test.c. */
static int run_seed(uint64_t seed)
{
    static const struct device_sweep sweeps[] = {
        {.kind = RANKS_PROCESSES, .size = 1, .devices = 1, .calls = DEVICE_COLLECTIVES},
        {.kind = RANKS_PROCESSES, .size = 2, .devices = 1, .calls = DEVICE_COLLECTIVES},
        {.kind = RANKS_PROCESSES, .size = 2, .devices = 1, .calls = DEVICE_PAIRS, .crowded = true},
        {.kind = RANKS_THREADS, .size = 2, .devices = 1, .calls = DEVICE_ALGORITHMS}};
    for (unsigned i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        struct device_sweep sweep = sweeps[i];
        setenv("TUTTI_STANDIN_QUEUES", sweep.kind == RANKS_THREADS ? "64" : "1", 1);
        sweep.seed = seed;
        sweep.timeout_ns = 5000000000u;
        if (device_sweep_run(&sweep) != 0) return (int)i + 1;
    }
    return 0;
}

int device_sweep_main(int argument_count, char **arguments)
{
    const unsigned seeds = argument_count > 2 ? (unsigned)atoi(arguments[2]) : 1;
    const int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(quiet, STDERR_FILENO);
    for (unsigned seed = 1; seed <= seeds; seed++) {
        int status;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) _exit(run_seed(seed));
        if (child < 0 || waitpid(child, &status, 0) != child) return 2;
        if (status == 0) continue;
        if (WIFSIGNALED(status))
            printf("seed %u: died of signal %d\n", seed, WTERMSIG(status));
        else
            printf("seed %u: sweep %d\n", seed, WEXITSTATUS(status));
        return 1;
    }
    return 0;
}

#include "pair.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/status.h"
#include "crew.h"
#include "kernel/kernel.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "series.h"

enum { REPEATS = 21, REPEATS_MIN = 3, ROUNDS = 2000 };
/* The times of a repeat; of all repeats, for a machine that is busy; of a turn that does not
 * come. */
static const uint64_t repeat_ns = 8000000, all_ns = 1000000000, limit_ns = 5000000000u;

/* Two processes give a word to each other. */
struct pair {
    _Alignas(64) _Atomic int turn; /* the index of one of them */
    _Alignas(64) _Atomic int is_over;
    bool yields;
    struct series series; /* of the first one, picoseconds a turn */
};

static void pause_turn(const struct pair *pair)
{
    if (pair->yields)
        sched_yield();
    else
        cpu_relax();
}

/* False: the other one is done, or nobody came. */
static bool await_turn(struct pair *pair, int index)
{
    uint64_t until_ns = 0;
    for (unsigned looks = 1;; looks++) {
        if (atomic_load_explicit(&pair->turn, memory_order_acquire) == index) return true;
        if (atomic_load_explicit(&pair->is_over, memory_order_relaxed) != 0) return false;
        pause_turn(pair);
        if (looks % (pair->yields ? 16 : 1024) != 0)
            continue; /* a yield may take a turn of others */
        const uint64_t now_ns = clock_now_ns();
        if (until_ns == 0) until_ns = now_ns + limit_ns;
        if (now_ns > until_ns) return false;
    }
}

static void give_turn(struct pair *pair, int index)
{
    atomic_store_explicit(&pair->turn, 1 - index, memory_order_release);
}

/* There and back, until it is enough. Returns picoseconds one way, or 0: the other one did not
 * come. */
static double play(struct pair *pair)
{
    const uint64_t begin_ns = clock_now_ns();
    int rounds = 0;
    do {
        give_turn(pair, 0);
        if (!await_turn(pair, 0)) return 0;
        rounds++;
    } while (rounds < ROUNDS &&
             ((!pair->yields && rounds % 8 != 0) || clock_now_ns() - begin_ns < repeat_ns));
    return (double)(clock_now_ns() - begin_ns) * 1e3 / (2.0 * rounds);
}

static bool take_part(int index, void *context)
{
    struct pair *const pair = context;
    if (index == 1) {
        while (await_turn(pair, 1)) give_turn(pair, 1);
        return atomic_load(&pair->is_over) != 0;
    }
    bool came = play(pair) > 0; /* until both run */
    const uint64_t begin_ns = clock_now_ns();
    for (int i = 0; i < REPEATS && came; i++) {
        if (i >= REPEATS_MIN && clock_now_ns() - begin_ns > all_ns) break;
        const double time_ps = play(pair);
        came = time_ps > 0;
        if (came) series_add(&pair->series, time_ps);
    }
    atomic_store(&pair->is_over, 1);
    return came;
}

static enum tutti_status measure_pair(const int cpus[2], bool yields,
                                      enum calibration_parameter parameter,
                                      struct calibration *calibration)
{
    struct pair *const pair = crew_memory(sizeof *pair);
    if (pair == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    pair->yields = yields;
    const enum tutti_status status = crew_run(cpus, 2, take_part, NULL, pair);
    if (status == TUTTI_OK) series_store(&pair->series, parameter, calibration);
    crew_free(pair, sizeof *pair);
    return status;
}

enum tutti_status measure_turn(struct calibration *calibration)
{
    int cpus[CREW_CPUS_MAX];
    if (crew_cpus(cpus) < 1) return error_set(TUTTI_UNSUPPORTED, "no processor is known");
    return measure_pair((const int[]){cpus[0], cpus[0]}, true, CALIBRATION_turn_ps, calibration);
}

static struct cpu_binding place_of(int cpu)
{
    struct cpu_binding place;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET((size_t)cpu, &own);
    cpu_binding_within(&own, "/sys/devices/system/cpu", &place);
    return place;
}

/* Finds the first processor and a processor on another core, around the same cache or another
 * cache. Of the processors around other caches it takes the last, which is on another package if
 * there is a second package. Returns whether there is such a pair. */
static bool find_pair(bool is_near, int pair[2])
{
    int cpus[CREW_CPUS_MAX];
    const int count = crew_cpus(cpus);
    bool found = false;
    if (count < 2) return false;
    const struct cpu_binding first = place_of(cpus[0]);
    for (int i = 1; i < count && !(found && is_near); i++) {
        const struct cpu_binding other = place_of(cpus[i]);
        if (other.parts[CPU_CORE] == first.parts[CPU_CORE] ||
            (other.parts[CPU_CACHE] == first.parts[CPU_CACHE]) != is_near)
            continue;
        pair[0] = cpus[0], pair[1] = cpus[i];
        found = true;
    }
    return found;
}

enum tutti_status measure_latencies(struct calibration *calibration)
{
    int pair[2];
    if (find_pair(true, pair))
        TRY(measure_pair(pair, false, CALIBRATION_latency_near_ps, calibration));
    if (find_pair(false, pair))
        TRY(measure_pair(pair, false, CALIBRATION_latency_far_ps, calibration));
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- results */

enum { RESULT_BYTES = 64 << 10, LINE_BYTES = 64, SUMS = 24 };

/* One process adds into memory that the other one reads. */
struct handed {
    struct pair pair;
    _Atomic int is_read; /* by the other one, in its next turn */
    kernel_reduce *reduce;
    _Alignas(64) char result[RESULT_BYTES];
    char sources[2][RESULT_BYTES];
};

static void read_all(const struct handed *handed)
{
    const volatile char *const bytes = handed->result;
    for (size_t i = 0; i < RESULT_BYTES; i += LINE_BYTES) (void)bytes[i];
}

/* Femtoseconds a byte, of the quickest sum; 0: the other one did not come. */
static double add_up(struct handed *handed, bool is_read)
{
    const void *const sources[] = {handed->sources[0], handed->sources[1]};
    const struct kernel_call call = {.destination = handed->result,
                                     .sources = sources,
                                     .source_count = 2,
                                     .count = RESULT_BYTES / sizeof(float),
                                     .dtype = TUTTI_FLOAT32};
    uint64_t least_ns = UINT64_MAX;
    atomic_store_explicit(&handed->is_read, is_read, memory_order_relaxed);
    for (int i = 0; i < SUMS; i++) {
        give_turn(&handed->pair, 0);
        if (!await_turn(&handed->pair, 0)) return 0;
        const uint64_t begin_ns = clock_now_ns();
        handed->reduce(&call);
        const uint64_t took_ns = clock_now_ns() - begin_ns;
        if (took_ns < least_ns) least_ns = took_ns;
    }
    return (double)(least_ns + 1) * 1e6 / RESULT_BYTES;
}

static bool hand_over(int index, void *context)
{
    struct handed *const handed = context;
    if (index == 1) {
        while (await_turn(&handed->pair, 1)) {
            if (atomic_load_explicit(&handed->is_read, memory_order_relaxed) != 0) read_all(handed);
            give_turn(&handed->pair, 1);
        }
        return atomic_load(&handed->pair.is_over) != 0;
    }
    bool came = true;
    const uint64_t begin_ns = clock_now_ns();
    for (int i = 0; i < REPEATS && came; i++) {
        if (i >= REPEATS_MIN && clock_now_ns() - begin_ns > all_ns) break;
        const double plain_fs = add_up(handed, false), retaken_fs = add_up(handed, true);
        came = plain_fs > 0 && retaken_fs > 0;
        if (came)
            series_add(&handed->pair.series, retaken_fs > plain_fs ? retaken_fs - plain_fs : 0);
    }
    atomic_store(&handed->pair.is_over, 1);
    return came;
}

static enum tutti_status measure_retake(bool is_near, enum calibration_parameter parameter,
                                        struct calibration *calibration)
{
    int cpus[2];
    if (!find_pair(is_near, cpus)) return TUTTI_OK;
    struct handed *const handed = crew_memory(sizeof *handed);
    if (handed == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    handed->reduce = kernel_get(kernel_level_chosen(), TUTTI_FLOAT32, OP_SUM).reduce;
    const enum tutti_status status = crew_run(cpus, 2, hand_over, NULL, handed);
    if (status == TUTTI_OK) {
        /* A difference can be too small as well as too large. */
        const double middle = series_middle(&handed->pair.series);
        series_store_least(middle, middle, parameter, calibration);
    }
    crew_free(handed, sizeof *handed);
    return status;
}

enum tutti_status measure_retakes(struct calibration *calibration)
{
    TRY(measure_retake(true, CALIBRATION_retake_near_byte_fs, calibration));
    return measure_retake(false, CALIBRATION_retake_far_byte_fs, calibration);
}

/* gpu_check - what devices compute, and how fast, on a machine that has one.
 *
 *     gpu_check [DRIVER] [bits|rates|worker]...
 *
 * DRIVER is a file with CUDA's driver, libcuda.so.1 by default; without the names of parts all run,
 * in less than a minute.
 *
 *     bits      each dtype and operation, on the device and on this CPU: all pairs and triples of 8 bits, 65536 x 256 pairs of 16 bits,
 *               special and random values of others, averages, scaled sums, all shapes. Everything
 *               but NaN's payload has to be the same. Each encoding: elements and NaN of all sorts, encoded, decoded
 *               and both, which have to be the same to the last bit; sums of plain and encoded sources
 *     rates     GB/s, each byte that is read or written counted once: copies and sums with 1 to all multiprocessors, and what the driver's
 *               own copy does; loads of other sorts than ours, by another text of the same kernel
 *     worker    how long an order takes, from the store of the CPU to the load of the answer
 *
 * Exit status 0: all the same; 1: not; 2: a mistake of the driver's or ours; 77: there is no
 * driver, or no device.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/op.h"
#include "encoding/encoding.h"
#include "gpu/kernels.h"
#include "gpu/reduce.h"
#include "gpu/worker_protocol.h"
#include "kernel/kernel.h"
#include "kernel/trial.h"

enum {
    THREADS = 512,
    SOURCES_MAX = 9,
    DESTINATIONS_MAX = 4,
    PLACES_MAX = SOURCES_MAX + DESTINATIONS_MAX,
    DEADLINE_S = 20
};
#define REDUCE "tutti_reduce_once"

/* ----------------------------------------------------------------------------------- the driver */

/* A kernel for reductions without a worker: bench/gpu_check.cu. */
extern const char gpu_check_ptx[];
__asm__(".pushsection .rodata\n"
        "\t.globl gpu_check_ptx\n"
        "gpu_check_ptx:\n"
        "\t.incbin \"" GPU_CHECK_FILE "\"\n"
        "\t.byte 0\n"
        "\t.popsection\n");

struct module;
struct function;
struct stream;

#define FUNCTIONS(X)                                                                             \
    X(init, "cuInit", (unsigned flags))                                                          \
    X(error_name, "cuGetErrorName", (int result, const char **name))                             \
    X(device_get, "cuDeviceGet", (int *device, int number))                                      \
    X(device_name, "cuDeviceGetName", (char *name, int bytes, int device))                       \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))         \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                  \
    X(context_set, "cuCtxSetCurrent", (void *context))                                           \
    X(module_load, "cuModuleLoadDataEx",                                                         \
      (struct module * *module, const void *text, unsigned count, int *options, void **values))  \
    X(module_function, "cuModuleGetFunction",                                                    \
      (struct function * *function, struct module * module, const char *name))                   \
    X(function_attribute, "cuFuncGetAttribute",                                                  \
      (int *value, int attribute, struct function *function))                                    \
    X(allocate, "cuMemAlloc_v2", (uint64_t * address, size_t bytes))                             \
    X(allocate_pinned, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))          \
    X(stream_create, "cuStreamCreate", (struct stream * *stream, unsigned flags))                \
    X(stream_query, "cuStreamQuery", (struct stream * stream))                                   \
    X(copy, "cuMemcpyAsync",                                                                     \
      (uint64_t destination, uint64_t source, size_t bytes, struct stream * stream))             \
    X(launch, "cuLaunchKernel",                                                                  \
      (struct function * function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, \
       unsigned tz, unsigned shared, struct stream *stream, void **parameters, void **more))

static struct {
#define X(member, name, parameters) int(*member) parameters;
    FUNCTIONS(X)
#undef X
} cuda;

enum { CUDA_NOT_READY = 600, CUDA_MULTIPROCESSORS = 16, CUDA_LOCAL_BYTES = 3, CUDA_REGISTERS = 4 };

static struct stream *stream, *other_stream;
static struct function *reduce_function, *worker_function;
static int multiprocessors;

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static _Noreturn __attribute__((format(printf, 1, 2))) void give_up(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(2);
}

static void need(int result, const char *what)
{
    const char *name = NULL;
    if (result == 0) return;
    if (cuda.error_name(result, &name) != 0 || name == NULL) name = "which it does not name";
    give_up("%s: error %d of the driver, %s", what, result, name);
}

static void stream_wait(struct stream *of)
{
    const double begin = seconds_now();
    for (int result; (result = cuda.stream_query(of)) != 0;) {
        if (result != CUDA_NOT_READY) need(result, "work on the device");
        if (seconds_now() > begin + DEADLINE_S)
            give_up("the device has not finished after %d s", DEADLINE_S);
    }
}

static uint64_t device_memory(size_t bytes)
{
    uint64_t address;
    need(cuda.allocate(&address, bytes), "memory of the device");
    return address;
}

/* Of the host, under the same address for the device. */
static void *pinned_memory(size_t bytes)
{
    void *memory;
    need(cuda.allocate_pinned(&memory, bytes, 3 /* portable, mapped */), "pinned memory");
    return memory;
}

static void copy(uint64_t destination, uint64_t source, size_t bytes)
{
    if (bytes != 0) need(cuda.copy(destination, source, bytes, stream), "a copy");
}

static uint64_t address_of(const void *memory)
{
    return (uintptr_t)memory;
}

/* False: there is none; it has said why. */
static bool driver_open(const char *file)
{
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("skipped: no driver (%s)\n", dlerror());
        return false;
    }
#define X(member, name, parameters)                        \
    cuda.member = (int(*) parameters)dlsym(library, name); \
    if (cuda.member == NULL) give_up("%s: has no %s", file, name);
    FUNCTIONS(X)
#undef X
    int device = 0, version = 0;
    char name[128] = "";
    void *context;
    const int result = cuda.init(0);
    if (result != 0 || cuda.device_get(&device, 0) != 0) {
        printf("skipped: the driver finds no device (error %d)\n", result);
        return false;
    }
    int (*const version_get)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
    if (version_get != NULL) version_get(&version);
    need(cuda.device_name(name, sizeof(name), device), "the device's name");
    need(cuda.device_attribute(&multiprocessors, CUDA_MULTIPROCESSORS, device),
         "multiprocessors of the device");
    need(cuda.context_retain(&context, device), "the device's context");
    need(cuda.context_set(context), "the device's context");
    need(cuda.stream_create(&stream, 1 /* waits for no other */), "a stream");
    need(cuda.stream_create(&other_stream, 1), "a stream");
    printf("device: %s, %d multiprocessors, driver for CUDA %d.%d\n", name, multiprocessors,
           version / 1000, version % 1000 / 10);
    return true;
}

static struct module *module_load(const char *text, const char *what)
{
    static char complaints[16384];
    int options[] = {5 /* where errors are told */, 6 /* how much fits there */};
    void *values[] = {complaints, (void *)(uintptr_t)sizeof(complaints)};
    struct module *module;
    const double begin = seconds_now();
    const int result = cuda.module_load(&module, text, 2, options, values);
    if (result != 0)
        give_up("%s: the driver does not compile it: error %d: %s", what, result, complaints);
    printf("%s: compiled and loaded in %.3f s\n", what, seconds_now() - begin);
    return module;
}

static struct function *function_find(struct module *module, const char *name)
{
    struct function *function;
    int registers = -1, local_bytes = -1;
    need(cuda.module_function(&function, module, name), name);
    cuda.function_attribute(&registers, CUDA_REGISTERS, function);
    cuda.function_attribute(&local_bytes, CUDA_LOCAL_BYTES, function);
    printf("%s: %d registers, %d bytes of local memory for each thread\n", name, registers,
           local_bytes);
    return function;
}

/* -------------------------------------------------------------------------------- one reduction */

struct order {
    struct gpu_reduce reduce;
    uint64_t pointers[PLACES_MAX];
};

/* Pinned, in turns: one is read while the next is written. */
enum { ORDERS = 64 };
static struct order *orders;
static unsigned orders_used;

static void reduce_launch(struct function *function, const struct order *order, unsigned blocks)
{
    if (orders == NULL) orders = pinned_memory(ORDERS * sizeof(*orders));
    if (orders_used % ORDERS == 0) stream_wait(stream);
    struct order *const to = &orders[orders_used++ % ORDERS];
    *to = *order;
    uint64_t address = address_of(to);
    void *parameters[] = {&address};
    need(cuda.launch(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL),
         "the start of a kernel");
}

static struct order order_of(enum tutti_dtype dtype, enum op op, uint64_t count,
                             const uint64_t *destinations, unsigned destination_count,
                             const uint64_t *sources, unsigned source_count)
{
    struct order order = {.reduce = {.count = count,
                                     .dtype = (uint8_t)dtype,
                                     .op = (uint8_t)op,
                                     .source_count = source_count,
                                     .destination_count = destination_count}};
    memcpy(order.pointers, destinations, destination_count * sizeof(uint64_t));
    memcpy(order.pointers + destination_count, sources, source_count * sizeof(uint64_t));
    return order;
}

/* ----------------------------------------------------------------------------------------- bits */

static const char *const dtype_names[DTYPE_COUNT] = {
#define X(enumerator, name, bytes, kind) [enumerator] = #name,
    DTYPE_LIST(X)
#undef X
};

struct experiment {
    enum tutti_dtype dtype;
    enum op op;
    unsigned source_count, destination_count, divisor;
    double factor;
    size_t count;
    unsigned blocks;
    unsigned in_place[DESTINATIONS_MAX]; /* this source is that destination; source_count: none */
    unsigned offsets[PLACES_MAX];        /* sources first */
    const char *what;
};

enum { ROOM = 40 << 20, GUARD = 64, COMPLAINTS_MAX = 20 };
static unsigned char *host_rooms[PLACES_MAX], *expected; /* pinned, but for what is expected */
static uint64_t device_rooms[PLACES_MAX];
static uint64_t cases, elements, differing;

static bool is_supported(enum op op, enum tutti_dtype dtype)
{
    if (op == OP_SCALED_SUM) return dtype_kind(dtype) == DTYPE_FLOAT;
    return op_supports(op_builtin(op), dtype);
}

static void complain(const struct experiment *x, const char *what, size_t i, uint64_t got,
                     uint64_t right)
{
    if (differing++ >= COMPLAINTS_MAX) return;
    printf(
        "DIFFERS: %s %s (%s) of %u to %u, divisor %u, factor %a, %zu elements, %u blocks: %s %zu: "
        "%#llx instead of %#llx; operands",
        dtype_names[x->dtype], op_kind_name(x->op), x->what, x->source_count, x->destination_count,
        x->divisor, x->factor, x->count, x->blocks, what, i, (unsigned long long)got,
        (unsigned long long)right);
    const size_t size = dtype_size(x->dtype);
    for (unsigned s = 0; s < x->source_count && i < x->count; s++) {
        uint64_t operand = 0;
        memcpy(&operand, host_rooms[s] + GUARD + x->offsets[s] + i * size, size);
        printf(" %#llx", (unsigned long long)operand);
    }
    printf("; offsets");
    for (unsigned s = 0; s < x->source_count; s++) printf(" %u", x->offsets[s]);
    printf(" to");
    for (unsigned d = 0; d < x->destination_count; d++) printf(" %u", x->offsets[SOURCES_MAX + d]);
    putchar('\n');
}

/* Sources are filled, in the host's rooms. */
static void experiment_run(const struct experiment *x)
{
    const size_t size = dtype_size(x->dtype), bytes = x->count * size;
    const void *sources[SOURCES_MAX];
    uint64_t from[SOURCES_MAX], to[DESTINATIONS_MAX];
    for (unsigned s = 0; s < x->source_count; s++) {
        sources[s] = host_rooms[s] + GUARD + x->offsets[s];
        from[s] = device_rooms[s] + GUARD + x->offsets[s];
        copy(from[s], address_of(sources[s]), bytes);
    }
    /* Where a result goes there are guards, all of which come back with it. */
    for (unsigned d = 0; d < x->destination_count; d++) {
        const unsigned room = SOURCES_MAX + d;
        const bool is_in_place = x->in_place[d] < x->source_count;
        to[d] = is_in_place ? from[x->in_place[d]] : device_rooms[room] + GUARD + x->offsets[room];
        if (is_in_place) continue;
        memset(host_rooms[room], 0xa5, bytes + 3 * GUARD);
        copy(device_rooms[room], address_of(host_rooms[room]), bytes + 3 * GUARD);
    }
    struct order order =
        order_of(x->dtype, x->op, x->count, to, x->destination_count, from, x->source_count);
    order.reduce.divisor = x->divisor;
    order.reduce.factor = x->factor;
    stream_wait(stream); /* host rooms have been read */
    reduce_launch(reduce_function, &order, x->blocks);
    for (unsigned d = 0; d < x->destination_count; d++)
        if (x->in_place[d] == x->source_count)
            copy(address_of(host_rooms[SOURCES_MAX + d]), device_rooms[SOURCES_MAX + d],
                 bytes + 3 * GUARD);
        else
            copy(address_of(host_rooms[SOURCES_MAX + d]) + GUARD + x->offsets[SOURCES_MAX + d],
                 to[d], bytes);

    kernel_get(kernel_level_chosen(), x->dtype, x->op)
        .reduce(&(struct kernel_call){.destination = expected,
                                      .sources = sources,
                                      .source_count = x->source_count,
                                      .divisor = x->divisor,
                                      .factor = x->factor,
                                      .count = x->count,
                                      .dtype = x->dtype});
    stream_wait(stream);
    cases++;
    elements += x->count * x->destination_count;
    for (unsigned d = 0; d < x->destination_count; d++) {
        const unsigned char *const room = host_rooms[SOURCES_MAX + d];
        const unsigned offset = GUARD + x->offsets[SOURCES_MAX + d];
        const unsigned char *const got = room + offset;
        for (size_t i = 0; x->in_place[d] == x->source_count && i < bytes + 3 * GUARD;
             i += i == offset - 1 ? bytes + 1 : 1)
            if (room[i] != 0xa5) complain(x, "guard at byte", i, room[i], 0xa5);
        if (memcmp(got, expected, bytes) == 0) continue;
        for (size_t i = 0; i < x->count; i++) {
            uint64_t mine = 0, right = 0;
            memcpy(&mine, got + i * size, size);
            memcpy(&right, expected + i * size, size);
            if (mine != right && !(trial_is_nan(x->dtype, mine) && trial_is_nan(x->dtype, right)))
                complain(x, "element", i, mine, right);
        }
    }
}

static struct experiment experiment_plain(enum tutti_dtype dtype, enum op op, unsigned source_count,
                                          size_t count, const char *what)
{
    struct experiment x = {.dtype = dtype,
                           .op = op,
                           .source_count = source_count,
                           .destination_count = 1,
                           .count = count,
                           .blocks = (unsigned)multiprocessors,
                           .what = what};
    for (unsigned d = 0; d < DESTINATIONS_MAX; d++) x.in_place[d] = source_count;
    return x;
}

static unsigned experiment_variants(const struct experiment *x)
{
    return x->op == OP_AVG || x->op == OP_SCALED_SUM ? 7 : 1;
}

static void experiment_finish(struct experiment *x, unsigned variant)
{
    static const unsigned divisors[] = {3, 2, 7, 1, 2147483648u, 65537, 4294967295u};
    static const double factors[] = {1.0 / 3, -0.5, 3, 1e-3, 0x1p-20, -77.7, 1e300};
    if (x->op == OP_AVG) x->divisor = divisors[variant % 7];
    if (x->op == OP_SCALED_SUM) x->factor = factors[variant % 7];
}

static void element_set(unsigned s, size_t i, enum tutti_dtype dtype, uint64_t bits)
{
    memcpy(host_rooms[s] + GUARD + i * dtype_size(dtype), &bits, dtype_size(dtype));
}

/* Sources without offsets: all values against each other, or many. Returns how many elements. */
static size_t sources_fill(enum tutti_dtype dtype, bool is_exhaustive, unsigned sources)
{
    const size_t size = dtype_size(dtype);
    if (size == 1 && is_exhaustive) {
        for (size_t i = 0; i < 1 << 24; i++)
            for (unsigned s = 0; s < 3; s++) element_set(s, i, dtype, i >> (8 * s) & 0xff);
        return 1 << 24;
    }
    if (size == 2 && is_exhaustive) {
        uint64_t partners[256];
        for (unsigned i = 0; i < 256; i++) partners[i] = trial_element(dtype);
        for (size_t i = 0; i < 1 << 24; i++) {
            element_set(0, i, dtype, i & 0xffff);
            element_set(1, i, dtype, partners[i >> 16]);
            element_set(2, i, dtype, partners[(i + (i >> 16)) & 0xff]);
        }
        return 1 << 24;
    }
    const size_t count = 1 << 20;
    for (unsigned s = 0; s < sources; s++)
        for (size_t i = 0; i < count; i++) element_set(s, i, dtype, trial_element(dtype));
    return count;
}

static void bits_of_values(void)
{
    for (unsigned d = 0; d < DTYPE_COUNT; d++) {
        const enum tutti_dtype dtype = (enum tutti_dtype)d;
        const uint64_t differing_before = differing, elements_before = elements;
        const double begin = seconds_now();
        for (int is_exhaustive = dtype_size(dtype) <= 2; is_exhaustive >= 0; is_exhaustive--) {
            const size_t count = sources_fill(dtype, is_exhaustive != 0, 5);
            for (unsigned op = 0; op <= OP_SCALED_SUM; op++) {
                if (!is_supported((enum op)op, dtype)) continue;
                struct experiment x = experiment_plain(dtype, (enum op)op, 2, count, "values");
                /* Of averages and scaled sums one is made of all, the others of fewer elements. */
                for (unsigned variant = 0; variant < experiment_variants(&x); variant++) {
                    if (variant == 1 && x.count > 1 << 20) x.count = 1 << 20;
                    experiment_finish(&x, variant);
                    const unsigned most = is_exhaustive && variant == 0 ? 3 : 2;
                    for (x.source_count = variant == 0 ? 2 : 1; x.source_count <= most;
                         x.source_count++) {
                        x.in_place[0] = x.source_count;
                        experiment_run(&x);
                    }
                    if (is_exhaustive) continue;
                    x.source_count = x.in_place[0] = 5;
                    experiment_run(&x);
                }
            }
        }
        printf("bits %-12s %llu elements, %llu differ, %.1f s\n", dtype_names[dtype],
               (unsigned long long)(elements - elements_before),
               (unsigned long long)(differing - differing_before), seconds_now() - begin);
        fflush(stdout);
    }
}

static void bits_of_shapes(unsigned rounds)
{
    const uint64_t differing_before = differing, cases_before = cases;
    const double begin = seconds_now();
    for (unsigned round = 0; round < rounds; round++) {
        const enum tutti_dtype dtype = (enum tutti_dtype)(round % DTYPE_COUNT);
        const enum op op = (enum op)random_below(OP_SCALED_SUM + 1);
        if (!is_supported(op, dtype)) continue;
        const unsigned size = (unsigned)dtype_size(dtype), alike = random_below(64 / size) * size;
        const unsigned n = 1 + random_below(round % 3 == 0 ? SOURCES_MAX : 3);
        struct experiment x = experiment_plain(
            dtype, op, n, round % 8 == 0 ? random_below(100000) : random_below(301), "shapes");
        x.destination_count = 1 + random_below(DESTINATIONS_MAX);
        x.blocks = 1 + random_below(8);
        experiment_finish(&x, random_below(7));
        const unsigned sort = random_below(8);
        for (unsigned i = 0; i < PLACES_MAX; i++)
            x.offsets[i] = sort < 4    ? alike
                           : sort < 6  ? random_below(64 / size) * size
                           : sort == 6 ? (random_below(8) == 0 ? random_below(64) : alike)
                                       : random_below(64);
        for (unsigned d = 0; d < x.destination_count; d++) {
            const unsigned s = random_below(3 * n);
            bool is_taken = s >= n;
            for (unsigned other = 0; other < d; other++) is_taken |= x.in_place[other] == s;
            if (!is_taken) x.in_place[d] = s;
        }
        for (unsigned s = 0; s < n; s++)
            for (size_t i = 0; i < x.count; i++) {
                const uint64_t bits = trial_element(dtype);
                memcpy(host_rooms[s] + GUARD + x.offsets[s] + i * size, &bits, size);
            }
        experiment_run(&x);
    }
    printf("bits of shapes: %llu cases, %llu differ, %.1f s\n",
           (unsigned long long)(cases - cases_before),
           (unsigned long long)(differing - differing_before), seconds_now() - begin);
}

#include "bench/gpu_check_codecs.h"

/* ------------------------------------------------------------------------------------- all of them */

static void bits(void)
{
    printf("bits: compared with kernels of this CPU, %s\n",
           kernel_level_name(kernel_level_chosen()));
    expected = malloc(ROOM);
    if (expected == NULL) give_up("out of memory");
    for (unsigned i = 0; i < PLACES_MAX; i++) {
        host_rooms[i] = pinned_memory(ROOM);
        device_rooms[i] = device_memory(ROOM);
    }
    bits_of_shapes(getenv("GPU_CHECK_BRIEF") != NULL ? 300 : 4000);
    bits_of_codecs(getenv("GPU_CHECK_BRIEF") != NULL ? 12 : 300);
    if (getenv("GPU_CHECK_BRIEF") == NULL) bits_of_values();
    printf("%llu cases, %llu elements, %llu differ\n", (unsigned long long)cases,
           (unsigned long long)elements, (unsigned long long)differing);
}

/* ---------------------------------------------------------------------------------------- rates */

static uint64_t places[SOURCES_MAX + 1];
static struct order rate_order;
static struct function *rate_function;
static unsigned rate_blocks;
static size_t rate_bytes; /* of a place */
static uint64_t copy_to, copy_from;

static void run_reduce(void)
{
    reduce_launch(rate_function, &rate_order, rate_blocks);
}

static void run_copy(void)
{
    copy(copy_to, copy_from, rate_bytes);
}

/* The best of a few turns, each long enough to be measured. */
static double seconds_of(void (*run)(void))
{
    double best = 1e9;
    unsigned repeats = 1;
    run();
    stream_wait(stream);
    for (unsigned turn = 0; turn < 4; turn++) {
        const double begin = seconds_now();
        for (unsigned i = 0; i < repeats; i++) run();
        stream_wait(stream);
        const double took = (seconds_now() - begin) / repeats;
        if (took < best) best = took;
        if (turn == 0 && best < 1e-3) repeats = best < 5e-5 ? 40 : (unsigned)(2e-3 / best);
    }
    return best;
}

static void rate_say(const char *what, const char *how, unsigned places_touched, double seconds)
{
    printf("rate %-22s %5zu MiB  %-12s %8.1f GB/s moved  %10.1f us\n", what, rate_bytes >> 20, how,
           (double)rate_bytes * places_touched / seconds * 1e-9, seconds * 1e6);
    fflush(stdout);
}

static void rate_of_reduce(const char *what, enum tutti_dtype dtype, uint64_t destination,
                           const uint64_t *sources, unsigned source_count, unsigned blocks)
{
    char how[32];
    rate_order = order_of(dtype, OP_SUM, rate_bytes / dtype_size(dtype), &destination, 1, sources,
                          source_count);
    rate_blocks = blocks;
    snprintf(how, sizeof(how), "%u blocks", blocks);
    rate_say(what, how, source_count + 1, seconds_of(run_reduce));
}

/* Another sort of loads in the same kernels. */
static void rates_of_loads(const char *instead)
{
    static const char ours[] = "ld.relaxed.sys.global.v4.u32";
    char *const text = malloc(2 * strlen(gpu_check_ptx) + 1);
    if (text == NULL) give_up("out of memory");
    char *to = text;
    for (const char *from = gpu_check_ptx; *from != 0;) {
        if (strncmp(from, ours, sizeof(ours) - 1) != 0) {
            *to++ = *from++;
            continue;
        }
        to = stpcpy(to, instead);
        from += sizeof(ours) - 1;
    }
    *to = 0;
    struct module *const module = module_load(text, instead);
    need(cuda.module_function(&rate_function, module, REDUCE), REDUCE);
    static const unsigned blocks[] = {1, 8, 132};
    for (unsigned i = 0; i < 3; i++) {
        rate_of_reduce("copy", TUTTI_UINT8, places[0], places + 1, 1, blocks[i]);
        rate_of_reduce("sum of 2 float32", TUTTI_FLOAT32, places[0], places + 1, 2, blocks[i]);
    }
    rate_function = reduce_function;
    free(text);
}

static void rates(void)
{
    static const unsigned blocks[] = {1, 2, 4, 8, 16, 32, 66, 132};
    enum { BLOCKS = sizeof(blocks) / sizeof(blocks[0]) };
    const size_t most = getenv("GPU_CHECK_BRIEF") != NULL ? (size_t)1 << 20 : (size_t)1 << 30;
    for (unsigned i = 0; i <= 8; i++) places[i] = device_memory(most + 64);
    rate_function = reduce_function;
    for (rate_bytes = most / 16; rate_bytes <= most; rate_bytes *= 16) {
        copy_to = places[0], copy_from = places[1];
        rate_say("cuMemcpyAsync", "driver", 2, seconds_of(run_copy));
        for (unsigned i = rate_bytes == most ? 3 : 0; i < BLOCKS; i++) {
            const unsigned b = blocks[i];
            rate_of_reduce("copy", TUTTI_UINT8, places[0], places + 1, 1, b);
            rate_of_reduce("sum of 2 float32", TUTTI_FLOAT32, places[0], places + 1, 2, b);
            rate_of_reduce("sum of 8 float32", TUTTI_FLOAT32, places[0], places + 1, 8, b);
            rate_of_reduce("sum of 2 bfloat16", TUTTI_BFLOAT16, places[0], places + 1, 2, b);
            rate_of_reduce("sum of 8 bfloat16", TUTTI_BFLOAT16, places[0], places + 1, 8, b);
            if (rate_bytes == most) continue;
            rate_of_reduce("sum of 2 float16", TUTTI_FLOAT16, places[0], places + 1, 2, b);
            rate_of_reduce("sum of 2 float8_e4m3", TUTTI_FLOAT8_E4M3, places[0], places + 1, 2, b);
            rate_of_reduce("sum of 2 int32", TUTTI_INT32, places[0], places + 1, 2, b);
        }
    }
    rate_bytes = most / 16;
    uint64_t odd[SOURCES_MAX];
    for (unsigned i = 0; i <= 8; i++) odd[i] = places[i] + 2 * i;
    for (unsigned i = 2; i < BLOCKS; i += 2) {
        rate_of_reduce("misaligned copy", TUTTI_BFLOAT16, places[0], odd + 1, 1, blocks[i]);
        rate_of_reduce("misaligned copy to odd", TUTTI_BFLOAT16, odd[1], odd + 1, 1, blocks[i]);
        rate_of_reduce("misaligned sum of 2", TUTTI_BFLOAT16, odd[3], odd + 4, 2, blocks[i]);
    }

    const uint64_t pinned = address_of(pinned_memory(most / 16)),
                   second = address_of(pinned_memory(most / 16));
    copy_to = places[0], copy_from = pinned;
    rate_say("cuMemcpyAsync to device", "driver", 1, seconds_of(run_copy));
    copy_to = pinned, copy_from = places[0];
    rate_say("cuMemcpyAsync to host", "driver", 1, seconds_of(run_copy));
    for (unsigned i = 0; i < 6; i++) {
        const uint64_t sums[] = {pinned, places[1]};
        char how[32];
        snprintf(how, sizeof(how), "%u blocks", blocks[i]);
        rate_blocks = blocks[i];
        rate_order = order_of(TUTTI_UINT8, OP_SUM, rate_bytes, places, 1, &pinned, 1);
        rate_say("host to device", how, 1, seconds_of(run_reduce));
        rate_order = order_of(TUTTI_UINT8, OP_SUM, rate_bytes, &pinned, 1, places, 1);
        rate_say("device to host", how, 1, seconds_of(run_reduce));
        rate_order = order_of(TUTTI_FLOAT32, OP_SUM, rate_bytes / 4, &second, 1, sums, 2);
        rate_say("host + device to host", how, 2, seconds_of(run_reduce));
    }
    rate_bytes = 1024;
    copy_to = places[0], copy_from = places[1];
    rate_say("cuMemcpyAsync of 1 KiB", "driver", 2, seconds_of(run_copy));
    rate_of_reduce("a launch of 1 KiB", TUTTI_UINT8, places[0], places + 1, 1, 1);
    rate_bytes = most / 16;
    static const char *const loads[] = {"ld.volatile.global.v4.u32", "ld.global.cg.v4.u32",
                                        "ld.relaxed.gpu.global.v4.u32",
                                        "ld.relaxed.sys.global.v4.u32"};
    for (unsigned i = 0; i < 4; i++) rates_of_loads(loads[i]);
}

/* --------------------------------------------------------------------------------------- worker */

static struct worker_control *control;

/* Gives teams [0, parts) a part each of an order, and waits. */
static void worker_order(const struct order *order, uint32_t number, unsigned parts)
{
    struct worker_order line = {.reduce = order->reduce};
    memcpy(line.pointers, order->pointers, sizeof(line.pointers));
    for (unsigned b = 0; b < parts; b++) {
        uint32_t words[WORKER_WORDS] = {0};
        line.reduce.share = worker_share(b, parts);
        memcpy(words, &line, sizeof(line));
        struct worker_slot *const slot = &control->rings[b][number % WORKER_SLOTS];
        for (unsigned w = 0; w < WORKER_WORDS; w++)
            __atomic_store_n(&slot->words[w], (uint64_t)number << 32 | words[w], __ATOMIC_RELEASE);
    }
    const uint64_t done = (uint64_t)WORKER_PRESENT << 32 | number;
    const double begin = seconds_now();
    for (unsigned b = 0; b < parts; b++)
        for (unsigned looks = 1; __atomic_load_n(&control->said[b], __ATOMIC_ACQUIRE) != done;
             looks++)
            if (looks % 4096 == 0 && seconds_now() > begin + DEADLINE_S)
                give_up("an order of the worker has not finished after %d s", DEADLINE_S);
}

static void worker_said(unsigned teams, enum worker_state state)
{
    const double begin = seconds_now();
    for (unsigned b = 0; b < teams; b++)
        while (__atomic_load_n(&control->said[b], __ATOMIC_ACQUIRE) >> 32 != state)
            if (seconds_now() > begin + DEADLINE_S)
                give_up("team %u of the worker is not in state %d after %d s", b, state, DEADLINE_S);
}

static void worker(void)
{
    enum { BYTES = 1 << 20, TURNS_MAX = 2000 };
    _Static_assert(sizeof(struct worker_order) <= WORKER_WORDS * sizeof(uint32_t), "a line");
    control = pinned_memory(sizeof(*control));
    const uint64_t here = device_memory(BYTES), there = device_memory(BYTES),
                   pinned = address_of(pinned_memory(BYTES));
    static const struct {
        unsigned teams, size;
    } shapes[] = {{1, 1}, {1, 8}, {1, 32}, {1, 64}, {2, 32}, {4, 16}};
    enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };
    const uint64_t home = device_memory(sizeof(struct worker_home));
    struct worker_home *const image = pinned_memory(sizeof(*image));
    for (unsigned i = 0; i < SHAPES; i++) {
        const unsigned b = shapes[i].teams, blocks = b * shapes[i].size;
        if (blocks > (unsigned)multiprocessors) continue; /* all have to be there at once */
        memset(control, 0, sizeof(*control));
        memset(image, 0, sizeof(*image));
        image->control = address_of(control);
        image->team_size = shapes[i].size;
        need(cuda.copy(home, address_of(image), sizeof(*image), stream), "a home");
        stream_wait(stream);
        uint64_t address = home;
        void *parameters[] = {&address};
        double begin = seconds_now();
        need(cuda.launch(worker_function, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL),
             "the start of a worker");
        worker_said(b, WORKER_PRESENT);
        printf("worker of %u x %2u blocks: there after %.1f us\n", b, shapes[i].size,
               (seconds_now() - begin) * 1e6);
        uint32_t number = 0;
        for (size_t bytes = 64; bytes <= BYTES; bytes *= bytes == 64 ? 64 : 16) {
            const struct {
                const char *what;
                uint64_t to, from;
            } variants[] = {{"in the device", here, there},
                            {"host to device", here, pinned},
                            {"device to host", pinned, there}};
            for (unsigned variant = 0; variant < 3; variant++) {
                const struct order order =
                    order_of(TUTTI_UINT8, OP_SUM, bytes, &variants[variant].to, 1,
                             &variants[variant].from, 1);
                double best = 1e9;
                unsigned turns = 0;
                begin = seconds_now();
                while (turns < TURNS_MAX && seconds_now() < begin + 0.05) {
                    turns++;
                    const double one = seconds_now();
                    worker_order(&order, ++number, b);
                    const double took = seconds_now() - one;
                    if (took < best) best = took;
                }
                printf("worker of %u x %2u blocks: order of %7zu bytes %-14s %7.2f us, at best "
                       "%7.2f us\n",
                       b, shapes[i].size, bytes, variants[variant].what,
                       (seconds_now() - begin) / turns * 1e6, best * 1e6);
            }
        }
        begin = seconds_now();
        __atomic_store_n(&control->end, 1, __ATOMIC_RELEASE);
        worker_said(b, WORKER_LEFT);
        const double said = seconds_now() - begin;
        stream_wait(stream);
        printf("worker of %u x %2u blocks: left after %.1f us, its stream went on after %.1f us\n",
               b, shapes[i].size, said * 1e6, (seconds_now() - begin) * 1e6);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const char *driver = "libcuda.so.1";
    bool has_bits = false, has_rates = false, has_worker = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "bits") == 0)
            has_bits = true;
        else if (strcmp(argv[i], "rates") == 0)
            has_rates = true;
        else if (strcmp(argv[i], "worker") == 0)
            has_worker = true;
        else
            driver = argv[i];
    }
    const bool has_all = !has_bits && !has_rates && !has_worker;
    if (!driver_open(driver)) return 77;
    worker_function = function_find(module_load(gpu_kernels_ptx, "kernels"), GPU_KERNEL_WORKER);
    reduce_function = function_find(module_load(gpu_check_ptx, "the kernel for checks"), REDUCE);
    if (has_all || has_bits) bits();
    if (has_all || has_rates) rates();
    if (has_all || has_worker) worker();
    return differing != 0;
}

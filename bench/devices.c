/* devices.c - allreduce in memory of one device beside what the device can do: `build/bench/devices
 * -t THREADS`, whose ranks are threads of this process; or a rank program, `tutti-run -n N
 * build/bench/devices`, whose ranks are processes.
 *
 *     [-b BYTES] [-n ROUNDS] [-d DEVICE] [-c] [-k]     -c: rank 0 has its buffers in the host's memory; -k: no two buffers begin at addresses
 *                                                      that differ by a power of two
 *
 * The floor: every rank's input is read once and its output written once, which is ranks * BYTES
 * copied, at the rate at which the device copies memory measured in the same run with the same
 * bytes, or 1 GiB where these are fewer: what fits into the device's cache is copied faster. Then,
 * of 8 bytes, the time of a call, and of one in a stream until it has been waited for. Medians of
 * the rounds, of the slowest rank.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "timing.h"
#include "tutti/tutti.h"

enum { ROUNDS_MAX = 1000, WARM_UPS = 3, SKEW = 2424832 /* 37 x 64 KiB */, SKEW_MAX = 258 * SKEW };

static struct {
    int threads, rounds, device;
    size_t bytes;
    bool has_host_rank, is_skewed;
} wanted = {.rounds = 20, .bytes = (size_t)64 << 20};

static struct gpu_device *device;

static void fail(const char *what)
{
    fprintf(stderr, "devices: %s: %s\n", what, tutti_error_message());
    exit(1);
}

static void check(enum tutti_status status, const char *what)
{
    if (status != TUTTI_OK) fail(what);
}

static void open_device(void)
{
    const struct gpu_driver *driver;
    setenv("TUTTI_CUDA_DRIVER", "libcuda.so.1", 0);
    check(gpu_driver(&driver), "driver");
    if (driver == NULL || driver->device_count() == 0) {
        printf("skipped: there is no device\n");
        exit(77);
    }
    check(driver->open(wanted.device % driver->device_count(), &device), "device");
}

static void *allocate(size_t bytes)
{
    void *const memory = device->kind.allocate(&device->kind, bytes);
    if (memory == NULL) fail("memory of the device");
    return memory;
}

/* Microseconds for a copy within the device. */
static double copy_us(size_t bytes)
{
    double took[ROUNDS_MAX];
    void *const from = allocate(bytes), *const to = allocate(bytes);
    for (int i = -WARM_UPS; i < wanted.rounds; i++) {
        const double begin = now_us();
        if (!device->kind.copy(&device->kind, to, from, bytes)) fail("a copy");
        if (i >= 0) took[i] = now_us() - begin;
    }
    device->kind.release(&device->kind, from, bytes);
    device->kind.release(&device->kind, to, bytes);
    return median(took, wanted.rounds);
}

static double largest(double value, struct tutti_comm *comm)
{
    check(tutti_allreduce(&value, &value, 1, TUTTI_FLOAT64, TUTTI_MAX, comm), "largest of ranks");
    return value;
}

static double call_us(const void *send, void *recv, size_t count, void *stream,
                      struct tutti_comm *comm)
{
    double took[ROUNDS_MAX];
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.stream = stream;
    options.on_stream = stream != NULL;
    for (int i = -WARM_UPS; i < wanted.rounds; i++) {
        struct tutti_request *request;
        check(tutti_barrier(comm), "barrier");
        const double begin = now_us();
        if (stream == NULL) {
            check(tutti_allreduce(send, recv, count, TUTTI_FLOAT32, TUTTI_SUM, comm), "allreduce");
        } else {
            check(tutti_allreduce_start(send, recv, count, TUTTI_FLOAT32, TUTTI_SUM, &options, comm,
                                        &request),
                  "allreduce in a stream");
            check(tutti_wait(&request), "allreduce in a stream");
        }
        const double own = now_us() - begin, slowest = largest(own, comm);
        if (i >= 0) took[i] = slowest;
    }
    return median(took, wanted.rounds);
}

/* All elements are 1, so all sums are the number of ranks; a look at both ends and the middle. */
static void fill(void *memory, size_t bytes, bool on_device, float value)
{
    float *const values = malloc(bytes);
    if (values == NULL) fail("memory");
    for (size_t i = 0; i < bytes / sizeof *values; i++) values[i] = value;
    if (!on_device)
        memcpy(memory, values, bytes);
    else if (!device->kind.copy(&device->kind, memory, values, bytes))
        fail("a copy");
    free(values);
}

static void expect(const void *memory, size_t bytes, bool on_device, float value)
{
    float *const values = malloc(bytes);
    if (values == NULL) fail("memory");
    if (!on_device)
        memcpy(values, memory, bytes);
    else if (!device->kind.copy(&device->kind, values, memory, bytes))
        fail("a copy");
    for (size_t i = 0; i < bytes / sizeof *values; i++)
        if (values[i] != value) {
            fprintf(stderr, "devices: element %zu is %g and not %g\n", i, values[i], value);
            exit(1);
        }
    free(values);
}

static void measure(struct tutti_comm *comm)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    const bool on_device = !(wanted.has_host_rank && rank == 0);
    const size_t room = wanted.bytes + (wanted.is_skewed ? SKEW_MAX : 0),
                 skew = wanted.is_skewed ? (size_t)(2 * rank + 1) * SKEW : 0;
    char *const all_sent = on_device ? allocate(room) : malloc(room), *const all_received =
                                                                          on_device ? allocate(room)
                                                                                    : malloc(room);
    void *stream = NULL;
    if (all_sent == NULL || all_received == NULL) fail("memory");
    char *const send = all_sent + skew, *const recv = all_received + 2 * skew;
    check(device->driver->make_stream(device, &stream), "a stream");
    fill(send, wanted.bytes, on_device, 1);
    const double took = call_us(send, recv, wanted.bytes / sizeof(float), NULL, comm);
    expect(recv, wanted.bytes, on_device, (float)size);
    const double small = call_us(send, recv, 2, NULL, comm),
                 small_in_stream = call_us(send, recv, 2, stream, comm);
    check(tutti_barrier(comm), "barrier");
    if (rank == 0) {
        const size_t copied = wanted.bytes < (size_t)1 << 30 ? (size_t)1 << 30 : wanted.bytes;
        const double copying = copy_us(copied),
                     floor = copying * ((double)wanted.bytes / (double)copied) * size;
        printf("%s, %d ranks (%s)%s: allreduce of %zu bytes %.1f us; floor %.1f us (copies at %.0f "
               "GB/s, "
               "read and written); floor/time %.2f\n",
               device->name, size, wanted.threads > 0 ? "threads" : "processes",
               wanted.has_host_rank ? ", rank 0 on the host" : "", wanted.bytes, took, floor,
               2e-3 * (double)copied / copying, floor / took);
        printf("8 bytes: %.1f us; in a stream %.1f us\n", small, small_in_stream);
    }
    check(tutti_barrier(comm), "barrier");
    device->driver->free_stream(device, stream);
    if (on_device) {
        device->kind.release(&device->kind, all_sent, room);
        device->kind.release(&device->kind, all_received, room);
    } else {
        free(all_sent);
        free(all_received);
    }
}

struct thread {
    pthread_t id;
    int rank;
    const struct tutti_id *job;
};

static void *run_thread(void *argument)
{
    const struct thread *const thread = argument;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    options.rank = thread->rank;
    options.size = wanted.threads;
    options.id = thread->job;
    check(tutti_comm_create(&options, &comm), "comm_create");
    measure(comm);
    check(tutti_comm_free(comm), "comm_free");
    return NULL;
}

static void run_threads(void)
{
    enum { THREADS_MAX = 64 };
    struct thread threads[THREADS_MAX];
    struct tutti_id job;
    if (wanted.threads > THREADS_MAX) wanted.threads = THREADS_MAX;
    check(tutti_id_create(&job), "id_create");
    for (int i = 0; i < wanted.threads; i++) {
        threads[i] = (struct thread){.rank = i, .job = &job};
        if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0) fail("a thread");
    }
    for (int i = 0; i < wanted.threads; i++) pthread_join(threads[i].id, NULL);
}

int main(int argument_count, char **arguments)
{
    for (int option; (option = getopt(argument_count, arguments, "t:b:n:d:ck")) != -1;)
        switch (option) {
        case 't': wanted.threads = atoi(optarg); break;
        case 'b': wanted.bytes = strtoull(optarg, NULL, 10) / 8 * 8; break;
        case 'n': wanted.rounds = atoi(optarg); break;
        case 'd': wanted.device = atoi(optarg); break;
        case 'c': wanted.has_host_rank = true; break;
        case 'k': wanted.is_skewed = true; break;
        default:
            fprintf(stderr,
                    "usage: devices [-t THREADS] [-b BYTES] [-n ROUNDS] [-d DEVICE] [-c] [-k]\n");
            return 2;
        }
    if (wanted.rounds < 1 || wanted.rounds > ROUNDS_MAX || wanted.bytes < 8) return 2;
    open_device();
    if (wanted.threads > 0) {
        run_threads();
        return 0;
    }
    struct tutti_comm *comm;
    check(tutti_comm_create(NULL, &comm), "comm_create");
    measure(comm);
    check(tutti_comm_free(comm), "comm_free");
    return 0;
}

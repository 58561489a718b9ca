#include "front/start.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "front/comm.h"

enum state { NOT_STARTED, STARTING, STARTED, FINALIZED };

/* One of this process. */
struct device {
    struct tutti_comm *comm; /* of all devices of the job */
    atomic_bool is_taken;
};

/* Written while STARTING, by one thread; read from STARTED on. The release store of the state pairs
 * with the acquire loads. */
static atomic_int state;
static int process, process_count, device_count;
static struct device *devices;
static _Atomic(char *) failure; /* why the last start failed; never freed, for who reads it */

static _Atomic(int (*)(char *, size_t)) starter;
static atomic_int calls_inside; /* between front_enter and front_leave */

enum {
    DEVICES_MAX = 1024,
    DEVICE_WAIT_NS = 200 * 1000,
    DEVICE_WAITS_MAX = 300 * 5000, /* 300 s in all */
    DRAIN_NS = 1000 * 1000,
    DRAINS_MAX = 10 * 1000 /* 10 s in all */
};

/* -------------------------------------------------------------------------------------- joining */

/* A thread for each device but the first: all block until all have come. */
struct joining {
    const struct tutti_jax_options *options;
    int index;
    pthread_t thread;
    enum tutti_status status;
    char message[FRONT_ERROR_BYTES];
};

static void *join_job(void *argument)
{
    struct joining *joining = argument;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    const struct tutti_comm_options *given = NULL;
    if (joining->options->store != NULL) {
        options.rank = process * device_count + joining->index;
        options.size = process_count * device_count;
        options.store = joining->options->store;
        given = &options;
    }
    joining->status = tutti_comm_create(given, &devices[joining->index].comm);
    if (joining->status != TUTTI_OK)
        snprintf(joining->message, sizeof(joining->message), "%s: %s",
                 tutti_status_name(joining->status), tutti_error_message());
    return NULL;
}

/* Signals are for the program's own threads. */
static int create_quiet_thread(struct joining *joining)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&joining->thread, NULL, join_job, joining);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static enum tutti_status join_all(const struct tutti_jax_options *options, char *message,
                                  size_t message_bytes)
{
    struct joining *all = calloc((size_t)device_count, sizeof(*all));
    devices = calloc((size_t)device_count, sizeof(*devices));
    enum tutti_status status = TUTTI_NO_MEMORY;
    snprintf(message, message_bytes, "no memory for %d devices", device_count);
    if (all == NULL || devices == NULL) goto free_all;
    int started = 1;
    while (started < device_count) {
        all[started] = (struct joining){.options = options, .index = started};
        const int error = create_quiet_thread(&all[started]);
        /* Without this device nobody's call succeeds, so those that wait go on until the start-up
         * deadline at most. */
        if (error != 0) {
            snprintf(message, message_bytes, "no thread for device %d: %s", started,
                     strerror(error));
            break;
        }
        started++;
    }
    status = TUTTI_SYSTEM;
    if (started == device_count) {
        all[0] = (struct joining){.options = options};
        join_job(&all[0]);
        status = all[0].status;
        snprintf(message, message_bytes, "%s", all[0].message);
    }
    for (int i = 1; i < started; i++) {
        pthread_join(all[i].thread, NULL);
        if (status == TUTTI_OK && all[i].status != TUTTI_OK) {
            status = all[i].status;
            snprintf(message, message_bytes, "%s", all[i].message);
        }
    }
free_all:
    free(all);
    return status;
}

static void free_devices(void)
{
    for (int i = 0; devices != NULL && i < device_count; i++) tutti_comm_free(devices[i].comm);
    free(devices);
    devices = NULL;
}

static enum tutti_status read_options(const struct tutti_jax_options *options, char *message,
                                      size_t message_bytes)
{
    if (options->size_bytes != sizeof(*options) || options->process_count < 1 ||
        options->process < 0 || options->process >= options->process_count ||
        options->device_count < 1 || options->device_count > DEVICES_MAX ||
        (options->store == NULL && options->device_count != 1)) {
        snprintf(message, message_bytes, "process %d of %d with %d devices cannot join a job",
                 options->process, options->process_count, options->device_count);
        return TUTTI_INVALID_OPTIONS;
    }
    process = options->process;
    process_count = options->process_count;
    device_count = options->device_count;
    return TUTTI_OK;
}

static enum tutti_status start(const struct tutti_jax_options *options, char *message,
                               size_t message_bytes)
{
    struct tutti_jax_options launched = {sizeof(launched), 0, 1, 1, NULL};
    if (options == NULL) {
        if (tutti_launcher(&launched.process, &launched.process_count) == NULL) {
            snprintf(message, message_bytes, "%s", tutti_error_message());
            return TUTTI_INVALID_OPTIONS;
        }
        options = &launched;
    }
    enum tutti_status status = read_options(options, message, message_bytes);
    if (status == TUTTI_OK) status = join_all(options, message, message_bytes);
    if (status != TUTTI_OK) free_devices();
    return status;
}

/* The message for all threads that ask later. */
static void keep_failure(const char *message)
{
    char *copy = strdup(message);
    if (copy != NULL) atomic_store(&failure, copy);
    front_log("%s", message);
}

enum tutti_status tutti_jax_start(const struct tutti_jax_options *options)
{
    int before = NOT_STARTED;
    if (!atomic_compare_exchange_strong(&state, &before, STARTING)) {
        front_fail(FRONT_ERR_OTHER, "MPI_Init_thread", "%s",
                   before == FINALIZED ? "MPI_Finalize was called"
                                       : "this process has joined the job already");
        return TUTTI_INVALID_OPTIONS;
    }
    char message[FRONT_ERROR_BYTES] = "";
    const enum tutti_status status = start(options, message, sizeof(message));
    if (status != TUTTI_OK) {
        front_fail(FRONT_ERR_OTHER, "MPI_Init_thread", "%s", message);
        keep_failure(tutti_jax_error());
    }
    atomic_store_explicit(&state, status == TUTTI_OK ? STARTED : NOT_STARTED, memory_order_release);
    return status;
}

void tutti_jax_set_starter(int (*new_starter)(char *message, size_t message_bytes))
{
    atomic_store(&starter, new_starter);
}

/* ------------------------------------------------------------------------------------------ MPI */

int MPIABI_Init_thread(int *argument_count, char ***arguments, int required, int *provided)
{
    (void)argument_count, (void)arguments, (void)required;
    if (provided != NULL) *provided = FRONT_THREAD_MULTIPLE;
    int (*const own)(char *, size_t) = atomic_load(&starter);
    if (own == NULL) return tutti_jax_start(NULL) == TUTTI_OK ? FRONT_SUCCESS : FRONT_ERR_OTHER;
    char message[FRONT_ERROR_BYTES] = "";
    if (own(message, sizeof(message)) == 0) return FRONT_SUCCESS;
    message[sizeof(message) - 1] = '\0';
    if (message[0] == '\0') return FRONT_ERR_OTHER; /* tutti_jax_start has said it */
    front_fail(FRONT_ERR_OTHER, "MPI_Init_thread", "%s", message);
    keep_failure(tutti_jax_error());
    return FRONT_ERR_OTHER;
}

int MPIABI_Init(int *argument_count, char ***arguments)
{
    return MPIABI_Init_thread(argument_count, arguments, FRONT_THREAD_MULTIPLE, NULL);
}

int MPIABI_Initialized(int *flag)
{
    const int now = atomic_load_explicit(&state, memory_order_acquire);
    *flag = now == STARTED || now == FINALIZED;
    return FRONT_SUCCESS;
}

int MPIABI_Finalize(void)
{
    int before = STARTED;
    if (!atomic_compare_exchange_strong(&state, &before, FINALIZED))
        return front_require_start("MPI_Finalize");
    /* XLA finalizes when the program exits, and its threads may still be in a call. New ones are
     * refused by now. */
    for (int waits = 0; atomic_load(&calls_inside) > 0; waits++) {
        if (waits == DRAINS_MAX) return FRONT_SUCCESS; /* the communicators end with the process */
        const struct timespec pause = {0, DRAIN_NS};
        nanosleep(&pause, NULL);
    }
    /* The memory is given back, and the other ranks hear that this one left. */
    front_comms_free();
    free_devices();
    return FRONT_SUCCESS;
}

int MPIABI_Finalized(int *flag)
{
    *flag = front_is_finalized();
    return FRONT_SUCCESS;
}

bool front_is_finalized(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) == FINALIZED;
}

int MPIABI_Query_thread(int *provided)
{
    *provided = FRONT_THREAD_MULTIPLE;
    return FRONT_SUCCESS;
}

int MPIABI_Is_thread_main(int *flag)
{
    *flag = 1;
    return FRONT_SUCCESS;
}

int MPIABI_Get_version(int *version, int *subversion)
{
    *version = 3;
    *subversion = 1;
    return FRONT_SUCCESS;
}

int MPIABI_Get_library_version(char *version, int *length)
{
    *length = sprintf(version, "Tutti %s, its front for JAX", tutti_version_text());
    return FRONT_SUCCESS;
}

int MPIABI_Get_processor_name(char *name, int *length)
{
    enum { NAME_BYTES = 256 }; /* MPI_MAX_PROCESSOR_NAME of MPItrampoline's ABI */
    if (gethostname(name, NAME_BYTES) != 0)
        return front_fail(FRONT_ERR_OTHER, "MPI_Get_processor_name", "the host has no name");
    name[NAME_BYTES - 1] = '\0';
    *length = (int)strlen(name);
    return FRONT_SUCCESS;
}

double MPIABI_Wtime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double MPIABI_Wtick(void)
{
    return 1e-9;
}

intptr_t MPIABI_Aint_add(intptr_t base, intptr_t displacement)
{
    return (intptr_t)((uintptr_t)base + (uintptr_t)displacement);
}

intptr_t MPIABI_Aint_diff(intptr_t left, intptr_t right)
{
    return (intptr_t)((uintptr_t)left - (uintptr_t)right);
}

/* ------------------------------------------------------------------------------ for other files */

int front_require_start(const char *function)
{
    const int now = atomic_load(&state);
    if (now == STARTED) return FRONT_SUCCESS;
    if (now == FINALIZED) return front_fail(FRONT_ERR_OTHER, function, "MPI_Finalize was called");
    const char *why = atomic_load(&failure);
    return front_fail(FRONT_ERR_OTHER, function, "%s",
                      why != NULL ? why : "MPI_Init_thread was not called");
}

int front_enter(const char *function)
{
    atomic_fetch_add(
        &calls_inside,
        1); /* before the look at the state: MPI_Finalize writes that, and then looks here */
    const int error = front_require_start(function);
    return error == FRONT_SUCCESS ? FRONT_SUCCESS : front_leave(error);
}

int front_leave(int error)
{
    atomic_fetch_sub(&calls_inside, 1);
    return error;
}

void front_job(int *own, int *all)
{
    *own = process;
    *all = process_count;
}

int front_device_take(const char *function, struct tutti_comm **device)
{
    for (int waits = 0; waits < DEVICE_WAITS_MAX; waits++) {
        for (int i = 0; i < device_count; i++) {
            if (!atomic_exchange_explicit(&devices[i].is_taken, true, memory_order_acquire)) {
                *device = devices[i].comm;
                return FRONT_SUCCESS;
            }
        }
        const struct timespec pause = {0, DEVICE_WAIT_NS};
        nanosleep(&pause, NULL);
    }
    return front_fail(FRONT_ERR_OTHER, function,
                      "more threads make communicators than this process has devices, which are "
                      "%d: set the number of devices "
                      "before the backend starts (jax_num_cpu_devices)",
                      device_count);
}

void front_device_give_back(struct tutti_comm *device)
{
    for (int i = 0; i < device_count; i++)
        if (devices[i].comm == device)
            atomic_store_explicit(&devices[i].is_taken, false, memory_order_release);
}

int front_world(const char *function, struct tutti_comm **world)
{
    if (device_count != 1)
        return front_fail(FRONT_ERR_COMM, function,
                          "MPI_COMM_WORLD has no operations where processes have several devices");
    *world = devices[0].comm;
    return FRONT_SUCCESS;
}

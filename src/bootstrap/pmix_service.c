#include "bootstrap/pmix_service.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "os/turn.h"

/* The functions that we call, as pmix.h declares them. */
#define FUNCTIONS(X) \
    X(Init) X(Finalize) X(Put) X(Commit) X(Fence_nb) X(Get) X(Get_nb) X(Error_string) X(Get_version)

struct functions {
#define X(name) __typeof__(&PMIx_##name) name;
    FUNCTIONS(X)
#undef X
};

struct pmix_service {
    struct functions pmix;
    pmix_proc_t self;
    bool is_broken;
};

/* This process's one use of PMIx: invariant 2. */
static struct {
    struct turn turn; /* of who connects */
    pid_t process;    /* that connects; 0: none yet */
    struct functions pmix;
    pmix_proc_t self;
} connection;

/* -------------------------------------------------------------------------------------- loading */

static enum tutti_status load(struct functions *functions)
{
    /* Beside an MPI library it is there already; with its symbols to itself, its plug-ins would not
     * find them. */
    void *const library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (library == NULL)
        return error_set(TUTTI_UNSUPPORTED, "PMIx cannot be loaded (Debian: libpmix2): %.200s",
                         dlerror());
    const char *missing = NULL;
#define X(name)                                                          \
    {                                                                    \
        void *const symbol = dlsym(library, "PMIx_" #name);              \
        static_assert(sizeof symbol == sizeof functions->name, "POSIX"); \
        memcpy(&functions->name, &symbol, sizeof symbol);                \
        if (symbol == NULL) missing = "PMIx_" #name;                     \
    }
    FUNCTIONS(X)
#undef X
    dlclose(library); /* stays, see RTLD_NODELETE */
    if (missing != NULL)
        return error_set(TUTTI_UNSUPPORTED, "libpmix.so.2 here has no %s", missing);
    return TUTTI_OK;
}

enum tutti_status pmix_service_version(const char **version)
{
    struct functions pmix;
    *version = NULL;
    TRY(load(&pmix));
    *version = pmix.Get_version();
    return TUTTI_OK;
}

static enum tutti_status failed(const struct functions *pmix, const char *what, pmix_status_t status)
{
    return error_set(status == PMIX_ERR_TIMEOUT ? TUTTI_INIT_TIMEOUT : TUTTI_SYSTEM,
                     "PMIx: %s failed: %s", what, pmix->Error_string(status));
}

/* --------------------------------------------------------------------- answers that may be late */

/* The thread that waits and PMIx's thread share this; PMIx's thread also reads the arguments until
 * it answers. The last of the two frees it. */
struct pending {
    pmix_proc_t process;
    pmix_key_t key;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done, is_left;
    pmix_status_t status;
    pmix_data_type_t type;
    size_t value_bytes;
    unsigned char value[]; /* of value_room bytes */
};

static struct pending *pending_create(size_t value_room)
{
    struct pending *pending = calloc(1, sizeof *pending + value_room);
    if (pending == NULL) return NULL;
    pthread_cond_init(&pending->changed, NULL);
    pthread_mutex_init(&pending->lock, NULL);
    pending->value_bytes = value_room;
    return pending;
}

static void pending_free(struct pending *pending)
{
    pthread_cond_destroy(&pending->changed);
    pthread_mutex_destroy(&pending->lock);
    free(pending);
}

/* On PMIx's thread. */
static void finish(pmix_status_t status, const pmix_value_t *value, struct pending *pending)
{
    pthread_mutex_lock(&pending->lock);
    pending->status = status;
    if (value != NULL) {
        pending->type = value->type;
        const size_t room = pending->value_bytes;
        if (value->type == PMIX_BYTE_OBJECT) pending->value_bytes = value->data.bo.size;
        if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size <= room && value->data.bo.size > 0)
            memcpy(pending->value, value->data.bo.bytes, value->data.bo.size);
    }
    pending->is_done = true;
    const bool is_left = pending->is_left;
    pthread_cond_signal(&pending->changed);
    pthread_mutex_unlock(&pending->lock);
    if (is_left) pending_free(pending);
}

static void on_fence(pmix_status_t status, void *pending)
{
    finish(status, NULL, pending);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *pending)
{
    finish(status, value, pending);
}

/* True: *status is the answer and pending the caller's again. False: it is too late, pending is
 * gone. */
static bool await(struct pending *pending, uint64_t deadline_ns, pmix_status_t *status)
{
    const struct timespec until = {(time_t)(deadline_ns / 1000000000u),
                                   (long)(deadline_ns % 1000000000u)};
    pthread_mutex_lock(&pending->lock);
    int error = 0;
    while (!pending->is_done && error != ETIMEDOUT)
        error = pthread_cond_clockwait(&pending->changed, &pending->lock, CLOCK_MONOTONIC, &until);
    const bool is_done = pending->is_done;
    *status = pending->status;
    pending->is_left = !is_done;
    pthread_mutex_unlock(&pending->lock);
    return is_done;
}

/* -------------------------------------------------------------------------------------- service */

static pmix_proc_t process_of(const struct pmix_service *service, pmix_rank_t rank)
{
    pmix_proc_t process = service->self;
    process.rank = rank;
    return process;
}

static enum tutti_status check_place(const struct pmix_service *service, int rank, int size)
{
    const pmix_proc_t job = process_of(service, PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    const pmix_status_t status = service->pmix.Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS) return failed(&service->pmix, "asking for the job's size", status);
    const bool is_known = value->type == PMIX_UINT32;
    const uint32_t job_size = is_known ? value->data.uint32 : 0;
    if (is_known) free(value); /* a plain number: nothing hangs on it */
    if (is_known && job_size == (uint32_t)size && service->self.rank == (pmix_rank_t)rank)
        return TUTTI_OK;
    return error_set(
        TUTTI_INVALID_RANK,
        "PMIx knows this process as rank %u of %u, the launcher's variables say rank %d "
        "of %d",
        service->self.rank, job_size, rank, size);
}

static void leave(void)
{
    if (connection.process == getpid()) connection.pmix.Finalize(NULL, 0);
}

static enum tutti_status connect_now(void)
{
    TRY(load(&connection.pmix));
    const pmix_status_t status = connection.pmix.Init(&connection.self, NULL, 0);
    if (status != PMIX_SUCCESS) return failed(&connection.pmix, "connecting to the server", status);
    return TUTTI_OK;
}

/* With the turn. Whose connection it is, is known before it is made: so a child that is forked
 * meanwhile is refused. */
static enum tutti_status connect_once(void)
{
    if (connection.process == getpid()) return TUTTI_OK;
    if (connection.process != 0)
        return error_set(
            TUTTI_UNSUPPORTED,
            "PMIx: this process was forked from one that uses it; the server knows that "
            "one alone");
    /* Without a server PMIx would make a job of one of us. */
    if (getenv("PMIX_NAMESPACE") == NULL)
        return error_set(TUTTI_UNSUPPORTED, "PMIx: PMIX_NAMESPACE is not set: no server here");
    connection.process = getpid();
    const enum tutti_status status = connect_now();
    if (status != TUTTI_OK) {
        connection.process = 0;
        return status;
    }
    if (atexit(leave) != 0) return error_set(TUTTI_NO_MEMORY, "PMIx: nothing can be done at exit");
    return TUTTI_OK;
}

/* Finds the connection of this process, of which there is only one. */
static enum tutti_status find_connection(struct pmix_service *opened, uint64_t deadline_ns)
{
    if (turn_take(&connection.turn, deadline_ns) == TURN_LATE)
        return error_set(TUTTI_INIT_TIMEOUT,
                         "PMIx: another thread of this process was still connecting to the server "
                         "at the deadline");
    const enum tutti_status status = connect_once();
    opened->pmix = connection.pmix;
    opened->self = connection.self;
    turn_give(&connection.turn);
    return status;
}

enum tutti_status pmix_service_open(int rank, int size, uint64_t deadline_ns,
                                    struct pmix_service **service)
{
    *service = NULL;
    struct pmix_service *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return error_set(TUTTI_NO_MEMORY, "PMIx: out of memory");
    enum tutti_status status = find_connection(opened, deadline_ns);
    if (status == TUTTI_OK) status = check_place(opened, rank, size);
    if (status != TUTTI_OK) {
        free(opened);
        return status;
    }
    *service = opened;
    return TUTTI_OK;
}

enum tutti_status pmix_service_put(struct pmix_service *service, const char *key, const void *value,
                                   size_t value_bytes)
{
    pmix_value_t wrapped = {.type = PMIX_BYTE_OBJECT};
    wrapped.data.bo.bytes = (char *)value;
    wrapped.data.bo.size = value_bytes;
    const pmix_status_t status = service->pmix.Put(PMIX_GLOBAL, key, &wrapped);
    return status == PMIX_SUCCESS ? TUTTI_OK : failed(&service->pmix, "putting a key", status);
}

enum tutti_status pmix_service_fence(struct pmix_service *service, uint64_t deadline_ns)
{
    if (service->is_broken)
        return error_set(TUTTI_INIT_TIMEOUT, "PMIx: an earlier fence ran out of time");
    pmix_status_t status = service->pmix.Commit();
    if (status != PMIX_SUCCESS) return failed(&service->pmix, "handing in the keys", status);
    struct pending *pending = pending_create(0);
    if (pending == NULL) return error_set(TUTTI_NO_MEMORY, "PMIx: out of memory");
    pending->process = process_of(service, PMIX_RANK_WILDCARD);
    static const pmix_info_t collect = {.key = PMIX_COLLECT_DATA,
                                        .value = {.type = PMIX_BOOL, .data = {.flag = true}}};
    status = service->pmix.Fence_nb(&pending->process, 1, &collect, 1, on_fence, pending);
    if (status != PMIX_SUCCESS) { /* at once, also when it succeeded: nobody calls back */
        pending_free(pending);
        return status == PMIX_OPERATION_SUCCEEDED ? TUTTI_OK
                                                  : failed(&service->pmix, "a fence", status);
    }
    if (!await(pending, deadline_ns, &status)) {
        service->is_broken = true;
        return error_set(TUTTI_INIT_TIMEOUT,
                         "PMIx: not all ranks came to the fence by the deadline");
    }
    pending_free(pending);
    return status == PMIX_SUCCESS ? TUTTI_OK : failed(&service->pmix, "a fence", status);
}

static enum tutti_status take_value(const struct pending *pending, int rank, const char *key,
                                    void *buffer, size_t buffer_bytes, size_t *value_bytes)
{
    if (pending->type != PMIX_BYTE_OBJECT)
        return error_set(TUTTI_AUTH_FAILED, "PMIx: rank %d's %s is not what Tutti puts", rank, key);
    if (pending->value_bytes > buffer_bytes)
        return error_set(TUTTI_INVALID_OPTIONS, "PMIx: rank %d's %s has %zu bytes, not %zu", rank,
                         key, pending->value_bytes, buffer_bytes);
    memcpy(buffer, pending->value, pending->value_bytes);
    *value_bytes = pending->value_bytes;
    return TUTTI_OK;
}

enum tutti_status pmix_service_get(struct pmix_service *service, int rank, const char *key,
                                   void *buffer, size_t buffer_bytes, size_t *value_bytes,
                                   uint64_t deadline_ns)
{
    struct pending *pending = pending_create(buffer_bytes);
    if (pending == NULL) return error_set(TUTTI_NO_MEMORY, "PMIx: out of memory");
    pending->process = process_of(service, (pmix_rank_t)rank);
    snprintf(pending->key, sizeof pending->key, "%s", key);
    pmix_status_t got =
        service->pmix.Get_nb(&pending->process, pending->key, NULL, 0, on_value, pending);
    if (got != PMIX_SUCCESS) {
        pending_free(pending);
        return failed(&service->pmix, "getting a key", got);
    }
    if (!await(pending, deadline_ns, &got))
        return error_set(TUTTI_INIT_TIMEOUT, "PMIx: rank %d's %s did not come by the deadline",
                         rank, key);
    enum tutti_status status;
    if (got != PMIX_SUCCESS)
        status = failed(&service->pmix, "getting a key", got);
    else
        status = take_value(pending, rank, key, buffer, buffer_bytes, value_bytes);
    pending_free(pending);
    return status;
}

void pmix_service_close(struct pmix_service *service)
{
    free(service); /* the connection stays: invariant 2 */
}

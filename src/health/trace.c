#include "health/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/encoding.h"
#include "base/log.h"
#include "base/op.h"
#include "base/option.h"
#include "base/status.h"
#include "health/deaths.h"
#include "health/health.h"
#include "health/json_write.h"
#include "health/trace_choices.h"
#include "os/clock.h"
#include "os/file.h"

enum { QUERIED_ENTRIES = 16, VERSION = 1 };
/* The time for a file system to take a dump: when nobody asked for a dump, a call that has failed
 * waits for it. */
static const uint64_t UNASKED_NS = 2000000000u, ASKED_NS = 30000000000u;
static_assert((int)RECORD_SEND == (int)METRICS_SEND && (int)RECORD_KINDS == (int)METRICS_KINDS,
              "one numbering of kinds");

/* ----------------------------------------------------------------------------------------- JSON */

/* Readers of JSON have signed integers. */
static uint64_t shown(uint64_t count)
{
    return count < INT64_MAX ? count : INT64_MAX;
}

static void put_rank(FILE *file, const struct health *health, int rank)
{
    fprintf(file, "{\"rank\": %d, \"host\": ", rank);
    char host_name[DISCOVERY_HOST_NAME_MAX];
    team_host_name_of(health->team, rank, host_name);
    json_write_text(file, host_name);
    fprintf(file, ", \"pid\": %d", health_pid_of(health, rank));
}

/* The end of an entry, which is the same for calls and messages. */
static void put_times(FILE *file, const struct health *health, const struct record *record)
{
    fprintf(file, ", \"begin_ns\": %" PRIu64, record->begin_ns);
    if (record->end_ns == 0)
        fputs(", \"state\": \"running\"", file);
    else
        fprintf(file, ", \"end_ns\": %" PRIu64 ", \"state\": \"%s\"", record->end_ns,
                record->status == TUTTI_OK ? "done" : tutti_status_name(record->status));
    if (record->is_gated) fputs(", \"waits_for_gate\": true", file);
    if (record->waits_for >= 0 && record->waits_for < health->team->size) {
        fputs(", \"waits_for\": ", file);
        put_rank(file, health, record->waits_for);
        fprintf(file, ", \"since_ns\": %" PRIu64 "%s}", record->waits_since_ns,
                record->is_stopped ? ", \"stopped\": true" : "");
    }
    fputs("}", file);
}

static void put_paths(FILE *file, unsigned bits)
{
    struct path_list paths = {.count = 0};
    char text[128];
    for (int path = 0; path < PATH_KIND_COUNT; path++)
        if ((bits & path_bit((unsigned)path)) != 0) path_add(&paths, (enum path_kind)path);
    path_describe(&paths, text, sizeof text);
    fprintf(file, ", \"ways\": \"%s\"", text);
}

static void put_call(FILE *file, const struct health *health, const struct record *record)
{
    const enum collective collective = (enum collective)(record->kind % COLLECTIVE_COUNT);
    fprintf(file, "{\"sequence\": %" PRIu64 ", \"call\": \"%s%s\", \"started\": %s", record->number,
            collective_name(collective), record->varies ? "v" : "",
            record->started ? "true" : "false");
    if (collective != COLLECTIVE_BARRIER)
        fprintf(file, ", \"count\": %" PRIu64 ", \"dtype\": \"%s\"", shown(record->count),
                tutti_dtype_name((enum tutti_dtype)record->dtype));
    if (collective_reduces(collective))
        fprintf(file, ", \"op\": \"%s\"", op_kind_name((enum op)(record->op % OP_COUNT)));
    if (collective_is_rooted(collective)) fprintf(file, ", \"root\": %d", record->root);
    if (record->algorithm != NULL) {
        fputs(", \"algorithm\": ", file);
        json_write_name(file, record->algorithm);
        fprintf(file, ", \"signature\": \"%016" PRIx64 "\", \"slot\": %u", record->signature,
                record->slot);
        trace_put_expected(file, &health->choices, record);
    }
    if (record->paths != 0) put_paths(file, record->paths);
    put_times(file, health, record);
}

static void put_message(FILE *file, const struct health *health, const struct record *record)
{
    fprintf(file,
            "{\"number\": %" PRIu64 ", \"call\": \"%s\", \"count\": %" PRIu64
            ", \"dtype\": \"%s\", \"peer\": %d, \"tag\": %d",
            record->number, record_kind_name(record->kind), shown(record->count),
            tutti_dtype_name((enum tutti_dtype)record->dtype), record->root,
            (int)(int64_t)record->signature);
    if (record->op != TUTTI_ENCODING_NONE)
        fprintf(file, ", \"encoding\": \"%s\"",
                tutti_encoding_name((enum tutti_encoding)record->op));
    put_times(file, health, record);
}

typedef void put_entry(FILE *file, const struct health *health, const struct record *record);

/* The last ones, at most `entries_max`, and those before them that are under way. */
static void put_entries(FILE *file, const struct health *health, const struct recorder *recorder,
                        uint64_t last, unsigned entries_max, put_entry *put)
{
    const char *between = "\n  ";
    unsigned extra = 0;
    for (uint64_t number = recorder_first(last); last > 0 && number <= last; number++) {
        struct record record;
        if (!recorder_read(recorder, number, &record)) continue;
        const bool is_late = last - number < entries_max;
        const bool is_extra = !is_late && record.end_ns == 0 && extra < QUERIED_ENTRIES;
        if (!is_late && !is_extra) continue;
        extra += is_extra;
        fputs(between, file);
        put(file, health, &record);
        between = ",\n  ";
    }
}

static void put_failure(FILE *file, const struct health *health)
{
    struct tutti_failure failure;
    if (board_failure(health->board, &failure) == TUTTI_OK) return;
    fprintf(file, " \"failure\": {\"status\": \"%s\", \"reporter\": %d, \"sequence\": %" PRIu64,
            tutti_status_name(failure.status), failure.reporter, failure.sequence);
    if (failure.culprit >= 0 && failure.culprit < health->team->size) {
        fputs(", \"culprit\": ", file);
        put_rank(file, health, failure.culprit);
        fputs("}", file);
    }
    fputs(", \"message\": ", file);
    json_write_text(file, failure.message);
    fputs("},\n", file);
}

static uint64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void put_numbers(FILE *file, const struct trace *trace)
{
    static const char *const names[TRACE_NUMBERS] = {[TRACE_LATENCY_RACK] = "latency_rack_ps",
                                                     [TRACE_LATENCY_CLUSTER] = "latency_cluster_ps",
                                                     [TRACE_CARD_BYTE] = "card_byte_fs",
                                                     [TRACE_UPLINK_BYTE] = "uplink_byte_fs"};
    const char *before = ", \"measured\": {", *end = "";
    for (int i = 0; i < TRACE_NUMBERS; i++) {
        const uint64_t value = atomic_load_explicit(&trace->numbers[i], memory_order_relaxed);
        if (value == 0) continue;
        fprintf(file, "%s\"%s\": %" PRIu64, before, names[i], shown(value));
        before = ", ";
        end = "}";
    }
    fputs(end, file);
}

/* Writes what the choice of algorithms knows of the machines, besides the names of hosts. */
static void put_machines(FILE *file, const struct health *health)
{
    const int cores = health->team->members.core_count;
    const int rack = atomic_load_explicit(&health->trace.rack, memory_order_relaxed);
    const int cores_of = atomic_load_explicit(&health->trace.cores_of, memory_order_relaxed);
    if (cores > 0) fprintf(file, ", \"cores\": %d", cores);
    if (rack >= 0) fprintf(file, ", \"rack\": %d", rack);
    if (cores_of >= 0) fprintf(file, ", \"same_cores_as\": %d", cores_of);
    put_numbers(file, &health->trace);
}

static void write_trace(const struct health *health, const char *reason, unsigned entries_max,
                        FILE *file)
{
    fprintf(file, "{\"tutti_trace\": %d, \"communicator\": \"%s\", \"rank\": %d, \"size\": %d,\n",
            VERSION, health->trace.id, health->team->rank, health->team->size);
    fputs(" \"host\": ", file);
    json_write_text(file, health->team->members.host_name);
    fprintf(file, ", \"pid\": %d, \"reason\": \"%s\"", (int)getpid(), reason);
    put_machines(file, health);
    fputs(",\n", file);
    fprintf(file, " \"wall_ns\": %" PRIu64 ", \"monotonic_ns\": %" PRIu64 ",\n", wall_ns(),
            clock_now_ns());
    const uint64_t calls = recorder_latest(&health->recorder);
    const uint64_t messages = recorder_latest(&health->message_recorder);
    fprintf(file, " \"calls\": %" PRIu64 ", \"messages_begun\": %" PRIu64 ",\n", calls, messages);
    put_failure(file, health);
    trace_put_choices(file, &health->choices, &health->recorder);
    fputs(" \"operations\": [", file);
    put_entries(file, health, &health->recorder, calls, entries_max, put_call);
    fputs("],\n \"messages\": [", file);
    put_entries(file, health, &health->message_recorder, messages, entries_max, put_message);
    fputs("]}\n", file);
}

/* ---------------------------------------------------------------------------------------- files */

/* With the lock held. */
static enum tutti_status dump(const struct health *health, const char *folder, const char *reason,
                              uint64_t timeout_ns)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/tutti-%s-rank%d.json", folder,
                                health->trace.id, health->team->rank);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(TUTTI_INVALID_OPTIONS, "a trace: the folder's name is too long");
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return error_set(TUTTI_NO_MEMORY, "a trace: out of memory");
    write_trace(health, reason, RECORDER_ENTRIES, file);
    if (fclose(file) != 0) {
        free(text);
        return error_set(TUTTI_NO_MEMORY, "a trace: out of memory");
    }
    return file_replace_within(folder, path, text, size, timeout_ns);
}

static void log_dump(struct health *health, enum tutti_status status)
{
    if (status != TUTTI_OK)
        log_write(LOG_WARN, "rank %d: no trace: %s", health->team->rank, tutti_error_message());
    else
        log_write(LOG_INFO, "rank %d: a trace lies in %s; `tutti-trace verdict` reads it",
                  health->team->rank, health->trace.folder);
}

/* Tells the monitors of the other processes of this host; the first thread that comes does it once.
 * A rank that leaves or ends right after a failure must not be too quick for its own monitor. */
static void tell_neighbours(struct health *health)
{
    if (!atomic_exchange_explicit(&health->trace.is_first, false, memory_order_relaxed)) return;
    int at = 0;
    for (pid_t pid; (pid = processes_next_pid(&health->processes, &at)) != 0;) monitor_look_at(pid);
}

void trace_dump_failure(struct health *health)
{
    struct trace *trace = &health->trace;
    if (trace->folder == NULL || !board_has_failed(health->board)) return;
    char message[640];
    error_copy(message, sizeof message);
    const int error = errno;
    tell_neighbours(health);
    pthread_mutex_lock(&trace->lock);
    if (!trace->is_dumped) {
        trace->is_dumped = true;
        log_dump(health, dump(health, trace->folder, "failure", UNASKED_NS));
    }
    pthread_mutex_unlock(&trace->lock);
    error_unless_ok(TUTTI_OK, message);
    errno = error;
}

enum tutti_status trace_dump(struct health *health, const char *folder)
{
    if (folder == NULL) folder = health->trace.folder;
    if (folder == NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_trace_dump: no folder is given, and TUTTI_TRACE_DIR is not set");
    pthread_mutex_lock(&health->trace.lock);
    const enum tutti_status status = dump(health, folder, "request", ASKED_NS);
    pthread_mutex_unlock(&health->trace.lock);
    return status;
}

/* ------------------------------------------------------------------------------ for the monitor */

static struct health *comm_of(struct monitor_client *client)
{
    return (struct health *)((char *)client - offsetof(struct health, trace.client));
}

static void describe(struct monitor_client *client, FILE *file)
{
    write_trace(comm_of(client), "query", QUERIED_ENTRIES, file);
}

static void look(struct monitor_client *client)
{
    struct health *health = comm_of(client);
    trace_dump_failure(health);
}

static void dump_on_signal(struct monitor_client *client)
{
    struct health *health = comm_of(client);
    const char *folder = health->trace.folder != NULL ? health->trace.folder : ".";
    pthread_mutex_lock(&health->trace.lock);
    log_dump(health, dump(health, folder, "signal", UNASKED_NS));
    pthread_mutex_unlock(&health->trace.lock);
}

static void add_counts(const struct recorder *recorder, struct metrics_counts *sum)
{
    for (int kind = 0; kind < METRICS_KINDS; kind++) {
        sum->calls[kind] +=
            atomic_load_explicit(&recorder->counts[kind].calls, memory_order_relaxed);
        sum->bytes[kind] +=
            atomic_load_explicit(&recorder->counts[kind].bytes, memory_order_relaxed);
    }
}

static void measure(struct monitor_client *client, struct metrics_counts *sum,
                    struct metrics_communicator *own)
{
    struct health *health = comm_of(client);
    add_counts(&health->recorder, sum);
    add_counts(&health->message_recorder, sum);
    sum->failures += board_has_failed(health->board);
    *own = (struct metrics_communicator){.rank = health->team->rank,
                                         .size = health->team->size,
                                         .sequence = recorder_latest(&health->recorder)};
    memcpy(own->id, health->trace.id, sizeof own->id);
    const uint64_t call_ns = recorder_done_ns(&health->recorder);
    const uint64_t message_ns = recorder_done_ns(&health->message_recorder);
    const uint64_t last_ns = call_ns > message_ns ? call_ns : message_ns, now_ns = clock_now_ns();
    own->held_ns = health->straggler.held_ns;
    own->has_completed = last_ns > 0;
    own->idle_seconds = last_ns > 0 && last_ns < now_ns ? (double)(now_ns - last_ns) * 1e-9 : 0;
}

/* ----------------------------------------------------------------------------------- life cycle */

enum tutti_status trace_init(struct health *health)
{
    struct trace *trace = &health->trace;
    const char *folder = option_text(OPTION_TRACE_DIR);
    pthread_mutex_init(&trace->lock, NULL);
    trace_set_machine(health, &(struct trace_machine){.rack = -1, .cores_of = -1});
    if (folder != NULL && (trace->folder = strdup(folder)) == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    return recorder_init(&health->recorder);
}

void trace_set_machine(struct health *health, const struct trace_machine *machine)
{
    struct trace *trace = &health->trace;
    atomic_store_explicit(&trace->rack, machine->rack, memory_order_relaxed);
    atomic_store_explicit(&trace->cores_of, machine->cores_of, memory_order_relaxed);
    for (int i = 0; i < TRACE_NUMBERS; i++)
        atomic_store_explicit(&trace->numbers[i], machine->numbers[i], memory_order_relaxed);
}

void trace_open(struct health *health)
{
    struct trace *trace = &health->trace;
    /* Communicators are derived from the identity, so another one is shown. */
    static const char what[] = "trace";
    struct rendezvous_key key;
    rendezvous_key_derive(&health->team->identity, what, sizeof what, &key);
    for (size_t i = 0; i < (sizeof trace->id - 1) / 2; i++)
        snprintf(trace->id + 2 * i, 3, "%02x", key.bytes[i]);
    trace->client = (struct monitor_client){
        .describe = describe, .look = look, .dump = dump_on_signal, .measure = measure};
    monitor_register(&trace->client);
}

void trace_close(struct health *health)
{
    trace_dump_failure(health); /* one that no call of this rank has met */
    monitor_unregister(&health->trace.client);
}

void trace_release(struct health *health)
{
    recorder_release(&health->recorder);
    recorder_release(&health->message_recorder);
    free(health->trace.folder);
}

void trace_tell_failure(struct health *health)
{
    if (health->trace.folder == NULL) return;
    atomic_store_explicit(&health->trace.is_first, true, memory_order_relaxed);
    monitor_look();
}

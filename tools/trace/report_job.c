#include "report_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const int64_t TIME_MAX_NS = INT64_C(1) << 53;

/* ---------------------------------------------------------------------------------------- dumps */

const struct trace_entry *report_open_entry(const struct trace_json *trace)
{
    for (size_t i = 0; i < trace->operation_count; i++)
        if (!trace_entry_is_done(&trace->operations[i])) return &trace->operations[i];
    for (size_t i = 0; i < trace->message_count;
         i++) { /* one that runs may be started, and wanted later */
        const struct trace_entry *entry = &trace->messages[i];
        const bool failed = trace_entry_is_over(entry) && !trace_entry_is_done(entry);
        if (failed || (!trace_entry_is_over(entry) && entry->waits_for >= 0)) return entry;
    }
    return NULL;
}

/* -------------------------------------------------------------------------------- communicators */

static enum tutti_status place_ranks(struct report_comm *comm)
{
    const size_t size = (size_t)comm->size;
    comm->by_rank = calloc(size, sizeof *comm->by_rank);
    comm->places = calloc(size, sizeof *comm->places);
    if (comm->by_rank == NULL || comm->places == NULL)
        return error_set(TUTTI_NO_MEMORY, "out of memory");
    for (size_t t = 0; t < comm->count; t++) {
        const struct trace_json *trace = &comm->traces[t];
        comm->by_rank[trace->own.rank] = trace;
        comm->places[trace->own.rank] = &trace->own;
    }
    for (size_t t = 0; t < comm->count; t++)
        for (int i = 0; i < comm->traces[t].place_count; i++) {
            const struct trace_place *place = &comm->traces[t].places[i];
            if (comm->places[place->rank] == NULL) comm->places[place->rank] = place;
        }
    return TUTTI_OK;
}

/* Times of hosts wrap around, and may be anything. */
static int64_t difference(uint64_t from_ns, uint64_t to_ns)
{
    const int64_t ns = (int64_t)(to_ns - from_ns);
    return ns > TIME_MAX_NS ? TIME_MAX_NS : ns < -TIME_MAX_NS ? -TIME_MAX_NS : ns;
}

static void cover(struct report_comm *comm, uint64_t ns, bool is_first)
{
    if (is_first) comm->begin_ns = comm->end_ns = ns;
    if (difference(comm->begin_ns, ns) < 0) comm->begin_ns = ns;
    if (difference(comm->end_ns, ns) > 0) comm->end_ns = ns;
}

static void find_times(struct report_comm *comm)
{
    comm->wall_ns = UINT64_MAX;
    for (size_t t = 0; t < comm->count; t++) {
        const struct trace_json *trace = &comm->traces[t];
        const uint64_t offset_ns = comm->measured.offsets_ns[t];
        if (trace->wall_ns > 0 && trace->wall_ns < comm->wall_ns) comm->wall_ns = trace->wall_ns;
        cover(comm, trace->monotonic_ns + offset_ns, t == 0);
        for (size_t i = 0; i < trace->operation_count; i++)
            cover(comm, trace->operations[i].begin_ns + offset_ns, false);
        for (size_t i = 0; i < trace->message_count; i++)
            cover(comm, trace->messages[i].begin_ns + offset_ns, false);
    }
}

int64_t report_time(const struct report_comm *comm, const struct trace_json *trace, uint64_t ns)
{
    const size_t t = (size_t)(trace - comm->traces);
    return difference(comm->begin_ns, ns + comm->measured.offsets_ns[t]);
}

static enum tutti_status judge(struct report_comm *comm, struct trace_json *traces, size_t count)
{
    *comm = (struct report_comm){.traces = traces, .size = traces->size};
    comm->count = trace_json_keep_newest(traces, count);
    comm->surplus_count = count - comm->count;
    TRY(place_ranks(comm));
    TRY(verdict_find(traces, comm->count, &comm->verdict)); /* they are sorted, and stay so */
    TRY(calls_find(traces, comm->count, &comm->measured));
    find_times(comm);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------ job */

static int by_verdict(const void *a, const void *b)
{
    const struct report_comm *left = a, *right = b;
    if (left->verdict.kind != right->verdict.kind)
        return left->verdict.kind > right->verdict.kind ? -1 : 1;
    if (left->size != right->size && left->verdict.kind == VERDICT_NOTHING)
        return left->size > right->size ? -1 : 1;
    if (left->wall_ns != right->wall_ns) return left->wall_ns < right->wall_ns ? -1 : 1;
    return strcmp(left->traces->communicator, right->traces->communicator);
}

static void release_comm(struct report_comm *comm)
{
    free(comm->by_rank);
    free(comm->places);
    calls_release(&comm->measured);
}

static enum tutti_status judge_all(struct report_job *job)
{
    struct trace_json *const all = job->traces.all;
    size_t begin = 0, length;
    job->comms = calloc(job->traces.count, sizeof *job->comms);
    if (job->comms == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    trace_json_sort(all, job->traces.count);
    for (; begin < job->traces.count; begin += length) {
        length = trace_json_group(all + begin, job->traces.count - begin);
        TRY(judge(&job->comms[job->count++], all + begin, length));
    }
    qsort(job->comms, job->count, sizeof *job->comms, by_verdict);
    while (job->count > REPORT_COMMUNICATORS_MAX) {
        release_comm(&job->comms[--job->count]);
        job->left_out++;
    }
    return TUTTI_OK;
}

static int by_process(const void *a, const void *b)
{
    const struct trace_place *const *left = a, *const *right = b;
    const int order = strcmp((*left)->host, (*right)->host);
    return order != 0 ? order : (*left)->pid - (*right)->pid;
}

void report_count_places(const struct report_job *job, size_t *hosts, size_t *processes)
{
    size_t room = 0, count = 0;
    *hosts = *processes = 0;
    for (size_t c = 0; c < job->count; c++) room += (size_t)job->comms[c].size;
    const struct trace_place **all = calloc(room + 1, sizeof *all);
    if (all == NULL) return;
    for (size_t c = 0; c < job->count; c++)
        for (int rank = 0; rank < job->comms[c].size; rank++)
            if (job->comms[c].places[rank] != NULL) all[count++] = job->comms[c].places[rank];
    qsort(all, count, sizeof *all, by_process);
    for (size_t i = 0; i < count; i++) {
        const bool is_new_host = i == 0 || strcmp(all[i]->host, all[i - 1]->host) != 0;
        *hosts += is_new_host;
        *processes += is_new_host || all[i]->pid != all[i - 1]->pid;
    }
    free(all);
}

bool report_job_judge(struct report_job *job)
{
    return judge_all(job) == TUTTI_OK || trace_complain("report: %s", tutti_error_message());
}

bool report_job_read(struct report_job *job, char **paths, int path_count)
{
    *job = (struct report_job){
        .traces = {.goes_on = true, .most = REPORT_DUMPS_MAX, .most_entries = REPORT_ENTRIES_MAX}};
    for (int i = 0; i < path_count; i++)
        if (!traces_add(&job->traces, paths[i])) return false;
    if (job->traces.count == 0) {
        for (size_t i = 0; i < job->traces.unread_count && i < UNREAD_NAMED_MAX; i++)
            trace_complain("%s: %s", job->traces.unread[i].path, job->traces.unread[i].why);
        return trace_complain("report: no dump can be read");
    }
    return report_job_judge(job);
}

void report_job_release(struct report_job *job)
{
    for (size_t c = 0; c < job->count; c++) release_comm(&job->comms[c]);
    free(job->comms);
    traces_release(&job->traces);
    *job = (struct report_job){.count = 0};
}

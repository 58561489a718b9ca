#include "profile.h"

#include <inttypes.h>

#include "clocks.h"

enum { LANES_MAX = 16, TAG = (1 << 20) + 1, PIECE_BYTES = 1 << 22 };
static const char *const axis_names[AXES] = {"pp", "dp", "tp", "ends", "all"};

/* --------------------------------------------------------------------------------- what is kept */

void profile_init(struct profile *profile, const struct mesh *mesh, struct timeline *timeline,
                  const char *path)
{
    *profile = (struct profile){.mesh = mesh, .timeline = timeline, .path = path};
    if (path == NULL) return;
    const bool is_first = tutti_comm_rank(mesh->world) == 0;
    int32_t error = 0;
    if (is_first && (profile->file = fopen(path, "w")) == NULL) error = errno;
    expect(tutti_broadcast(&error, &error, 1, TUTTI_INT32, 0, mesh->world), "opening the profile");
    if (error != 0) end_together(mesh->world, 0, path, strerror(error));
}

void profile_release(struct profile *profile)
{
    if (profile->file != NULL) fclose(profile->file);
    free(profile->operations);
}

/* The number of the next operation that begins. */
static uint64_t find_end(struct tutti_comm *comm, enum tutti_trace_of of)
{
    struct tutti_trace_entry entry = {.size_bytes = sizeof entry};
    uint64_t next = 1;
    for (;; next = entry.number + 1) {
        expect(tutti_trace_read(comm, of, next, &entry), "reading the flight recorder");
        if (entry.operation == NULL) return next;
    }
}

void profile_begin(struct profile *profile)
{
    if (profile->path == NULL) return;
    for (size_t t = 0; t < 2 * AXES; t++) {
        const struct axis axis = mesh_axis(profile->mesh, (enum mesh_axis)(t / 2));
        struct profile_track *track = &profile->tracks[t];
        *track = (struct profile_track){.comm = axis.size > 1 ? axis.comm : NULL,
                                        .of = (enum tutti_trace_of)(t % 2)};
        if (track->comm != NULL) track->next = find_end(track->comm, track->of);
    }
    profile->keeps = profile->timeline->keeps = true;
    profile->began_ns = timeline_now_ns();
}

static void keep(struct profile *profile, const struct tutti_trace_entry *entry, size_t track)
{
    if (profile->count == PROFILE_OPERATIONS_MAX) {
        profile->left_out++;
        return;
    }
    if (profile->count == profile->room) {
        profile->room = profile->room > 0 ? 2 * profile->room : 1024;
        profile->operations =
            realloc(profile->operations, profile->room * sizeof *profile->operations);
        if (profile->operations == NULL) give_up("memory", strerror(errno));
    }
    profile->operations[profile->count++] =
        (struct profile_operation){.entry = *entry, .track = (unsigned)track};
}

/* Up to the first one that is not over. */
static void read_track(struct profile *profile, size_t index)
{
    struct profile_track *track = &profile->tracks[index];
    struct tutti_trace_entry entry = {.size_bytes = sizeof entry};
    while (track->comm != NULL) {
        expect(tutti_trace_read(track->comm, track->of, track->next, &entry),
               "reading the flight recorder");
        if (entry.operation == NULL || entry.end_ns == 0) return;
        profile->left_out += entry.number - track->next; /* overtaken by newer ones */
        track->next = entry.number + 1;
        keep(profile, &entry, index);
    }
}

void profile_read(struct profile *profile)
{
    for (size_t t = 0; profile->keeps && t < 2 * AXES; t++) read_track(profile, t);
}

/* ----------------------------------------------------------------------------------- the events */

/* What is written, and how a moment of this rank is written. */
struct events {
    FILE *text;
    int rank;
    int64_t zero_ns; /* of this rank's clock */
};

static double microseconds(const struct events *events, uint64_t ns)
{
    return (double)((int64_t)ns - events->zero_ns) / 1000;
}

static void put_string(FILE *text, const char *string)
{
    fputc('"', text);
    for (const char *c = string; *c != '\0'; c++)
        if (*c == '"' || *c == '\\')
            fprintf(text, "\\%c", *c);
        else if ((unsigned char)*c < ' ')
            fprintf(text, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, text);
    fputc('"', text);
}

static void put_name(const struct events *events, const char *what, int thread, const char *name)
{
    fprintf(events->text,
            ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}",
            events->rank, thread, what, name);
}

/* All of an event but its arguments, and its end. */
static void put_event(const struct events *events, int thread, const char *sort, uint64_t begin_ns,
                      uint64_t end_ns)
{
    fprintf(events->text,
            ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", sort,
            events->rank, thread, microseconds(events, begin_ns),
            (double)(end_ns - begin_ns) / 1000);
}

static bool has_number(enum doing doing)
{
    return doing_sort(doing) == SORT_FRAME || doing == DOING_LAYER || doing == DOING_LAYER_AGAIN ||
           doing == DOING_LAYER_BACKWARD;
}

static void put_span(const struct events *events, const struct span *span)
{
    static const char *const sorts[] = {"frame", "computing", "waiting"};
    fprintf(events->text, ",\n{\"name\":\"%s", doing_name(span->doing));
    if (has_number(span->doing)) fprintf(events->text, " %u", span->number);
    fputc('"', events->text);
    put_event(events, 0, sorts[doing_sort(span->doing)], span->begin_ns, span->end_ns);
    fputc('}', events->text);
}

static void put_operation(const struct events *events, const struct profile_operation *operation,
                          int thread)
{
    const struct tutti_trace_entry *entry = &operation->entry;
    fprintf(events->text, ",\n{\"name\":");
    put_string(events->text, entry->operation);
    put_event(events, thread, "communication", entry->begin_ns, entry->end_ns);
    fprintf(events->text, ",\"args\":{\"axis\":\"%s\",\"bytes\":%" PRIu64,
            axis_names[operation->track / 2], entry->bytes);
    if (entry->algorithm != NULL) {
        fputs(",\"algorithm\":", events->text);
        put_string(events->text, entry->algorithm);
    }
    if (operation->track % 2 == TUTTI_TRACE_MESSAGES)
        fprintf(events->text, ",\"peer\":%d,\"tag\":%d", entry->peer, entry->tag);
    fputs("}}", events->text);
}

/* The lines of a track: operations that go on at once need one each. Numbers of lines are those of
 * threads. */
static void put_track(const struct events *events, const struct profile *profile, unsigned track)
{
    uint64_t ends_ns[LANES_MAX] = {0};
    const int first = 1 + (int)track * LANES_MAX;
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_operation *operation = &profile->operations[i];
        int lane = 0;
        if (operation->track != track) continue;
        while (lane < LANES_MAX - 1 && ends_ns[lane] > operation->entry.begin_ns) lane++;
        if (ends_ns[lane] == 0) {
            char name[32];
            snprintf(name, sizeof name, "%s%s", axis_names[track / 2],
                     track % 2 == TUTTI_TRACE_MESSAGES ? " messages" : "");
            put_name(events, "thread_name", first + lane, name);
        }
        ends_ns[lane] = operation->entry.end_ns;
        put_operation(events, operation, first + lane);
    }
}

static void put_rank(const struct events *events, const struct profile *profile)
{
    const struct mesh *mesh = profile->mesh;
    char name[96];
    snprintf(name, sizeof name, "rank %d: pp %zu, dp %zu, tp %zu", events->rank, mesh->stage.index,
             mesh->replica.index, mesh->slice.index);
    put_name(events, "process_name", 0, name);
    put_name(events, "thread_name", 0, "computing");
    for (size_t i = 0; i < profile->timeline->span_count; i++)
        put_span(events, &profile->timeline->spans[i]);
    for (unsigned track = 0; track < 2 * AXES; track++) put_track(events, profile, track);
}

/* ---------------------------------------------------------------------------------- to one file */

static void send_text(struct tutti_comm *world, const char *text, size_t size)
{
    const int64_t bytes = (int64_t)size;
    expect(tutti_send(&bytes, 1, TUTTI_INT64, 0, TAG, world), "sending the profile");
    for (size_t done = 0, piece; done < size; done += piece) {
        piece = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;
        expect(tutti_send(text + done, piece, TUTTI_UINT8, 0, TAG, world), "sending the profile");
    }
}

static void copy_text(struct tutti_comm *world, int from, char *buffer, FILE *file)
{
    int64_t bytes;
    expect(tutti_recv(&bytes, 1, TUTTI_INT64, from, TAG, NULL, world), "collecting the profile");
    for (size_t left = (size_t)bytes, piece; left > 0; left -= piece) {
        piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        expect(tutti_recv(buffer, piece, TUTTI_UINT8, from, TAG, NULL, world),
               "collecting the profile");
        fwrite(buffer, 1, piece, file);
    }
}

/* Of all ranks: the least, or the most, of a number. */
static int64_t agree(struct tutti_comm *world, int64_t number, tutti_op op)
{
    expect(tutti_allreduce(&number, &number, 1, TUTTI_INT64, op, world), "agreeing on clocks");
    return number;
}

static void write_file(const struct profile *profile, const char *text, size_t size,
                       int64_t error_ns, int64_t left_out)
{
    struct tutti_comm *world = profile->mesh->world;
    char *buffer = allocate(PIECE_BYTES, 1);
    fprintf(
        profile->file,
        "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"program\":\"gpt\",\"ranks\":%d,"
        "\"clocks differ by at most (us)\":%.3f,\"events left out\":%" PRId64
        "},\n\"traceEvents\":[{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_sort_index\","
        "\"args\":{\"sort_index\":0}}",
        tutti_comm_size(world), (double)error_ns / 1000, left_out);
    fwrite(text, 1, size, profile->file);
    for (int rank = 1; rank < tutti_comm_size(world); rank++)
        copy_text(world, rank, buffer, profile->file);
    fputs("]}\n", profile->file);
    free(buffer);
    if (fflush(profile->file) != 0 || ferror(profile->file))
        give_up(profile->path, strerror(errno));
}

void profile_write(struct profile *profile)
{
    if (profile->path == NULL) return;
    struct tutti_comm *world = profile->mesh->world;
    profile_read(profile);
    profile->keeps = profile->timeline->keeps = false;
    const struct clock_difference clock = clocks_compare(world);
    const int64_t zero_ns =
        agree(world, (int64_t)profile->began_ns - clock.ahead_ns, TUTTI_MIN) + clock.ahead_ns;
    const int64_t error_ns = agree(world, clock.error_ns, TUTTI_MAX);
    const int64_t left_out =
        agree(world, (int64_t)(profile->left_out + profile->timeline->left_out), TUTTI_SUM);

    struct events events = {.rank = tutti_comm_rank(world), .zero_ns = zero_ns};
    char *text = NULL;
    size_t size = 0;
    events.text = open_memstream(&text, &size);
    if (events.text == NULL) give_up("memory", strerror(errno));
    put_rank(&events, profile);
    if (fclose(events.text) != 0) give_up("memory", strerror(errno));
    if (events.rank == 0)
        write_file(profile, text, size, error_ns, left_out);
    else
        send_text(world, text, size);
    free(text);
}

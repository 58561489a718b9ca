/* checkpoint.c - the life of checkpoints, and the part of a save before a thread writes. */
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "checkpoint_state.h"
#include "os/clock.h"
#include "os/thread.h"
#include "outside_group.h"

enum { KEEP_MAX = 1000000 };
static const uint64_t step_max = UINT64_C(1000000000000000);

/* ----------------------------------------------------------------------------------- life cycle */

static enum tutti_status take_options(const struct tutti_checkpoints_options *given,
                                      struct tutti_checkpoints_options *own, int rank)
{
    *own = (struct tutti_checkpoints_options)TUTTI_CHECKPOINTS_OPTIONS_INIT;
    if (given != NULL)
        TRY(SIZED_READ("tutti_checkpoints_open: options", tutti_checkpoints_options, given, own));
    if (own->keep < 1 || own->keep > KEEP_MAX)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_checkpoints_open: options.keep must be 1 to %d, is %d on rank %d",
                         KEEP_MAX, own->keep, rank);
    return TUTTI_OK;
}

/* Rank 0 makes the folder, and then the other ranks find it. */
static enum tutti_status make_folder(struct tutti_checkpoints *c, const char *folder)
{
    TRY(folder_make(&c->folder, folder, 0));
    return c->options.lock != 0 ? folder_lock(&c->folder) : TUTTI_OK;
}

static enum tutti_status open_folder(struct tutti_checkpoints *c, const char *folder)
{
    TRY(checkpoint_agree(c->comm, c->rank == 0 ? make_folder(c, folder) : TUTTI_OK));
    return checkpoint_agree(c->comm,
                            c->rank == 0 ? TUTTI_OK : folder_find(&c->folder, folder, c->rank));
}

static enum tutti_status open_all(struct tutti_checkpoints *c, const char *folder,
                                  const struct tutti_checkpoints_options *options,
                                  struct tutti_comm *comm)
{
    struct tutti_comm_options own = TUTTI_COMM_OPTIONS_INIT;
    enum tutti_status status = take_options(options, &c->options, c->rank);
    if (status == TUTTI_OK && folder == NULL)
        status = error_set(TUTTI_INVALID_OPTIONS,
                           "tutti_checkpoints_open: the folder is NULL on rank %d", c->rank);
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    own.timeout_ns = c->options.timeout_ns;
    TRY(tutti_comm_dup(comm, own.timeout_ns > 0 ? &own : NULL, &c->comm));
    if (status != TUTTI_OK) (void)error_set(status, "%s", message);
    const struct agree_number numbers[3] = {{"options.keep", (uint64_t)c->options.keep},
                                            {"options.lock", c->options.lock != 0},
                                            {"options.timeout_ns", c->options.timeout_ns}};
    TRY(checkpoint_agree_on(c->comm, status, "tutti_checkpoints_open", numbers, 3));
    return open_folder(c, folder);
}

enum tutti_status tutti_checkpoints_open(const char *folder,
                                         const struct tutti_checkpoints_options *options,
                                         struct tutti_comm *comm, struct tutti_checkpoints **opened)
{
    *opened = NULL;
    TRY(outside_group("tutti_checkpoints_open"));
    if (tutti_comm_size(comm) < 1)
        return error_set(TUTTI_INVALID_COMM, "tutti_checkpoints_open: this is no communicator");
    struct tutti_checkpoints *const c = calloc(1, sizeof *c);
    if (c == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_checkpoints_open: out of memory");
    c->rank = tutti_comm_rank(comm);
    c->size = tutti_comm_size(comm);
    c->folder.lock = -1;
    const enum tutti_status status = open_all(c, folder, options, comm);
    if (status != TUTTI_OK) {
        (void)tutti_checkpoints_close(c);
        return status;
    }
    *opened = c;
    return TUTTI_OK;
}

static void drop_plan(struct save_plan *plan)
{
    free(plan->described.bytes);
    free(plan->shares);
    free(plan->table.bytes);
    free(plan->copy);
    *plan = (struct save_plan){0};
}

enum tutti_status tutti_checkpoints_close(struct tutti_checkpoints *c)
{
    if (c == NULL) return TUTTI_OK;
    const enum tutti_status status = tutti_checkpoints_wait(c);
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    drop_plan(&c->plan);
    folder_unlock(&c->folder);
    if (c->comm != NULL) tutti_comm_free(c->comm);
    free(c);
    return status == TUTTI_OK ? TUTTI_OK : error_set(status, "%s", message);
}

enum tutti_status tutti_checkpoints_wait(struct tutti_checkpoints *c)
{
    struct writing *const writing = &c->writing;
    if (!writing->is_on) return TUTTI_OK;
    if (writing->has_thread) pthread_join(writing->thread, NULL);
    writing->is_on = writing->has_thread = false;
    c->counters.bytes += writing->bytes;
    c->counters.written_ns += writing->ended_ns - writing->began_ns;
    return writing->status == TUTTI_OK ? TUTTI_OK
                                       : error_set(writing->status, "%s", writing->message);
}

/* All ranks hear from rank 0 which steps there are. */
static enum tutti_status share_steps(struct tutti_checkpoints *c, const uint64_t *found,
                                     uint64_t known, uint64_t *steps, size_t room, size_t *count)
{
    TRY(tutti_broadcast(&known, &known, 1, TUTTI_UINT64, 0, c->comm));
    const size_t shown = known < room ? (size_t)known : room;
    if (shown > 0) {
        if (c->rank == 0) memcpy(steps, found, shown * sizeof *steps);
        TRY(tutti_broadcast(steps, steps, shown, TUTTI_UINT64, 0, c->comm));
    }
    *count = (size_t)known;
    return TUTTI_OK;
}

enum tutti_status tutti_checkpoints_list(struct tutti_checkpoints *c, uint64_t *steps, size_t room,
                                         size_t *count)
{
    uint64_t *found = NULL;
    size_t found_count = 0;
    *count = 0;
    TRY(outside_group("tutti_checkpoints_list"));
    TRY(tutti_checkpoints_wait(c));
    enum tutti_status status = TUTTI_OK;
    if (steps == NULL && room > 0)
        status = error_set(TUTTI_INVALID_BUFFER, "tutti_checkpoints_list: steps is NULL on rank %d",
                           c->rank);
    if (status == TUTTI_OK && c->rank == 0) status = folder_list(&c->folder, &found, &found_count);
    const struct agree_number rooms = {"room", room};
    status = checkpoint_agree_on(c->comm, status, "tutti_checkpoints_list", &rooms, 1);
    if (status == TUTTI_OK) status = share_steps(c, found, found_count, steps, room, count);
    free(found);
    return status;
}

enum tutti_status tutti_checkpoints_count(const struct tutti_checkpoints *c,
                                          struct tutti_checkpoints_counters *counters)
{
    TRY(SIZED_CHECK_RESULT("tutti_checkpoints_count: counters", tutti_checkpoints_counters,
                           counters));
    SIZED_WRITE(tutti_checkpoints_counters, counters, counters->size_bytes, &c->counters);
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- saving */

static enum tutti_status check_step(const struct tutti_checkpoints *c, uint64_t step)
{
    if (step > step_max)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_checkpoints_save: step %llu of rank %d is above %llu",
                         (unsigned long long)step, c->rank, (unsigned long long)step_max);
    if (c->rank == 0 && folder_has(&c->folder, step))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_checkpoints_save: %.300s has a checkpoint of step %llu already",
                         c->folder.path, (unsigned long long)step);
    return TUTTI_OK;
}

static bool is_described(const struct save_plan *plan, const struct parts *parts)
{
    return plan->is_made && plan->described.size == parts->table.size &&
           (parts->table.size == 0 ||
            memcmp(plan->described.bytes, parts->table.bytes, parts->table.size) == 0);
}

/* Lays out the shares as pieces of the file, and gets memory for them. */
static enum tutti_status lay_out(struct save_plan *plan, const struct parts *parts, int rank)
{
    plan->data_bytes = 0;
    for (size_t i = 0; i < plan->share_count; i++) {
        const struct share *const share = &plan->shares[i];
        struct box boxes[BOX_PIECES_MAX];
        struct piece piece = parts->pieces[share->piece];
        const size_t count = box_of_range(&piece.box, share->begin, share->count, boxes);
        for (size_t b = 0; b < count; b++) {
            piece.box = boxes[b];
            TRY(table_print(&piece, &plan->table));
            plan->data_bytes += piece_bytes(&piece);
        }
    }
    plan->copy = malloc((size_t)plan->data_bytes + 1);
    if (plan->copy == NULL)
        return error_set(TUTTI_NO_MEMORY,
                         "tutti_checkpoints_save: rank %d has no memory for a copy of %llu bytes",
                         rank, (unsigned long long)plan->data_bytes);
    return TUTTI_OK;
}

/* Collective. */
static enum tutti_status make_plan(struct tutti_checkpoints *c, const struct parts *parts)
{
    struct save_plan *const plan = &c->plan;
    const size_t size = (size_t)c->size, rank = (size_t)c->rank;
    struct table *tables;
    drop_plan(plan);
    int64_t *const sizes = calloc(size, sizeof *sizes);
    if (sizes != NULL) sizes[rank] = (int64_t)parts->table.size;
    enum tutti_status status =
        sizes != NULL ? TUTTI_OK
                      : error_set(TUTTI_NO_MEMORY, "tutti_checkpoints_save: out of memory");
    status = checkpoint_agree_on_tables(c->comm, status, parts->table.bytes, sizes, size, &tables);
    free(sizes);
    if (status != TUTTI_OK) return status;
    status = share_pieces(tables, size, rank, &plan->shares, &plan->share_count);
    checkpoint_agree_release_tables(tables, size);
    if (status == TUTTI_OK) status = lay_out(plan, parts, c->rank);
    status = checkpoint_agree(c->comm, status);
    c->counters.copy_bytes = status == TUTTI_OK ? (size_t)plan->data_bytes : 0;
    if (status != TUTTI_OK) drop_plan(plan);
    plan->is_made = status == TUTTI_OK;
    return status;
}

static void copy(struct save_plan *plan, const struct parts *parts)
{
    char *to = plan->copy;
    for (size_t i = 0; i < plan->share_count; i++) {
        const struct share *const share = &plan->shares[i];
        const size_t element = (size_t)(piece_bytes(&parts->pieces[share->piece]) /
                                        box_count(&parts->pieces[share->piece].box));
        memcpy(to, parts->data[share->piece] + share->begin * element, share->count * element);
        to += share->count * element;
    }
}

static void *write_on_thread(void *context)
{
    checkpoint_write(context);
    return NULL;
}

static void start_writing(struct tutti_checkpoints *c, uint64_t step)
{
    c->writing = (struct writing){.is_on = true, .step = step, .began_ns = clock_now_ns()};
    c->counters.saved++;
    /* The others' threads wait for this rank, so without one it writes at once. */
    c->writing.has_thread = thread_start(&c->writing.thread, write_on_thread, c, NULL,
                                         "the thread that writes checkpoints") == TUTTI_OK;
    if (!c->writing.has_thread) checkpoint_write(c);
}

static enum tutti_status prepare(struct tutti_checkpoints *c, uint64_t step, struct parts *parts,
                                 const struct tutti_checkpoint_tensor *tensors, size_t count)
{
    const struct agree_number number = {"step", step};
    enum tutti_status status = parts_init(parts, "tutti_checkpoints_save", c->rank, tensors, count);
    bool is_planned;
    if (status == TUTTI_OK) status = check_step(c, step);
    status = checkpoint_agree_on(c->comm, status, "tutti_checkpoints_save", &number, 1);
    if (status != TUTTI_OK) return status;
    TRY(checkpoint_agree_whether(c->comm, TUTTI_OK, is_described(&c->plan, parts), &is_planned));
    if (is_planned) return TUTTI_OK;
    TRY(make_plan(c, parts));
    c->plan.described = parts->table;
    parts->table = (struct table_bytes){NULL, 0, 0};
    return TUTTI_OK;
}

enum tutti_status tutti_checkpoints_save(struct tutti_checkpoints *c, uint64_t step,
                                         const struct tutti_checkpoint_tensor *tensors, size_t count)
{
    struct parts parts;
    const uint64_t called_ns = clock_now_ns();
    TRY(outside_group("tutti_checkpoints_save"));
    TRY(tutti_checkpoints_wait(c));
    const uint64_t free_ns = clock_now_ns();
    c->counters.blocked_ns += free_ns - called_ns;
    const enum tutti_status status = prepare(c, step, &parts, tensors, count);
    if (status == TUTTI_OK) copy(&c->plan, &parts);
    parts_release(&parts);
    c->counters.copied_ns += clock_now_ns() - free_ns;
    if (status == TUTTI_OK) start_writing(c, step);
    return status;
}

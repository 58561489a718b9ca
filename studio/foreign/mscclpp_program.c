#include "studio/foreign/mscclpp_program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const mscclpp_type_names[MSCCLPP_TYPE_COUNT] = {
#define X(enumerator, name) [enumerator] = name,
    MSCCLPP_TYPE_LIST(X)
#undef X
};

const char *const mscclpp_link_names[MSCCLPP_LINK_COUNT] = {
    [MSCCLPP_MEMORY] = "memory", [MSCCLPP_PORT] = "port"};

enum {
    ENDING = 2
}; /* operations at the end of a block that another one follows: nop, sem_release */

void mscclpp_program_init(struct mscclpp_program *program, const struct plan_shape *shape, int rank,
                          bool in_place, char *message, size_t message_bytes)
{
    *program = (struct mscclpp_program){.shape = *shape,
                                        .rank = rank,
                                        .in_place = in_place,
                                        .message = message,
                                        .message_bytes = message_bytes};
}

void mscclpp_program_release(struct mscclpp_program *program)
{
    free(program->operations);
    free(program->blocks);
    free(program->accesses);
}

__attribute__((format(printf, 2, 3))) static void refuse(struct mscclpp_program *program,
                                                         const char *format, ...)
{
    va_list arguments;
    if (program->status != TUTTI_OK) return;
    program->status = TUTTI_INVALID_ALGORITHM;
    va_start(arguments, format);
    vsnprintf(program->message, program->message_bytes, format, arguments);
    va_end(arguments);
}

static void out_of_memory(struct mscclpp_program *program)
{
    refuse(program, "out of memory");
    program->status = TUTTI_NO_MEMORY;
}

/* The array with room for one more element; the old array if there is no memory. */
static void *grow(struct mscclpp_program *program, void *array, int count, int *room, size_t size)
{
    if (count < *room) return array;
    void *grown = reallocarray(array, 2 * (size_t)*room + 16, size);
    if (grown == NULL) {
        out_of_memory(program);
        return array;
    }
    *room = 2 * *room + 16;
    return grown;
}

int mscclpp_program_new_semaphore(struct mscclpp_program *program)
{
    return program->semaphore_count++;
}

/* --------------------------------------------------------------------------------------- memory */

/* In place, a range of the input or of the output by the name of the larger of the two. */
static struct plan_location in_memory(const struct mscclpp_program *program,
                                      struct plan_location place)
{
    if (!program->in_place || place.buffer == PLAN_SCRATCH) return place;
    place.first += plan_begin_in_place(&program->shape, program->rank, place.buffer);
    place.buffer = PLAN_OUTPUT;
    return place;
}

static bool same_memory(const struct mscclpp_program *program, struct plan_location a,
                        struct plan_location b)
{
    a = in_memory(program, a);
    b = in_memory(program, b);
    return a.buffer == b.buffer && a.first == b.first;
}

static bool meets(const struct mscclpp_program *program, struct plan_location place,
                  uint32_t chunk_count, bool is_store)
{
    place = in_memory(program, place);
    for (int i = 0; i < program->access_count; i++) {
        const struct mscclpp_access *access = &program->accesses[i];
        if (access->place.buffer == place.buffer && (access->is_store || is_store) &&
            access->place.first < place.first + chunk_count &&
            place.first < access->place.first + access->chunk_count)
            return true;
    }
    return false;
}

static void touch(struct mscclpp_program *program, struct plan_location place, uint32_t chunk_count,
                  bool is_store)
{
    program->accesses = grow(program, program->accesses, program->access_count,
                             &program->access_room, sizeof *program->accesses);
    if (program->status != TUTTI_OK) return;
    program->accesses[program->access_count++] =
        (struct mscclpp_access){in_memory(program, place), chunk_count, is_store};
}

/* --------------------------------------------------------------------------------------- blocks */

static void threads_joined(struct mscclpp_program *program)
{
    program->has_waited = program->has_worked = false;
    program->access_count = 0;
}

static void open_block(struct mscclpp_program *program, int before)
{
    if (program->block_count == MSCCLPP_BLOCKS_MAX)
        refuse(program, "rank %d: more than %d thread blocks, which must all run at once",
               program->rank, MSCCLPP_BLOCKS_MAX);
    program->blocks = grow(program, program->blocks, program->block_count, &program->block_room,
                           sizeof *program->blocks);
    if (program->status != TUTTI_OK) return;
    program->blocks[program->block_count++] = (struct mscclpp_block){
        .first_operation = program->operation_count, .before = before, .after = -1};
    program->is_open = true;
    threads_joined(program);
}

void mscclpp_program_next_lane(struct mscclpp_program *program)
{
    program->is_open = false;
}

/* The lane goes on in another block. */
static void continue_lane(struct mscclpp_program *program)
{
    const int semaphore = mscclpp_program_new_semaphore(program);
    program->blocks[program->block_count - 1].after = semaphore;
    open_block(program, semaphore);
}

static int announcements_over(const struct mscclpp_block *block, enum mscclpp_link link)
{
    return (block->announced_count[link] + MSCCLPP_SIGNALS_MAX - 1) / MSCCLPP_SIGNALS_MAX;
}

static int announcement_count(const struct mscclpp_block *block)
{
    return announcements_over(block, MSCCLPP_MEMORY) + announcements_over(block, MSCCLPP_PORT);
}

static int beginning(const struct mscclpp_block *block)
{
    return announcement_count(block) + (block->before >= 0 ? 2 : 0); /* sem_acquire, nop */
}

static bool has_room(const struct mscclpp_block *block, int more)
{
    return beginning(block) + block->operation_count + more + ENDING <= MSCCLPP_OPERATIONS_MAX;
}

static int find(const int *numbers, int count, int number)
{
    int i = 0;
    while (i < count && numbers[i] != number) i++;
    return i;
}

/* The block's own number of a channel or remote buffer that the GPU has; -1: the block has no room
 * for one more. */
static int number_in_block(int *numbers, int *count, int most, int number)
{
    const int i = find(numbers, *count, number);
    if (i == most) return -1;
    if (i == *count) numbers[(*count)++] = number;
    return i;
}

static bool is_work(enum mscclpp_type type)
{
    return type == MSCCLPP_COPY || type == MSCCLPP_REDUCE || type == MSCCLPP_REDUCE_PUT ||
           type == MSCCLPP_PUT || type == MSCCLPP_SEND;
}

static bool needs_join(const struct mscclpp_program *program,
                       const struct mscclpp_operation *operation)
{
    const bool signals = operation->type == MSCCLPP_SIGNAL || operation->type == MSCCLPP_SEND ||
                         operation->type == MSCCLPP_RELEASE;
    if (signals && program->has_worked) return true;
    if (!is_work(operation->type)) return false;
    if (program->has_waited) return true;
    for (int i = 0; i < operation->source_count; i++)
        if (meets(program, operation->sources[i], operation->chunk_count, false)) return true;
    return operation->stores && meets(program, operation->destination, operation->chunk_count, true);
}

static void append(struct mscclpp_program *program, const struct mscclpp_operation *operation)
{
    program->operations = grow(program, program->operations, program->operation_count,
                               &program->operation_room, sizeof *program->operations);
    if (program->status != TUTTI_OK) return;
    program->operations[program->operation_count++] = *operation;
    program->blocks[program->block_count - 1].operation_count++;
}

static void append_nop(struct mscclpp_program *program)
{
    append(program, &(struct mscclpp_operation){.type = MSCCLPP_NOP});
    threads_joined(program);
}

static void note(struct mscclpp_program *program, const struct mscclpp_operation *operation)
{
    if (operation->type == MSCCLPP_WAIT || operation->type == MSCCLPP_ACQUIRE)
        program->has_waited = true;
    if (!is_work(operation->type)) return;
    program->has_worked = true;
    for (int i = 0; i < operation->source_count; i++)
        touch(program, operation->sources[i], operation->chunk_count, false);
    if (operation->stores) touch(program, operation->destination, operation->chunk_count, true);
}

/* Numbers channels and remote buffers as the block does; false: it is full, and as it was. */
static bool place_in_block(struct mscclpp_block *block, const struct mscclpp_operation *operation,
                           const bool *announces, struct mscclpp_operation *placed)
{
    struct mscclpp_block more = *block;
    const bool has_channels = operation->type == MSCCLPP_SIGNAL ||
                              operation->type == MSCCLPP_WAIT || operation->type == MSCCLPP_SEND;
    const enum mscclpp_link link = operation->link;
    *placed = *operation;
    for (int i = 0; has_channels && i < operation->id_count; i++) {
        placed->ids[i] = number_in_block(more.channels[link], &more.channel_count[link],
                                         MSCCLPP_CHANNELS_MAX, operation->ids[i]);
        if (placed->ids[i] < 0) return false;
        if (announces != NULL && announces[i])
            more.announced[link][more.announced_count[link]++] = placed->ids[i];
    }
    for (int i = 0; i < operation->target_count; i++) {
        placed->targets[i].remote =
            number_in_block(more.remotes[link], &more.remote_count[link], MSCCLPP_REMOTES_MAX,
                            operation->targets[i].remote);
        if (placed->targets[i].remote < 0) return false;
    }
    if (!has_room(&more, 2)) return false; /* with a nop before it */
    *block = more;
    return true;
}

static void add(struct mscclpp_program *program, const struct mscclpp_operation *operation,
                const bool *announces)
{
    struct mscclpp_operation placed;
    if (program->status == TUTTI_OK && !program->is_open) open_block(program, -1);
    if (program->status != TUTTI_OK) return;
    if (!place_in_block(&program->blocks[program->block_count - 1], operation, announces, &placed)) {
        continue_lane(program);
        if (program->status != TUTTI_OK) return;
        /* An empty block takes any operation: no operation has more channels or targets than a
         * block. */
        if (!place_in_block(&program->blocks[program->block_count - 1], operation, announces,
                            &placed)) {
            refuse(program, "rank %d: an operation that fits into no thread block", program->rank);
            return;
        }
    }
    if (needs_join(program, operation)) append_nop(program);
    append(program, &placed);
    note(program, operation);
}

/* ----------------------------------------------------------------------------------- operations */

static enum mscclpp_link link_of(const struct mscclpp_program *program, int channel)
{
    return program->is_port != NULL && program->is_port[channel] ? MSCCLPP_PORT : MSCCLPP_MEMORY;
}

/* Adds the channels of each type in operations of their own. announces may be NULL. */
static void add_channels(struct mscclpp_program *program, enum mscclpp_type type,
                         const int *channels, const bool *announces, int count)
{
    for (int link = 0; link < MSCCLPP_LINK_COUNT; link++) {
        struct mscclpp_operation operation = {.type = type, .link = (enum mscclpp_link)link};
        bool announced[MSCCLPP_SIGNALS_MAX];
        for (int i = 0; i < count; i++) {
            if (link_of(program, channels[i]) != operation.link) continue;
            announced[operation.id_count] = announces != NULL && announces[i];
            operation.ids[operation.id_count++] = channels[i];
            if (operation.id_count < MSCCLPP_SIGNALS_MAX) continue;
            add(program, &operation, announced);
            operation.id_count = 0;
        }
        if (operation.id_count > 0) add(program, &operation, announced);
    }
}

void mscclpp_program_wait(struct mscclpp_program *program, const int *channels,
                          const bool *announces, int count)
{
    add_channels(program, MSCCLPP_WAIT, channels, announces, count);
}

void mscclpp_program_signal(struct mscclpp_program *program, const int *channels, int count)
{
    add_channels(program, MSCCLPP_SIGNAL, channels, NULL, count);
}

static void add_semaphores(struct mscclpp_program *program, enum mscclpp_type type,
                           const int *semaphores, int count)
{
    const int most = MSCCLPP_SEMAPHORES_MAX;
    for (int first = 0; first < count; first += most) {
        struct mscclpp_operation operation = {.type = type};
        operation.id_count = count - first < most ? count - first : most;
        memcpy(operation.ids, &semaphores[first], (size_t)operation.id_count * sizeof *semaphores);
        add(program, &operation, NULL);
    }
}

void mscclpp_program_acquire(struct mscclpp_program *program, const int *semaphores, int count)
{
    add_semaphores(program, MSCCLPP_ACQUIRE, semaphores, count);
}

void mscclpp_program_release_all(struct mscclpp_program *program, const int *semaphores, int count)
{
    add_semaphores(program, MSCCLPP_RELEASE, semaphores, count);
}

void mscclpp_program_copy(struct mscclpp_program *program, struct plan_location source,
                          struct plan_location destination, uint32_t chunk_count)
{
    if (same_memory(program, source, destination)) return;
    add(program,
        &(struct mscclpp_operation){.type = MSCCLPP_COPY,
                                    .chunk_count = chunk_count,
                                    .sources = {source},
                                    .source_count = 1,
                                    .stores = true,
                                    .destination = destination},
        NULL);
}

static void set_targets(struct mscclpp_operation *operation, const struct mscclpp_target *targets,
                        int count)
{
    operation->target_count = count;
    if (count > 0) memcpy(operation->targets, targets, (size_t)count * sizeof *targets);
}

/* One source for each target. */
static void add_puts(struct mscclpp_program *program, struct mscclpp_operation operation,
                     struct plan_location source, const struct mscclpp_target *targets,
                     int target_count)
{
    for (int first = 0; first < target_count; first += MSCCLPP_TARGETS_MAX) {
        const int left = target_count - first;
        set_targets(&operation, &targets[first],
                    left < MSCCLPP_TARGETS_MAX ? left : MSCCLPP_TARGETS_MAX);
        operation.source_count = operation.target_count;
        if (operation.type == MSCCLPP_SEND) operation.id_count = operation.target_count;
        for (int i = 0; i < operation.target_count; i++) {
            operation.sources[i] = source;
            operation.ids[i] = operation.targets[i].channel;
        }
        add(program, &operation, NULL);
    }
}

void mscclpp_program_put(struct mscclpp_program *program, struct plan_location source,
                         const struct mscclpp_target *targets, int target_count,
                         uint32_t chunk_count)
{
    add_puts(program,
             (struct mscclpp_operation){
                 .type = MSCCLPP_PUT, .link = MSCCLPP_MEMORY, .chunk_count = chunk_count},
             source, targets, target_count);
}

void mscclpp_program_send(struct mscclpp_program *program, struct plan_location source,
                          const struct mscclpp_target *targets, int target_count,
                          uint32_t chunk_count)
{
    add_puts(program,
             (struct mscclpp_operation){
                 .type = MSCCLPP_SEND, .link = MSCCLPP_PORT, .chunk_count = chunk_count},
             source, targets, target_count);
}

void mscclpp_program_reduce(struct mscclpp_program *program, const struct plan_location *sources,
                            int source_count, struct plan_location destination,
                            const struct mscclpp_target *targets, int target_count,
                            uint32_t chunk_count)
{
    struct mscclpp_operation operation = {.type = target_count > 0 ? MSCCLPP_REDUCE_PUT
                                                                   : MSCCLPP_REDUCE,
                                          .chunk_count = chunk_count,
                                          .source_count = source_count,
                                          .stores = true,
                                          .destination = destination};
    memcpy(operation.sources, sources, (size_t)source_count * sizeof *sources);
    set_targets(&operation, targets, target_count);
    add(program, &operation, NULL);
}

/* -------------------------------------------------------------------------------------- reading */

static void announcement(const struct mscclpp_block *block, int k,
                         struct mscclpp_operation *operation)
{
    const int over_memory = announcements_over(block, MSCCLPP_MEMORY);
    const enum mscclpp_link link = k < over_memory ? MSCCLPP_MEMORY : MSCCLPP_PORT;
    const int first = (link == MSCCLPP_PORT ? k - over_memory : k) * MSCCLPP_SIGNALS_MAX;
    const int left = block->announced_count[link] - first;
    *operation = (struct mscclpp_operation){.type = MSCCLPP_SIGNAL, .link = link};
    operation->id_count = left < MSCCLPP_SIGNALS_MAX ? left : MSCCLPP_SIGNALS_MAX;
    memcpy(operation->ids, &block->announced[link][first],
           (size_t)operation->id_count * sizeof *operation->ids);
}

static struct mscclpp_operation tie(int k, enum mscclpp_type type, int semaphore)
{
    const bool is_nop = (k == 0) == (type == MSCCLPP_RELEASE); /* acquire, nop; nop, release */
    if (is_nop) return (struct mscclpp_operation){.type = MSCCLPP_NOP};
    return (struct mscclpp_operation){.type = type, .ids = {semaphore}, .id_count = 1};
}

bool mscclpp_program_operation(const struct mscclpp_program *program,
                               const struct mscclpp_block *block, int k,
                               struct mscclpp_operation *operation)
{
    const int announcements = announcement_count(block), first = beginning(block);
    if (k < announcements) {
        announcement(block, k, operation);
        return true;
    }
    if (k < first) {
        *operation = tie(k - announcements, MSCCLPP_ACQUIRE, block->before);
        return true;
    }
    if (k < first + block->operation_count) {
        *operation = program->operations[block->first_operation + k - first];
        return true;
    }
    k -= first + block->operation_count;
    if (block->after < 0 || k >= ENDING) return false;
    *operation = tie(k, MSCCLPP_RELEASE, block->after);
    return true;
}

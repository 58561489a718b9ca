#include "model/work.h"

#include <string.h>

void model_sender_init(struct model_sender *sender, const struct model_machine *machine,
                       const struct rank_plan *rank_plan, bool shares_core)
{
    memset(sender, 0, sizeof *sender);
    sender->shares_core = shares_core;
    if (machine->within != NULL || machine->between != NULL)
        plan_flow_init(&sender->flow, rank_plan);
}

/* As in binding, only messages that fit into the places of a link to a group as a whole go there
 * (engine/bind.c). */
static bool fits_group(const struct model_machine *machine, uint64_t bytes)
{
    size_t piece = machine->within->sizes.piece_bytes_max;
    if (piece > machine->piece_bytes_max) piece = machine->piece_bytes_max;
    return bytes / piece < machine->piece_count_max;
}

static uint32_t reader_count(const struct rank_plan *rank_plan, const struct plan_step *step)
{
    const bool has_group = step->target_group != PLAN_NO_GROUP;
    const uint32_t others = has_group ? rank_plan->groups[step->target_group].member_count - 1 : 0;
    return others + step->target_count;
}

static enum path_readers readers_of(const struct model_sender *sender,
                                    const struct model_machine *machine,
                                    const struct rank_plan *rank_plan, const struct plan_step *step,
                                    enum model_distance distance, uint64_t bytes)
{
    const bool has_group = step->target_group != PLAN_NO_GROUP;
    if (has_group && distance == MODEL_SAME_HOST && fits_group(machine, bytes))
        return PATH_TO_GROUP;
    if (reader_count(rank_plan, step) > 1) return PATH_TO_SEVERAL;
    return plan_flow_is_partial(&sender->flow, rank_plan, step) ? PATH_TO_ONE_ON_A_CHAIN
                                                                : PATH_TO_ONE;
}

/* The kind of memory from which a step's message can go by reference: that of its only source, or
 * that in which its result is stored. 0: there is none. Scratch memory is private to the rank, even
 * if buffers are mapped. */
static unsigned memory_of(const struct model_machine *machine, const struct rank_plan *rank_plan,
                          const struct plan_step *step)
{
    enum plan_buffer buffer;
    if (step->has_destination)
        buffer = step->destination.buffer;
    else if (plan_step_only_sends(rank_plan, step))
        buffer = rank_plan->sources[step->first_source].location.buffer;
    else
        return 0;
    return machine->is_mapped && buffer != PLAN_SCRATCH ? PATH_MAPPED : PATH_PRIVATE;
}

/* The first path of the table that is possible; its last paths always are. */
static struct model_work first_path(const struct path_table *table, const struct path_case *message,
                                    unsigned memory)
{
    enum { LEFT_OUT = 1 << PATH_WRITE | 1 << PATH_DIRECT | 1 << PATH_FORWARD };
    const struct path_list list = path_choose(table, message);
    for (unsigned i = 0; i < list.count; i++) {
        const enum path_kind path = (enum path_kind)list.paths[i];
        const struct path_row *row = path_row_of(table, path);
        const bool is_reference = path == PATH_READ || path == PATH_COPY;
        if ((path_bit(path) & LEFT_OUT) != 0) continue;
        if (is_reference && (row->sender_memory & memory) == 0) continue;
        return (struct model_work){
            .cost = row->cost,
            .is_computed =
                message->step == PATH_PASSES && (path_is_place(path) || path == PATH_SHARED_SLOT),
            .is_reference = is_reference,
            .is_once = path == PATH_GROUP_SLOT || path == PATH_SHARED_SLOT,
            .may_place = path_has(&list, PATH_WRITE),
            .placing = path_has(&list, PATH_WRITE) ? path_row_of(table, PATH_WRITE)->cost
                                                   : (struct path_cost){0},
            .is_shared = row->work.crossings > 0 && (path == PATH_READ || path == PATH_SLOT),
            .is_found = table->is_memory,
            .may_forward = path == PATH_SHARED_SLOT,
            .is_asked = row->asked_bytes > 0 && message->bytes >= row->asked_bytes,
            .answer_bytes = table->answer_bytes,
            .in_flight = row->in_flight};
    }
    return (struct model_work){.is_reference = false};
}

/* Rows of networks were measured with a core for each rank, whose caches have what the kernel needs
 * for the next message. If hosts share two cores, messages take one and a half to five times as
 * long as the row's cost explains, depending on the machine. Over loopback that depends on the machine (up to four times on
 * one, no more on another), and the bytes of large messages take up to four times as long, too. */
static struct path_cost crowded(struct path_cost cost, enum model_distance distance)
{
    enum { BETWEEN_HOSTS = 3, LOOPBACK = 2, LOOPBACK_BYTE = 2 };
    const bool is_loopback = distance == MODEL_SAME_HOST;
    const uint32_t times = is_loopback ? LOOPBACK : BETWEEN_HOSTS,
                   byte_times = is_loopback ? LOOPBACK_BYTE : 1;
    cost.sender_ps *= times;
    cost.receiver_ps *= times;
    cost.sender_ps_a_byte *= byte_times;
    cost.receiver_ps_a_byte *= byte_times;
    return cost;
}

uint64_t model_path_ps(const struct path_row *row, bool shares_core)
{
    const struct path_cost cost = shares_core ? crowded(row->cost, MODEL_SAME_RACK) : row->cost;
    return (uint64_t)cost.sender_ps + cost.receiver_ps;
}

struct model_work model_work_of(struct model_sender *sender, const struct model_machine *machine,
                                const struct rank_plan *rank_plan, const struct plan_step *step,
                                enum model_distance distance, uint64_t bytes)
{
    const struct path_table *table =
        distance == MODEL_SAME_HOST ? machine->within : machine->between;
    struct model_answer *const answer = &sender->answers[distance];
    if (table == NULL) return (struct model_work){.is_reference = false};
    if (answer->step == step && answer->bytes == bytes) return answer->work;
    const bool only_sends = plan_step_only_sends(rank_plan, step);
    const unsigned memory = memory_of(machine, rank_plan, step);
    struct path_case message;
    memset(&message, 0, sizeof message);
    message.bytes = bytes;
    message.traffic = path_traffic_of(rank_plan->shape.collective);
    message.readers = readers_of(sender, machine, rank_plan, step, distance, bytes);
    message.step = only_sends ? PATH_SENDS : PATH_PASSES;
    message.cores = sender->shares_core ? PATH_SHARED_CORES : PATH_OWN_CORES;
    message.senders = sender->flow.has_few_senders ? PATH_FEW_SENDERS : PATH_MANY_SENDERS;
    message.rank_count = rank_plan->shape.rank_count;
    message.reader_count = reader_count(rank_plan, step);
    const bool is_alike = answer->step != NULL && answer->memory == memory &&
                          memcmp(&answer->message, &message, sizeof message) == 0;
    answer->step = step;
    answer->bytes = bytes;
    if (is_alike) return answer->work;
    answer->message = message;
    answer->memory = memory;
    answer->work = first_path(table, &message, memory);
    if (!table->is_memory && sender->shares_core) {
        answer->work.cost = crowded(answer->work.cost, distance);
        answer->work.placing = crowded(answer->work.placing, distance);
    }
    return answer->work;
}

struct model_work model_work_placed(const struct model_work *work)
{
    return (struct model_work){
        .cost = work->placing, .is_placed = true, .is_computed = true, .is_found = work->is_found};
}

/* ------------------------------------------------------------------------------------------------ effort
 *
 * Places of links stay in caches, for they are used again and again. Memory is where buffers of
 * ranks are. */

static uint64_t bytes_ps(uint64_t byte_fs, uint64_t bytes)
{
    return model_cost_ps((struct model_cost){.byte_fs = byte_fs}, bytes);
}

/* The cost of a path: the row's cost of a message and of its bytes, without the copy if none is
 * made. */
static uint64_t path_ps(const struct model_machine *machine, uint64_t each_ps, uint64_t byte_ps,
                        uint64_t bytes, bool is_copied)
{
    uint64_t byte_fs = byte_ps * 1000;
    if (!is_copied) byte_fs = byte_fs > machine->copy.byte_fs ? byte_fs - machine->copy.byte_fs : 0;
    return model_cost_ps((struct model_cost){each_ps, byte_fs}, bytes);
}

static uint64_t retake_ps(const struct model_machine *machine, uint64_t bytes)
{
    return bytes_ps(machine->retake_byte_fs, bytes);
}

struct model_effort model_effort_of_sender(const struct model_machine *machine,
                                           const struct model_work *work, uint64_t bytes,
                                           struct model_sent sent)
{
    const bool is_whole = work->is_reference || work->is_placed;
    const uint64_t each_ps = sent.is_first || !is_whole ? work->cost.sender_ps : 0;
    const bool is_computed = work->is_computed && !sent.is_late;
    if (sent.is_repeated) return (struct model_effort){.core_ps = each_ps};
    struct model_effort effort = {
        .core_ps = path_ps(machine, each_ps, work->cost.sender_ps_a_byte, bytes, !is_computed)};
    if (sent.is_retaken) {
        const uint64_t stored_ps = is_computed ? 0 : bytes_ps(machine->copy.byte_fs, bytes),
                       retaken_ps = each_ps + stored_ps + retake_ps(machine, bytes);
        if (effort.core_ps < retaken_ps) effort.core_ps = retaken_ps;
    }
    if ((is_computed && !work->is_placed) || work->is_reference) return effort;
    effort.core_ps += bytes_ps(machine->far_copy_fs, bytes);
    effort.memory_bytes = bytes;
    return effort;
}

/* On 16 cores of an Intel Xeon with a latency of 151 ns, a root takes 139 ns for each of 7
 * messages, and 129 for each of 15, where the row says 19: rows are measured with messages that
 * follow each other, whose lines the processor fetches ahead. */
uint64_t model_fetch_ps(const struct model_machine *machine, const struct model_work *work)
{
    return work->is_found ? machine->latency_ps[MODEL_SAME_HOST] / 4 * 3 : 0;
}

void model_add_receiver(struct model_effort *effort, const struct model_machine *machine,
                        const struct model_work *work, const struct plan_step *step, uint64_t bytes,
                        struct model_received received)
{
    const bool is_whole = work->is_reference || work->is_placed;
    const uint64_t each_ps = received.is_first || !is_whole ? work->cost.receiver_ps : 0;
    if (received.is_first && received.crosses) effort->core_ps += model_fetch_ps(machine, work);
    const bool is_copied = step->source_count == 1 && step->has_destination;
    effort->core_ps += path_ps(machine, each_ps, work->cost.receiver_ps_a_byte, bytes, is_copied);
    if (!work->is_reference) return;
    effort->core_ps += bytes_ps(is_copied ? machine->far_copy_fs : machine->far_reduce_fs, bytes);
    effort->memory_bytes += bytes;
}

/* The number of the step's sources and destinations that lie in memory. */
static uint64_t places_in_memory(const struct rank_plan *rank_plan, const struct plan_step *step)
{
    uint64_t count = step->has_destination;
    for (uint32_t i = 0; i < step->source_count; i++)
        count += !rank_plan->sources[step->first_source + i].is_link;
    return count;
}

struct model_effort model_effort_of_step(const struct model_machine *machine,
                                         const struct rank_plan *rank_plan,
                                         const struct plan_step *step, uint64_t bytes)
{
    struct model_effort effort = {0, 0};
    if (step->chunk_count == 0) return effort;
    effort.memory_bytes = bytes * places_in_memory(rank_plan, step);
    if (step->source_count > 1) {
        effort.core_ps = model_cost_ps(machine->reduce, bytes) +
                         bytes_ps(machine->more_byte_fs, bytes * (step->source_count - 2)) +
                         bytes_ps(machine->far_reduce_fs, effort.memory_bytes);
    } else if (step->has_destination) {
        const bool copies = !rank_plan->sources[step->first_source].is_link;
        if (copies) effort.core_ps = model_cost_ps(machine->copy, bytes);
        effort.core_ps += bytes_ps(machine->far_copy_fs, effort.memory_bytes);
    }
    return effort;
}

void model_add_result(struct model_effort *effort, const struct model_machine *machine,
                      const struct model_result_use *use, uint64_t bytes)
{
    const bool is_far = machine->memory_byte_fs > 0;
    if (use->is_read_elsewhere && !is_far) effort->core_ps += retake_ps(machine, bytes);
    if (!use->is_read_soon || !is_far) return;
    effort->core_ps += bytes_ps(machine->far_copy_fs, bytes);
    effort->memory_bytes += bytes;
}

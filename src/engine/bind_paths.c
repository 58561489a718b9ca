#include "engine/bind_paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The readers of a step's links to one rank each. Shared slots are few, so they help only if they
 * keep moving: a message in them must not wait for another message that waits for a place. That
 * holds on a chain, where no rank needs several messages at once to go on, and if at most two ranks
 * send to groups, whose members all take messages as they come. (Otherwise each link soon goes its
 * own way, and results are right but slow.) */
static enum path_readers readers_of(const struct binder *binder, const struct plan_step *step,
                                    const struct program_step *bound)
{
    if (bound->tx_count > 1) return PATH_TO_SEVERAL;
    return plan_flow_is_partial(&binder->flow, binder->plan, step) ? PATH_TO_ONE_ON_A_CHAIN
                                                                   : PATH_TO_ONE;
}

/* The ranks to which a step sends its message. */
static unsigned reader_count(const struct binder *binder, const struct program_step *bound)
{
    const struct program *program = binder->program;
    unsigned count = bound->tx_count;
    for (uint32_t i = 0; i < bound->tx_count; i++) {
        const struct program_link *link = &program->tx_links[program->step_tx[bound->first_tx + i]];
        if (link->group != PROGRAM_NONE)
            count += (unsigned)binder->options->groups[link->group].count - 2;
    }
    return count;
}

/* link: the message's. */
static struct path_case case_of(const struct binder *binder, const struct program_step *bound,
                                const struct program_link *link)
{
    const struct plan_shape *shape = &binder->plan->shape;
    return (struct path_case){
        .bytes = bind_wire_bytes(binder, link->encoding, bound->bytes),
        .traffic = path_traffic_of(shape->collective),
        .cores = binder->options->shares_cores ? PATH_SHARED_CORES : PATH_OWN_CORES,
        .senders = binder->flow.has_few_senders ? PATH_FEW_SENDERS : PATH_MANY_SENDERS,
        .rank_count = shape->rank_count,
        .reader_count = reader_count(binder, bound),
        .is_encoded = link->encoding != NULL};
}

/* The table of a link to a peer, or to a group, all of whose members are reached alike. */
static const struct path_table *table_of(const struct binder *binder,
                                         const struct program_link *link)
{
    int peer = link->peer;
    if (peer == PROGRAM_NONE) {
        const int *const members = binder->options->groups[link->group].ranks;
        peer = members[members[0] == binder->plan->rank];
    }
    return path_table_to(binder->options->paths, peer);
}

/* Whether an end of a path takes the memory in which input and output may be; memory: of enum
 * path_memory. */
static bool takes_memory(const struct binder *binder, unsigned memory)
{
    return binder->options->memory == 0 || (memory & binder->options->memory) != 0;
}

/* Whether an end of a path takes memory of the kind in which a buffer (or PROGRAM_NONE) lies;
 * memory: of enum path_memory. */
static bool takes_kind(const struct binder *binder, int buffer, unsigned memory)
{
    return buffer == PROGRAM_NONE || binder->options->kinds[buffer] == NULL ||
           (memory & PATH_OTHER_MEMORY) != 0;
}

bool bind_may_come(const struct binder *binder, const struct program_step *bound,
                   enum path_kind path)
{
    const int rx = binder->program->sources[bound->first_source].rx;
    if (bound->source_count != 1 || rx == PROGRAM_NONE) return false;
    const struct program_link *link = &binder->program->rx_links[rx];
    struct path_case message = case_of(binder, bound, link);
    message.step = PATH_STORES;
    message.readers = link->group != PROGRAM_NONE ? PATH_TO_GROUP : PATH_TO_ONE;
    const struct path_table *const table = table_of(binder, link);
    const struct path_list list = path_choose(table, &message);
    if (!path_has(&list, path)) return false;
    const unsigned memory = path_row_of(table, path)->receiver_memory;
    return takes_memory(binder, memory) && takes_kind(binder, bound->destination_buffer, memory);
}

/* Whether a message that comes by reference, and lies elsewhere, must be copied to where kernels
 * can read it, because its link cannot copy it to where the step stores it. */
static bool fetches(const struct binder *binder, const struct program_step *bound)
{
    const int rx = binder->program->sources[bound->first_source].rx;
    if (rx == PROGRAM_NONE || bound->destination_buffer == PROGRAM_NONE) return false;
    const struct path_row *const row =
        path_row_of(table_of(binder, &binder->program->rx_links[rx]), PATH_COPY);
    return !takes_kind(binder, bound->destination_buffer, row != NULL ? row->receiver_memory : 0);
}

static bool receives(const struct program *program, const struct program_step *bound)
{
    for (uint32_t i = 0; i < bound->source_count; i++)
        if (program->sources[bound->first_source + i].rx != PROGRAM_NONE) return true;
    return false;
}

/* The buffer in which the bytes lie that a step sends by reference. */
static int sent_from(const struct binder *binder, const struct program_step *bound)
{
    const struct program_source *first = &binder->program->sources[bound->first_source];
    return step_has(bound, STEP_ONLY_SENDS) ? first->buffer : bound->destination_buffer;
}

/* Whether a message of a step can go on in the place in which it came: all of its links have the same
 * encoding. */
static bool comes_as_it_goes(const struct program *program, const struct program_step *bound)
{
    const struct kernel_encoding *const first =
        program->tx_links[program->step_tx[bound->first_tx]].encoding;
    for (uint32_t i = 0; i < bound->source_count; i++) {
        const int rx = program->sources[bound->first_source + i].rx;
        if (rx != PROGRAM_NONE && program->rx_links[rx].encoding != first) return false;
    }
    return true;
}

/* Whether all links on which a step sends have the same encoding, so that they can share a place. */
static bool goes_alike(const struct program *program, const struct program_step *bound)
{
    const int *const tx = program->step_tx + bound->first_tx;
    for (uint32_t i = 1; i < bound->tx_count; i++)
        if (program->tx_links[tx[i]].encoding != program->tx_links[tx[0]].encoding) return false;
    return true;
}

/* Whether the encodings of a step's links leave it a path. */
static bool encodings_allow(const struct program *program, const struct program_step *bound,
                            enum path_kind path)
{
    if (program->encoding == NULL || (path != PATH_FORWARD && path != PATH_SHARED_SLOT))
        return true;
    return goes_alike(program, bound) && (path != PATH_FORWARD || comes_as_it_goes(program, bound));
}

/* The list without the paths for which memory is not of the right kind, or for which the step has
 * no memory or no received message. */
static struct path_list possible(const struct binder *binder, const struct program_step *bound,
                                 const struct path_table *table, const struct path_list *list)
{
    struct path_list left = {.count = 0};
    const bool has_memory =
        step_has(bound, STEP_ONLY_SENDS) || bound->destination_buffer != PROGRAM_NONE;
    for (unsigned i = 0; i < list->count; i++) {
        const enum path_kind path = (enum path_kind)list->paths[i];
        const bool is_reference = path == PATH_READ || path == PATH_COPY;
        if ((is_reference || path == PATH_STAGE) && !has_memory) continue;
        if (path == PATH_FORWARD && !receives(binder->program, bound)) continue;
        if (!encodings_allow(binder->program, bound, path)) continue;
        const struct path_row *row = path_row_of(table, path);
        const unsigned needed = path == PATH_WRITE ? row->receiver_memory : row->sender_memory;
        if (is_reference && step_has(bound, STEP_ONLY_SENDS) && step_has(bound, STEP_ROUNDS))
            continue; /* what lies there is not rounded */
        if (is_reference && !takes_kind(binder, sent_from(binder, bound), row->sender_memory))
            continue;
        if ((is_reference || path == PATH_WRITE) && !takes_memory(binder, needed)) continue;
        path_add(&left, path);
    }
    return left;
}

enum { LISTS_MAX = UINT8_MAX };

/* The number of a list; LISTS_MAX: there is no memory for one more. */
static uint8_t number_of(struct program *program, const struct path_list *list)
{
    for (uint32_t i = 0; i < program->list_count; i++)
        if (program->lists[i].count == list->count &&
            memcmp(program->lists[i].paths, list->paths, list->count) == 0)
            return (uint8_t)i;
    if (program->list_count == LISTS_MAX) return LISTS_MAX;
    struct path_list *const lists =
        realloc(program->lists, (program->list_count + 1) * sizeof *lists);
    if (lists == NULL) return LISTS_MAX;
    program->lists = lists;
    lists[program->list_count] = *list;
    return (uint8_t)program->list_count++;
}

static uint8_t place_in(const struct path_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        if ((path_bit(list->paths[i]) & PATH_PLACES) != 0) return list->paths[i];
    return PATH_SLOT;
}

/* Sets the pieces of messages that go by reference: they are large enough, and no more than a link
 * can hold. */
static void heed_references(struct program *program, const struct path_table *table)
{
    const struct path_row *const row = path_row_of(table, PATH_READ);
    if (row == NULL) return;
    const size_t least = path_least_bytes(table, PATH_READ);
    if (program->segment_bytes_min < least) program->segment_bytes_min = least;
    if (program->references_max > row->in_flight) program->references_max = row->in_flight;
}

enum tutti_status bind_paths(struct binder *binder, const struct plan_step *step,
                             struct program_step *bound)
{
    struct program *program = binder->program;
    struct path_list common = {.count = 0};
    const enum path_readers readers = readers_of(binder, step, bound);
    bool at_once = step_has(bound, STEP_ONLY_SENDS) && bound->bytes <= program->piece_bytes;
    uint8_t number = number_of(program, &common);
    for (uint32_t i = 0; i < bound->tx_count && number != LISTS_MAX; i++) {
        const struct program_link *link = &program->tx_links[program->step_tx[bound->first_tx + i]];
        const struct path_table *table = table_of(binder, link);
        struct path_case message = case_of(binder, bound, link);
        message.step = step_has(bound, STEP_ONLY_SENDS) ? PATH_SENDS : PATH_PASSES;
        message.readers = link->group != PROGRAM_NONE ? PATH_TO_GROUP : readers;
        if (i == 0 && binder->options->cases != NULL)
            binder->options->cases[bound - program->steps] = message;
        const struct path_list all = path_choose(table, &message),
                               list = possible(binder, bound, table, &all);
        common = i == 0 ? list : path_common(&common, &list);
        number = program->step_tx_paths[bound->first_tx + i] = number_of(program, &list);
        if (i == 0) bound->place = place_in(&list);
        at_once &= !path_has(&list, PATH_READ) && !path_has(&list, PATH_COPY);
        heed_references(program, table);
    }
    if (number != LISTS_MAX) number = number_of(program, &common);
    if (number == LISTS_MAX) return error_set(TUTTI_NO_MEMORY, "binding a plan: out of memory");
    bound->paths = number;
    step_set(bound, STEP_SENDS_AT_ONCE, at_once);
    step_set(bound, STEP_FETCHES, fetches(binder, bound));
    step_set(bound, STEP_SHARES, path_has(&common, PATH_SHARED_SLOT));
    step_set(bound, STEP_PLACES, path_has(&common, PATH_WRITE));
    program->shares |= step_has(bound, STEP_SHARES);
    return TUTTI_OK;
}

#include "gpu/orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/log.h"
#include "base/op.h"
#include "base/status.h"
#include "encoding/encoding.h"

enum {
    PART_BYTES = 64 << 10,    /* an order gets a team for each so many bytes that it moves */
    COPIED_BYTES = 256 << 10, /* so much of each place goes through the arena at once, at most */
    ARENA_SHARE = 4,          /* an order takes this part of the arena at most */
    LINE_BYTES = 64,
    JOBS_AT_FIRST = 64,
    GROUPS_AT_FIRST = 64,
    OPERANDS_LEAST = 8, /* of the smallest class of jobs; each next one has twice as many */
    /* So many places of a line fit into the arena, with their pointers. */
    OPERANDS_MAX = OPERANDS_LEAST << (GPU_JOB_CLASSES - 1)
};

struct gpu_operand {
    char *address;
    bool is_copied; /* through the arena */
    bool is_encoded;
};

/* Elements as they are, and encoded. */
enum { AS_THEY_ARE, ENCODED, FORM_COUNT };

/* A kernel call. */
struct gpu_job {
    struct gpu_job *next; /* in the line, or of the idle jobs of its class */
    size_t count, issued; /* elements: all, and those in orders */
    double factor;
    uint32_t divisor;
    uint32_t group, orders_left;
    uint32_t destination_count, source_count;
    uint32_t copied_sources;
    bool copies_out[FORM_COUNT];            /* some destination of that form is copied */
    const struct kernel_encoding *encoding; /* NULL: no place is encoded */
    uint8_t dtype, op, element_bytes, class;
    uint8_t mark;                  /* gpu_reduce.encoding */
    struct gpu_operand operands[]; /* destinations, then sources */
};

/* A piece of a job that is in rings. */
struct gpu_order {
    struct gpu_job *job;       /* NULL: idle */
    size_t first, count;       /* elements */
    char *results[FORM_COUNT]; /* in the arena: elements to be copied to destinations; or NULL */
    uint32_t parts_left;
    uint32_t mark; /* in the arena */
    bool has_mark;
};

struct gpu_group {
    uint32_t serial;
    uint32_t jobs_left;
    uint32_t next; /* of the idle groups */
    bool is_used;
    bool is_dropped; /* nobody waits for it */
};

/* -------------------------------------------------------------------------------------- workers */

void gpu_worker_prepare(struct gpu_worker *worker, unsigned team_count)
{
    /* Nobody else reads this now; the start of the worker makes it visible. */
    __atomic_store_n(&worker->control->end, 0, __ATOMIC_RELAXED);
    for (unsigned b = 0; b < team_count; b++)
        __atomic_store_n(&worker->control->said[b],
                         (uint64_t)WORKER_ABSENT << 32 | worker->issued[b], __ATOMIC_RELAXED);
}

void gpu_worker_end(struct gpu_worker *worker)
{
    __atomic_store_n(&worker->control->end, 1, __ATOMIC_RELEASE);
}

/* Acquire: pairs with the release of the team that said it, and of all teams before it in its
 * order's chain. */
static uint64_t said(const struct gpu_worker *worker, unsigned team)
{
    return __atomic_load_n(&worker->control->said[team], __ATOMIC_ACQUIRE);
}

bool gpu_worker_has_left(struct gpu_worker *worker, unsigned team_count)
{
    for (unsigned b = 0; worker->is_out && b < team_count; b++)
        if (said(worker, b) >> 32 != WORKER_LEFT) return false;
    worker->is_out = false;
    return true;
}

/* --------------------------------------------------------------------------------------- memory */

static uint32_t operands_of_class(unsigned class)
{
    return (uint32_t)OPERANDS_LEAST << class;
}

static unsigned class_of(uint32_t operand_count)
{
    unsigned class = 0;
    while (operands_of_class(class) < operand_count) class ++;
    return class;
}

static struct gpu_job *make_job(unsigned class)
{
    struct gpu_job *const job =
        malloc(sizeof *job + operands_of_class(class) * sizeof(struct gpu_operand));
    if (job != NULL) job->class = (uint8_t) class;
    return job;
}

static void give_job_back(struct gpu_orders *orders, struct gpu_job *job)
{
    job->next = orders->idle_jobs[job->class];
    orders->idle_jobs[job->class] = job;
}

static void give_group_back(struct gpu_orders *orders, uint32_t index)
{
    orders->groups[index].is_used = false;
    orders->groups[index].next = orders->idle_group;
    orders->idle_group = index;
}

/* Group 0 is nobody's, so that 0 is no index. */
static bool grow_groups(struct gpu_orders *orders)
{
    const uint32_t before = orders->group_count, after = before == 0 ? GROUPS_AT_FIRST : 2 * before;
    struct gpu_group *const groups = realloc(orders->groups, after * sizeof *groups);
    if (groups == NULL) return false;
    orders->groups = groups;
    orders->group_count = after;
    for (uint32_t i = before; i < after; i++) {
        groups[i] = (struct gpu_group){.serial = 1};
        if (i > 0) give_group_back(orders, i);
    }
    return true;
}

void gpu_orders_release(struct gpu_orders *orders)
{
    for (unsigned c = 0; c < GPU_JOB_CLASSES; c++) {
        for (struct gpu_job *job = orders->idle_jobs[c], *next; job != NULL; job = next) {
            next = job->next;
            free(job);
        }
        orders->idle_jobs[c] = NULL;
    }
    free(orders->orders);
    free(orders->idle_orders);
    free(orders->groups);
}

static bool make_jobs(struct gpu_orders *orders)
{
    /* The small classes get more jobs. */
    for (unsigned class = 0, count = JOBS_AT_FIRST; count > 0; class ++, count /= 2)
        for (unsigned i = 0; i < count; i++) {
            struct gpu_job *const job = make_job(class);
            if (job == NULL) return false;
            give_job_back(orders, job);
        }
    return true;
}

enum tutti_status gpu_orders_init(struct gpu_orders *orders, unsigned team_count, char *arena,
                                  size_t arena_bytes)
{
    orders->team_count = team_count;
    gpu_arena_init(&orders->arena, arena, arena_bytes);
    orders->idle_order_count = team_count * WORKER_SLOTS;
    orders->orders = calloc(orders->idle_order_count, sizeof *orders->orders);
    orders->idle_orders = malloc(orders->idle_order_count * sizeof *orders->idle_orders);
    if (orders->orders == NULL || orders->idle_orders == NULL || !grow_groups(orders) ||
        !make_jobs(orders)) {
        gpu_orders_release(orders);
        return error_set(TUTTI_NO_MEMORY, "orders for a GPU: out of memory");
    }
    for (uint32_t i = 0; i < orders->idle_order_count; i++) orders->idle_orders[i] = (uint16_t)i;
    return TUTTI_OK;
}

/* --------------------------------------------------------------------- orders that are finished */

/* The bytes of so many elements of a job in an operand. */
static size_t bytes_in(const struct gpu_job *job, bool is_encoded, size_t elements)
{
    return is_encoded ? kernel_encoded_bytes(job->encoding, elements)
                      : elements * job->element_bytes;
}

/* Copies an order's results to the destinations that the device does not reach. */
static void copy_out(const struct gpu_job *job, const struct gpu_order *order)
{
    for (uint32_t d = 0; d < job->destination_count; d++) {
        const struct gpu_operand *const to = &job->operands[d];
        if (to->is_copied)
            kernel_copy(to->address + bytes_in(job, to->is_encoded, order->first),
                        order->results[to->is_encoded ? ENCODED : AS_THEY_ARE],
                        bytes_in(job, to->is_encoded, order->count));
    }
}

static void finish_order(struct gpu_orders *orders, uint16_t index, bool copies_out)
{
    struct gpu_order *const order = &orders->orders[index];
    struct gpu_job *const job = order->job;
    struct gpu_group *const group = &orders->groups[job->group];
    if (copies_out && !group->is_dropped) copy_out(job, order);
    if (order->has_mark) gpu_arena_give_back(&orders->arena, order->mark);
    order->job = NULL;
    orders->idle_orders[orders->idle_order_count++] = index;
    if (--job->orders_left > 0 || job->issued < job->count) return;
    if (--group->jobs_left == 0 && group->is_dropped) give_group_back(orders, job->group);
    give_job_back(orders, job);
}

static void come(struct gpu_orders *orders, unsigned team)
{
    orders->is_present[team] = true;
    orders->present[orders->present_count++] = (uint8_t)team;
}

/* Takes in the reports of the teams. */
static void collect(struct gpu_orders *orders)
{
    for (unsigned b = 0; b < orders->team_count; b++) {
        const uint64_t word = said(orders->worker, b);
        if (!orders->is_present[b] && word >> 32 != WORKER_ABSENT) come(orders, b);
        while (orders->done[b] != (uint32_t)word) {
            const uint16_t index = orders->owners[b][++orders->done[b] % WORKER_SLOTS];
            if (--orders->orders[index].parts_left == 0) finish_order(orders, index, true);
        }
    }
}

/* --------------------------------------------------------------------------- jobs become orders */

static size_t rounded(size_t bytes)
{
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* The bytes that a copied place takes in the arena. It begins at the same offset within a line as
 * the device's own memory, so that all places are aligned alike. */
static size_t bytes_of_place(size_t bytes)
{
    return rounded(bytes) + LINE_BYTES;
}

static uint32_t copied_places(const struct gpu_job *job)
{
    return job->copied_sources + job->copies_out[AS_THEY_ARE] + job->copies_out[ENCODED];
}

/* The number of places as the device sees them: all destinations of a form that are copied share
 * one place. */
static uint32_t places_on_device(const struct gpu_job *job)
{
    uint32_t direct = 0;
    for (uint32_t d = 0; d < job->destination_count; d++) direct += !job->operands[d].is_copied;
    return direct + job->copies_out[AS_THEY_ARE] + job->copies_out[ENCODED] + job->source_count;
}

/* The bytes of the pointers for which an order has no room. */
static size_t pointer_bytes(uint32_t places)
{
    return places <= WORKER_POINTERS ? 0 : rounded(places * sizeof(uint64_t));
}

/* The most that so many elements take in a place. */
static size_t bytes_at_most(const struct gpu_job *job, size_t elements)
{
    const size_t plain = bytes_in(job, false, elements);
    const size_t encoded = job->encoding != NULL ? bytes_in(job, true, elements) : 0;
    return plain > encoded ? plain : encoded;
}

/* So many elements the next order of a job gets: whole rows, where places are encoded. */
static size_t next_count(const struct gpu_orders *orders, const struct gpu_job *job, uint32_t places)
{
    const size_t left = job->count - job->issued;
    if (copied_places(job) == 0) return left;
    const size_t room = orders->arena.bytes / ARENA_SHARE - pointer_bytes(places);
    size_t bytes = room / copied_places(job);
    bytes = bytes < 3 * LINE_BYTES ? LINE_BYTES : (bytes - LINE_BYTES) / LINE_BYTES * LINE_BYTES;
    if (bytes > COPIED_BYTES) bytes = COPIED_BYTES;
    size_t count = bytes / job->element_bytes;
    if (job->encoding != NULL) count = count < GPU_ROW ? GPU_ROW : count / GPU_ROW * GPU_ROW;
    return left < count ? left : count;
}

/* Blocks that have room for one more order each, in turn; false: not so many have. */
static bool find_teams(const struct gpu_orders *orders, unsigned count, uint8_t *found)
{
    unsigned found_count = 0;
    for (unsigned i = 0; i < orders->present_count && found_count < count; i++) {
        const uint8_t b = orders->present[(orders->turn + i) % orders->present_count];
        if (orders->worker->issued[b] - orders->done[b] < WORKER_SLOTS) found[found_count++] = b;
    }
    return found_count == count;
}

static unsigned parts_for(const struct gpu_orders *orders, uint32_t places, size_t bytes)
{
    const unsigned most = orders->present_count;
    if (bytes >= (size_t)PART_BYTES * most) return most; /* before a product that is too large */
    const size_t parts = (places * bytes + PART_BYTES - 1) / PART_BYTES;
    return parts < most ? (parts > 0 ? (unsigned)parts : 1) : most;
}

/* The next place in the arena, which begins within a line as `like` does. */
static char *take_place(char **room, size_t bytes, uintptr_t like)
{
    char *const place = *room + like % LINE_BYTES;
    *room += bytes_of_place(bytes);
    return place;
}

/* Memory of the device that takes part with elements as they are, if any does. */
static uintptr_t find_direct(const struct gpu_job *job, size_t offset)
{
    for (uint32_t i = 0; i < job->destination_count + job->source_count; i++)
        if (!job->operands[i].is_copied && !job->operands[i].is_encoded)
            return (uintptr_t)job->operands[i].address + offset;
    return 0;
}

/* The place of an operand as the device is told of it. */
static uint64_t pointer_of(const struct gpu_operand *operand, const char *place)
{
    return (uintptr_t)place | (operand->is_encoded ? GPU_ENCODED : 0);
}

/* Writes the pointers of an order, and copies in the sources that are copied. room: in the
 * arena. */
static void lay_out(const struct gpu_job *job, struct gpu_order *order, char *room,
                    uint64_t *pointers, struct worker_order *told)
{
    const size_t room_each = bytes_at_most(job, order->count);
    const uintptr_t like = find_direct(job, order->first * job->element_bytes);
    uint32_t destinations = 0;
    for (uint32_t d = 0; d < job->destination_count; d++) {
        const struct gpu_operand *const to = &job->operands[d];
        char **const result = &order->results[to->is_encoded ? ENCODED : AS_THEY_ARE];
        if (to->is_copied && *result != NULL) continue;
        if (to->is_copied) *result = take_place(&room, room_each, to->is_encoded ? 0 : like);
        pointers[destinations++] = pointer_of(
            to, to->is_copied ? *result : to->address + bytes_in(job, to->is_encoded, order->first));
    }
    for (uint32_t s = 0; s < job->source_count; s++) {
        const struct gpu_operand *const source = &job->operands[job->destination_count + s];
        const char *address = source->address + bytes_in(job, source->is_encoded, order->first);
        if (source->is_copied) {
            char *const place = take_place(&room, room_each, source->is_encoded ? 0 : like);
            kernel_copy(place, address, bytes_in(job, source->is_encoded, order->count));
            address = place;
        }
        pointers[destinations + s] = pointer_of(source, address);
    }
    told->reduce = (struct gpu_reduce){.count = order->count,
                                       .factor = job->factor,
                                       .divisor = job->divisor,
                                       .dtype = job->dtype,
                                       .op = job->op,
                                       .encoding = job->mark,
                                       .source_count = job->source_count,
                                       .destination_count = destinations};
}

/* Puts a part of an order into a team's ring. */
static void tell(struct gpu_orders *orders, unsigned team, const struct worker_order *told,
                 uint16_t index)
{
    const uint32_t number = ++orders->worker->issued[team];
    orders->owners[team][number % WORKER_SLOTS] = index;
    struct worker_slot *const slot = &orders->worker->control->rings[team][number % WORKER_SLOTS];
    uint32_t words[WORKER_WORDS];
    memcpy(words, told, sizeof words);
    /* Release, each: pairs with the team's look once it has found them all. */
    for (unsigned w = 0; w < WORKER_WORDS; w++)
        __atomic_store_n(&slot->words[w], (uint64_t)number << 32 | words[w], __ATOMIC_RELEASE);
}

/* The next order of a job; false: there is no room now. */
static bool issue(struct gpu_orders *orders, struct gpu_job *job)
{
    const uint32_t places = places_on_device(job);
    const size_t count = next_count(orders, job, places), bytes = count * job->element_bytes;
    const unsigned parts = parts_for(orders, places, bytes);
    uint8_t teams[WORKER_TEAMS_MAX];
    if (parts == 0 || !find_teams(orders, parts, teams)) return false;

    const uint16_t index = orders->idle_orders[orders->idle_order_count - 1];
    struct gpu_order *const order = &orders->orders[index];
    const size_t room_bytes = pointer_bytes(places) + (size_t)copied_places(job) *
                                                          bytes_of_place(bytes_at_most(job, count));
    char *room = NULL;
    if (room_bytes > 0) {
        room = gpu_arena_allocate(&orders->arena, room_bytes, &order->mark);
        if (room == NULL) return false;
    }
    orders->idle_order_count--;
    order->job = job;
    order->first = job->issued;
    order->count = count;
    order->results[AS_THEY_ARE] = order->results[ENCODED] = NULL;
    order->parts_left = parts;
    order->has_mark = room != NULL;

    struct worker_order told = {.pointers = {0}};
    uint64_t *pointers = told.pointers;
    if (places > WORKER_POINTERS) {
        pointers = (uint64_t *)(void *)room;
        room += pointer_bytes(places);
        told.elsewhere = (uintptr_t)pointers;
    }
    lay_out(job, order, room, pointers, &told);
    job->issued += count;
    job->orders_left++;
    for (unsigned p = 0; p < parts; p++) {
        told.reduce.share = worker_share(p, parts);
        tell(orders, teams[p], &told, index);
    }
    orders->turn = (orders->turn + parts) % orders->present_count;
    return true;
}

/* The worker that was left in the middle of orders uses the arena no more. */
static void settle(struct gpu_orders *orders)
{
    orders->leaving = NULL;
    gpu_arena_init(&orders->arena, orders->arena.memory, orders->arena.bytes);
}

/* Whether the arena is this worker's. */
static bool has_settled(struct gpu_orders *orders)
{
    if (orders->leaving == NULL) return true;
    if (!gpu_worker_has_left(orders->leaving, orders->team_count)) return false;
    settle(orders);
    return true;
}

/* Makes orders of what stands in line, as far as there is room. */
static void advance(struct gpu_orders *orders)
{
    struct gpu_job *job;
    if (!has_settled(orders)) return;
    while ((job = orders->line) != NULL && issue(orders, job)) {
        if (job->issued < job->count) continue;
        orders->line = job->next;
        if (orders->line == NULL) orders->line_end = NULL;
    }
}

/* -------------------------------------------------------------------------------- begin and end */

void gpu_orders_begin(struct gpu_orders *orders, struct gpu_worker *worker)
{
    assert(orders->worker == NULL && orders->line == NULL);
    if (orders->leaving == worker) settle(orders);
    orders->worker = worker;
    orders->present_count = orders->turn = 0;
    memset(orders->is_present, 0, sizeof orders->is_present);
    memcpy(orders->done, worker->issued, sizeof orders->done);
}

bool gpu_orders_are_taken(struct gpu_orders *orders)
{
    collect(orders);
    return orders->present_count > 0;
}

void gpu_orders_end(struct gpu_orders *orders)
{
    struct gpu_worker *const worker = orders->worker;
    if (worker == NULL) return;
    for (uint32_t i = 0; i < orders->team_count * WORKER_SLOTS; i++)
        if (orders->orders[i].job != NULL) {
            orders->leaving = worker;
            finish_order(orders, (uint16_t)i, false);
        }
    for (struct gpu_job *job = orders->line, *next; job != NULL; job = next) {
        next = job->next;
        give_job_back(orders, job);
    }
    orders->line = orders->line_end = NULL;
    for (uint32_t i = 1; i < orders->group_count; i++)
        if (orders->groups[i].is_used) give_group_back(orders, i);
    orders->collecting = 0;
    orders->is_lost = false;
    orders->worker = NULL;
}

/* ---------------------------------------------------------------------------- kernel/executor.h */

/* Takes an idle job of the class, or makes one; NULL: out of memory. */
static struct gpu_job *take_job(struct gpu_orders *orders, uint32_t operand_count)
{
    const unsigned class = class_of(operand_count);
    struct gpu_job *const job = orders->idle_jobs[class];
    if (job == NULL) return make_job(class);
    orders->idle_jobs[class] = job->next;
    return job;
}

/* 0: out of memory. */
static uint32_t take_group(struct gpu_orders *orders)
{
    if (orders->idle_group == 0 && !grow_groups(orders)) return 0;
    const uint32_t index = orders->idle_group;
    orders->idle_group = orders->groups[index].next;
    if (++orders->serial == 0) orders->serial = 1;
    orders->groups[index] = (struct gpu_group){.serial = orders->serial, .is_used = true};
    return index;
}

static struct gpu_operand operand_of(const void *address, const struct kernel_format *format)
{
    return (struct gpu_operand){.address = (char *)(uintptr_t)address,
                                .is_copied = format->memory == NULL,
                                .is_encoded = format->encoding != NULL};
}

/* The one encoding of a call's formats; NULL: there is none. */
static const struct kernel_encoding *encoding_in(const struct kernel_call *call)
{
    const struct kernel_formats *const formats = call->formats;
    if (formats == NULL) return NULL;
    const struct kernel_encoding *found = formats->through;
    if (formats->destination.encoding != NULL) found = formats->destination.encoding;
    if (call->also != NULL && formats->also.encoding != NULL) found = formats->also.encoding;
    for (unsigned i = 0; i < call->other_count; i++)
        if (formats->others[i].encoding != NULL) found = formats->others[i].encoding;
    for (unsigned i = 0; i < call->source_count; i++)
        if (formats->sources[i].encoding != NULL) found = formats->sources[i].encoding;
    return found;
}

static void fill_operands(struct gpu_job *job, const struct kernel_call *call)
{
    static const struct kernel_format plain = {NULL, NULL};
    const struct kernel_formats *const formats = call->formats;
    struct gpu_operand *operand = job->operands;
    *operand++ = operand_of(call->destination, formats != NULL ? &formats->destination : &plain);
    if (call->also != NULL)
        *operand++ = operand_of(call->also, formats != NULL ? &formats->also : &plain);
    for (unsigned i = 0; i < call->other_count; i++)
        *operand++ = operand_of(call->others[i], formats != NULL ? &formats->others[i] : &plain);
    job->destination_count = (uint32_t)(operand - job->operands);
    job->copies_out[AS_THEY_ARE] = job->copies_out[ENCODED] = false;
    for (uint32_t d = 0; d < job->destination_count; d++)
        job->copies_out[job->operands[d].is_encoded ? ENCODED : AS_THEY_ARE] |=
            job->operands[d].is_copied;
    job->source_count = call->source_count;
    job->copied_sources = 0;
    for (unsigned i = 0; i < call->source_count; i++) {
        *operand = operand_of(call->sources[i], formats != NULL ? &formats->sources[i] : &plain);
        job->copied_sources += operand++->is_copied;
    }
}

/* The elements of a job, and how they are encoded. A message that is passed on as it came is a copy
 * of bytes. */
static void fill_elements(struct gpu_job *job, const struct kernel_call *call)
{
    job->encoding = encoding_in(call);
    job->count = call->count;
    job->dtype = (uint8_t)call->dtype;
    job->mark = TUTTI_ENCODING_NONE;
    if (job->encoding != NULL && encoding_moves_bytes(call)) {
        job->count = kernel_encoded_bytes(job->encoding, call->count);
        job->dtype = TUTTI_UINT8;
        job->encoding = NULL;
        for (uint32_t i = 0; i < job->destination_count + job->source_count; i++)
            job->operands[i].is_encoded = false;
        job->copies_out[AS_THEY_ARE] = job->operands[0].is_copied;
        job->copies_out[ENCODED] = false;
    } else if (job->encoding != NULL) {
        job->mark = (uint8_t)(encoding_named(job->encoding) |
                              (call->formats->through != NULL ? GPU_THROUGH : 0));
    }
    job->element_bytes = (uint8_t)dtype_size((enum tutti_dtype)job->dtype);
}

/* Whether an order of a row fits into the arena. */
static bool fits_arena(const struct gpu_orders *orders, const struct gpu_job *job)
{
    return job->encoding == NULL ||
           pointer_bytes(places_on_device(job)) +
                   (size_t)copied_places(job) * bytes_of_place(bytes_at_most(job, GPU_ROW)) <=
               orders->arena.bytes;
}

static enum op op_on_device(const struct kernel_call *call)
{
    const enum op op = call->operation != NULL ? call->operation->kind : OP_SUM;
    assert(op != OP_USER);
    return op == OP_AVG || op == OP_SCALED_SUM ? OP_SUM : op;
}

/* A start cannot fail, so what cannot be started is never done. */
static void lose(struct gpu_orders *orders, const char *why)
{
    if (!orders->is_lost) log_write(LOG_WARN, "an operation on a GPU will time out: %s", why);
    orders->is_lost = true;
}

/* A job of a group, to which all else was told. */
static void stand_in_line(struct gpu_orders *orders, struct gpu_job *job)
{
    job->next = NULL;
    job->issued = 0;
    job->orders_left = 0;
    orders->groups[job->group].jobs_left++;
    if (orders->line == NULL)
        orders->line = job;
    else
        orders->line_end->next = job;
    orders->line_end = job;
    if (orders->line == job) advance(orders);
}

void gpu_orders_start(struct gpu_orders *orders, const struct kernel_call *call)
{
    if (orders->collecting == 0) orders->collecting = take_group(orders);
    if (orders->collecting == 0) lose(orders, "out of memory");
    if (call->count == 0 || orders->is_lost) return;
    const uint64_t operand_count =
        1 + (uint64_t)(call->also != NULL) + call->other_count + call->source_count;
    if (operand_count > OPERANDS_MAX) {
        lose(orders, "a kernel has too many sources and destinations");
        return;
    }
    struct gpu_job *const job = take_job(orders, (uint32_t)operand_count);
    if (job == NULL) {
        lose(orders, "out of memory");
        return;
    }
    job->group = orders->collecting;
    job->factor = call->factor;
    job->divisor = call->divisor;
    job->op = (uint8_t)op_on_device(call);
    fill_operands(job, call);
    fill_elements(job, call);
    if (!fits_arena(orders, job)) {
        give_job_back(orders, job);
        lose(orders, "a kernel has too many encoded sources and destinations");
        return;
    }
    stand_in_line(orders, job);
}

/* A group's number: its index, and below that its serial, which is never 0. */
static uint64_t number_of(const struct gpu_orders *orders, uint32_t index)
{
    return (uint64_t)index << 32 | orders->groups[index].serial;
}

uint64_t gpu_orders_flush(struct gpu_orders *orders)
{
    const uint32_t index = orders->collecting;
    orders->collecting = 0;
    return number_of(orders, index);
}

bool gpu_orders_are_done(struct gpu_orders *orders, uint64_t number)
{
    if (orders->is_lost) return false;
    const uint32_t index = (uint32_t)(number >> 32);
    struct gpu_group *const group = &orders->groups[index];
    assert(orders->worker != NULL && group->is_used && group->serial == (uint32_t)number);
    collect(orders);
    advance(orders);
    if (group->jobs_left > 0) return false;
    give_group_back(orders, index);
    return true;
}

/* -------------------------------------------------------------------------------------- reading */

uint64_t gpu_orders_read(struct gpu_orders *orders, void *destination, const void *source,
                         size_t bytes)
{
    if (orders->worker == NULL || !has_settled(orders) || !gpu_orders_are_taken(orders)) return 0;
    const uint32_t group = take_group(orders);
    struct gpu_job *const job = group != 0 ? take_job(orders, 2) : NULL;
    if (job == NULL) {
        if (group != 0) give_group_back(orders, group);
        return 0;
    }
    job->group = group;
    job->count = bytes;
    job->factor = 0;
    job->divisor = 0;
    job->dtype = TUTTI_UINT8;
    job->op = OP_SUM;
    job->element_bytes = 1;
    job->encoding = NULL;
    job->mark = TUTTI_ENCODING_NONE;
    job->destination_count = job->source_count = 1;
    job->copied_sources = 0;
    /* Also where the device reaches it: a caller that drops the reading has its memory again. */
    job->copies_out[AS_THEY_ARE] = true;
    job->copies_out[ENCODED] = false;
    job->operands[0] = (struct gpu_operand){.address = destination, .is_copied = true};
    job->operands[1] = (struct gpu_operand){.address = (char *)(uintptr_t)source};
    stand_in_line(orders, job);
    return number_of(orders, group);
}

/* NULL: it ended with its worker. */
static struct gpu_group *find_reading(const struct gpu_orders *orders, uint64_t reading)
{
    struct gpu_group *const group = &orders->groups[reading >> 32];
    return group->is_used && group->serial == (uint32_t)reading ? group : NULL;
}

enum gpu_reading gpu_orders_look(struct gpu_orders *orders, uint64_t reading)
{
    struct gpu_group *const group = find_reading(orders, reading);
    if (group == NULL) return GPU_UNREAD;
    collect(orders);
    advance(orders);
    if (group->jobs_left > 0) return GPU_READING;
    give_group_back(orders, (uint32_t)(reading >> 32));
    return GPU_READ;
}

void gpu_orders_drop(struct gpu_orders *orders, uint64_t reading)
{
    struct gpu_group *const group = find_reading(orders, reading);
    if (group != NULL) group->is_dropped = true;
}

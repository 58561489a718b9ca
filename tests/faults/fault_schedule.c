#include "tests/faults/fault_schedule.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "tests/kit/chance.h"
#include "tests/kit/elements.h"

enum { BUFFER_BYTES_MAX = 4 << 20, COUNT_MAX = 1 << 20 };
enum { DELAY_US_MAX = 30000, PAUSE_US_MAX = 5000000 };

static const char *const phase_names[] = {"before", "middle", "after", "recovery"};

const char *fault_kind_name(enum fault_kind kind)
{
#define X(enumerator, name, ends) name,
    static const char *const names[] = {FAULT_KIND_LIST(X)};
#undef X
    return names[kind];
}

bool fault_kind_ends(enum fault_kind kind)
{
#define X(enumerator, name, ends) ends,
    static const bool they_end[] = {FAULT_KIND_LIST(X)};
#undef X
    return they_end[kind];
}

const char *fault_call_name(int call)
{
    static const char *const others[] = {"message", "dup", "split"};
    return call < COLLECTIVE_COUNT ? collective_name((enum collective)call)
                                   : others[call - COLLECTIVE_COUNT];
}

int fault_operation_blocks(const struct fault_operation *operation, int size)
{
    switch (operation->call) {
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return size;
    default: return 1;
    }
}

bool fault_operation_is_started(const struct fault_operation *operation)
{
    return operation->started && operation->call < FAULT_CALL_DUP;
}

uint64_t fault_schedule_pauses_ns(const struct fault_schedule *schedule)
{
    uint64_t sum = 0;
    for (int i = 0; i < schedule->fault_count; i++) {
        const struct fault *fault = &schedule->faults[i];
        if (fault->kind == FAULT_STOP || fault->kind == FAULT_LATE)
            sum += (uint64_t)fault->detail * 1000;
    }
    return sum;
}

/* ---------------------------------------------------------------------------------------- rules */

static bool operation_is_valid(const struct fault_operation *o, int rank_count)
{
    if (o->call < 0 || o->call >= FAULT_CALL_COUNT || o->root < 0 || o->count > COUNT_MAX)
        return false;
    if (tutti_dtype_size(o->dtype) == 0 || o->op >= OP_BUILTIN_COUNT) return false;
    return elements_supported(o->op, o->dtype) &&
           o->count * tutti_dtype_size(o->dtype) * (size_t)fault_operation_blocks(o, rank_count) <=
               BUFFER_BYTES_MAX;
}

/* Whether a fault can strike there, see invariants 2 and 3. */
static bool fault_fits(const struct fault_schedule *s, const struct fault *fault)
{
    const int call = s->operations[fault->operation].call;
    const bool connected = s->tcp || s->host_count > 1;
    switch (fault->kind) {
    case FAULT_MISMATCH:
        return fault->phase == FAULT_BEFORE && call < COLLECTIVE_BARRIER &&
               (fault->detail != FAULT_OTHER_ROOT || collective_is_rooted((enum collective)call)) &&
               s->operations[fault->operation].count > 0;
    case FAULT_DESYNC: return fault->phase == FAULT_BEFORE && call < COLLECTIVE_COUNT;
    case FAULT_DESCRIPTORS: /* over TCP, who cannot take a connection waits until the deadline */
        return fault->phase == FAULT_BEFORE && call >= FAULT_CALL_DUP && !connected;
    case FAULT_LATE: return fault->phase == FAULT_BEFORE;
    case FAULT_LEAVE: return fault->phase == FAULT_BEFORE || fault->phase == FAULT_AFTER;
    case FAULT_RESET: /* over a card within a host nobody finds that before the deadline */
        return connected && fault->phase != FAULT_RECOVERY &&
               (s->fabric[0] == '\0' || (s->host_count > 1 && !s->tcp));
    case FAULT_FLIP:
    case FAULT_CORRUPT: return connected && s->integrity && fault->phase != FAULT_RECOVERY;
    case FAULT_ABORT:
    case FAULT_REVOKE:
    case FAULT_FORK: return fault->phase != FAULT_RECOVERY;
    default: return true;
    }
}

static bool fault_is_valid(const struct fault_schedule *s, const struct fault *fault)
{
    return fault->kind < FAULT_KIND_COUNT && fault->rank >= 0 && fault->rank < s->rank_count &&
           fault->operation >= 0 && fault->operation < s->operation_count && fault->delay_us >= 0 &&
           fault->delay_us <= DELAY_US_MAX && fault->detail >= 0 && fault->detail <= PAUSE_US_MAX &&
           fault_fits(s, fault);
}

bool fault_schedule_is_valid(const struct fault_schedule *s)
{
    unsigned gone = 0;
    if (s->rank_count < 1 || s->rank_count > FAULT_RANKS_MAX || s->host_count < 1 ||
        s->host_count > s->rank_count || s->operation_count < 1 ||
        s->operation_count > FAULT_OPERATIONS_MAX || s->fault_count < 0 ||
        s->fault_count > FAULT_FAULTS_MAX)
        return false;
    if (s->fabric[0] != '\0' && (s->integrity || (!s->tcp && s->host_count == 1))) return false;
    for (int i = 0; i < s->operation_count; i++)
        if (!operation_is_valid(&s->operations[i], s->rank_count)) return false;
    for (int i = 0; i < s->fault_count; i++) {
        if (!fault_is_valid(s, &s->faults[i])) return false;
        if (fault_kind_ends(s->faults[i].kind)) gone |= 1u << s->faults[i].rank;
    }
    return __builtin_popcount(gone) < s->rank_count;
}

/* --------------------------------------------------------------------------------------- chance */

static void draw_operation(struct chance *chance, struct fault_operation *o, int rank_count)
{
    *o = (struct fault_operation){.call = chance_below(chance, FAULT_CALL_COUNT),
                                  .started = chance_below(chance, 3) == 0,
                                  .in_place = chance_below(chance, 3) == 0,
                                  .mapped = chance_below(chance, 2) == 0,
                                  .root = chance_below(chance, rank_count)};
    if (o->call >= FAULT_CALL_DUP && chance_below(chance, 2) == 0) o->call = COLLECTIVE_ALLREDUCE;
    do {
        o->dtype = (enum tutti_dtype)chance_below(chance, TUTTI_UINT64 + 1);
        o->op = (enum op)chance_below(chance, OP_BUILTIN_COUNT);
    } while (!elements_supported(o->op, o->dtype));
    const size_t bytes_max = chance_below(chance, 4) == 0 ? BUFFER_BYTES_MAX : BUFFER_BYTES_MAX / 64;
    const size_t max =
        bytes_max / tutti_dtype_size(o->dtype) / (size_t)fault_operation_blocks(o, rank_count);
    o->count = chance_below(chance, 20) == 0
                   ? 0
                   : chance_of_any_size(chance, max < COUNT_MAX ? max : COUNT_MAX);
}

static void draw_place(struct chance *chance, struct fault *fault, const struct fault_schedule *s)
{
    fault->rank = chance_below(chance, s->rank_count);
    fault->operation = chance_below(chance, s->operation_count);
    fault->phase = (enum fault_phase)chance_below(chance, FAULT_AFTER + 1);
    fault->delay_us = fault->phase == FAULT_MIDDLE ? (int)chance_of_any_size(chance, 20000) : 0;
}

static void draw_kind(struct chance *chance, struct fault *fault, bool over_fabric)
{
    *fault = (struct fault){.kind = (enum fault_kind)chance_below(chance, FAULT_KIND_COUNT)};
    if (chance_below(chance, 5) == 0) fault->kind = FAULT_KILL;
    if (over_fabric && chance_below(chance, 4) > 0)
        fault->kind = chance_below(chance, 3) == 0 ? FAULT_RESET : FAULT_KILL;
    if (fault->kind == FAULT_STOP) fault->detail = 200000 + chance_below(chance, 1300000);
    if (fault->kind == FAULT_LATE) fault->detail = 50000 + chance_below(chance, 700000);
    if (fault->kind == FAULT_MISMATCH) fault->detail = chance_below(chance, FAULT_OTHER_ROOT + 1);
}

/* A second rank dies with the one before it, or while the others recover from that. */
static void draw_companion(struct chance *chance, struct fault *fault, const struct fault *first)
{
    fault->kind = FAULT_KILL;
    fault->operation = first->operation;
    fault->phase = chance_below(chance, 2) == 0 ? first->phase : FAULT_RECOVERY;
    fault->delay_us = first->delay_us;
    if (fault->phase == FAULT_RECOVERY) fault->delay_us = (int)chance_of_any_size(chance, 8000);
}

/* One fault more. A kind for which there is no place gives way to another one. */
static void draw_fault(struct chance *chance, struct fault_schedule *s)
{
    enum { PLACES = 50 };
    struct fault *fault = &s->faults[s->fault_count++];
    const bool has_company =
        s->fault_count > 1 && fault_kind_ends(fault[-1].kind) && chance_below(chance, 3) == 0;
    for (;;) {
        draw_kind(chance, fault, s->fabric[0] != '\0');
        for (int i = 0; i < PLACES; i++) {
            draw_place(chance, fault, s);
            if (has_company && i == 0) draw_companion(chance, fault, &fault[-1]);
            if (fault_schedule_is_valid(s)) return;
        }
    }
}

/* Data goes over the fabric. */
static void connect_all(struct fault_schedule *s, struct chance *chance, const char *fabric)
{
    snprintf(s->fabric, sizeof s->fabric, "%s", fabric);
    if (chance_below(chance, 4) > 0) s->host_count = 2 + chance_below(chance, s->rank_count - 1);
    if (s->host_count > 4) s->host_count = 4;
    if (s->host_count == 1) s->tcp = true;
    s->integrity = false;
}

void fault_schedule_init(struct fault_schedule *s, uint64_t seed, int rank_count, const char *fabric)
{
    struct chance chance = {seed, 0};
    *s = (struct fault_schedule){.seed = seed, .host_count = 1};
    s->rank_count = rank_count > 0 ? rank_count : 2 + chance_below(&chance, FAULT_RANKS_MAX - 1);
    if (chance_below(&chance, 5) < 2) s->host_count = 1 + chance_below(&chance, s->rank_count);
    if (s->host_count > 4) s->host_count = 4;
    s->tcp = chance_below(&chance, 4) == 0;
    s->integrity = chance_below(&chance, 3) == 0;
    if (fabric[0] != '\0') connect_all(s, &chance, fabric);
    s->operation_count = 5 + chance_below(&chance, FAULT_OPERATIONS_MAX - 6);
    for (int i = 0; i < s->operation_count; i++)
        draw_operation(&chance, &s->operations[i], s->rank_count);
    /* So that everybody hears of what happened in the last one. */
    s->operations[s->operation_count++] =
        (struct fault_operation){.call = COLLECTIVE_BARRIER, .dtype = TUTTI_FLOAT32, .op = OP_SUM};
    for (int wanted = 1 + chance_below(&chance, 4); s->fault_count < wanted;)
        draw_fault(&chance, s);
}

/* ----------------------------------------------------------------------------------------- text */

/* Appends to text[FAULT_TEXT_BYTES]. */
__attribute__((format(printf, 2, 3))) static void append(char *text, const char *format, ...)
{
    const size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, FAULT_TEXT_BYTES - length, format, arguments);
    va_end(arguments);
}

void fault_schedule_print(const struct fault_schedule *s, char *text)
{
    text[0] = '\0';
    append(text, "seed %" PRIu64 "\njob ranks %d hosts %d tcp %d integrity %d\n", s->seed,
           s->rank_count, s->host_count, s->tcp, s->integrity);
    if (s->fabric[0] != '\0') append(text, "fabric %s\n", s->fabric);
    for (int i = 0; i < s->operation_count; i++) {
        const struct fault_operation *o = &s->operations[i];
        append(text, "operation %s %s %s %s %s %s count %zu root %d\n", fault_call_name(o->call),
               o->started ? "started" : "blocking", o->in_place ? "in_place" : "separate",
               o->mapped ? "mapped" : "private", tutti_dtype_name(o->dtype), op_kind_name(o->op),
               o->count, o->root);
    }
    for (int i = 0; i < s->fault_count; i++) {
        const struct fault *f = &s->faults[i];
        append(text, "fault %s rank %d operation %d %s delay %d detail %d\n",
               fault_kind_name(f->kind), f->rank, f->operation, phase_names[f->phase], f->delay_us,
               f->detail);
    }
}

/* The number of the name, or -1. */
static int find_name(const char *name, const char *(*name_of)(int), int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name_of(i), name) == 0) return i;
    return -1;
}

static const char *kind_name_of(int i)
{
    return fault_kind_name((enum fault_kind)i);
}

static const char *phase_name_of(int i)
{
    return phase_names[i];
}

static const char *dtype_name_of(int i)
{
    return tutti_dtype_name((enum tutti_dtype)i);
}

static const char *op_name_of(int i)
{
    return op_kind_name((enum op)i);
}

static bool parse_operation(struct fault_schedule *s, const char *line)
{
    char call[20], form[20], place[20], memory[20], dtype[20], op[20];
    if (s->operation_count == FAULT_OPERATIONS_MAX) return false;
    struct fault_operation *o = &s->operations[s->operation_count++];
    if (sscanf(line, "operation %19s %19s %19s %19s %19s %19s count %zu root %d", call, form, place,
               memory, dtype, op, &o->count, &o->root) != 8)
        return false;
    const int dtype_number = find_name(dtype, dtype_name_of, TUTTI_UINT64 + 1);
    const int op_number = find_name(op, op_name_of, OP_BUILTIN_COUNT);
    o->call = find_name(call, fault_call_name, FAULT_CALL_COUNT);
    o->started = strcmp(form, "started") == 0;
    o->in_place = strcmp(place, "in_place") == 0;
    o->mapped = strcmp(memory, "mapped") == 0;
    if (o->call < 0 || dtype_number < 0 || op_number < 0) return false;
    o->dtype = (enum tutti_dtype)dtype_number;
    o->op = (enum op)op_number;
    return true;
}

static bool parse_fault(struct fault_schedule *s, const char *line)
{
    char kind[20], phase[20];
    if (s->fault_count == FAULT_FAULTS_MAX) return false;
    struct fault *f = &s->faults[s->fault_count++];
    if (sscanf(line, "fault %19s rank %d operation %d %19s delay %d detail %d", kind, &f->rank,
               &f->operation, phase, &f->delay_us, &f->detail) != 6)
        return false;
    const int kind_number = find_name(kind, kind_name_of, FAULT_KIND_COUNT);
    const int phase_number = find_name(phase, phase_name_of, FAULT_RECOVERY + 1);
    if (kind_number < 0 || phase_number < 0) return false;
    f->kind = (enum fault_kind)kind_number;
    f->phase = (enum fault_phase)phase_number;
    return true;
}

static bool parse_line(struct fault_schedule *s, const char *line)
{
    int tcp, integrity;
    if (line[0] == '\n' || line[0] == '\0' || line[0] == '#') return true;
    if (sscanf(line, "seed %" SCNu64, &s->seed) == 1) return true;
    if (sscanf(line, "fabric %31s", s->fabric) == 1) return true;
    if (sscanf(line, "job ranks %d hosts %d tcp %d integrity %d", &s->rank_count, &s->host_count,
               &tcp, &integrity) == 4) {
        s->tcp = tcp != 0;
        s->integrity = integrity != 0;
        return true;
    }
    if (strncmp(line, "operation ", 10) == 0) return parse_operation(s, line);
    return strncmp(line, "fault ", 6) == 0 && parse_fault(s, line);
}

bool fault_schedule_parse(struct fault_schedule *s, const char *text, int *line)
{
    *s = (struct fault_schedule){0};
    for (*line = 1; *text != '\0'; ++*line) {
        if (!parse_line(s, text)) return false;
        const char *end = strchr(text, '\n');
        if (end == NULL) break;
        text = end + 1;
    }
    *line = 0;
    return fault_schedule_is_valid(s);
}

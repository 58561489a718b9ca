/* Draws programs from seeds, and decides which programs are valid. */
#include <string.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "base/encoding.h"
#include "base/encoding_wish.h"
#include "tests/kit/chance.h"
#include "tests/programs/program.h"

enum { BYTES_MAX = 4 << 20, COUNT_MAX = 1 << 20, NUMBER_MAX = 8, COMPUTE_MS_MAX = 200, TRIES = 30 };
enum { SPARSE_ROWS_MAX = 2000 };
/* The sender of a longer message, or of more than a link holds, waits for its receiver. */
enum { UNAWAITED_BYTES_MAX = 1000, UNAWAITED_MAX = 4 };

/* ------------------------------------------------------------------------------------- validity */

/* The state between two steps. */
struct scene {
    bool comms[PROGRAM_COMMS_MAX];
    bool silent[PROGRAM_COMMS_MAX]; /* has messages that nobody receives */
    int handles[PROGRAM_HANDLES_MAX]; /* the communicator of the call prepared there; PROGRAM_ALL: none */
    unsigned dead;                    /* ranks of the first world */
    int depth;                        /* of groups */
    bool parallel, doomed;            /* doomed: from a kill to the next shrink */
};

static void forget_comm(struct scene *scene, int comm)
{
    scene->comms[comm] = scene->silent[comm] = false;
    for (int i = 0; i < PROGRAM_HANDLES_MAX; i++)
        if (scene->handles[i] == comm) scene->handles[i] = PROGRAM_ALL;
}

static struct scene first_scene(void)
{
    struct scene scene = {.comms = {true}};
    for (int i = 0; i < PROGRAM_HANDLES_MAX; i++) scene.handles[i] = PROGRAM_ALL;
    return scene;
}

static bool is_comm(const struct scene *scene, int comm)
{
    return comm >= 0 && comm < PROGRAM_COMMS_MAX && scene->comms[comm];
}

static bool is_in_range(const struct random_step *s)
{
    return s->rank >= PROGRAM_ALL && s->number >= 0 && s->number <= COMPUTE_MS_MAX &&
           s->count >= 0 && s->count <= COUNT_MAX && s->shift >= 0 && s->shift < 64 &&
           s->handle >= 0 && s->handle < PROGRAM_HANDLES_MAX && s->priority >= -100 &&
           s->priority <= 100 && s->radix >= 0 && s->radix != 1 && s->radix <= ALGO_RADIX_MAX &&
           s->encoding >= 0 && s->encoding < ENCODING_COUNT && s->links >= ENCODED_HOSTS &&
           s->links <= ENCODED_EVERYWHERE && s->required >= 0 && s->required <= 1 && s->salt >= 0 &&
           s->algorithm >= 0 && s->algorithm <= algo_count &&
           (s->own == 0 || (s->own == 1 && s->algorithm > 0)) && s->starved >= 0 &&
           s->starved <= PROGRAM_RANKS_MAX;
}

static bool is_supported(int op, enum tutti_dtype dtype)
{
    return op == PROGRAM_OP_COMMUTATIVE ? dtype_kind(dtype) != DTYPE_FLOAT
                                        : elements_supported((enum op)op, dtype);
}

/* Whether buffers are of a size that one would like to have eighty of. */
static bool fits(const struct random_step *s)
{
    const size_t styled = s->style == PROGRAM_EVEN ? 1 : 4;
    return (size_t)s->count * tutti_dtype_size((enum tutti_dtype)s->dtype) * PROGRAM_RANKS_MAX *
               styled <=
           (size_t)BYTES_MAX * 8;
}

/* Whether elements of such numbers as programs have can be encoded so. Those of 8 bits have NaN in
 * the place of larger ones. */
static bool takes_encoding(const struct random_step *s)
{
    const enum tutti_dtype dtype = (enum tutti_dtype)s->dtype;
    const enum tutti_encoding encoding = (enum tutti_encoding)s->encoding;
    if (encoding == TUTTI_ENCODING_FP8_E4M3 && dtype != TUTTI_BFLOAT16) return false;
    return encoding_takes(encoding, dtype);
}

/* Whether a call may ask for its encoding. An algorithm that it asks for, too, must keep replicas
 * alike whatever the count. */
static bool call_may_encode(const struct random_step *s)
{
    const bool reduces = collective_reduces((enum collective)s->collective);
    const bool has_units = encoding_unit_elements((enum tutti_encoding)s->encoding) > 1;
    if (!takes_encoding(s) || s->own || s->collective == COLLECTIVE_BARRIER) return false;
    if (s->shape == CALL_VARYING && has_units &&
        !collective_knows_all_counts((enum collective)s->collective))
        return false;
    if (reduces && ((s->op != OP_SUM && s->op != OP_AVG) || s->deterministic)) return false;
    if (s->deterministic && !s->required) return false;
    if (s->algorithm == 0) return true;
    const struct algorithm *const a = &algo_list[s->algorithm - 1];
    return a->has_owners && (!has_units || (a->keeps_units && (!reduces || a->sends_to_owners)));
}

static bool call_is_valid(const struct scene *scene, const struct random_step *s)
{
    const bool varies = s->collective >= COLLECTIVE_GATHER && s->collective < COLLECTIVE_BARRIER;
    if (s->rank < 0 || !fits(s) || !is_supported(s->op, (enum tutti_dtype)s->dtype)) return false;
    if (s->shape == CALL_VARYING && !varies) return false;
    if (program_encodes(s) && !call_may_encode(s)) return false;
    if (s->collective == COLLECTIVE_BARRIER && s->shape != CALL_PLAIN) return false;
    if (s->algorithm > 0 && (int)algo_list[s->algorithm - 1].collective != s->collective)
        return false;
    return s->form != PREPARED || (scene->handles[s->handle] == PROGRAM_ALL && !scene->parallel);
}

static bool message_is_valid(const struct scene *scene, const struct random_step *s)
{
    if (s->rank < 0 || s->number > NUMBER_MAX || !fits(s) || s->form == PREPARED) return false;
    if (program_encodes(s) && !takes_encoding(s)) return false;
    if (s->pattern == PROGRAM_UNAWAITED)
        return s->form == STARTED && scene->depth == 0 && s->number <= UNAWAITED_MAX &&
               (size_t)s->count * tutti_dtype_size((enum tutti_dtype)s->dtype) <=
                   UNAWAITED_BYTES_MAX;
    if (scene->silent[s->comm]) return false;
    const bool lone = s->pattern == PROGRAM_TRUNCATED || s->pattern == PROGRAM_CANCELLED;
    return !lone || (scene->depth == 0 && s->form == STARTED && s->count > 0);
}

static bool sparse_is_valid(const struct random_step *s)
{
    return s->number < NUMBER_MAX && s->count <= SPARSE_ROWS_MAX && s->way >= 0 &&
           s->way < PROGRAM_WAYS && (s->dtype == TUTTI_FLOAT32 || s->dtype == TUTTI_INT64);
}

/* Applies a step to the scene; false: the step is not valid there. */
static bool go_on(const struct random_program *p, struct scene *scene, const struct random_step *s)
{
    const bool quiet = scene->depth == 0 && !scene->parallel;
    const bool has_comm = is_comm(scene, s->comm);
    if (!is_in_range(s)) return false;
    switch (s->verb) {
    case PROGRAM_CALL:
        if (!has_comm || !call_is_valid(scene, s)) return false;
        if (s->form == PREPARED) scene->handles[s->handle] = s->comm;
        return scene->depth == 0 || s->form == BLOCKING;
    case PROGRAM_MESSAGE:
        if (!has_comm || !message_is_valid(scene, s)) return false;
        if (s->pattern == PROGRAM_UNAWAITED) scene->silent[s->comm] = true;
        return scene->depth == 0 || s->form == BLOCKING;
    case PROGRAM_AGAIN: return quiet && scene->handles[s->handle] != PROGRAM_ALL;
    case PROGRAM_SPARSE: return quiet && has_comm && sparse_is_valid(s);
    case PROGRAM_WAIT: return scene->depth == 0 && (has_comm || (s->comm == PROGRAM_ALL && quiet));
    case PROGRAM_COMPUTE: return quiet && s->rank < p->rank_count;
    case PROGRAM_FREE:
        if (!quiet || s->comm == 0 || !has_comm) return false;
        forget_comm(scene, s->comm);
        return true;
    case PROGRAM_BEGIN: scene->depth++; return has_comm && scene->depth <= 3;
    case PROGRAM_END: return has_comm && scene->depth-- > 0;
    case PROGRAM_PARALLEL:
        if (!quiet || scene->doomed) return false;
        return scene->parallel = true;
    case PROGRAM_JOIN:
        if (!scene->parallel || scene->depth > 0) return false;
        scene->parallel = false;
        return true;
    case PROGRAM_KILL:
        if (!quiet || scene->doomed || p->over == PROGRAM_OVER_THREADS || p->stops || s->rank < 0 ||
            s->rank >= p->rank_count || scene->dead >> s->rank & 1 ||
            __builtin_popcount(scene->dead) + 2 > p->rank_count)
            return false;
        scene->dead |= 1u << s->rank;
        return scene->doomed = true;
    case PROGRAM_SHRINK:
        if (!quiet) return false;
        for (int i = 0; i < PROGRAM_COMMS_MAX; i++) forget_comm(scene, i);
        scene->comms[0] = true;
        scene->doomed = false;
        return true;
    case PROGRAM_FORK:
        return quiet && !scene->doomed && p->over != PROGRAM_OVER_THREADS && s->rank < p->rank_count;
    default:
        if (!program_makes(s) || !quiet || scene->doomed || s->number < 2 || s->number > NUMBER_MAX ||
            !is_comm(scene, s->parent) || s->comm <= 0 || s->comm >= PROGRAM_COMMS_MAX || has_comm)
            return false;
        if (s->starved > 0 && (p->over == PROGRAM_OVER_THREADS || s->verb == PROGRAM_MESH))
            return false;
        return scene->comms[s->comm] = true;
    }
}

bool program_is_valid(const struct random_program *p)
{
    struct scene scene = first_scene();
    if (p->rank_count < 1 || p->rank_count > PROGRAM_RANKS_MAX || p->hosts < 1 || p->hosts > 4 ||
        p->step_count < 0 || p->step_count > PROGRAM_STEPS_MAX ||
        (p->over == PROGRAM_OVER_THREADS && (p->hosts > 1 || p->stops)))
        return false;
    for (int i = 0; i < p->step_count; i++)
        if (!go_on(p, &scene, &p->steps[i])) return false;
    return scene.depth == 0 && !scene.parallel && !scene.doomed;
}

/* --------------------------------------------------------------------------------------- chance */

struct author {
    struct chance chance;
    struct random_program *program;
    struct scene scene;
};

static int below(struct author *a, int bound)
{
    return chance_below(&a->chance, bound);
}

static bool once_in(struct author *a, int times)
{
    return below(a, times) == 0;
}

/* Takes the step, if it can be there and all that has begun can still be ended. */
static bool add(struct author *a, const struct random_step *step)
{
    enum { RESERVED = 8 };
    struct scene next = a->scene;
    struct random_program *const p = a->program;
    const bool ends =
        step->verb == PROGRAM_END || step->verb == PROGRAM_JOIN || step->verb == PROGRAM_SHRINK;
    if (p->step_count + (ends ? 0 : RESERVED) >= PROGRAM_STEPS_MAX || !go_on(p, &next, step))
        return false;
    p->steps[p->step_count++] = *step;
    a->scene = next;
    return true;
}

static void draw_buffers(struct author *a, struct random_step *s, int blocks)
{
    const int large = below(a, 12);
    const size_t bytes_max = large == 0 ? BYTES_MAX : large < 4 ? BYTES_MAX / 16 : BYTES_MAX / 256;
    const size_t max = bytes_max / tutti_dtype_size((enum tutti_dtype)s->dtype) / (size_t)blocks;
    s->count =
        once_in(a, 20) ? 0 : (int)chance_of_any_size(&a->chance, max < COUNT_MAX ? max : COUNT_MAX);
    s->memory = below(a, 4);
    s->shift = once_in(a, 2) ? below(a, 64) : 0;
    s->in_place = once_in(a, 3);
    s->salt = below(a, 100000);
    s->style = below(a, 4);
}

/* Half of all steps with an encoding go encoded within a host, too. */
static void draw_encoding(struct author *a, struct random_step *s)
{
    static const int dtypes[] = {TUTTI_FLOAT32, TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_FLOAT16};
    s->dtype = dtypes[below(a, 4)];
    s->op = once_in(a, 2) ? OP_SUM : OP_AVG;
    s->encoding = 1 + below(a, ENCODING_COUNT - 1);
    s->links = once_in(a, 2) ? ENCODED_EVERYWHERE : below(a, 2);
    s->required = below(a, 3) > 0;
}

static void draw_call(struct author *a, struct random_step *s)
{
    s->collective = below(a, COLLECTIVE_COUNT);
    s->shape = once_in(a, 2) ? CALL_PLAIN : below(a, 3);
    s->form = below(a, 3);
    s->rank = below(a, PROGRAM_RANKS_MAX);
    s->handle = below(a, PROGRAM_HANDLES_MAX);
    do {
        s->dtype = below(a, DTYPE_COUNT);
        s->op = below(a, PROGRAM_OP_COMMUTATIVE + 1);
    } while (!is_supported(s->op, (enum tutti_dtype)s->dtype));
    if (once_in(a, 4)) draw_encoding(a, s);
    draw_buffers(a, s, s->collective <= COLLECTIVE_BROADCAST ? 1 : a->program->rank_count);
    if (once_in(a, 3)) s->algorithm = 1 + below(a, algo_count);
    if (once_in(a, 3)) s->radix = 2 + below(a, 4);
    s->deterministic = once_in(a, 6);
    s->priority = once_in(a, 4) ? below(a, 201) - 100 : 0;
    if (s->form != PREPARED) s->handle = 0;
    if (s->shape != CALL_VARYING) s->style = PROGRAM_EVEN;
    for (int i = 0; s->algorithm > 0 && i < algo_count; i++) /* one that fits, if there is one */
        if ((int)algo_list[s->algorithm - 1].collective != s->collective)
            s->algorithm = s->algorithm % algo_count + 1;
    s->own = s->algorithm > 0 && once_in(a, 4);
}

static void draw_message(struct author *a, struct random_step *s)
{
    s->pattern = once_in(a, 5) ? below(a, 5) : below(a, 2);
    s->form = s->pattern > PROGRAM_ANY_RANK ? STARTED : below(a, 2);
    s->rank = below(a, PROGRAM_RANKS_MAX);
    s->number = 1 + below(a, 5);
    s->dtype = below(a, DTYPE_COUNT);
    if (once_in(a, 4)) draw_encoding(a, s);
    s->op = 0;
    draw_buffers(a, s, s->number);
    if (s->pattern == PROGRAM_UNAWAITED && s->number > UNAWAITED_MAX) s->number = UNAWAITED_MAX;
    if (s->pattern == PROGRAM_UNAWAITED)
        s->count = below(a, UNAWAITED_BYTES_MAX / (int)tutti_dtype_size((enum tutti_dtype)s->dtype));
    s->in_place = s->style = 0;
}

/* A call or a message on that communicator; in a group one that begins there. */
static void add_traffic(struct author *a, int comm)
{
    for (int i = 0; i < TRIES; i++) {
        struct random_step s = {.verb = once_in(a, 4) ? PROGRAM_MESSAGE : PROGRAM_CALL,
                                .comm = comm};
        if (s.verb == PROGRAM_CALL)
            draw_call(a, &s);
        else
            draw_message(a, &s);
        if (a->scene.depth > 0) s.form = BLOCKING;
        if (add(a, &s)) return;
    }
}

static void add_sparse(struct author *a, int comm)
{
    add(a, &(struct random_step){.verb = PROGRAM_SPARSE,
                                 .comm = comm,
                                 .number = below(a, NUMBER_MAX),
                                 .dtype = once_in(a, 2) ? TUTTI_FLOAT32 : TUTTI_INT64,
                                 .count = (int)chance_of_any_size(&a->chance, SPARSE_ROWS_MAX),
                                 .style = below(a, 4),
                                 .deterministic = once_in(a, 6),
                                 .way = below(a, PROGRAM_WAYS),
                                 .salt = below(a, 100000)});
}

static int some_comm(struct author *a)
{
    int comm;
    do comm = once_in(a, 3) ? 0 : below(a, PROGRAM_COMMS_MAX);
    while (!a->scene.comms[comm]);
    return comm;
}

static void add_wait(struct author *a, int comm)
{
    add(a, &(struct random_step){.verb = PROGRAM_WAIT, .comm = comm, .salt = below(a, 1000)});
}

static void add_made(struct author *a)
{
    struct random_step s = {.verb = PROGRAM_DUP + below(a, 4),
                            .comm = 1 + below(a, PROGRAM_COMMS_MAX - 1),
                            .parent = some_comm(a),
                            .number = 2 + below(a, 3),
                            .salt = below(a, 1000)};
    if (once_in(a, 6) && s.verb != PROGRAM_MESH && a->program->over != PROGRAM_OVER_THREADS)
        s.starved = 1 + below(a, a->program->rank_count);
    add(a, &s);
}

/* Of a thread of its own; otherwise of all communicators. */
static void add_group(struct author *a, int comm)
{
    if (!add(a, &(struct random_step){.verb = PROGRAM_BEGIN, .comm = comm})) return;
    for (int i = 1 + below(a, 6); i > 0; i--) {
        if (once_in(a, 8)) add_group(a, comm);
        add_traffic(a, a->scene.parallel ? comm : some_comm(a));
    }
    add(a, &(struct random_step){.verb = PROGRAM_END, .comm = comm});
}

static void add_parallel(struct author *a)
{
    for (int i = 0; i < 2; i++) add_made(a);
    if (!add(a, &(struct random_step){.verb = PROGRAM_PARALLEL})) return;
    for (int i = 4 + below(a, 8); i > 0; i--) {
        const int comm = some_comm(a);
        if (once_in(a, 6))
            add_wait(a, comm);
        else if (once_in(a, 8))
            add_group(a, comm);
        else
            add_traffic(a, comm);
    }
    add(a, &(struct random_step){.verb = PROGRAM_JOIN});
}

static void add_anything(struct author *a)
{
    const int what = below(a, 100);
    if (what < 55)
        add_traffic(a, some_comm(a));
    else if (what < 60)
        add_sparse(a, some_comm(a));
    else if (what < 70)
        add_wait(a, once_in(a, 2) ? PROGRAM_ALL : some_comm(a));
    else if (what < 72)
        add(a, &(struct random_step){.verb = PROGRAM_FORK,
                                     .rank = below(a, a->program->rank_count + 1) - 1,
                                     .salt = below(a, 1000)});
    else if (what < 75)
        add(a, &(struct random_step){.verb = PROGRAM_COMPUTE,
                                     .rank = below(a, a->program->rank_count + 1) - 1,
                                     .number = 1 + below(a, 40)});
    else if (what < 83)
        add_made(a);
    else if (what < 86)
        add(a, &(struct random_step){.verb = PROGRAM_FREE, .comm = some_comm(a)});
    else if (what < 92)
        add(a,
            &(struct random_step){.verb = PROGRAM_AGAIN, .handle = below(a, PROGRAM_HANDLES_MAX)});
    else if (what < 97)
        add_group(a, 0);
    else
        add_parallel(a);
}

static void add_death(struct author *a)
{
    if (!add(a,
             &(struct random_step){.verb = PROGRAM_KILL, .rank = below(a, a->program->rank_count)}))
        return;
    for (int i = below(a, 6); i > 0; i--) add_traffic(a, some_comm(a));
    add(a, &(struct random_step){.verb = PROGRAM_SHRINK});
}

/* ----------------------------------------------------------------------------------------- jobs */

struct job {
    const char *name;
    int over, hosts, integrity, encryption;
};

static const struct job jobs[] = {
#define X(...) {__VA_ARGS__},
    PROGRAM_JOB_LIST(X)
#undef X
};

const char *program_job_name(int job)
{
    return job < (int)(sizeof jobs / sizeof *jobs) ? jobs[job].name : NULL;
}

void program_draw(struct random_program *p, uint64_t seed, int job, int rank_count)
{
    struct author a = {.chance = {seed, 0}, .program = p, .scene = first_scene()};
    const struct job *const kind = &jobs[job];
    *p = (struct random_program){.seed = seed,
                                 .over = kind->over,
                                 .hosts = kind->hosts,
                                 .integrity = kind->integrity,
                                 .encryption = kind->encryption};
    p->rank_count =
        rank_count > 0 ? rank_count : 2 + below(&a, once_in(&a, 3) ? PROGRAM_RANKS_MAX - 1 : 3);
    if (p->hosts > p->rank_count) p->hosts = p->rank_count;
    const int faults = below(&a, 10);
    p->stops = faults == 0 && p->over != PROGRAM_OVER_THREADS;
    const int length = 8 + below(&a, 30);
    for (int i = 0; i < length; i++) {
        add_anything(&a);
        if (faults == 1 && i == length / 2) add_death(&a);
    }
    add_wait(&a, PROGRAM_ALL);
}

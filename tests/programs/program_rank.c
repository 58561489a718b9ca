#include "tests/programs/program_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "tests/kit/elements.h"
#include "tests/programs/program_sparse.h"
#include "tests/programs/program_work.h"
#include "tests/worlds/ranks.h"

static const uint64_t POLLS_NS_MAX = 120000000000u;

/* GIVE_UP: a rank was killed, and this one has heard of it: it goes on with the next shrink. */
enum outcome { GO_ON, GIVE_UP, FAILED };

struct life {
    const struct random_program *program;
    struct tutti_comm *given;
    struct program_place *place;
    int rank; /* of the first world */
    int killed; /* who is killed before the next shrink, which may be known before this rank is there; -1: nobody */
    struct program_comm comms[PROGRAM_COMMS_MAX];
    struct program_work works[PROGRAM_STEPS_MAX]; /* by step */
    struct program_work *prepared[PROGRAM_HANDLES_MAX];
};

/* A thread of the rank, with the steps on one communicator, or all. */
struct lane {
    struct life *life;
    int comm;
    int first, end; /* steps */
    int depth;      /* of groups */
    enum outcome outcome;
    pthread_t thread;
};

/* ----------------------------------------------------------------------------------- complaints */

static void abort_all(struct life *life, const char *reason)
{
    for (int i = 0; i < PROGRAM_COMMS_MAX; i++)
        if (life->comms[i].comm != NULL) (void)tutti_comm_abort(life->comms[i].comm, reason);
}

static enum outcome complain(struct life *life, int step, const char *what, const char *detail)
{
    char line[PROGRAM_LINE_BYTES];
    program_print_step(&life->program->steps[step], line);
    fprintf(stderr, "rank %d: step %d: %s: %s%s%s\n", life->rank, step, line, what,
            detail[0] != '\0' ? ": " : "", detail);
    abort_all(life, "another rank's step failed");
    return FAILED;
}

static bool blames_the_dead(const struct life *life, const struct program_comm *on)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    return tutti_comm_failure(on->comm, &failure) == TUTTI_OK && failure.culprit >= 0 &&
           failure.culprit < on->size && on->members[failure.culprit] == life->killed;
}

static enum outcome judge(struct life *life, int step, const struct program_comm *on,
                          enum tutti_status status)
{
    if (status == TUTTI_OK) return GO_ON;
    if (life->killed >= 0 &&
        (status == TUTTI_REVOKED || (status == TUTTI_PROC_FAILED && blames_the_dead(life, on))))
        return GIVE_UP;
    return complain(life, step, tutti_status_name(status), tutti_error_message());
}

/* Between the steps from `first` to the next shrink. */
static int killed_from(const struct random_program *program, int first)
{
    for (int i = first; i < program->step_count && program->steps[i].verb != PROGRAM_SHRINK; i++)
        if (program->steps[i].verb == PROGRAM_KILL) return program->steps[i].rank;
    return -1;
}

static void show_place(const struct lane *lane, int step)
{
    const int thread = lane->comm == PROGRAM_ALL ? 0 : lane->comm;
    atomic_store_explicit(&lane->life->place->step[thread], step + 1, memory_order_relaxed);
}

/* ---------------------------------------------------------------------------------------- works */

/* Writes down the bits of a result that other ranks have, too. */
static void show_replica(struct life *life, struct program_work *work)
{
    struct program_replica *const replica = &life->place->replicas[work->index];
    uint64_t number;
    if (!program_work_replica(work, &number)) return;
    uint64_t members = 1;
    for (int i = 0; i < work->on->size; i++)
        members = elements_mixed(members, (uint64_t)work->on->members[i]) | 1;
    replica->members = members;
    replica->bits = elements_mixed(replica->bits, number);
    replica->turns++;
}

int program_replicas_differ(const struct random_program *program, const struct program_place *places)
{
    int differ = 0;
    for (int i = 0; i < program->step_count; i++)
        for (int rank = 1; rank < program->rank_count; rank++)
            for (int other = 0; other < rank; other++) {
                const struct program_replica *const a = &places[rank].replicas[i],
                                                    *const b = &places[other].replicas[i];
                char line[PROGRAM_LINE_BYTES];
                if (a->members == 0 || a->members != b->members || a->turns != b->turns ||
                    a->bits == b->bits)
                    continue;
                program_print_step(&program->steps[i], line);
                fprintf(stderr, "rank %d: step %d: %s: other bits than rank %d\n", rank, i, line,
                        other);
                differ++;
            }
    return differ;
}

/* All its requests must be done. A prepared call stays. */
static enum outcome close_work(struct life *life, struct program_work *work)
{
    char text[160];
    const int step = work->index;
    const char *const complaint = program_work_complaint(work, text);
    work->is_open = false;
    if (complaint != NULL) return complain(life, step, complaint, "");
    show_replica(life, work);
    if (work->prepared == NULL) program_work_release(work);
    return GO_ON;
}

/* Whether the work of a step on comm, or PROGRAM_ALL, is under way. Touches no work of another
 * lane. */
static bool is_open(const struct lane *lane, int step, int comm)
{
    const struct life *const life = lane->life;
    const int on = life->program->steps[step].comm;
    return (lane->comm == PROGRAM_ALL || lane->comm == on) && (comm == PROGRAM_ALL || comm == on) &&
           life->works[step].step != NULL && life->works[step].is_open;
}

static enum outcome begin_work(struct lane *lane, struct program_work *work)
{
    struct life *const life = lane->life;
    const int step = work->index;
    const bool grouped = lane->depth > 0;
    const enum outcome outcome = judge(life, step, work->on, program_work_begin(work, grouped));
    if (outcome != GO_ON || work->step->form != BLOCKING || grouped) return outcome;
    return close_work(life, work);
}

static enum outcome new_work(struct lane *lane, int index)
{
    struct life *const life = lane->life;
    const struct random_step *const step = &life->program->steps[index];
    struct program_work *const work = &life->works[index];
    const struct program_comm *const on = &life->comms[step->comm];
    if (on->comm == NULL) return GO_ON;
    if (!program_work_init(work, step, index, on)) return complain(life, index, "no memory", "");
    if (step->form == PREPARED) life->prepared[step->handle] = work;
    return begin_work(lane, work);
}

/* ---------------------------------------------------------------------------------------- waits */

struct waiting {
    struct program_work *work;
    int request;
};

/* One after the other, or all at once by looking again and again. */
static enum outcome wait_for(struct life *life, struct waiting *list, int count, bool polls)
{
    const uint64_t deadline_ns = clock_now_ns() + POLLS_NS_MAX;
    while (count > 0) {
        int left = 0;
        for (int i = 0; i < count; i++) {
            struct program_work *const work = list[i].work;
            const enum tutti_status status = program_work_wait(work, list[i].request, polls);
            if (status == TUTTI_IN_PROGRESS) {
                if (clock_now_ns() > deadline_ns)
                    return complain(life, work->index, "still in progress", "");
                list[left++] = list[i];
                continue;
            }
            const enum outcome outcome = judge(life, work->index, work->on, status);
            if (outcome != GO_ON) return outcome;
        }
        count = left;
        if (count > 0) usleep(20);
    }
    return GO_ON;
}

/* Waits for all that was started on comm, or half of it, in an order of this rank's own. */
static enum outcome wait_on(struct lane *lane, int comm, int salt)
{
    enum { WAITING_MAX = PROGRAM_STEPS_MAX * PROGRAM_REQUESTS_MAX };
    static _Thread_local struct waiting list[WAITING_MAX];
    struct life *const life = lane->life;
    uint64_t random = elements_mixed((uint64_t)salt, (uint64_t)life->rank);
    bool chosen[PROGRAM_STEPS_MAX] = {false};
    int count = 0;
    enum outcome outcome = GO_ON;
    for (int i = 0; i < life->program->step_count; i++) {
        struct program_work *const work = &life->works[i];
        chosen[i] = is_open(lane, i, comm) && (salt % 4 != 1 || spread_random(&random) % 2 == 0);
        for (int r = 0; chosen[i] && r < work->request_count; r++) {
            const int place =
                salt % 3 == 0 ? count : (int)(spread_random(&random) % (unsigned)(count + 1));
            list[count++] = list[place];
            list[place] = (struct waiting){work, r};
        }
    }
    outcome = wait_for(life, list, count, salt % 7 < 3);
    for (int i = 0; i < life->program->step_count && outcome == GO_ON; i++)
        if (chosen[i]) outcome = close_work(life, &life->works[i]);
    return outcome;
}

/* However it ends: so that the buffers may be given back. After a death, what ends well is right
 * also now. */
static enum outcome drain(struct life *life, bool judges)
{
    enum outcome outcome = GO_ON;
    for (int i = 0; i < life->program->step_count; i++) {
        struct program_work *const work = &life->works[i];
        enum outcome ended = GO_ON;
        if (work->step == NULL || !work->is_open) continue;
        for (int r = 0; r < work->request_count; r++) {
            const bool was_under_way = work->requests[r] != NULL;
            const enum tutti_status status = program_work_wait(work, r, false);
            if (!was_under_way || status != TUTTI_OK) ended = GIVE_UP;
            if (judges && was_under_way && judge(life, i, work->on, status) == FAILED)
                outcome = FAILED;
        }
        work->is_open = false;
        if (judges && ended == GO_ON && close_work(life, work) == FAILED) outcome = FAILED;
    }
    return outcome;
}

static void release_works(struct life *life, const struct program_comm *on)
{
    for (int i = 0; i < life->program->step_count; i++)
        if (life->works[i].step != NULL && (on == NULL || life->works[i].on == on))
            program_work_release(&life->works[i]);
}

/* -------------------------------------------------------------------------------- communicators */

static void add_member(struct program_comm *made, const struct program_comm *parent, int member)
{
    if (member == parent->rank) made->rank = made->size;
    made->members[made->size++] = parent->members[member];
}

/* Those of the parent whose place in it has that remainder (quotient: or that quotient). */
static void add_alike(struct program_comm *made, const struct program_comm *parent, int by,
                      bool quotient, bool backwards)
{
    for (int i = 0; i < parent->size; i++) {
        const int member = backwards ? parent->size - 1 - i : i;
        if (quotient ? member / by == parent->rank / by : member % by == parent->rank % by)
            add_member(made, parent, member);
    }
}

static enum tutti_status split(struct program_comm *made, const struct program_comm *parent,
                               const struct random_step *step)
{
    const bool backwards = step->salt % 2 != 0;
    const bool leaves = step->salt % 5 == 4 && parent->rank % step->number == 1;
    add_alike(made, parent, step->number, false, backwards);
    return tutti_comm_split(parent->comm, leaves ? TUTTI_NO_COLOR : parent->rank % step->number,
                            backwards ? -parent->rank : parent->rank, NULL, &made->comm);
}

static enum tutti_status group(struct program_comm *made, const struct program_comm *parent,
                               const struct random_step *step)
{
    int ranks[PROGRAM_RANKS_MAX], count = 0;
    bool is_here = false;
    for (int i = 0; i < parent->size; i++) {
        const int member = step->salt % 2 != 0 ? parent->size - 1 - i : i;
        if (member % step->number == step->number - 1) continue;
        is_here |= member == parent->rank;
        ranks[count++] = member;
        add_member(made, parent, member);
    }
    return is_here ? tutti_comm_group(parent->comm, ranks, count, NULL, &made->comm) : TUTTI_OK;
}

static enum tutti_status mesh(struct program_comm *made, const struct program_comm *parent,
                              const struct random_step *step)
{
    const int inner = parent->size % step->number == 0 ? step->number : 1;
    const bool is_inner = step->salt % 2 != 0;
    const struct tutti_axis axes[] = {{"outer", parent->size / inner, NULL}, {"inner", inner, NULL}};
    add_alike(made, parent, inner, is_inner, false);
    const enum tutti_status status = tutti_mesh_create(parent->comm, axes, 2, &made->mesh);
    if (status == TUTTI_OK) made->comm = tutti_mesh_axis(made->mesh, axes[is_inner].name);
    return status;
}

/* Leaves this process so many descriptors; returns the limit there was, for setrlimit. */
static struct rlimit starve(int descriptors)
{
    struct rlimit was;
    if (getrlimit(RLIMIT_NOFILE, &was) != 0) abort();
    struct rlimit few = {0, was.rlim_max};
    for (int left = descriptors; left >= 0 && few.rlim_cur < was.rlim_cur; few.rlim_cur++)
        left -= fcntl((int)few.rlim_cur, F_GETFD) < 0;
    few.rlim_cur -= few.rlim_cur > 0; /* the one that was too many */
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) abort();
    return was;
}

/* Whether all members of a new communicator have it, or none. */
static enum outcome agree(struct life *life, int index, const struct program_comm *parent,
                          const struct program_comm *made, enum tutti_status status)
{
    const int has = status == TUTTI_OK;
    int all[PROGRAM_RANKS_MAX];
    const enum outcome outcome =
        judge(life, index, parent, tutti_allgather(&has, all, 1, TUTTI_INT32, parent->comm));
    const bool is_member =
        made->size > 0 && made->members[made->rank] == parent->members[parent->rank];
    for (int i = 0; i < parent->size && is_member && outcome == GO_ON; i++)
        for (int m = 0; m < made->size; m++)
            if (made->members[m] == parent->members[i] && all[i] != has)
                return complain(life, index, "not all members have it", tutti_error_message());
    return outcome;
}

static enum tutti_status make_from(struct program_comm *made, const struct program_comm *parent,
                                   const struct random_step *step)
{
    *made = (struct program_comm){0};
    switch (step->verb) {
    case PROGRAM_SPLIT: return split(made, parent, step);
    case PROGRAM_GROUP: return group(made, parent, step);
    case PROGRAM_MESH: return mesh(made, parent, step);
    default:
        *made = *parent;
        made->mesh = NULL;
        return tutti_comm_dup(parent->comm, NULL, &made->comm);
    }
}

/* Each rank has something of each other one, and so a connection with it. */
static enum outcome meet(struct life *life, int index, const struct program_comm *on)
{
    const int give[PROGRAM_RANKS_MAX] = {0};
    int take[PROGRAM_RANKS_MAX];
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = "pairwise";
    return judge(life, index, on,
                 tutti_alltoall_with(give, take, 1, TUTTI_INT32, &options, on->comm));
}

/* One rank has hardly any descriptors left meanwhile, and nothing else is under way: whether the
 * communicator is made or not, all members have the same, and the parent goes on. */
static enum outcome make_starved(struct lane *lane, int index)
{
    enum { DESCRIPTORS_MAX = 8 };
    struct life *const life = lane->life;
    const struct random_step *const step = &life->program->steps[index];
    const struct program_comm *const parent = &life->comms[step->parent];
    struct program_comm *const made = &life->comms[step->comm];
    enum outcome outcome = wait_on(lane, PROGRAM_ALL, 0);
    if (outcome == GO_ON) outcome = meet(life, index, parent);
    if (outcome != GO_ON) return outcome;
    const bool is_starved = parent->rank == (step->starved - 1) % parent->size;
    const struct rlimit was = starve(is_starved ? step->salt % DESCRIPTORS_MAX : INT_MAX / 2);
    const enum tutti_status status = make_from(made, parent, step);
    if (setrlimit(RLIMIT_NOFILE, &was) != 0) abort();
    if (status != TUTTI_OK && (made->comm != NULL || status == TUTTI_INIT_TIMEOUT ||
                               status == TUTTI_TIMEOUT || status == TUTTI_INTERNAL))
        return complain(life, index, tutti_status_name(status), tutti_error_message());
    outcome = agree(life, index, parent, made, status);
    if (status != TUTTI_OK) *made = (struct program_comm){0};
    return outcome;
}

static enum outcome make(struct lane *lane, int index)
{
    struct life *const life = lane->life;
    const struct random_step *const step = &life->program->steps[index];
    const struct program_comm *const parent = &life->comms[step->parent];
    struct program_comm *const made = &life->comms[step->comm];
    if (parent->comm == NULL) return GO_ON;
    if (step->starved > 0) return make_starved(lane, index);
    const enum tutti_status status = make_from(made, parent, step);
    if (status == TUTTI_PROC_FAILED && life->killed >= 0)
        return GIVE_UP; /* no communicator tells of it */
    if (status != TUTTI_OK) return judge(life, index, parent, status);
    if (made->comm != NULL &&
        (tutti_comm_rank(made->comm) != made->rank || tutti_comm_size(made->comm) != made->size))
        return complain(life, index, "another rank or size", "");
    return GO_ON;
}

static enum tutti_status free_comm(struct life *life, struct program_comm *on)
{
    enum tutti_status status = TUTTI_OK;
    release_works(life, on);
    if (on->mesh != NULL)
        status = tutti_mesh_free(on->mesh);
    else if (on->comm != life->given)
        status = tutti_comm_free(on->comm);
    *on = (struct program_comm){0};
    return status;
}

static enum outcome free_step(struct lane *lane, int index)
{
    struct life *const life = lane->life;
    const int comm = life->program->steps[index].comm;
    if (life->comms[comm].comm == NULL) return GO_ON;
    const enum outcome outcome = wait_on(lane, comm, 0);
    if (outcome != GO_ON) return outcome;
    const enum tutti_status status = free_comm(life, &life->comms[comm]);
    if (status == TUTTI_OK) return GO_ON;
    return complain(life, index, tutti_status_name(status), tutti_error_message());
}

/* A rank that knows of a death ends the calls that the others wait in; the survivors make a new
 * world. */
static enum outcome shrink(struct lane *lane, int index)
{
    struct life *const life = lane->life;
    struct program_comm *const world = &life->comms[0];
    struct program_comm next = {0};
    if (life->killed < 0 && wait_on(lane, PROGRAM_ALL, 0) != GO_ON) return FAILED;
    for (int i = 0; i < PROGRAM_COMMS_MAX && life->killed >= 0; i++)
        if (life->comms[i].comm != NULL) (void)tutti_comm_revoke(life->comms[i].comm);
    if (drain(life, true) == FAILED) return FAILED;
    const enum tutti_status status = tutti_comm_shrink(world->comm, NULL, &next.comm);
    if (status != TUTTI_OK)
        return complain(life, index, tutti_status_name(status), tutti_error_message());
    for (int i = 0; i < world->size; i++)
        if (world->members[i] != life->killed) add_member(&next, world, i);
    for (int i = 0; i < PROGRAM_COMMS_MAX; i++)
        if (life->comms[i].comm != NULL) (void)free_comm(life, &life->comms[i]);
    *world = next;
    life->killed = killed_from(life->program, index + 1);
    if (tutti_comm_size(next.comm) == next.size && tutti_comm_rank(next.comm) == next.rank)
        return GO_ON;
    return complain(life, index, "another rank or size", "");
}

/* ------------------------------------------------------------------------------------- children */

/* What a child does: it ends at once, or is refused what it inherited, or makes its own
 * communicator beside that or in its place. */
enum child { ENDS, IS_REFUSED, MAKES_ITS_OWN, FREES_AND_MAKES, CHILD_KINDS };

static int be_child(const struct life *life, enum child kind)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *const world = life->comms[0].comm, *own;
    int64_t one = 1, sum = 0;
    options.rank = 0;
    options.size = 1;
    if (kind == ENDS) return 0;
    if (tutti_barrier(world) != TUTTI_INVALID_COMM) return 1;
    if (kind == IS_REFUSED) return 0;
    if (kind == FREES_AND_MAKES && tutti_comm_free(world) != TUTTI_OK) return 2;
    if (tutti_comm_create(&options, &own) != TUTTI_OK) return 3;
    if (tutti_allreduce(&one, &sum, 1, TUTTI_INT64, TUTTI_SUM, own) != TUTTI_OK || sum != 1)
        return 4;
    return tutti_comm_free(own) == TUTTI_OK ? 0 : 5;
}

static enum outcome fork_step(struct life *life, int index)
{
    enum { SECONDS_MAX = 60 };
    const struct random_step *const step = &life->program->steps[index];
    char how[40];
    int status = 0;
    if (step->rank != PROGRAM_ALL && step->rank != life->rank) return GO_ON;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(SECONDS_MAX);
        _exit(be_child(life, (enum child)(step->salt % CHILD_KINDS)));
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (pid > 0 && status == 0) return GO_ON;
    snprintf(how, sizeof how, "%s %d", WIFSIGNALED(status) ? "signal" : "exit status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return complain(life, index, pid < 0 ? "no child" : "its child failed", how);
}

/* --------------------------------------------------------------------------------- sparse calls */

static enum outcome sparse_step(struct life *life, int index)
{
    const struct random_step *const step = &life->program->steps[index];
    const struct program_comm *const on = &life->comms[step->comm];
    enum tutti_status status;
    char text[160];
    if (on->comm == NULL) return GO_ON;
    const char *const complaint = program_sparse_run(step, on, &status, text);
    return complaint != NULL ? complain(life, index, complaint, "") : judge(life, index, on, status);
}

/* --------------------------------------------------------------------------------------- groups */

static enum outcome end_group(struct lane *lane, int index)
{
    struct life *const life = lane->life;
    const struct program_comm *failed = &life->comms[life->program->steps[index].comm];
    const enum tutti_status status = tutti_group_end();
    lane->depth--;
    for (int i = 0; i < index && status != TUTTI_OK; i++) { /* whose failure it is */
        struct tutti_failure failure = {.size_bytes = sizeof failure};
        const struct program_work *const work = &life->works[i];
        if (is_open(lane, i, PROGRAM_ALL) &&
            tutti_comm_failure(work->on->comm, &failure) == TUTTI_OK && failure.status == status)
            failed = work->on;
    }
    enum outcome outcome = judge(life, index, failed, status);
    for (int i = 0; i < index && lane->depth == 0 && outcome == GO_ON; i++)
        if (is_open(lane, i, PROGRAM_ALL) && life->works[i].step->form == BLOCKING)
            outcome = close_work(life, &life->works[i]);
    return outcome;
}

/* -------------------------------------------------------------------------------------- threads */

static enum outcome run_steps(struct lane *lane);

static void *run_lane(void *context)
{
    struct lane *const lane = context;
    lane->outcome = run_steps(lane);
    return NULL;
}

static int join_of(const struct random_program *program, int step)
{
    while (program->steps[step].verb != PROGRAM_JOIN) step++;
    return step;
}

static enum outcome run_parallel(struct life *life, int first, int end)
{
    struct lane lanes[PROGRAM_COMMS_MAX];
    enum outcome outcome = GO_ON;
    for (int i = 0; i < PROGRAM_COMMS_MAX; i++) {
        lanes[i] = (struct lane){.life = life, .comm = i, .first = first, .end = end};
        if (life->comms[i].comm != NULL &&
            pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]) != 0)
            abort();
    }
    for (int i = 0; i < PROGRAM_COMMS_MAX; i++) {
        if (life->comms[i].comm != NULL) pthread_join(lanes[i].thread, NULL);
        if (lanes[i].outcome > outcome) outcome = lanes[i].outcome;
    }
    return outcome;
}

/* ---------------------------------------------------------------------------------------- steps */

static enum outcome run_step(struct lane *lane, int *index)
{
    struct life *const life = lane->life;
    const int i = *index;
    const struct random_step *const step = &life->program->steps[i];
    struct program_work *work;
    enum outcome outcome;
    switch (step->verb) {
    case PROGRAM_CALL:
    case PROGRAM_MESSAGE: return new_work(lane, i);
    case PROGRAM_AGAIN:
        work = life->prepared[step->handle];
        if (work == NULL || work->step == NULL) return GO_ON; /* on a communicator of others */
        outcome = work->is_open ? wait_for(life, &(struct waiting){work, 0}, 1, false) : GO_ON;
        if (outcome == GO_ON && work->is_open) outcome = close_work(life, work);
        return outcome == GO_ON ? begin_work(lane, work) : outcome;
    case PROGRAM_SPARSE: return sparse_step(life, i);
    case PROGRAM_WAIT: return wait_on(lane, step->comm, step->salt);
    case PROGRAM_COMPUTE:
        if (step->rank == PROGRAM_ALL || step->rank == life->rank) ranks_nap_ms(step->number);
        return GO_ON;
    case PROGRAM_FREE: return free_step(lane, i);
    case PROGRAM_BEGIN: lane->depth++; return judge(life, i, &life->comms[0], tutti_group_begin());
    case PROGRAM_END: return end_group(lane, i);
    case PROGRAM_PARALLEL:
        *index = join_of(life->program, i);
        return run_parallel(life, i + 1, *index);
    case PROGRAM_KILL:
        if (life->rank == step->rank) kill(getpid(), SIGKILL);
        return GO_ON;
    case PROGRAM_SHRINK: return shrink(lane, i);
    case PROGRAM_FORK: return fork_step(life, i);
    default: return make(lane, i);
    }
}

static enum outcome run_steps(struct lane *lane)
{
    const struct random_program *const program = lane->life->program;
    enum outcome outcome = GO_ON;
    for (int i = lane->first; i < lane->end && outcome != FAILED; i++) {
        const struct random_step *const step = &program->steps[i];
        if (lane->comm != PROGRAM_ALL && step->comm != lane->comm) continue;
        const bool is_end = step->verb == PROGRAM_SHRINK || step->verb == PROGRAM_KILL;
        if (outcome == GIVE_UP && !is_end) continue;
        show_place(lane, i);
        const enum outcome next = run_step(lane, &i);
        if (step->verb != PROGRAM_KILL || next != GO_ON) outcome = next;
        while (outcome != GO_ON && lane->depth > 0) {
            lane->depth--;
            (void)!tutti_group_end();
        }
        atomic_fetch_add_explicit(&lane->life->place->steps_done, 1, memory_order_relaxed);
    }
    return outcome;
}

int program_rank_run(const struct random_program *program, struct tutti_comm *world,
                     struct program_place *place)
{
    struct life *const life = calloc(1, sizeof *life);
    if (life == NULL) return 1;
    life->program = program;
    life->given = world;
    life->place = place;
    life->rank = tutti_comm_rank(world);
    life->killed = killed_from(program, 0);
    life->comms[0] =
        (struct program_comm){.comm = world, .rank = life->rank, .size = tutti_comm_size(world)};
    for (int i = 0; i < life->comms[0].size; i++) life->comms[0].members[i] = i;
    atomic_store(&place->pid, (int)getpid());
    struct lane lane = {.life = life, .comm = PROGRAM_ALL, .end = program->step_count};
    enum outcome outcome = run_steps(&lane);
    if (outcome == GO_ON) outcome = wait_on(&lane, PROGRAM_ALL, 0);
    if (outcome != GO_ON) (void)drain(life, false);
    release_works(life, NULL);
    for (int i = PROGRAM_COMMS_MAX - 1; i >= 0; i--)
        if (life->comms[i].comm != NULL) (void)free_comm(life, &life->comms[i]);
    atomic_store(&place->pid, 0);
    for (int i = 0; i < PROGRAM_COMMS_MAX; i++) atomic_store(&place->step[i], 0);
    free(life);
    return outcome != GO_ON;
}

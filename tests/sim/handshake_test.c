/* Two handshakes without locks, in every order in which their steps and the stores between them can
 * happen:
 *
 *   sleeping   (transport/local/bells.h)              a message is never slept through
 *   quiescing  (health/quiesce.h)        memory goes back to the application when no peer can read it any more
 *
 * The model is that of x86's memory, TSO: a thread's stores wait in a buffer of its own, which
 * memory takes in their order at any later time; its own loads see them before. A fence waits until
 * the buffer is empty, and so does a read-modify-write. The kernel's fence (membarrier) empties all
 * buffers at once, between two steps of each thread. Weaker machines also exchange loads, which
 * changes nothing here: only the side of a fence on which the program has each step counts.
 *
 * The programs are written by hand, one line for each line of the sources. The explorer also
 * explores each program with planted mistakes, one at a time, and then must find an order that goes
 * wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS_MAX = 3, BUFFER_MAX = 6, STATES_MAX = 1 << 16, REGISTERS = 2 };

/* Words of shared memory. */
enum word {
    MESSAGE_1, /* what the first publisher has published: messages */
    MESSAGE_2, /* the second */
    ASLEEP_WORD,
    SLEEPERS,
    RING,
    DOOR, /* a datagram lies at the door: the kernel's, not in a buffer */
    ENGAGED,
    FAILED,
    FREED,
    WORDS
};

enum kind {
    STORE,     /* word = value */
    STORE_OWN, /* word = register + value */
    LOAD,      /* register = word */
    ADD,       /* word += value, at once */
    SET,       /* word = value, at once: by the kernel */
    SWAP,      /* if word is register: word = value, at once */
    FENCE,
    FENCE_ALL,
    COUNT,       /* register 1 += value */
    JUMP_IF,     /* register is value: to `target` */
    JUMP_UNLESS, /* it is not */
    AWAIT,       /* until word, in memory, is value */
    AWAIT_OTHER, /* until it is not the register */
    TOUCH,       /* wrong when word is value in memory */
    END
};

struct step {
    enum kind kind;
    enum word word;
    uint8_t reg, value, target;
};

struct program {
    const struct step *steps[THREADS_MAX];
    int thread_count;
    uint8_t sleepers; /* at the beginning */
};

struct store {
    uint8_t word, value;
};

struct thread {
    uint8_t at, buffered, registers[REGISTERS];
    struct store buffer[BUFFER_MAX];
};

/* No padding: states are compared as bytes. */
struct state {
    uint8_t memory[WORDS];
    struct thread threads[THREADS_MAX];
};

struct search {
    const struct program *program;
    struct state *states; /* all that were seen; those from `done` on are still to be gone on from */
    uint32_t *table;      /* their numbers + 1, by hash */
    uint32_t count, done;
    const char *wrong; /* NULL: nothing */
};

static uint64_t hash_of(const struct state *state)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *state; i++)
        hash = (hash ^ ((const unsigned char *)state)[i]) * 1099511628211u;
    return hash ^ hash >> 29;
}

static void meet(struct search *search, const struct state *state)
{
    uint64_t at = hash_of(state) % (2 * STATES_MAX);
    for (; search->table[at] != 0; at = (at + 1) % (2 * STATES_MAX))
        if (memcmp(&search->states[search->table[at] - 1], state, sizeof *state) == 0) return;
    assert_true(search->count < STATES_MAX);
    search->states[search->count] = *state;
    search->table[at] = ++search->count;
}

static uint8_t seen_by(const struct state *state, const struct thread *thread, enum word word)
{
    for (int i = thread->buffered - 1; i >= 0; i--)
        if (thread->buffer[i].word == word) return thread->buffer[i].value;
    return state->memory[word];
}

static void flush_one(struct state *state, struct thread *thread)
{
    state->memory[thread->buffer[0].word] = thread->buffer[0].value;
    thread->buffered--;
    memmove(thread->buffer, thread->buffer + 1, thread->buffered * sizeof *thread->buffer);
    memset(&thread->buffer[thread->buffered], 0, sizeof *thread->buffer);
}

static void flush_all(struct state *state, struct thread *thread)
{
    while (thread->buffered > 0) flush_one(state, thread);
}

static void buffer(struct thread *thread, enum word word, uint8_t value)
{
    assert_true(thread->buffered < BUFFER_MAX);
    thread->buffer[thread->buffered++] = (struct store){(uint8_t)word, value};
}

/* The thread's next step. False: it cannot take it now. */
static bool take_step(struct search *search, struct state *state, int number)
{
    struct thread *const thread = &state->threads[number];
    const struct step *const step = &search->program->steps[number][thread->at];
    uint8_t *const reg = &thread->registers[step->reg], *const word = &state->memory[step->word];
    uint8_t next = (uint8_t)(thread->at + 1);
    switch (step->kind) {
    case STORE: buffer(thread, step->word, step->value); break;
    case STORE_OWN: buffer(thread, step->word, (uint8_t)(*reg + step->value)); break;
    case LOAD: *reg = seen_by(state, thread, step->word); break;
    case ADD:
        flush_all(state, thread);
        *word = (uint8_t)(*word + step->value);
        break;
    case SET: *word = step->value; break;
    case SWAP:
        flush_all(state, thread);
        if (*word == *reg) *word = step->value;
        break;
    case FENCE: flush_all(state, thread); break;
    case FENCE_ALL:
        for (int t = 0; t < search->program->thread_count; t++)
            flush_all(state, &state->threads[t]);
        break;
    case COUNT: thread->registers[1] = (uint8_t)(thread->registers[1] + step->value); break;
    case JUMP_IF:
        if (*reg == step->value) next = step->target;
        break;
    case JUMP_UNLESS:
        if (*reg != step->value) next = step->target;
        break;
    case AWAIT:
        if (*word != step->value) return false;
        break;
    case AWAIT_OTHER:
        if (*word == *reg) return false;
        break;
    case TOUCH:
        if (*word == step->value) search->wrong = "memory is read that was given back";
        break;
    case END: return false;
    }
    thread->at = next;
    return true;
}

static void go_on_from(struct search *search, const struct state *from)
{
    bool can_move = false, is_over = true;
    for (int t = 0; t < search->program->thread_count; t++) {
        struct state next = *from;
        is_over &= search->program->steps[t][from->threads[t].at].kind == END;
        if (take_step(search, &next, t)) {
            can_move = true;
            meet(search, &next);
        }
        if (from->threads[t].buffered == 0) continue;
        next = *from;
        flush_one(&next, &next.threads[t]);
        can_move = true;
        meet(search, &next);
    }
    if (!can_move && !is_over) search->wrong = "somebody sleeps, and nobody will wake it";
}

/* NULL: in no order does anything go wrong. */
static const char *explore(const struct program *program, uint32_t *state_count)
{
    struct search search = {.program = program,
                            .states = malloc(STATES_MAX * sizeof *search.states),
                            .table = calloc(2 * STATES_MAX, sizeof *search.table)};
    struct state first;
    assert_true(search.states != NULL && search.table != NULL);
    memset(&first, 0, sizeof first);
    first.memory[SLEEPERS] = program->sleepers;
    meet(&search, &first);
    while (search.done < search.count && search.wrong == NULL) {
        const struct state from = search.states[search.done++];
        go_on_from(&search, &from);
    }
    *state_count = search.count;
    free(search.states);
    free(search.table);
    return search.wrong;
}

static void expect_right(const char *name, const struct program *program)
{
    uint32_t states;
    const char *const wrong = explore(program, &states);
    printf("%s: %u states\n", name, states);
    if (wrong != NULL) fail_msg("%s: %s", name, wrong);
    assert_true(states > 100); /* it went somewhere */
}

static void expect_wrong(const char *name, const struct program *program, const char *what)
{
    uint32_t states;
    const char *const wrong = explore(program, &states);
    printf("%s: %s, after %u states\n", name, wrong != NULL ? wrong : "nothing found", states);
    if (wrong == NULL || strstr(wrong, what) == NULL)
        fail_msg("%s: the mistake is not found", name);
}

/* ------------------------------------------------------------------------------ sleeping: futex */

/* A step: kind, word, register, value, target; values that are missing at the end are 0. */
#define ALL_OF(kind, word, reg, value, target, ...) \
    {                                               \
        kind, word, reg, value, target              \
    }
#define S(...) ALL_OF(__VA_ARGS__, 0, 0, 0, 0, 0)

enum { SLEEPER_STEPS = 16, AT_SEEN = 0, AT_FENCE = 3, AT_LOOK = 4 };

/* Until a message of each publisher is there. bells_sleep_begin, the last look (call/wait_loop.c),
 * bells_sleep. */
static void write_sleeper(struct step steps[SLEEPER_STEPS])
{
    static const struct step sleeper[SLEEPER_STEPS] = {
        S(LOAD, RING, 1),            /* ring_seen */
        S(STORE, ASLEEP_WORD, 0, 1), /* asleep = ASLEEP */
        S(ADD, SLEEPERS, 0, 1),
        S(FENCE_ALL),
        S(LOAD, MESSAGE_1, 0),  /* the last look */
        S(JUMP_IF, 0, 0, 0, 8), /* nothing yet: sleep */
        S(LOAD, MESSAGE_2, 0),
        S(JUMP_IF, 0, 0, 1, 12),
        S(AWAIT_OTHER, RING, 1), /* futex_wait */
        S(STORE, ASLEEP_WORD, 0, 0),
        S(ADD, SLEEPERS, 0, UINT8_MAX),
        S(JUMP_UNLESS, 0, 0, 77, 0), /* always: look again */
        S(STORE, ASLEEP_WORD, 0, 0), /* bells_sleep_cancel */
        S(ADD, SLEEPERS, 0, UINT8_MAX),
        S(END),
        S(END),
    };
    memcpy(steps, sleeper, sizeof sleeper);
}

enum { PUBLISHER_STEPS = 8, AT_PUBLISHER_FENCE = 3 };

/* ends_announce, bells_somebody_sleeps, bells_ring. */
static void write_publisher(struct step steps[PUBLISHER_STEPS], enum word message, bool fences)
{
    const struct step publisher[PUBLISHER_STEPS] = {
        S(STORE, message, 0, 1),
        S(LOAD, SLEEPERS, 0),
        S(JUMP_IF, 0, 0, 0, 7),
        S(FENCE),
        S(LOAD, ASLEEP_WORD, 0),
        S(JUMP_IF, 0, 0, 0, 7),
        S(ADD, RING, 0, 1), /* and futex_wake */
        S(END),
    };
    memcpy(steps, publisher, sizeof publisher);
    /* Without one it looks twice at the number of sleepers, which is nothing. */
    if (!fences) steps[AT_PUBLISHER_FENCE] = (struct step)S(LOAD, SLEEPERS, 0);
}

struct sleeping {
    struct step sleeper[SLEEPER_STEPS], publishers[2][PUBLISHER_STEPS];
    struct program program;
};

static void write_sleeping(struct sleeping *sleeping, bool has_membarrier)
{
    write_sleeper(sleeping->sleeper);
    if (!has_membarrier) sleeping->sleeper[AT_FENCE].kind = FENCE;
    write_publisher(sleeping->publishers[0], MESSAGE_1, !has_membarrier);
    write_publisher(sleeping->publishers[1], MESSAGE_2, !has_membarrier);
    sleeping->program = (struct program){
        .steps = {sleeping->sleeper, sleeping->publishers[0], sleeping->publishers[1]},
        .thread_count = 3,
        .sleepers = has_membarrier ? 0 : 1};
}

static void no_message_is_slept_through(void **state)
{
    (void)state;
    struct sleeping sleeping;
    write_sleeping(&sleeping, true);
    expect_right("sleeping", &sleeping.program);
    write_sleeping(&sleeping, false);
    expect_right("sleeping without membarrier", &sleeping.program);
}

static void mistakes_in_sleeping_are_found(void **state)
{
    (void)state;
    static const char lost[] = "nobody will wake it";
    struct sleeping sleeping;
    write_sleeping(&sleeping, true);
    sleeping.sleeper[AT_FENCE].kind = FENCE;
    expect_wrong("the sleeper's fence is its own alone", &sleeping.program, lost);
    write_sleeping(&sleeping, false);
    sleeping.publishers[0][AT_PUBLISHER_FENCE] = (struct step)S(LOAD, SLEEPERS, 0);
    expect_wrong("one publisher does not fence", &sleeping.program, lost);
    write_sleeping(&sleeping, false);
    sleeping.program.sleepers = 0;
    expect_wrong("nobody counts as asleep for good", &sleeping.program, lost);
    write_sleeping(&sleeping, true);
    sleeping.sleeper[AT_SEEN] = (struct step)S(LOAD, FREED, 0);
    sleeping.sleeper[AT_LOOK + 3] = (struct step)S(LOAD, RING, 1);
    expect_wrong("the ring is looked at after the last look", &sleeping.program, lost);
}

/* ------------------------------------------------------------------------------- sleeping: door */

enum { DOOR_STEPS = 16, AT_NUMBER = 1 };
/* The word of a sleep at the door: its number, times four; when it was rung one more. */
enum { NUMBER = 4, RUNG = 1 };

/* Register 1 is the number of the sleep. The rest as above, but it sleeps until a datagram is
 * there. */
static void write_door_sleeper(struct step steps[DOOR_STEPS])
{
    static const struct step sleeper[DOOR_STEPS] = {
        S(SET, DOOR, 0, 0), /* doorbell_hush */
        S(COUNT, 0, 1, NUMBER),
        S(STORE_OWN, ASLEEP_WORD, 1, 0),
        S(ADD, SLEEPERS, 0, 1),
        S(FENCE_ALL),
        S(LOAD, MESSAGE_1, 0),
        S(JUMP_IF, 0, 0, 0, 9),
        S(LOAD, MESSAGE_2, 0),
        S(JUMP_IF, 0, 0, 1, 13),
        S(AWAIT, DOOR, 0, 1), /* poll */
        S(STORE, ASLEEP_WORD, 0, 0),
        S(ADD, SLEEPERS, 0, UINT8_MAX),
        S(JUMP_UNLESS, 0, 0, 77, 0),
        S(STORE, ASLEEP_WORD, 0, 0),
        S(ADD, SLEEPERS, 0, UINT8_MAX),
        S(END),
    };
    memcpy(steps, sleeper, sizeof sleeper);
}

/* For one sleep: a publisher that finds another word takes the way to the end of the table. Its
 * sleeps have the numbers from 1 to 3, and so it is written once for each. */
enum { DOOR_PATHS = 3, PATH_STEPS = 3, DOOR_PUBLISHER_ALL = 6 + DOOR_PATHS * PATH_STEPS + 1 };

static void write_door_publisher(struct step steps[DOOR_PUBLISHER_ALL], enum word message)
{
    const uint8_t end = DOOR_PUBLISHER_ALL - 1;
    int at = 0;
    steps[at++] = (struct step)S(STORE, message, 0, 1);
    steps[at++] = (struct step)S(LOAD, SLEEPERS, 0);
    steps[at++] = (struct step)S(JUMP_IF, 0, 0, 0, end);
    steps[at++] = (struct step)S(LOAD, ASLEEP_WORD, 0);
    steps[at++] = (struct step)S(JUMP_IF, 0, 0, 0, end);
    steps[at++] = (struct step)S(LOAD, FREED, 1);
    for (uint8_t sleep = 1; sleep <= DOOR_PATHS; sleep++) {
        const uint8_t next = (uint8_t)(at + PATH_STEPS), word = (uint8_t)(sleep * NUMBER);
        steps[at++] = (struct step)S(JUMP_UNLESS, 0, 0, word, next);
        steps[at++] = (struct step)S(SET, DOOR, 0, 1); /* doorbell_ring */
        steps[at++] = (struct step)S(SWAP, ASLEEP_WORD, 0, (uint8_t)(word + RUNG));
    }
    steps[at] = (struct step)S(END);
}

static void a_door_is_rung_for_every_sleep(void **state)
{
    (void)state;
    struct step sleeper[DOOR_STEPS], publishers[2][DOOR_PUBLISHER_ALL];
    const struct program program = {.steps = {sleeper, publishers[0], publishers[1]},
                                    .thread_count = 3};
    write_door_sleeper(sleeper);
    write_door_publisher(publishers[0], MESSAGE_1);
    write_door_publisher(publishers[1], MESSAGE_2);
    expect_right("sleeping at a door", &program);
    sleeper[AT_NUMBER] = (struct step)S(LOAD, FREED, 1);
    sleeper[AT_NUMBER + 1] = (struct step)S(STORE, ASLEEP_WORD, 0, NUMBER);
    expect_wrong("all sleeps have one number", &program, "nobody will wake it");
}

/* ------------------------------------------------------------------------------------ quiescing */

enum { BEGINNER_STEPS = 8, FAILER_STEPS = 5 };

struct quiescing {
    struct step beginner[BEGINNER_STEPS], failer[FAILER_STEPS];
    struct program program;
};

/* call_begin: board_begin, health_publish, the look, reading what was posted; board_end. call_fail
 * and health_quiesce. */
static void write_quiescing(struct quiescing *quiescing, bool has_membarrier)
{
    static const struct step beginner[BEGINNER_STEPS] = {
        S(STORE, ENGAGED, 0, 1), S(FENCE),
        S(LOAD, FAILED, 0),      S(JUMP_IF, 0, 0, 1, 6),
        S(TOUCH, FREED, 0, 1),   S(TOUCH, FREED, 0, 1),
        S(STORE, ENGAGED, 0, 0), S(END)};
    static const struct step failer[FAILER_STEPS] = {
        S(STORE, FAILED, 0, 1), S(FENCE_ALL), S(AWAIT, ENGAGED, 0, 0), S(SET, FREED, 0, 1), S(END)};
    memcpy(quiescing->beginner, beginner, sizeof beginner);
    memcpy(quiescing->failer, failer, sizeof failer);
    if (has_membarrier)
        quiescing->beginner[1] = (struct step)S(LOAD, FREED, 1); /* nothing */
    else
        quiescing->failer[1].kind = FENCE;
    quiescing->program =
        (struct program){.steps = {quiescing->failer, quiescing->beginner}, .thread_count = 2};
}

static void memory_goes_back_when_nobody_reads_it(void **state)
{
    (void)state;
    uint32_t states;
    struct quiescing quiescing;
    for (int has_membarrier = 0; has_membarrier < 2; has_membarrier++) {
        write_quiescing(&quiescing, has_membarrier != 0);
        const char *const wrong = explore(&quiescing.program, &states);
        printf("quiescing %s membarrier: %u states\n", has_membarrier ? "with" : "without", states);
        assert_null(wrong);
    }
}

static void mistakes_in_quiescing_are_found(void **state)
{
    (void)state;
    static const char early[] = "given back";
    struct quiescing quiescing;
    write_quiescing(&quiescing, true);
    quiescing.failer[1].kind = FENCE;
    expect_wrong("whoever fails fences alone", &quiescing.program, early);
    write_quiescing(&quiescing, false);
    quiescing.beginner[1] = (struct step)S(LOAD, FREED, 1);
    expect_wrong("whoever begins does not fence", &quiescing.program, early);
    write_quiescing(&quiescing, true);
    quiescing.failer[2] = (struct step)S(LOAD, ENGAGED, 0);
    expect_wrong("nobody waits for those in a call", &quiescing.program, early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_is_slept_through),
        cmocka_unit_test(mistakes_in_sleeping_are_found),
        cmocka_unit_test(a_door_is_rung_for_every_sleep),
        cmocka_unit_test(memory_goes_back_when_nobody_reads_it),
        cmocka_unit_test(mistakes_in_quiescing_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

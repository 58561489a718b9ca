#include "tests/worlds/card_game.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/sim/sim_seeds.h"
#include "tests/worlds/link_game.h"

enum { STEPS_A_CHECK = 1 << 14 };

struct watched {
    struct card_world *world;
    unsigned steps;
};

static void step(void *context)
{
    struct watched *const watched = context;
    card_world_step(watched->world);
    if (++watched->steps % STEPS_A_CHECK == 0) card_world_expect_sound(watched->world);
}

uint64_t card_game_play(struct card_mood mood, unsigned messages, uint64_t seed)
{
    const struct link_game_rules rules = {
        .messages = messages, .bytes_max = 100000, .posts = 3, .steps_max = 30000000};
    struct watched watched = {.world = card_world_create(2, mood, seed)};
    struct link_world links = card_world_links(watched.world);
    links.step = step;
    links.world = &watched;
    struct link_game *game = link_game_play(&links, &rules);
    const uint64_t further = card_world_further(watched.world);
    const bool may_be_further = mood.cards > 1 && !mood.last_has_one;
    assert_true(may_be_further ? further > 0 || mood.fabric != NULL : further == 0);
    card_world_expect_sound(watched.world);
    card_world_free(watched.world);
    link_game_free(game);
    return further;
}

/* --------------------------------------------------------------------------------- as a program */

enum { MESSAGES = 40 };

static struct card_mood mood_of(uint64_t seed)
{
    const unsigned number = (unsigned)seed;
    return (struct card_mood){.is_virtual = true,
                              .packets = 1 + number % 9,
                              .cards = 1 + number % 5 / 3,
                              .rails_bytes = 1,
                              .card = {.offer_bytes = 1,
                                       .piece_bytes = number % 2 == 0 ? 320 : 4032,
                                       .piece_count = 1 + number % 7,
                                       .asked_bytes = number % 4 == 0 ? 0 : 2000,
                                       .landing_bytes = 16384,
                                       .receive_count = 8 + number % 20,
                                       .flight_bytes = number % 3 * (size_t)40000}};
}

static uint64_t seed_played;   /* 0: none */
static int told_fd, caught_fd; /* the real stderr; what assertions say */

/* "seed 12: ..."; the reason is what an assertion said, in one line. */
static void tell(void)
{
    char reason[256] = "";
    if (seed_played == 0) return;
    const ssize_t length = pread(caught_fd, reason, sizeof reason - 1, 0);
    for (ssize_t i = 0; i < length; i++)
        if (reason[i] == '\n') reason[i] = i + 1 < length ? ' ' : '\0';
    dprintf(told_fd, "seed %llu: %s\n", (unsigned long long)seed_played, reason);
    seed_played = 0;
}

static void abort_with_seed(int number)
{
    (void)number;
    tell();
    _exit(1);
}

/* An assertion outside of a test ends the process; cmocka says which one only if it aborts. */
int card_game_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    const struct sigaction action = {.sa_handler = abort_with_seed};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    told_fd = dup(STDERR_FILENO);
    caught_fd = memfd_create("assertions", MFD_CLOEXEC);
    if (told_fd < 0 || caught_fd < 0 || dup2(caught_fd, STDERR_FILENO) < 0 || atexit(tell) != 0)
        return 2;
    if (setenv("CMOCKA_TEST_ABORT", "1", 1) != 0 || sigaction(SIGABRT, &action, NULL) != 0)
        return 2;
    for (uint64_t i = 0; i < seeds.count; i++) {
        seed_played = seeds.first + i;
        card_game_play(mood_of(seed_played), MESSAGES, seed_played);
    }
    seed_played = 0;
    dup2(told_fd, STDERR_FILENO);
    printf("%llu games from seed %llu held\n", (unsigned long long)seeds.count,
           (unsigned long long)seeds.first);
    return 0;
}

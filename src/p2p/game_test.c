/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* Matching against its rules, in games.
 *
 * A game: a number of messages with random ends, tags and sizes; receives that together could take
 * them all, but with wildcards, short rooms and wrong dtypes among them; started and moved in
 * random order. A request that is done is poisoned and freed at once. In the end every message must
 * have been received, by the right receive. TUTTI_TEST_SEED repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "os/clock.h"
#include "p2p/p2p.h"
#include "tests/kit/chance.h"
#include "tests/worlds/p2p_world.h"

static uint64_t seed;

enum { MESSAGES = 120, RECEIVES = 3 * MESSAGES, NONE = -1 };

struct game_message {
    int source, target, tag;
    enum tutti_dtype dtype;
    size_t bytes;
    char *buffer;
    struct p2p_request *request;
    int receive; /* that took it */
    bool started, done;
};

struct game_receive {
    int rank;
    char *buffer;
    struct p2p_request *request;
    struct p2p_request result;
    int message; /* that it took */
    bool started, done;
};

struct game {
    struct world world;
    uint64_t random;
    bool any_source;
    int receive_count, posted_count;
    struct game_message messages[MESSAGES];
    struct game_receive receives[RECEIVES];
    int posted[RECEIVES]; /* receives, in the order of starting */
};

static unsigned roll(struct game *game, unsigned sides)
{
    return (unsigned)(chance_next(&game->random) % sides);
}

static char content(int message, size_t i)
{
    return i < 4 ? (char)(message >> (8 * i)) : (char)((size_t)message * 31 + i + i / 256);
}

static size_t random_size(struct game *game, size_t eager, size_t piece)
{
    const size_t around[] = {0, 8, 24, eager, piece, 3 * piece, 9000, 20000};
    const size_t base = around[roll(game, 8)];
    if (game->world.kind != TIGHT && roll(game, 40) == 0) return 128 << 10;
    if (roll(game, 3) == 0) return base;
    const size_t near = base + roll(game, 12);
    return near < 6 ? near : near - 6;
}

static void make_message(struct game *game, int m, size_t eager, size_t piece)
{
    struct game_message *message = &game->messages[m];
    const unsigned size = (unsigned)game->world.size;
    *message = (struct game_message){.source = (int)roll(game, size),
                                     .target = (int)roll(game, size),
                                     .tag = (int)roll(game, 4),
                                     .dtype = roll(game, 4) == 0 ? TUTTI_FLOAT32 : TUTTI_UINT8,
                                     .bytes = random_size(game, eager, piece),
                                     .receive = NONE};
    if (message->dtype == TUTTI_FLOAT32) message->bytes &= ~(size_t)3;
    message->buffer = malloc(message->bytes + 1);
    message->request = malloc(sizeof *message->request);
    assert_true(message->buffer != NULL && message->request != NULL);
    for (size_t i = 0; i < message->bytes; i++) message->buffer[i] = content(m, i);
    *message->request = send_request(message->buffer, message->bytes, message->target, message->tag);
    message->request->dtype = message->dtype;
}

static struct game_receive *make_receive(struct game *game, int rank, size_t room,
                                         enum tutti_dtype dtype, int peer, int tag)
{
    assert_true(game->receive_count < RECEIVES);
    struct game_receive *receive = &game->receives[game->receive_count++];
    *receive = (struct game_receive){.rank = rank, .message = NONE};
    receive->buffer = malloc(room + 1); /* and one byte that says whether more was written */
    receive->request = malloc(sizeof *receive->request);
    assert_true(receive->buffer != NULL && receive->request != NULL);
    memset(receive->buffer, 77, room + 1);
    *receive->request = recv_request(receive->buffer, room, peer, tag);
    receive->request->dtype = dtype;
    return receive;
}

/* One for a message, which another one may take. */
static void make_receive_for(struct game *game, int m)
{
    const struct game_message *message = &game->messages[m];
    const bool any_source = game->any_source && roll(game, 3) == 0, any_tag = roll(game, 3) == 0;
    const bool wrong_dtype = roll(game, 15) == 0;
    size_t room = message->bytes + 4 * roll(game, 2);
    if (roll(game, 15) == 0 && room >= 8) room -= 8;
    if (wrong_dtype && message->dtype == TUTTI_UINT8) room &= ~(size_t)3;
    make_receive(game, message->target, room,
                 !wrong_dtype                    ? message->dtype
                 : message->dtype == TUTTI_UINT8 ? TUTTI_FLOAT32
                                                 : TUTTI_UINT8,
                 any_source ? TUTTI_ANY_RANK : message->source,
                 any_tag ? TUTTI_ANY_TAG : message->tag);
}

static void start_receive(struct game *game, int r)
{
    struct game_receive *receive = &game->receives[r];
    receive->started = true;
    game->posted[game->posted_count++] = r;
    start(&game->world, receive->rank, receive->request);
}

static void poison(struct p2p_request *request)
{
    memset(request, 0xee, sizeof *request);
    free(request);
}

static void collect(struct game *game)
{
    for (int m = 0; m < MESSAGES; m++) {
        struct game_message *message = &game->messages[m];
        if (!message->started || message->done || !message->request->done) continue;
        assert_int_equal(message->request->status, TUTTI_OK);
        message->done = true;
        memset(message->buffer, 0xee, message->bytes);
        free(message->buffer);
        poison(message->request);
    }
    for (int r = 0; r < game->receive_count; r++) {
        struct game_receive *receive = &game->receives[r];
        if (!receive->started || receive->done || !receive->request->done) continue;
        receive->done = true;
        receive->result = *receive->request;
        poison(receive->request);
    }
}

/* Starts everything, the messages of a rank in their order, receives in any. */
static void play(struct game *game)
{
    int next_message[RANKS_MAX] = {0}, left = 2 * MESSAGES;
    int order[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        const int k = (int)roll(game, (unsigned)i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    int next_receive = 0;
    const unsigned hurry = 1 + roll(game, 8), eagerness = roll(game, 5);
    while (left > 0) {
        const int rank = (int)roll(game, (unsigned)game->world.size);
        if (roll(game, hurry) > 0) {
            p2p_progress(game->world.ranks[rank]);
            continue;
        }
        collect(game);
        if (next_receive < MESSAGES && roll(game, 4) < eagerness) {
            start_receive(game, order[next_receive++]);
            left--;
            continue;
        }
        int *m = &next_message[rank];
        while (*m < MESSAGES && game->messages[*m].source != rank) ++*m;
        if (*m < MESSAGES) {
            game->messages[*m].started = true;
            start(&game->world, rank, game->messages[*m].request);
            ++*m;
            left--;
        } else if (next_receive < MESSAGES) {
            start_receive(game, order[next_receive++]);
            left--;
        }
    }
    settle(&game->world);
    collect(game);
}

/* Receives with any tag every message that nobody has asked for yet, until nothing is left. */
static void clean_up(struct game *game)
{
    for (int rank = 0; rank < game->world.size; rank++) {
        for (int source = 0; source < game->world.size; source++) {
            for (;;) {
                int waiting = 0;
                for (int m = 0; m < MESSAGES; m++)
                    waiting +=
                        game->messages[m].target == rank && game->messages[m].source == source;
                for (int r = 0; r < game->receive_count; r++)
                    waiting -= game->receives[r].done && game->receives[r].rank == rank &&
                               game->receives[r].result.source == source;
                if (waiting == 0) break;
                make_receive(game, rank, 200000, TUTTI_UINT8, source, TUTTI_ANY_TAG);
                start_receive(game, game->receive_count - 1);
                settle(&game->world);
                collect(game);
            }
        }
    }
}

/* Finds out which message each receive has got. The first bytes say it; without them it is the
 * first message that it can be. */
static void find_out(struct game *game, bool known)
{
    for (int p = 0; p < game->posted_count; p++) {
        struct game_receive *receive = &game->receives[game->posted[p]];
        const struct p2p_request *result = &receive->result;
        const bool can_tell = receive->done && result->received_bytes >= 4;
        if (!receive->done || can_tell != known) continue;
        int m = 0;
        if (known) {
            for (size_t i = 0; i < 4; i++) m |= (unsigned char)receive->buffer[i] << (8 * i);
            assert_in_range(m, 0, MESSAGES - 1);
        } else {
            while (m < MESSAGES && (game->messages[m].receive != NONE ||
                                    game->messages[m].source != result->source ||
                                    game->messages[m].target != receive->rank ||
                                    game->messages[m].tag != result->message_tag ||
                                    game->messages[m].dtype != result->sent_dtype ||
                                    game->messages[m].bytes != result->sent_bytes))
                m++;
            if (m == MESSAGES) fail_msg("a message was received that nobody sent");
        }
        if (game->messages[m].receive != NONE) fail_msg("message %d was received twice", m);
        game->messages[m].receive = p;
        receive->message = m;
    }
}

static void check_result(const struct game *game, const struct game_receive *receive)
{
    const struct p2p_request *result = &receive->result;
    const struct game_message *message = &game->messages[receive->message];
    const bool fits = message->bytes <= result->bytes && message->dtype == result->dtype;
    assert_int_equal(result->status, fits ? TUTTI_OK : TUTTI_TRUNCATED);
    assert_int_equal(receive->rank, message->target);
    assert_int_equal(result->source, message->source);
    assert_int_equal(result->message_tag, message->tag);
    assert_int_equal(result->sent_bytes, message->bytes);
    assert_int_equal(result->sent_dtype, message->dtype);
    assert_int_equal(result->received_bytes, fits ? message->bytes : 0);
    for (size_t i = 0; i <= result->bytes; i++) {
        const bool written = i < result->received_bytes;
        if (receive->buffer[i] != (written ? content(receive->message, i) : 77))
            fail_msg("message %d: byte %zu of %zu is wrong", receive->message, i, message->bytes);
    }
}

static bool would_fit(const struct p2p_request *request, const struct game_message *message)
{
    return (request->peer == TUTTI_ANY_RANK || request->peer == message->source) &&
           (request->tag == TUTTI_ANY_TAG || request->tag == message->tag);
}

/* If a receive could take two messages of a source, it takes the first of them, unless an earlier
 * receive took that message. And no receive is left empty-handed while a later receive takes a
 * message that the earlier receive could have taken. */
static void check_order(const struct game *game)
{
    for (int p = 0; p < game->posted_count; p++) {
        const struct game_receive *receive = &game->receives[game->posted[p]];
        const struct p2p_request *request = receive->done ? &receive->result : receive->request;
        for (int m = 0; m < MESSAGES; m++) {
            const struct game_message *message = &game->messages[m];
            if (message->target != receive->rank || !would_fit(request, message)) continue;
            if (receive->done && (m >= receive->message ||
                                  message->source != game->messages[receive->message].source))
                continue;
            if (message->receive > p) fail_msg("message %d passed receive %d by", m, p);
        }
    }
}

/* Without any-source receives there is one right answer: each message goes to the first receive
 * that fits. */
static void check_against_the_model(const struct game *game)
{
    bool taken[RECEIVES] = {false};
    for (int m = 0; m < MESSAGES; m++) {
        int p = 0;
        for (; p < game->posted_count; p++) {
            const struct game_receive *receive = &game->receives[game->posted[p]];
            const struct p2p_request *request = receive->done ? &receive->result : receive->request;
            if (!taken[p] && receive->rank == game->messages[m].target &&
                would_fit(request, &game->messages[m]))
                break;
        }
        assert_true(p < game->posted_count);
        taken[p] = true;
        if (game->messages[m].receive != p)
            fail_msg("message %d went to receive %d instead of %d", m, game->messages[m].receive, p);
    }
}

static void check_game(struct game *game)
{
    find_out(game, true);
    find_out(game, false);
    int undone[RANKS_MAX] = {0};
    for (int m = 0; m < MESSAGES; m++)
        assert_true(game->messages[m].done && game->messages[m].receive != NONE);
    for (int r = 0; r < game->receive_count; r++) {
        if (game->receives[r].done)
            check_result(game, &game->receives[r]);
        else
            undone[game->receives[r].rank]++;
    }
    for (int rank = 0; rank < game->world.size; rank++) {
        assert_int_equal(p2p_is_busy(game->world.ranks[rank]), undone[rank] > 0);
        assert_int_equal(p2p_held_back(game->world.ranks[rank], TUTTI_ANY_RANK), -1);
    }
    check_order(game);
    if (!game->any_source) check_against_the_model(game);
}

static void soak(enum kind kind, int round)
{
    static const size_t eagers[] = {0, 8, 100, 1000, 5000}, byte_bounds[] = {0, 100, 3000, 1 << 24},
                        count_bounds[] = {0, 1, 3, 1000};
    static struct game game;
    game = (struct game){.random = seed + (uint64_t)round * 1000 + (uint64_t)kind};
    game.any_source = roll(&game, 3) > 0;
    const struct p2p_options options = {eagers[roll(&game, 5)],
                                        byte_bounds[roll(&game, 4)],
                                        count_bounds[roll(&game, 4)],
                                        roll(&game, 2) > 0,
                                        NULL,
                                        NULL,
                                        KERNEL_SCALAR};
    const int size = kind == LOCAL_COPIES ? 2 : 1 + (int)roll(&game, RANKS_MAX);
    game.world = world_open(kind, size, options, seed);
    size_t piece;
    unsigned pieces;
    game.world.transports[0]->ops->limits(game.world.transports[0], &piece, &pieces);
    for (int m = 0; m < MESSAGES; m++)
        make_message(&game, m, options.eager_bytes_max, piece < 70000 ? piece : 70000);
    for (int m = 0; m < MESSAGES; m++) make_receive_for(&game, m);
    play(&game);
    clean_up(&game);
    check_game(&game);
    world_close(&game.world);
    for (int r = 0; r < game.receive_count; r++) {
        free(game.receives[r].buffer);
        if (!game.receives[r].done) free(game.receives[r].request);
    }
}

static void any_game_is_played_by_the_rules(void **state)
{
    (void)state;
    const int rounds = getenv("TUTTI_LONG") != NULL ? 200 : 12;
    for (int round = 0; round < rounds; round++)
        for (enum kind kind = 0; kind < KIND_COUNT; kind++) soak(kind, round);
}

int main(void)
{
    seed = chance_seed(clock_now_ns());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_game_is_played_by_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The paths of messages of send and recv: each rule of each transport's table that is for them
 * decides something. engine/paths_test.c has the rules for collectives.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "tests/kit/changed_table.h"
#include "tests/worlds/card_world.h"
#include "tests/worlds/p2p_world.h"
#include "tests/worlds/tcp_world.h"

enum { PAIR = 2, EAGER_BYTES = 4 << 10, SEEDS = 8, STEPS_MAX = 3000000 };

/* --------------------------------------------------------------------------------------- worlds */

/* Two ranks over the links of a table: links of a single thread for shared memory, sockets of this
 * host, simulated cards in virtual time. */
struct stage {
    struct world near; /* where there are no others */
    struct tcp_world *tcp;
    struct card_world *card;
    struct link_world links; /* of those two */
    struct p2p *ranks[PAIR];
};

static struct stage stage_open(enum table_number number, const struct path_table *paths,
                               enum path_kind path, enum path_cores cores, uint64_t seed)
{
    const struct p2p_options options = {.eager_bytes_max = EAGER_BYTES,
                                        .unexpected_bytes_max = 100000,
                                        .unexpected_count_max = 50,
                                        .shares_cores = cores == PATH_SHARED_CORES};
    struct stage stage = {.tcp = NULL};
    if (number == TABLE_TCP) {
        stage.tcp = tcp_world_create(
            PAIR,
            (struct tcp_mood){
                .streams = 1, .piece_bytes = 64 << 10, .piece_count = 8, .is_plain = true},
            seed);
        stage.links = tcp_world_links(stage.tcp);
    } else if (number == TABLE_CARD) {
        stage.card =
            card_world_create(PAIR, (struct card_mood){.is_virtual = true, .packets = 8}, seed);
        stage.links = card_world_links(stage.card);
    } else {
        stage.near = world_open(path == PATH_READ ? READABLE : COPYABLE, PAIR, options, seed);
    }
    const bool is_near = stage.links.ranks == NULL;
    struct transport *const *const transports = is_near ? stage.near.transports : stage.links.ranks;
    for (int r = 0; r < PAIR; r++) {
        transports[r]->paths.tables[0] = paths;
        stage.ranks[r] = stage.near.ranks[r];
        if (is_near) continue;
        assert_int_equal(
            p2p_create(transports[r], TRANSPORT_SLOT_MESSAGES, &options, &stage.ranks[r]), TUTTI_OK);
        assert_int_equal(p2p_listen(stage.ranks[r]), TUTTI_OK);
    }
    return stage;
}

static void stage_close(struct stage *stage)
{
    if (stage->tcp == NULL && stage->card == NULL) {
        world_close(&stage->near);
        return;
    }
    for (int r = 0; r < PAIR; r++) p2p_free(stage->ranks[r]);
    if (stage->tcp != NULL) tcp_world_free(stage->tcp);
    if (stage->card != NULL) card_world_free(stage->card);
}

static void move(struct stage *stage, uint64_t *random)
{
    struct p2p *const p2p = stage->ranks[chance_next(random) % PAIR];
    p2p_progress(p2p);
    assert_int_equal(p2p_fault(p2p), -1);
    if (stage->links.step != NULL) stage->links.step(stage->links.world);
}

/* ------------------------------------------------------------------------------------- messages */

struct flow {
    struct p2p_request send, receive;
    unsigned char *sent, *received;
};

static void flow_start(struct stage *stage, int from, size_t bytes, struct flow *flow)
{
    flow->sent = malloc(bytes);
    flow->received = calloc(1, bytes);
    assert_true(flow->sent != NULL && flow->received != NULL);
    for (size_t i = 0; i < bytes; i++) flow->sent[i] = (unsigned char)(i * 7 + i / 256 + 1);
    flow->send = send_request(flow->sent, bytes, 1 - from, 0);
    flow->receive = recv_request(flow->received, bytes, from, 0);
    assert_int_equal(p2p_start(stage->ranks[from], &flow->send), TUTTI_OK);
    assert_int_equal(p2p_start(stage->ranks[1 - from], &flow->receive), TUTTI_OK);
}

/* Whether it went by reference: nothing of it was copied into a link. */
static bool flow_end(struct flow *flow)
{
    assert_int_equal(flow->receive.received_bytes, flow->receive.bytes);
    assert_memory_equal(flow->received, flow->sent, flow->send.bytes);
    free(flow->sent);
    free(flow->received);
    return flow->send.moved_bytes == 0;
}

/* Whether one message, or one each way at the same time, all went by reference. */
static bool all_go_by_reference(struct stage *stage, enum path_traffic traffic, size_t bytes,
                                uint64_t seed)
{
    const int count = traffic == PATH_MESSAGE_BOTH_WAYS ? 2 : 1;
    struct flow flows[2];
    bool is_done = false, all = true;
    for (int f = 0; f < count; f++) flow_start(stage, f, bytes, &flows[f]);
    for (int steps = 0; !is_done; steps++) {
        if (steps == STEPS_MAX) fail_msg("messages of %zu bytes never come", bytes);
        move(stage, &seed);
        is_done = true;
        for (int f = 0; f < count; f++) is_done &= flows[f].send.done && flows[f].receive.done;
    }
    for (int f = 0; f < count; f++) all &= flow_end(&flows[f]);
    return all;
}

/* ---------------------------------------------------------------------------- each rule decides */

struct question {
    enum table_number number; /* whose links */
    const struct path_table *table;
    const struct path_rule *rule;
    struct changed_table changed;
    enum path_traffic traffic;
    enum path_cores cores;
    size_t bytes;
};

static bool is_chosen(const struct question *question, const struct path_table *table)
{
    const struct path_case message = {.bytes = question->bytes,
                                      .traffic = question->traffic,
                                      .readers = PATH_TO_ONE,
                                      .step = PATH_SENDS,
                                      .cores = question->cores,
                                      .senders = PATH_FEW_SENDERS,
                                      .rank_count = PAIR};
    const struct path_list list = path_choose(table, &message);
    return path_has(&list, question->rule->path);
}

static bool is_taken(const struct question *question, const struct path_table *table, uint64_t seed)
{
    struct stage stage =
        stage_open(question->number, table, question->rule->path, question->cores, seed);
    const bool all = all_go_by_reference(&stage, question->traffic, question->bytes, seed);
    stage_close(&stage);
    return all;
}

/* Whether messages all go by reference with the table as it is, and not all with the changed table.
 * Links of a single thread announce a reference, or do not, as they like, and only then can a
 * message meet another that comes the other way. */
static bool is_noticed(const struct question *question)
{
    const struct path_table *const before = table_numbered(question->number), *const after =
                                                                                  &question->changed
                                                                                       .table;
    if (!is_chosen(question, before) || is_chosen(question, after)) return false;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        if (is_taken(question, before, seed) && !is_taken(question, after, seed)) return true;
    return false;
}

static int count_wrong(struct question *question, unsigned r)
{
    int wrong = 0;
    for (int c = 0; c < TABLE_CHANGE_COUNT; c++) {
        const enum table_change change = (enum table_change)c;
        if (!table_change(question->table, r, change, &question->changed, &question->bytes) ||
            is_noticed(question))
            continue;
        print_message("%s: rule %u, %s from %zu bytes on (%s): %s messages go as before\n",
                      question->table->name, r, path_kind_name(question->rule->path),
                      question->rule->bytes_min, question->rule->why, table_change_text(change));
        wrong++;
    }
    return wrong;
}

/* Messages choose only whether they go by reference. So of the rules for any traffic those for
 * other paths are not for them. */
static bool is_for_messages(const struct path_rule *rule, enum path_traffic traffic,
                            enum path_cores cores)
{
    if ((rule->traffic & traffic) == 0 || (rule->cores & cores) == 0) return false;
    return (rule->traffic & PATH_ANY_COLLECTIVE) != PATH_ANY_COLLECTIVE ||
           rule->path == PATH_READ || rule->path == PATH_COPY;
}

/* For each kind of messages and of cores that the rule names. Returns how many changes of it change
 * nothing; -1: it is not for messages. */
static int ask(enum table_number number, const struct path_table *table, unsigned r)
{
    static const enum path_traffic traffics[] = {PATH_MESSAGE, PATH_MESSAGE_BOTH_WAYS};
    static const enum path_cores cores[] = {PATH_OWN_CORES, PATH_SHARED_CORES};
    static struct question question;
    int wrong = 0, asked = 0;
    for (int i = 0; i < 4; i++) {
        question = (struct question){.number = number,
                                     .table = table,
                                     .rule = &table->rules[r],
                                     .traffic = traffics[i / 2],
                                     .cores = cores[i % 2]};
        if (!is_for_messages(question.rule, question.traffic, question.cores)) continue;
        wrong += count_wrong(&question, r);
        asked++;
    }
    return asked > 0 ? wrong : -1;
}

static void each_rule_for_messages_decides_something(void **state)
{
    (void)state;
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct path_table *const table = table_numbered((enum table_number)t);
        int rules = 0;
        for (unsigned r = 0; r < table->rule_count; r++) {
            const int wrong = ask((enum table_number)t, table, r);
            assert_true(wrong <= 0);
            rules += wrong == 0;
        }
        /* Copies are compared with checks, so nothing goes by reference. */
        assert_true((rules == 0) == (t == TABLE_LOCAL_CHECKED));
    }
}

/* The test can fail. */
static void a_rule_that_decides_nothing_is_found(void **state)
{
    (void)state;
    static struct changed_table twice;
    const struct path_table *const table = table_numbered(TABLE_LOCAL);
    print_message("with each rule twice, as it should be:\n");
    for (unsigned r = 0; r < table->rule_count; r++) {
        if (table->rules[r].path != PATH_COPY || ask(TABLE_LOCAL, table, r) != 0) continue;
        table_repeat(table, r, &twice);
        assert_true(ask(TABLE_LOCAL, &twice.table, r) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_for_messages_decides_something),
        cmocka_unit_test(a_rule_that_decides_nothing_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "connect/hello.h"
#include "os/at_exit.h"

static const uint64_t CONFIGURATION = 0x1122334455667788;

struct pair {
    struct hello caller, answerer;
};

static void skip_without_openssl(void)
{
    struct secret_key key;
    if (secret_from_run("", &key) != TUTTI_UNSUPPORTED) return;
    print_message("%s\n", tutti_error_message());
    skip();
}

static struct hello_self self_of(const char *secret, int rank)
{
    struct secret_key key;
    struct hello_self self = {.configuration = CONFIGURATION};
    assert_int_equal(secret_from_bytes(secret, strlen(secret), &key), TUTTI_OK);
    hello_self_init(&self, &key, rank);
    return self;
}

static const struct hello_call to_rank_3 = {3, 17, "rank 5, stream 2", 16};

/* Nonces of tests: fresh, but the same each time. */
static void next_nonce(unsigned char nonce[HELLO_NONCE_BYTES])
{
    static unsigned char count;
    memset(nonce, ++count, HELLO_NONCE_BYTES);
}

static void start(struct pair *pair, const struct hello_self *caller,
                  const struct hello_self *answerer, const struct hello_call *call)
{
    unsigned char nonce[HELLO_NONCE_BYTES];
    next_nonce(nonce);
    hello_start_call(&pair->caller, caller, call, nonce, 0);
    next_nonce(nonce);
    hello_start_answer(&pair->answerer, answerer, nonce, 0);
}

/* Hands over what one side gives, at most `most` bytes at a time. */
static size_t carry(struct hello *from, struct hello *to, size_t most)
{
    const void *bytes;
    size_t count = hello_gives(from, &bytes);
    if (count > most) count = most;
    if (count == 0) return 0;
    unsigned char copy[HELLO_BYTES];
    memcpy(copy, bytes, count);
    hello_given(from, count);
    hello_take(to, copy, count, 0);
    return count;
}

static void run(struct pair *pair, size_t most)
{
    while (carry(&pair->caller, &pair->answerer, most) + carry(&pair->answerer, &pair->caller, most) >
           0) {
    }
}

static void expect(const struct hello *hello, enum hello_state state, enum tutti_status status,
                   const char *words)
{
    char text[HELLO_TEXT_MAX];
    hello_explain(hello, text);
    if (hello->state != state || hello->status != status)
        fail_msg("state %d, %s, not %s: %s", (int)hello->state, tutti_status_name(hello->status),
                 tutti_status_name(status), text);
    if (words != NULL && strstr(text, words) == NULL)
        fail_msg("\"%s\" does not say %s", text, words);
}

static void both_learn_who_the_other_is(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self five = self_of("the secret", 5), three = self_of("the secret", 3);
    for (size_t most = 1; most <= HELLO_BYTES; most = most * 3 + 1) {
        struct pair pair;
        start(&pair, &five, &three, &to_rank_3);
        run(&pair, most);
        expect(&pair.caller, HELLO_DONE, TUTTI_OK, NULL);
        expect(&pair.answerer, HELLO_DONE, TUTTI_OK, NULL);
        assert_int_equal(pair.caller.peer.rank, 3);
        assert_int_equal(pair.answerer.peer.rank, 5);
        assert_int_equal(pair.answerer.peer.configuration, CONFIGURATION);
        assert_int_equal(pair.answerer.call.purpose, 17);
        assert_int_equal(pair.answerer.call.peer_rank, 3);
        assert_int_equal(pair.answerer.call.payload_bytes, 16);
        assert_memory_equal(pair.answerer.call.payload, to_rank_3.payload, HELLO_PAYLOAD_MAX);
        assert_memory_equal(pair.caller.transcript, pair.answerer.transcript, HELLO_BYTES);
        assert_int_equal(pair.caller.version,
                         HELLO_VERSION(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR));
    }
}

static void payloads_of_any_length_arrive(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self self = self_of("the secret", HELLO_ANY_RANK);
    for (unsigned bytes = 0; bytes <= HELLO_PAYLOAD_MAX; bytes++) {
        struct pair pair;
        struct hello_call call = {.peer_rank = HELLO_ANY_RANK,
                                  .purpose = UINT32_MAX - bytes,
                                  .payload_bytes = (uint8_t)bytes};
        memset(call.payload, 0x5a, bytes);
        start(&pair, &self, &self, &call);
        run(&pair, 50);
        expect(&pair.answerer, HELLO_DONE, TUTTI_OK, NULL);
        assert_int_equal(pair.answerer.peer.rank, HELLO_ANY_RANK);
        assert_int_equal(pair.answerer.call.purpose, UINT32_MAX - bytes);
        assert_int_equal(pair.answerer.call.payload_bytes, bytes);
        assert_memory_equal(pair.answerer.call.payload, call.payload, HELLO_PAYLOAD_MAX);
    }
    struct pair pair;
    const struct hello_call too_long = {.payload_bytes = HELLO_PAYLOAD_MAX + 1};
    start(&pair, &self, &self, &too_long);
    expect(&pair.caller, HELLO_FAILED, TUTTI_INTERNAL, "payload");
}

static void another_secret_is_told_to_both(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self caller = self_of("one secret", 5),
                            answerer = self_of("another secret", 3);
    struct pair pair;
    start(&pair, &caller, &answerer, &to_rank_3);
    run(&pair, HELLO_BYTES);
    expect(&pair.caller, HELLO_FAILED, TUTTI_AUTH_FAILED, "key");
    expect(&pair.answerer, HELLO_FAILED, TUTTI_AUTH_FAILED, "key");
    assert_false(pair.answerer.is_proven);
}

/* An answerer that would say anything to get a PROOF gets none. */
static void a_caller_gives_no_proof_to_an_answerer_without_the_key(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self caller = self_of("one secret", 5), other = self_of("another secret", 3);
    struct pair pair, imposter;
    const void *bytes;
    start(&pair, &caller, &caller, &to_rank_3);
    hello_given(&pair.caller, HELLO_CALL_BYTES);
    start(&imposter, &other, &other, &to_rank_3);
    carry(&imposter.caller, &imposter.answerer, HELLO_BYTES);
    const size_t count = hello_gives(&imposter.answerer, &bytes);
    assert_int_equal(count, HELLO_ANSWER_BYTES);
    hello_take(&pair.caller, bytes, count, 0);
    expect(&pair.caller, HELLO_FAILED, TUTTI_AUTH_FAILED, "key");
    assert_int_equal(hello_gives(&pair.caller, &bytes), 0);
}

static void a_side_without_a_secret_is_told_so(void **state)
{
    (void)state;
    skip_without_openssl();
    struct hello_self with = self_of("the secret", 5), without = self_of("the secret", 3);
    struct secret_key run_key;
    struct pair pair;
    assert_int_equal(secret_from_run("the run", &run_key), TUTTI_OK);
    without.key = run_key;
    start(&pair, &with, &without, &to_rank_3);
    run(&pair, HELLO_BYTES);
    expect(&pair.caller, HELLO_FAILED, TUTTI_AUTH_FAILED,
           "this rank has a secret and it has none: set TUTTI_SECRET_FILE or TUTTI_SECRET alike");
    expect(&pair.answerer, HELLO_FAILED, TUTTI_AUTH_FAILED,
           "it has a secret and this rank has none: set TUTTI_SECRET_FILE or TUTTI_SECRET alike");
}

static bool greets_late;
static struct pair late;
static struct hello_self late_self;

/* Registered before OpenSSL's handler, so it runs after it: a caller, and an answerer that hears a
 * call. */
static void greet_late(void)
{
    if (!greets_late) return;
    unsigned char nonce[HELLO_NONCE_BYTES] = {7};
    const bool has_answered = carry(&late.caller, &late.answerer, HELLO_BYTES) > 0;
    struct hello caller;
    hello_start_call(&caller, &late_self, &to_rank_3, nonce, 0);
    _exit(at_exit_has_begun() && has_answered && caller.state == HELLO_STRAY &&
                  late.answerer.state == HELLO_STRAY && strstr(caller.why, "is ending") != NULL
              ? 0
              : 1);
}

/* Its threads may meet others until the last moment, which is no failure of those, and no news. */
static void a_process_that_ends_is_a_stray(void **state)
{
    (void)state;
    int fate;
    skip_without_openssl();
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct hello_self self = self_of("the secret", 3);
        late_self = self_of("the secret", 5);
        start(&late, &late_self, &self, &to_rank_3);
        greets_late = true;
        exit(2);
    }
    assert_int_equal(waitpid(pid, &fate, 0), pid);
    assert_true(WIFEXITED(fate));
    assert_int_equal(WEXITSTATUS(fate), 0);
}

static void versions_are_negotiated_or_named(void **state)
{
    (void)state;
    skip_without_openssl();
    static const struct {
        uint32_t caller_min, caller_max, answerer_min, answerer_max, agreed;
    } cases[] = {
        {HELLO_VERSION(1, 0), HELLO_VERSION(1, 7), HELLO_VERSION(1, 0), HELLO_VERSION(1, 4),
         HELLO_VERSION(1, 4)},
        {HELLO_VERSION(1, 0), HELLO_VERSION(1, 2), HELLO_VERSION(1, 2), HELLO_VERSION(1, 9),
         HELLO_VERSION(1, 2)},
        {HELLO_VERSION(1, 0), HELLO_VERSION(2, 5), HELLO_VERSION(2, 0), HELLO_VERSION(3, 0),
         HELLO_VERSION(2, 5)},
        {HELLO_VERSION(1, 0), HELLO_VERSION(1, 7), HELLO_VERSION(2, 0), HELLO_VERSION(2, 1), 0},
        {HELLO_VERSION(2, 0), HELLO_VERSION(2, 1), HELLO_VERSION(1, 0), HELLO_VERSION(1, 7), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hello_self caller = self_of("the secret", 5), answerer = self_of("the secret", 3);
        struct pair pair;
        caller.version_min = cases[i].caller_min;
        caller.version_max = cases[i].caller_max;
        answerer.version_min = cases[i].answerer_min;
        answerer.version_max = cases[i].answerer_max;
        start(&pair, &caller, &answerer, &to_rank_3);
        run(&pair, HELLO_BYTES);
        if (cases[i].agreed != 0) {
            expect(&pair.caller, HELLO_DONE, TUTTI_OK, NULL);
            expect(&pair.answerer, HELLO_DONE, TUTTI_OK, NULL);
            assert_int_equal(pair.caller.version, cases[i].agreed);
            assert_int_equal(pair.answerer.version, cases[i].agreed);
        } else {
            expect(&pair.caller, HELLO_FAILED, TUTTI_VERSION, "rank 3 speaks");
            expect(&pair.caller, HELLO_FAILED, TUTTI_VERSION, "1.0 to 1.7");
            expect(&pair.answerer, HELLO_FAILED, TUTTI_VERSION, "rank 5 speaks");
            expect(&pair.answerer, HELLO_FAILED, TUTTI_VERSION, "2.0 to 2.1");
        }
    }
}

static void other_configurations_and_ranks_are_told_to_both(void **state)
{
    (void)state;
    skip_without_openssl();
    struct hello_self caller = self_of("the secret", 5), answerer = self_of("the secret", 3);
    struct pair pair;
    answerer.configuration = 0xabc;
    start(&pair, &caller, &answerer, &to_rank_3);
    run(&pair, HELLO_BYTES);
    expect(&pair.caller, HELLO_FAILED, TUTTI_INVALID_OPTIONS, "rank 3 is configured differently");
    expect(&pair.caller, HELLO_FAILED, TUTTI_INVALID_OPTIONS, "0000000000000abc");
    expect(&pair.answerer, HELLO_FAILED, TUTTI_INVALID_OPTIONS, "1122334455667788");

    answerer.configuration = CONFIGURATION;
    answerer.rank = 4;
    start(&pair, &caller, &answerer, &to_rank_3);
    run(&pair, HELLO_BYTES);
    expect(&pair.caller, HELLO_FAILED, TUTTI_AUTH_FAILED, "rank 4 answers where rank 3 was called");
    expect(&pair.answerer, HELLO_FAILED, TUTTI_AUTH_FAILED, "rank 4 answers where rank 3");
}

/* A version is not believed from who has not proven anything: a stranger cannot end a job with
 * it. */
static uint64_t encrypt_for_purpose_17(void *context, const struct hello_call *call, uint64_t theirs)
{
    ++*(int *)context;
    assert_int_equal(theirs, HELLO_ENCRYPTS);
    return call->purpose == 17 ? HELLO_ENCRYPTS : 0;
}

static void who_encrypts_gets_a_key_of_this_hello(void **state)
{
    (void)state;
    skip_without_openssl();
    struct hello_self caller = self_of("the secret", 5), answerer = self_of("the secret", 3);
    unsigned char keys[2][2][MAC_BYTES];
    int calls = 0;
    caller.configuration = HELLO_ENCRYPTS;
    answerer.configure = encrypt_for_purpose_17;
    answerer.configure_context = &calls;
    for (int i = 0; i < 2; i++) {
        struct pair pair;
        start(&pair, &caller, &answerer, &to_rank_3);
        run(&pair, 50);
        expect(&pair.caller, HELLO_SECURES, TUTTI_OK, NULL);
        expect(&pair.answerer, HELLO_SECURES, TUTTI_OK, NULL);
        assert_int_equal(hello_key(&pair.caller, keys[i][0]), TUTTI_OK);
        assert_int_equal(hello_key(&pair.answerer, keys[i][1]), TUTTI_OK);
        assert_memory_equal(keys[i][0], keys[i][1], MAC_BYTES);
        assert_memory_not_equal(keys[i][0], caller.key.bytes, MAC_BYTES);
        hello_secured(&pair.caller, true);
        expect(&pair.caller, HELLO_DONE, TUTTI_OK, NULL);
        if (i == 0)
            hello_secured(&pair.answerer, false);
        else
            hello_tick(&pair.answerer, HELLO_TIMEOUT_NS);
        expect(&pair.answerer, HELLO_STRAY, TUTTI_PROC_FAILED,
               i == 0 ? "encryption" : "took too long");
    }
    assert_memory_not_equal(keys[0][0], keys[1][0], MAC_BYTES);
    assert_int_equal(calls, 2);
}

static void one_side_alone_does_not_encrypt(void **state)
{
    (void)state;
    skip_without_openssl();
    for (int encrypts = 0; encrypts < 2; encrypts++) {
        struct hello_self caller = self_of("the secret", 5), answerer = self_of("the secret", 3);
        struct pair pair;
        caller.configuration = encrypts ? HELLO_ENCRYPTS : 0;
        answerer.configuration = encrypts ? 0 : HELLO_ENCRYPTS;
        start(&pair, &caller, &answerer, &to_rank_3);
        run(&pair, HELLO_BYTES);
        struct hello *const both[2] = {&pair.caller, &pair.answerer};
        for (int i = 0; i < 2; i++) {
            expect(both[i], HELLO_FAILED, TUTTI_INVALID_OPTIONS, "TUTTI_ENCRYPTION");
            expect(both[i], HELLO_FAILED, TUTTI_INVALID_OPTIONS,
                   encrypts == i ? "it encrypts, this rank does not"
                                 : "it does not encrypt, this rank does");
        }
    }
}

static void a_strangers_version_is_no_verdict(void **state)
{
    (void)state;
    skip_without_openssl();
    struct hello_self caller = self_of("a guess", 5), answerer = self_of("the secret", 3);
    struct pair pair;
    caller.version_min = caller.version_max = HELLO_VERSION(9, 9);
    start(&pair, &caller, &answerer, &to_rank_3);
    run(&pair, HELLO_BYTES);
    expect(&pair.answerer, HELLO_FAILED, TUTTI_AUTH_FAILED, NULL);
}

/* An attacker that has recorded all that a caller once said gets as far as the second nonce. */
static void a_replay_fails(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self five = self_of("the secret", 5), three = self_of("the secret", 3);
    struct pair recorded, replayed;
    start(&recorded, &five, &three, &to_rank_3);
    run(&recorded, HELLO_BYTES);
    expect(&recorded.answerer, HELLO_DONE, TUTTI_OK, NULL);

    const void *bytes;
    start(&replayed, &five, &three, &to_rank_3);
    hello_take(&replayed.answerer, recorded.caller.transcript, HELLO_CALL_BYTES, 0);
    assert_true(replayed.answerer.is_proven);
    hello_given(&replayed.answerer, hello_gives(&replayed.answerer, &bytes));
    hello_take(&replayed.answerer,
               recorded.caller.transcript + HELLO_CALL_BYTES + HELLO_ANSWER_BYTES,
               HELLO_PROOF_BYTES, 0);
    expect(&replayed.answerer, HELLO_FAILED, TUTTI_AUTH_FAILED, "replay");

    /* The other way round: a recorded answerer. */
    start(&replayed, &five, &three, &to_rank_3);
    hello_given(&replayed.caller, HELLO_CALL_BYTES);
    hello_take(&replayed.caller, recorded.caller.transcript + HELLO_CALL_BYTES, HELLO_ANSWER_BYTES,
               0);
    expect(&replayed.caller, HELLO_FAILED, TUTTI_AUTH_FAILED, NULL);
}

/* A record that is sent back to its sender, or to another side in the same role, is no answer. */
static void a_reflection_fails(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self five = self_of("the secret", 5), three = self_of("the secret", 3);
    const void *bytes;
    struct pair pair, second;
    start(&pair, &five, &three, &to_rank_3);
    hello_given(&pair.caller, HELLO_CALL_BYTES);
    hello_take(&pair.caller, pair.caller.transcript, HELLO_CALL_BYTES, 0);
    expect(&pair.caller, HELLO_STRAY, TUTTI_PROC_FAILED, "no sense");

    /* An attacker without the key has one answerer compute macs for a hello with another one. */
    start(&pair, &five, &three, &to_rank_3);
    start(&second, &five, &three, &to_rank_3);
    const size_t count = hello_gives(&pair.caller, &bytes);
    hello_take(&pair.answerer, bytes, count, 0);
    hello_take(&second.answerer, bytes, count, 0);
    hello_given(&pair.answerer, hello_gives(&pair.answerer, &bytes));
    hello_given(&second.answerer, hello_gives(&second.answerer, &bytes));
    hello_given(&pair.caller, count);
    hello_take(&pair.caller, pair.answerer.transcript + HELLO_CALL_BYTES, HELLO_ANSWER_BYTES, 0);
    const size_t proof_bytes = hello_gives(&pair.caller, &bytes);
    assert_int_equal(proof_bytes, HELLO_PROOF_BYTES);
    hello_take(&second.answerer, bytes, proof_bytes, 0); /* meant for the first */
    expect(&second.answerer, HELLO_FAILED, TUTTI_AUTH_FAILED, NULL);
    hello_take(&pair.answerer, bytes, proof_bytes, 0);
    expect(&pair.answerer, HELLO_GOING, TUTTI_OK, NULL);
}

/* Every bit that either side says counts: with one of them turned round nobody is let in. */
static void any_changed_bit_ends_it(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self five = self_of("the secret", 5), three = self_of("the secret", 3);
    for (size_t bit = 0; bit < 8 * HELLO_BYTES; bit += 3) {
        struct pair pair;
        size_t position = 0;
        start(&pair, &five, &three, &to_rank_3);
        for (;;) {
            struct hello *from = &pair.caller, *to = &pair.answerer;
            const void *bytes;
            unsigned char copy[HELLO_BYTES];
            if (hello_gives(from, &bytes) == 0) from = &pair.answerer, to = &pair.caller;
            const size_t count = hello_gives(from, &bytes);
            if (count == 0) break;
            memcpy(copy, bytes, count);
            if (bit / 8 >= position && bit / 8 < position + count)
                copy[bit / 8 - position] ^= (unsigned char)(1 << bit % 8);
            position += count;
            hello_given(from, count);
            hello_take(to, copy, count, 0);
        }
        hello_leave(&pair.caller);
        hello_leave(&pair.answerer);
        const bool is_welcome = bit / 8 >= HELLO_BYTES - HELLO_WELCOME_BYTES;
        assert_int_not_equal(pair.caller.state, HELLO_DONE);
        assert_int_equal(pair.answerer.state == HELLO_DONE, is_welcome);
        assert_int_not_equal(pair.caller.state, HELLO_GOING);
        assert_int_not_equal(pair.answerer.state, HELLO_GOING);
        assert_int_not_equal(pair.caller.status, TUTTI_VERSION);
        assert_int_not_equal(pair.answerer.status, TUTTI_VERSION);
        assert_int_not_equal(pair.answerer.status, TUTTI_INVALID_OPTIONS);
    }
}

static void strangers_are_known_by_their_first_wrong_byte(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self self = self_of("the secret", 3);
    static const char *const words[] = {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "T",
                                        "TUTTIHI2", "\x16\x03\x01"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct pair pair;
        start(&pair, &self, &self, &to_rank_3);
        const void *bytes;
        hello_take(&pair.answerer, words[i], strlen(words[i]), 0);
        if (strcmp(words[i], "T") == 0) {
            expect(&pair.answerer, HELLO_GOING, TUTTI_OK, NULL);
            hello_leave(&pair.answerer);
        }
        expect(&pair.answerer, HELLO_STRAY, TUTTI_PROC_FAILED, NULL);
        assert_int_equal(hello_gives(&pair.answerer, &bytes), 0);
        assert_int_equal(hello_wants(&pair.answerer), 0);
    }
}

static void who_speaks_out_of_turn_is_a_stray(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self self = self_of("the secret", 3);
    struct pair pair;
    start(&pair, &self, &self, &to_rank_3);
    hello_take(&pair.caller, "TUTTIHI1", 8, 0);
    expect(&pair.caller, HELLO_STRAY, TUTTI_PROC_FAILED, "out of turn");
    unsigned char more[HELLO_CALL_BYTES + 1] = {0};
    start(&pair, &self, &self, &to_rank_3);
    memcpy(more, pair.caller.transcript, HELLO_CALL_BYTES);
    hello_take(&pair.answerer, more, sizeof more, 0);
    expect(&pair.answerer, HELLO_STRAY, TUTTI_PROC_FAILED, "out of turn");
}

static void time_is_bounded_however_fast_bytes_come(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self self = self_of("the secret", 3);
    struct pair pair;
    start(&pair, &self, &self, &to_rank_3);
    uint64_t now = 0;
    size_t sent = 0;
    while (pair.answerer.state == HELLO_GOING && sent < HELLO_CALL_BYTES - 1) {
        hello_take(&pair.answerer, pair.caller.transcript + sent++, 1, now);
        now += HELLO_TIMEOUT_NS / 100;
    }
    expect(&pair.answerer, HELLO_STRAY, TUTTI_PROC_FAILED, "too long");
    assert_int_equal(sent, 101);
    hello_tick(&pair.caller, HELLO_TIMEOUT_NS - 1);
    expect(&pair.caller, HELLO_GOING, TUTTI_OK, NULL);
    hello_tick(&pair.caller, HELLO_TIMEOUT_NS);
    expect(&pair.caller, HELLO_STRAY, TUTTI_PROC_FAILED, "too long");
}

static void what_is_known_of_the_key_is_wiped(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct hello_self self = self_of("the secret", 3);
    static const struct secret_key nothing;
    struct pair pair;
    start(&pair, &self, &self, &to_rank_3);
    assert_memory_equal(pair.caller.self.key.bytes, self.key.bytes, MAC_BYTES);
    hello_release(&pair.caller);
    assert_memory_equal(pair.caller.self.key.bytes, nothing.bytes, MAC_BYTES);
}

int main(void)
{
    if (atexit(greet_late) != 0) return 99;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_learn_who_the_other_is),
        cmocka_unit_test(payloads_of_any_length_arrive),
        cmocka_unit_test(another_secret_is_told_to_both),
        cmocka_unit_test(a_caller_gives_no_proof_to_an_answerer_without_the_key),
        cmocka_unit_test(a_side_without_a_secret_is_told_so),
        cmocka_unit_test(a_process_that_ends_is_a_stray),
        cmocka_unit_test(versions_are_negotiated_or_named),
        cmocka_unit_test(other_configurations_and_ranks_are_told_to_both),
        cmocka_unit_test(who_encrypts_gets_a_key_of_this_hello),
        cmocka_unit_test(one_side_alone_does_not_encrypt),
        cmocka_unit_test(a_strangers_version_is_no_verdict),
        cmocka_unit_test(a_replay_fails),
        cmocka_unit_test(a_reflection_fails),
        cmocka_unit_test(any_changed_bit_ends_it),
        cmocka_unit_test(strangers_are_known_by_their_first_wrong_byte),
        cmocka_unit_test(who_speaks_out_of_turn_is_a_stray),
        cmocka_unit_test(time_is_bounded_however_fast_bytes_come),
        cmocka_unit_test(what_is_known_of_the_key_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A peer sends when it likes. What comes to a rank that has no message of its own under way, and
 * cannot be received, ends the communicator with an error that names the message or its sender; and
 * the rank lives.
 *
 * ctest: waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "call/communicator.h"
#include "health/lock.h"
#include "os/clock.h"
#include "p2p/envelope.h"
#include "tests/worlds/ranks.h"

enum { SENDER, RECEIVER, RANKS, LARGE = 100000, TAG = 7 };
static const uint64_t SECOND = 1000000000u;

static int run(enum ranks_kind kind, ranks_function *function)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 20 * SECOND;
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 60000, .comm_options = &comm_options};
    return ranks_run(RANKS, &options, function, NULL);
}

static void expect_good_both(ranks_function *function)
{
    assert_int_equal(run(RANKS_DEFAULT, function), 0);
    if (!ranks_repeat(RANKS_THREADS)) assert_int_equal(run(RANKS_THREADS, function), 0);
}

/* Calls, without a message, until the communicator has failed. */
static struct tutti_failure await_failure(struct tutti_comm *comm)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    const uint64_t deadline_ns = clock_now_ns() + 30 * SECOND;
    while (tutti_barrier(comm) == TUTTI_OK && clock_now_ns() < deadline_ns) ranks_nap_ms(1);
    (void)tutti_comm_failure(comm, &failure);
    return failure;
}

/* So that the test's thread may use the transport. */
static bool lock(struct tutti_comm *comm)
{
    const uint64_t deadline_ns = clock_now_ns() + 10 * SECOND;
    while (!domain_try_lock(&comm->team.domain)) {
        if (clock_now_ns() > deadline_ns) return false;
        ranks_nap_ms(1);
    }
    return true;
}

/* ----------------------------------------------------------------------------- no memory for it */

static struct transport_ops starved_ops;

/* The link on which it would answer. */
static enum tutti_status no_memory(struct transport *transport, int slot, int channel, int peer,
                                   size_t bytes, struct link_tx **link)
{
    (void)transport, (void)slot, (void)channel, (void)peer, (void)bytes, (void)link;
    return error_set(TUTTI_NO_MEMORY, "a test wants it so");
}

static int announce_to_the_starved(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                   void *context)
{
    (void)size, (void)seed, (void)context;
    static const float data[LARGE];
    struct transport *const transport = comm->team.transports.set.all;
    struct tutti_request *request = NULL;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == RECEIVER) {
        RANKS_EXPECT(lock(comm));
        starved_ops = *transport->ops;
        starved_ops.open_tx = no_memory;
        transport->ops = &starved_ops;
        health_unlock(&comm->health);
    } else {
        RANKS_EXPECT(tutti_send_start(data, LARGE, TUTTI_FLOAT32, RECEIVER, TAG, NULL, comm,
                                      &request) == TUTTI_OK);
    }
    const struct tutti_failure failure = await_failure(comm);
    RANKS_EXPECT(failure.status == TUTTI_NO_MEMORY && failure.culprit == RECEIVER);
    RANKS_EXPECT(strstr(failure.message,
                        "cannot receive a message of rank 0 (tag 7, 400000 bytes)") != NULL);
    RANKS_EXPECT(strstr(failure.message, "a test wants it so") != NULL);
    RANKS_EXPECT(request == NULL || tutti_wait(&request) == TUTTI_NO_MEMORY);
    return 0;
}

static void an_announcement_that_cannot_be_answered_is_named(void **state)
{
    (void)state;
    expect_good_both(announce_to_the_starved);
}

/* ------------------------------------------------------------------------------- makes no sense */

/* As a rank does that has the key, and whose messages are not those of this library. */
static bool send_nonsense(struct tutti_comm *comm)
{
    struct transport *const transport = comm->team.transports.set.all;
    const struct envelope envelope = {.kind = 99, .tag = TAG};
    struct link_tx *link;
    if (transport->ops->open_tx(transport, TRANSPORT_SLOT_MESSAGES, P2P_CHANNEL_MESSAGES, RECEIVER,
                                sizeof envelope, &link) != TUTTI_OK)
        return false;
    void *const place = link->ops->reserve(link, sizeof envelope);
    if (place == NULL) return false;
    memcpy(place, &envelope, sizeof envelope);
    link->ops->commit(link, sizeof envelope);
    return true;
}

static int mislead(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    float value = 1;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == SENDER) {
        /* To itself: so peers look for its messages. */
        struct tutti_request *request = NULL;
        RANKS_EXPECT(tutti_send_start(&value, 1, TUTTI_FLOAT32, SENDER, TAG, NULL, comm,
                                      &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_recv(&value, 1, TUTTI_FLOAT32, SENDER, TAG, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
        RANKS_EXPECT(lock(comm));
        const bool sent = send_nonsense(comm);
        health_unlock(&comm->health);
        RANKS_EXPECT(sent);
    }
    const struct tutti_failure failure = await_failure(comm);
    RANKS_EXPECT(failure.status == TUTTI_INTERNAL && failure.culprit == SENDER);
    RANKS_EXPECT(strstr(failure.message,
                        "sent rank 1 a message that makes no sense: it is of no known kind") != NULL);
    return 0;
}

static void a_peer_that_sends_nonsense_is_named(void **state)
{
    (void)state;
    expect_good_both(mislead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_announcement_that_cannot_be_answered_is_named),
        cmocka_unit_test(a_peer_that_sends_nonsense_is_named),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

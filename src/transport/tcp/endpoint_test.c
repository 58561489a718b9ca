/* Two ends in one process that connect to each other through its port: an error that keeps an end
 * from its peers for good is reported as it was found, whatever else goes wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/status.h"
#include "connect/port.h"
#include "os/clock.h"
#include "tests/kit/contract.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/endpoint_state.h"
#include "transport/tcp/link.h"

enum { SIZE = 2 };
static const uint64_t PATIENCE_NS = 20000000000u;

struct world {
    struct transport *ends[SIZE];
    struct net_address port;
    unsigned heard;
};

static void locate(void *context, int rank, struct remote_location *location)
{
    const struct world *world = context;
    (void)rank;
    *location = (struct remote_location){.port = world->port};
}

/* It may be impossible to answer a control message, and that is an error of its own. */
static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct world *world = context;
    (void)message, (void)bytes;
    (void)error_set(TUTTI_NO_MEMORY, "something else, about rank %d", peer);
    world->heard++;
}

static void open_world(struct world *world)
{
    memset(world, 0, sizeof *world);
    assert_int_equal(port_open(NULL, &world->port), TUTTI_OK);
    struct remote_options options = {
        .size = SIZE, .locates = locate, .hears = hear, .context = world};
    memset(&options.identity, 7, sizeof options.identity);
    for (int r = 0; r < SIZE; r++) {
        options.rank = r;
        assert_int_equal(endpoint_open(&options, NULL, &world->ends[r]), TUTTI_OK);
    }
}

static void close_world(struct world *world)
{
    for (int r = 0; r < SIZE; r++) endpoint_close(world->ends[r]);
    port_close();
}

/* Rank 1 tells rank 0 something, and rank 0 stops moving with the pass in which it hears that. */
static void tell_and_hear(struct world *world)
{
    const uint32_t message = CONTROL_KIND_OWN + 1, before = world->heard;
    const uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
    struct control *const control = endpoint_control(world->ends[1]);
    assert_int_equal(control->ops->tell(control, 0, &message, sizeof message), TUTTI_OK);
    while (world->heard == before) {
        if (clock_now_ns() > end_ns) fail_msg("rank 0 hears nothing");
        (void)world->ends[1]->ops->progress(world->ends[1]);
        (void)world->ends[0]->ops->progress(world->ends[0]);
    }
}

static enum tutti_status check(struct transport *end)
{
    return endpoint_control(end)->ops->check(endpoint_control(end));
}

static void ends_connect_and_find_nothing_wrong(void **state)
{
    struct world world;
    (void)state;
    open_world(&world);
    tell_and_hear(&world);
    for (int r = 0; r < SIZE; r++) assert_int_equal(check(world.ends[r]), TUTTI_OK);
    close_world(&world);
}

static void what_was_found_is_said_whatever_goes_wrong_besides(void **state)
{
    struct world world;
    (void)state;
    open_world(&world);
    struct port_client *client = &((struct endpoint *)world.ends[0])->client;
    tell_and_hear(&world); /* they are connected */
    strcpy(client->why, "rank 1 has another key");
    atomic_store(&client->status, TUTTI_AUTH_FAILED); /* as the port does */
    tell_and_hear(&world);
    assert_int_equal(check(world.ends[0]), TUTTI_AUTH_FAILED);
    assert_string_equal(tutti_error_message(), "rank 1 has another key");
    (void)error_set(TUTTI_NO_MEMORY, "something later");
    assert_int_equal(check(world.ends[0]), TUTTI_AUTH_FAILED);
    assert_string_equal(tutti_error_message(), "rank 1 has another key");
    close_world(&world);
}

/* Links also compare with the signatures that a router put in place of the transport's own. */
static void links_are_whole_and_have_the_signatures_of_a_router(void **state)
{
    struct world world;
    struct link_tx *tx;
    struct link_rx *rx;
    uint64_t signatures[TRANSPORT_SLOT_COUNT] = {0};
    (void)state;
    open_world(&world);
    struct transport *const end = world.ends[0];
    end->signatures = signatures;
    assert_int_equal(end->ops->open_tx(end, 2, 0, 1, 100, &tx), TUTTI_OK);
    assert_int_equal(end->ops->open_rx(end, 2, 0, 1, &rx), TUTTI_OK);
    contract_expect_whole(end, tx, rx);
    assert_ptr_equal(((struct tcp_tx *)tx)->signature, &signatures[2]);
    assert_ptr_equal(((struct tcp_rx *)rx)->signature, &signatures[2]);
    close_world(&world);
}

/* Whether rank 1 comes to try to reach rank 0 within a while. */
static bool seeks(struct world *world, uint64_t patience_ns)
{
    struct control *const control = endpoint_control(world->ends[1]);
    const uint64_t end_ns = clock_now_ns() + patience_ns;
    while (clock_now_ns() < end_ns) {
        (void)world->ends[1]->ops->progress(world->ends[1]);
        if (control->ops->is_connecting(control)) return true;
    }
    return ((struct endpoint *)world->ends[1])->client.pending != NULL;
}

static void end_time(struct endpoint_peer *about)
{
    assert_in_range(about->until_ns, clock_now_ns(), clock_now_ns() + CONTROL_FORGOTTEN_NS);
    about->until_ns = clock_now_ns();
}

static void expect_rest(struct world *world)
{
    const uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
    while (seeks(world, 20000000))
        if (clock_now_ns() > end_ns) fail_msg("rank 1 never gives up");
}

/* The port of its process is still there, lets rank 1 in, and closes the connection: again and
 * again. */
static void a_forgotten_peer_is_sought_for_a_while_and_again_when_it_is_told_something(void **state)
{
    const uint32_t message = CONTROL_KIND_OWN + 1;
    struct world world;
    (void)state;
    open_world(&world);
    struct control *const control = endpoint_control(world.ends[1]);
    tell_and_hear(&world);
    endpoint_close(world.ends[0]);
    world.ends[0] = NULL;
    assert_true(seeks(&world, PATIENCE_NS));
    control->ops->forget(control, 0);
    assert_true(seeks(&world, PATIENCE_NS));
    struct endpoint_peer *const about = endpoint_peer_of((struct endpoint *)world.ends[1], 0);
    for (int turn = 0; turn < 2; turn++) {
        end_time(about);
        expect_rest(&world);
        assert_int_equal(control->ops->tell(control, 0, &message, sizeof message), TUTTI_OK);
        assert_true(seeks(&world, PATIENCE_NS));
    }
    control->ops->forget(control, 0); /* has no part in it */
    end_time(about);
    expect_rest(&world);
    close_world(&world);
}

static void a_peer_that_has_ended_is_not_sought_once_it_is_forgotten(void **state)
{
    const uint32_t message = CONTROL_KIND_OWN + 1;
    struct world world;
    (void)state;
    open_world(&world);
    struct control *const control = endpoint_control(world.ends[1]);
    tell_and_hear(&world);
    endpoint_close(world.ends[0]);
    world.ends[0] = NULL;
    assert_true(seeks(&world, PATIENCE_NS));
    endpoint_peer_of((struct endpoint *)world.ends[1], 0)->gone.presence = PEER_ENDED;
    control->ops->forget(control, 0);
    expect_rest(&world);
    assert_int_equal(control->ops->tell(control, 0, &message, sizeof message), TUTTI_OK);
    expect_rest(&world);
    close_world(&world);
}

/* Nothing was done to reach it before it was forgotten. */
static void a_stranger_that_is_forgotten_is_not_sought_for_ever(void **state)
{
    const uint32_t message = CONTROL_KIND_OWN + 1;
    struct world world;
    (void)state;
    open_world(&world);
    struct control *const control = endpoint_control(world.ends[1]);
    endpoint_close(world.ends[0]);
    world.ends[0] = NULL;
    control->ops->forget(control, 0);
    assert_int_equal(control->ops->tell(control, 0, &message, sizeof message), TUTTI_OK);
    assert_true(seeks(&world, PATIENCE_NS));
    end_time(endpoint_peer_of((struct endpoint *)world.ends[1], 0));
    expect_rest(&world);
    close_world(&world);
}

/* A port whose queue is full: connections to it stay under way. */
struct full_port {
    struct net_address address;
    int listener, fillers[4];
};

static void open_full_port(struct full_port *port)
{
    struct sockaddr_in bound = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof bound;
    port->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(port->listener, (struct sockaddr *)&bound, bytes), 0);
    assert_int_equal(listen(port->listener, 0), 0);
    assert_int_equal(getsockname(port->listener, (struct sockaddr *)&bound, &bytes), 0);
    assert_true(net_address_parse("127.0.0.1", &port->address));
    port->address.port = ntohs(bound.sin_port);
    for (int i = 0; i < 4; i++) {
        port->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(port->fillers[i], (struct sockaddr *)&bound, bytes);
    }
}

static void close_full_port(const struct full_port *port)
{
    for (int i = 0; i < 4; i++) close(port->fillers[i]);
    close(port->listener);
}

/* The probe of its port is still under way when it is clear that the peer is gone, or when it is
 * forgotten. */
static void a_probe_ends_with_the_question(void **state)
{
    const uint64_t long_ns = UINT64_C(40000000000);
    (void)state;
    for (int is_forgotten = 0; is_forgotten < 2; is_forgotten++) {
        struct full_port port;
        struct peer_report report;
        struct world world;
        open_world(&world);
        open_full_port(&port);
        struct endpoint *const end = (struct endpoint *)world.ends[1];
        struct control *const control = endpoint_control(world.ends[1]);
        tell_and_hear(&world);
        endpoint_close(world.ends[0]);
        world.ends[0] = NULL;
        const uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
        do {
            if (clock_now_ns() > end_ns) fail_msg("the connection is not lost");
            (void)end->base.ops->progress(&end->base);
            control->ops->report(control, 0, &report);
        } while (report.state != PEER_LOST);
        struct gone *const gone = &endpoint_peer_of(end, 0)->gone;
        endpoint_peer_of(end, 0)->is_at.port = port.address;
        const uint64_t now = clock_now_ns();
        assert_int_equal(control->ops->look(control, 0, now), PEER_PRESENT);
        assert_true(gone->probe_fd >= 0);
        if (is_forgotten)
            control->ops->forget(control, 0);
        else
            assert_int_equal(control->ops->look(control, 0, now + long_ns), PEER_VANISHED);
        assert_int_equal(gone->probe_fd, -1);
        close_full_port(&port);
        close_world(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_connect_and_find_nothing_wrong),
        cmocka_unit_test(what_was_found_is_said_whatever_goes_wrong_besides),
        cmocka_unit_test(links_are_whole_and_have_the_signatures_of_a_router),
        cmocka_unit_test(a_forgotten_peer_is_sought_for_a_while_and_again_when_it_is_told_something),
        cmocka_unit_test(a_peer_that_has_ended_is_not_sought_once_it_is_forgotten),
        cmocka_unit_test(a_stranger_that_is_forgotten_is_not_sought_for_ever),
        cmocka_unit_test(a_probe_ends_with_the_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

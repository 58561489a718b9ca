/* ctest: timeout=120 label=once waits */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "connect/listener.h"
#include "os/clock.h"
#include "tests/kit/belongings.h"
#include "tests/kit/cases.h"
#include "tests/kit/chance.h"

static const uint64_t SECOND_NS = 1000000000;
static const char SECRET[] = "a secret of this test";

static void skip_without_openssl(void)
{
    struct secret_key key;
    if (secret_from_run("", &key) != TUTTI_UNSUPPORTED) return;
    print_message("%s\n", tutti_error_message());
    skip();
}

enum { PURPOSE_ENCRYPTED = 1 << 20 };

static struct net_address parsed(const char *text)
{
    struct net_address address;
    if (!net_address_parse(text, &address)) fail_msg("%s is no address", text);
    return address;
}

static struct listener_options options_for(const char *secret, int rank, const char *address)
{
    struct secret_key key;
    struct listener_options options = {.self.configuration = 42};
    assert_int_equal(secret_from_bytes(secret, strlen(secret), &key), TUTTI_OK);
    hello_self_init(&options.self, &key, rank);
    if (address != NULL) options.address = parsed(address);
    return options;
}

static struct listener *opened(const struct listener_options *options)
{
    struct listener *listener;
    if (listener_open(options, &listener) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    return listener;
}

/* Rank 0 listens; rank 1 has a listener without a socket, which connects. */
struct pair {
    struct listener *listener, *caller;
    struct net_address address; /* of the listener */
};

static struct pair pair_of(unsigned incoming_max)
{
    struct listener_options listener = options_for(SECRET, 0, "127.0.0.1:0");
    const struct listener_options caller = options_for(SECRET, 1, NULL);
    listener.incoming_max = incoming_max;
    struct pair pair = {opened(&listener), opened(&caller), {0}};
    listener_address(pair.listener, &pair.address);
    assert_true(pair.address.port != 0);
    return pair;
}

static void pair_close(struct pair *pair)
{
    listener_close(pair->listener);
    listener_close(pair->caller);
}

static struct connector *sent(struct listener *from, const struct net_address *to, uint32_t purpose,
                              uint64_t timeout_ns)
{
    struct connector *connector;
    struct connector_options call = {.address = *to,
                                     .hello = {0, purpose, "hello", 5},
                                     .is_encrypted = purpose == PURPOSE_ENCRYPTED,
                                     .deadline_ns = clock_now_ns() + timeout_ns};
    assert_int_equal(listener_connect(from, &call, &connector), TUTTI_OK);
    return connector;
}

/* Sleeps as a process does that has nothing else to do. */
static void move(const struct pair *pair)
{
    struct pollfd entries[] = {{listener_descriptor(pair->listener), POLLIN, 0},
                               {listener_descriptor(pair->caller), POLLIN, 0}};
    poll(entries, 2, 1000);
    listener_progress(pair->listener, clock_now_ns());
    listener_progress(pair->caller, clock_now_ns());
}

static enum tutti_status outcome(const struct pair *pair, struct connector *connector,
                                 struct accepted_connection *accepted)
{
    const uint64_t limit = clock_now_ns() + 30 * SECOND_NS;
    enum tutti_status status;
    while ((status = connector_test(connector, accepted)) == TUTTI_IN_PROGRESS) {
        if (clock_now_ns() > limit) fail_msg("a connector does not end");
        move(pair);
    }
    return status;
}

static void expect_accepted(const struct pair *pair, uint32_t purpose)
{
    struct accepted_connection accepted;
    const uint64_t limit = clock_now_ns() + 10 * SECOND_NS;
    while (!listener_take(pair->listener, &accepted)) {
        if (clock_now_ns() > limit) fail_msg("nothing is accepted");
        move(pair);
    }
    assert_int_equal(accepted.status, TUTTI_OK);
    assert_int_equal(accepted.rank, 1);
    assert_int_equal(accepted.purpose, purpose);
    close(accepted.socket.fd);
}

/* Connects and is accepted. */
static void connect_once(const struct pair *pair, uint32_t purpose)
{
    struct accepted_connection own;
    struct connector *connector = sent(pair->caller, &pair->address, purpose, 20 * SECOND_NS);
    if (outcome(pair, connector, &own) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    expect_accepted(pair, purpose);
    close(own.socket.fd);
    connector_free(connector);
}

static void expect_nobody(const struct pair *pair)
{
    struct accepted_connection accepted;
    assert_false(listener_take(pair->listener, &accepted));
}

static struct listener_counts counts_of(const struct pair *pair)
{
    struct listener_counts counts;
    listener_count(pair->listener, &counts);
    return counts;
}

/* A stranger, who hangs up without ceremony. */
static int stranger(const struct net_address *address)
{
    int fd;
    const struct linger at_once = {1, 0};
    if (tcp_connect(address, NULL, clock_now_ns() + 10 * SECOND_NS, &fd) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return fd;
}

static void say(int fd, const void *bytes, size_t count)
{
    size_t done;
    assert_int_equal(tcp_write(fd, bytes, count, &done), TUTTI_OK);
    assert_int_equal(done, count);
}

/* Reads until count bytes are there. */
static void hear(int fd, void *bytes, size_t count)
{
    for (size_t heard = 0, done; heard < count; heard += done) {
        struct pollfd entry = {fd, POLLIN, 0};
        assert_int_equal(poll(&entry, 1, 10000), 1);
        assert_int_equal(tcp_read(fd, (char *)bytes + heard, count - heard, &done), TUTTI_OK);
    }
}

static bool was_hung_up(int fd)
{
    char bytes[HELLO_BYTES];
    size_t done;
    struct pollfd entry = {fd, POLLIN, 0};
    while (poll(&entry, 1, 1000) > 0)
        if (tcp_read(fd, bytes, sizeof bytes, &done) != TUTTI_OK) return true;
    return false;
}

/* ----------------------------------------------------------------------------------- connectors */

static void meet_at(const char *text)
{
    struct listener_options listener = options_for(SECRET, 0, text);
    const struct listener_options caller = options_for(SECRET, 1, NULL);
    struct pair pair = {NULL, opened(&caller), {0}};
    if (listener_open(&listener, &pair.listener) != TUTTI_OK) {
        print_message("%s cannot be used: %s\n", text, tutti_error_message());
        listener_close(pair.caller);
        skip();
    }
    listener_address(pair.listener, &pair.address);
    struct connector *connector = sent(pair.caller, &pair.address, 7, 10 * SECOND_NS);
    struct accepted_connection own, accepted;
    if (outcome(&pair, connector, &own) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    say(own.socket.fd, "what follows", 12); /* before the other side takes it */
    while (!listener_take(pair.listener, &accepted)) move(&pair);
    assert_int_equal(accepted.status, TUTTI_OK);
    assert_int_equal(accepted.rank, 1);
    assert_int_equal(own.rank, 0);
    assert_int_equal(accepted.version, own.version);
    assert_int_equal(accepted.purpose, 7);
    assert_int_equal(accepted.payload_bytes, 5);
    assert_memory_equal(accepted.payload, "hello", 5);
    assert_true(net_address_same_host(&accepted.address, &pair.address));
    assert_true(net_address_equal(&own.address, &pair.address));
    char text_after[12];
    hear(accepted.socket.fd, text_after, sizeof text_after);
    assert_memory_equal(text_after, "what follows", 12);
    say(accepted.socket.fd, "and back", 8);
    hear(own.socket.fd, text_after, 8);
    assert_memory_equal(text_after, "and back", 8);
    assert_int_equal(connector_test(connector, &own), TUTTI_INVALID_REQUEST); /* only once */
    close(accepted.socket.fd);
    close(own.socket.fd);
    connector_free(connector);
    pair_close(&pair);
}

static void a_connection_over_ipv4_is_accepted(void **state)
{
    (void)state;
    skip_without_openssl();
    meet_at("127.0.0.1:0");
}

static void a_connection_over_ipv6_is_accepted(void **state)
{
    (void)state;
    skip_without_openssl();
    meet_at("[::1]:0");
}

/* There are more connectors than places: a connector that is pushed out comes again. */
static void many_connectors_at_once_all_connect(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { CONNECTORS = 150 };
    struct pair pair = pair_of(8);
    struct connector *connectors[CONNECTORS];
    bool is_there[CONNECTORS] = {false}, is_over[CONNECTORS] = {false};
    int taken = 0, over = 0;
    const uint64_t limit = clock_now_ns() + 60 * SECOND_NS;
    for (uint32_t i = 0; i < CONNECTORS; i++)
        connectors[i] = sent(pair.caller, &pair.address, i, 50 * SECOND_NS);
    while (taken < CONNECTORS || over < CONNECTORS) {
        struct accepted_connection accepted;
        if (clock_now_ns() > limit) fail_msg("%d taken, %d are over", taken, over);
        move(&pair);
        while (listener_take(pair.listener, &accepted)) {
            assert_int_equal(accepted.status, TUTTI_OK);
            assert_true(accepted.purpose < CONNECTORS && !is_there[accepted.purpose]);
            is_there[accepted.purpose] = true;
            taken++;
            close(accepted.socket.fd);
        }
        for (int i = 0; i < CONNECTORS; i++) {
            if (is_over[i] || connector_test(connectors[i], &accepted) == TUTTI_IN_PROGRESS)
                continue;
            assert_int_equal(accepted.status, TUTTI_OK);
            is_over[i] = true;
            over++;
            close(accepted.socket.fd);
            connector_free(connectors[i]);
        }
    }
    assert_int_equal(counts_of(&pair).accepted, CONNECTORS);
    pair_close(&pair);
}

static void an_accepted_connection_stays_until_taken(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { CONNECTORS = 6 };
    struct pair pair = pair_of(2);
    struct connector *connectors[CONNECTORS];
    for (uint32_t i = 0; i < CONNECTORS; i++)
        connectors[i] = sent(pair.caller, &pair.address, i, 30 * SECOND_NS);
    for (int i = 0; i < 50 || counts_of(&pair).accepted < 2; i++) {
        listener_progress(pair.listener, clock_now_ns());
        listener_progress(pair.caller, clock_now_ns());
    }
    assert_int_equal(counts_of(&pair).accepted, 2);
    bool is_there[CONNECTORS] = {false};
    for (int taken = 0; taken < CONNECTORS; taken++) {
        struct accepted_connection accepted;
        while (!listener_take(pair.listener, &accepted)) move(&pair);
        assert_int_equal(accepted.status, TUTTI_OK);
        assert_false(is_there[accepted.purpose]);
        is_there[accepted.purpose] = true;
        close(accepted.socket.fd);
    }
    for (int i = 0; i < CONNECTORS; i++) connector_free(connectors[i]);
    pair_close(&pair);
}

static void a_listener_that_opens_later_is_found(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = pair_of(0);
    listener_close(pair.listener);
    struct listener_options listener = options_for(SECRET, 0, "127.0.0.1:0");
    listener.address.port = pair.address.port;
    struct connector *connector = sent(pair.caller, &pair.address, 1, 20 * SECOND_NS);
    struct accepted_connection accepted;
    /* The descriptor of the listener is readable when it is time to try again. */
    for (int i = 0; i < 5; i++) {
        struct pollfd entry = {listener_descriptor(pair.caller), POLLIN, 0};
        assert_int_equal(poll(&entry, 1, 5000), 1);
        listener_progress(pair.caller, clock_now_ns());
        assert_int_equal(connector_test(connector, &accepted), TUTTI_IN_PROGRESS);
    }
    pair.listener = opened(&listener);
    assert_int_equal(outcome(&pair, connector, &accepted), TUTTI_OK);
    close(accepted.socket.fd);
    connector_free(connector);
    pair_close(&pair);
}

static void a_connector_ends_at_its_deadline_and_says_why(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = pair_of(0);
    struct net_address other, any = parsed("127.0.0.1:0");
    struct accepted_connection accepted;
    char text[NET_ADDRESS_TEXT_MAX];
    int listener, fd;
    assert_int_equal(tcp_listen(&any, 0, &listener, &other), TUTTI_OK);
    net_address_print(&other, text);

    /* Somebody else listens there. */
    struct connector *connector = sent(pair.caller, &other, 1, SECOND_NS / 3);
    while (connector_test(connector, &accepted) == TUTTI_IN_PROGRESS) {
        struct pollfd entry = {listener, POLLIN, 0};
        struct net_address peer;
        poll(&entry, 1, 5);
        if (tcp_accept(listener, &fd, &peer) == TUTTI_OK) {
            say(fd, "SSH-2.0-something\r\n", 19);
            close(fd);
        }
        listener_progress(pair.caller, clock_now_ns());
    }
    assert_int_equal(connector_test(connector, &accepted), TUTTI_INIT_TIMEOUT);
    assert_non_null(strstr(tutti_error_message(), text));
    assert_non_null(strstr(tutti_error_message(), "another protocol"));
    connector_free(connector);

    /* Nobody does. */
    close(listener);
    connector = sent(pair.caller, &other, 1, SECOND_NS / 5);
    assert_int_equal(outcome(&pair, connector, &accepted), TUTTI_INIT_TIMEOUT);
    assert_non_null(strstr(tutti_error_message(), text));
    assert_non_null(strstr(tutti_error_message(), "refused"));
    connector_free(connector);

    /* A connector that is given up halfway. */
    connector = sent(pair.caller, &pair.address, 1, SECOND_NS);
    listener_progress(pair.caller, clock_now_ns());
    connector_free(connector);
    pair_close(&pair);
}

/* ------------------------------------------------------------------------ peers that do not fit */

static void refuse_from(const struct listener_options *unfit, enum tutti_status status,
                        const char *word, bool is_told)
{
    struct pair pair = pair_of(0);
    listener_close(pair.caller);
    pair.caller = opened(unfit);
    /* The answer of a listener with the key ends a connector; the answers of others only explain
     * why it failed. */
    const uint64_t began = clock_now_ns(), deadline_ns = is_told ? 20 * SECOND_NS : SECOND_NS;
    struct connector *connector = sent(pair.caller, &pair.address, 3, deadline_ns);
    struct accepted_connection accepted;
    char text[NET_ADDRESS_TEXT_MAX];
    net_address_print(&pair.address, text);
    assert_int_equal(outcome(&pair, connector, &accepted), status);
    assert_true(is_told == (clock_now_ns() - began < SECOND_NS));
    assert_non_null(strstr(tutti_error_message(), text));
    if (strstr(tutti_error_message(), word) == NULL)
        fail_msg("\"%s\" does not say %s", tutti_error_message(), word);
    connector_free(connector);

    const uint64_t limit = clock_now_ns() + 10 * SECOND_NS;
    struct listener_counts counts;
    do {
        move(&pair);
        counts = counts_of(&pair);
    } while (counts.unfit + counts.auth_failed == 0 && clock_now_ns() < limit);
    assert_int_equal(counts.unfit, is_told);
    assert_true((counts.auth_failed > 0) == !is_told);
    assert_int_equal(listener_take(pair.listener, &accepted), is_told);
    if (is_told) {
        assert_int_equal(accepted.status, status);
        assert_int_equal(accepted.socket.fd, -1);
        assert_int_equal(accepted.rank, 1);
        if (strstr(accepted.text, word) == NULL)
            fail_msg("\"%s\" does not say %s", accepted.text, word);
    }
    /* The job goes on. */
    const struct listener_options caller = options_for(SECRET, 1, NULL);
    listener_close(pair.caller);
    pair.caller = opened(&caller);
    connect_once(&pair, 4);
    pair_close(&pair);
}

static void another_secret_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct listener_options caller = options_for("somebody else's secret", 1, NULL);
    refuse_from(&caller, TUTTI_AUTH_FAILED, "key", false);
}

/* Somebody has the place of a rank that is not there yet, refuses all who come, and goes. */
static void a_refusal_does_not_end_a_connector(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = pair_of(0);
    struct listener_options listener = options_for("somebody else's secret", 0, NULL);
    listener.address = pair.address;
    listener_close(pair.listener);
    pair.listener = opened(&listener);
    struct connector *connector = sent(pair.caller, &pair.address, 3, 30 * SECOND_NS);
    struct accepted_connection accepted;
    struct listener_counts counts;
    const uint64_t limit = clock_now_ns() + 20 * SECOND_NS;
    do {
        assert_int_equal(connector_test(connector, &accepted), TUTTI_IN_PROGRESS);
        assert_true(clock_now_ns() < limit);
        move(&pair);
        listener_count(pair.caller, &counts);
    } while (connector_foreign_answers(connector) < 3);
    assert_in_range(counts.refused, 3, 20);
    listener_close(pair.listener);
    listener = options_for(SECRET, 0, NULL);
    listener.address = pair.address;
    pair.listener = opened(&listener);
    assert_int_equal(outcome(&pair, connector, &accepted), TUTTI_OK);
    close(accepted.socket.fd);
    connector_free(connector);
    pair_close(&pair);
}

static void other_versions_and_configurations_are_named_on_both_sides(void **state)
{
    (void)state;
    skip_without_openssl();
    struct listener_options caller = options_for(SECRET, 1, NULL);
    caller.self.version_min = HELLO_VERSION(7, 0);
    caller.self.version_max = HELLO_VERSION(7, 3);
    refuse_from(&caller, TUTTI_VERSION, "7.0 to 7.3", true);
    caller = options_for(SECRET, 1, NULL);
    caller.self.configuration = 0xbeef;
    refuse_from(&caller, TUTTI_INVALID_OPTIONS, "000000000000beef", true);
}

/* A pair on which all is encrypted. */
static struct pair secret_street(void)
{
    struct listener_options listener = options_for(SECRET, 0, "127.0.0.1:0"),
                            caller = options_for(SECRET, 1, NULL);
    listener.self.configuration = HELLO_ENCRYPTS;
    caller.self.configuration = 0; /* each connector says so itself */
    struct pair pair = {opened(&listener), opened(&caller), {0}};
    listener_address(pair.listener, &pair.address);
    assert_int_equal(listener_encrypt(pair.listener), TUTTI_OK);
    assert_int_equal(listener_encrypt(pair.caller), TUTTI_OK);
    return pair;
}

static void an_encrypted_connection_is_accepted(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = secret_street();
    struct connector *connector =
        sent(pair.caller, &pair.address, PURPOSE_ENCRYPTED, 20 * SECOND_NS);
    struct accepted_connection own, accepted;
    if (outcome(&pair, connector, &own) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    while (!listener_take(pair.listener, &accepted)) move(&pair);
    assert_non_null(own.socket.tls);
    assert_non_null(accepted.socket.tls);
    char text[8] = "";
    size_t done;
    assert_int_equal(byte_stream_write(&own.socket, "follows", 8, &done), TUTTI_OK);
    struct pollfd entry = {accepted.socket.fd, POLLIN, 0};
    assert_int_equal(poll(&entry, 1, 10000), 1);
    assert_int_equal(byte_stream_read(&accepted.socket, text, sizeof text, &done), TUTTI_OK);
    assert_string_equal(text, "follows");
    byte_stream_close(&own.socket);
    byte_stream_close(&accepted.socket);
    connector_free(connector);
    pair_close(&pair);
}

static void a_connection_in_clear_to_one_that_encrypts_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = secret_street();
    struct connector *connector = sent(pair.caller, &pair.address, 3, 20 * SECOND_NS);
    struct accepted_connection own, accepted;
    assert_int_equal(outcome(&pair, connector, &own), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "it encrypts, this rank does not"));
    while (!listener_take(pair.listener, &accepted)) move(&pair);
    assert_int_equal(accepted.status, TUTTI_INVALID_OPTIONS);
    assert_int_equal(accepted.socket.fd, -1);
    connector_free(connector);
    pair_close(&pair);
}

/* Says a good hello and then goes on in clear. */
static void what_comes_in_clear_after_a_hello_for_tls_is_dropped(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = secret_street();
    struct hello_self self = options_for(SECRET, 1, NULL).self;
    const struct hello_call call = {0, 3, "hello", 5};
    unsigned char nonce[HELLO_NONCE_BYTES] = {1};
    struct hello hello;
    const int fd = stranger(&pair.address);
    self.configuration = HELLO_ENCRYPTS;
    hello_start_call(&hello, &self, &call, nonce, clock_now_ns());
    while (hello.state == HELLO_GOING) {
        unsigned char in[HELLO_BYTES];
        const void *out;
        size_t done = hello_gives(&hello, &out);
        if (done > 0) say(fd, out, done);
        hello_given(&hello, done);
        assert_int_equal(tcp_read(fd, in, hello_wants(&hello), &done), TUTTI_OK);
        if (done > 0)
            hello_take(&hello, in, done, clock_now_ns());
        else
            move(&pair);
    }
    assert_int_equal(hello.state, HELLO_SECURES);
    static const char clear[] = "a frame in clear instead of a client's first word, long enough";
    say(fd, clear, sizeof clear);
    const uint64_t limit = clock_now_ns() + 10 * SECOND_NS;
    while (counts_of(&pair).strays == 0 && clock_now_ns() < limit) move(&pair);
    assert_int_equal(counts_of(&pair).strays, 1);
    expect_nobody(&pair);
    assert_true(was_hung_up(fd));
    close(fd);
    hello_release(&hello);
    pair_close(&pair);
}

static void a_listener_without_a_secret_does_not_encrypt(void **state)
{
    (void)state;
    skip_without_openssl();
    struct listener_options options = options_for(SECRET, 0, NULL);
    assert_int_equal(secret_from_run("a job", &options.self.key), TUTTI_OK);
    struct listener *const listener = opened(&options);
    assert_int_equal(listener_encrypt(listener), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_SECRET_FILE"));
    listener_close(listener);
}

static void another_rank_than_the_one_called_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = pair_of(0);
    struct connector *connector;
    struct accepted_connection accepted;
    const struct connector_options call = {.address = pair.address,
                                           .hello = {.peer_rank = 5},
                                           .deadline_ns = clock_now_ns() + 10 * SECOND_NS};
    assert_int_equal(listener_connect(pair.caller, &call, &connector), TUTTI_OK);
    assert_int_equal(outcome(&pair, connector, &accepted), TUTTI_AUTH_FAILED);
    assert_non_null(strstr(tutti_error_message(), "rank 0 answers where rank 5 was called"));
    connector_free(connector);
    expect_nobody(&pair);
    pair_close(&pair);
}

/* ------------------------------------------------------------------------------------ strangers */

static void port_scans_are_dropped(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { SCANS = 300 };
    struct pair pair = pair_of(0);
    for (int i = 0; i < SCANS; i++) {
        close(stranger(&pair.address));
        if (i % 20 == 0) listener_progress(pair.listener, clock_now_ns());
    }
    connect_once(&pair, 1);
    /* Some are gone before they are accepted. */
    const struct listener_counts counts = counts_of(&pair);
    assert_int_equal(counts.strays + counts.pushed_out, counts.incoming - 1);
    assert_int_equal(counts.accepted, 1);
    expect_nobody(&pair);
    pair_close(&pair);
}

/* Silent peers, and peers that are true to form but slow, have the same time each. */
static void slow_ones_are_dropped_when_their_time_is_over(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { SLOW = 10 };
    struct pair pair = pair_of(0);
    const struct listener_options caller = options_for(SECRET, 1, NULL);
    int slow[SLOW];
    struct hello hello;
    const unsigned char nonce[HELLO_NONCE_BYTES] = {1};
    const struct hello_call call = {.peer_rank = HELLO_ANY_RANK};
    uint64_t now = clock_now_ns();
    hello_start_call(&hello, &caller.self, &call, nonce, now);
    for (int i = 0; i < SLOW; i++) slow[i] = stranger(&pair.address);
    for (size_t sent_bytes = 0; sent_bytes < 19; sent_bytes++) {
        now += HELLO_TIMEOUT_NS / 20;
        for (int i = 0; i < SLOW; i++)
            if (i % 2 == 0) say(slow[i], hello.transcript + sent_bytes, 1);
        listener_progress(pair.listener, now);
        assert_int_equal(counts_of(&pair).strays, 0);
    }
    assert_int_equal(counts_of(&pair).incoming, SLOW);
    listener_progress(pair.listener, now + HELLO_TIMEOUT_NS / 8);
    assert_int_equal(counts_of(&pair).strays, SLOW);
    for (int i = 0; i < SLOW; i++) {
        assert_true(was_hung_up(slow[i]));
        close(slow[i]);
    }
    connect_once(&pair, 1);
    pair_close(&pair);
}

/* The descriptor tells when a silent one's time is over, though nothing comes. */
static void the_descriptor_wakes_at_deadlines(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = pair_of(0);
    const int fd = stranger(&pair.address);
    const uint64_t began = clock_now_ns();
    while (counts_of(&pair).strays == 0) {
        struct pollfd entry = {listener_descriptor(pair.listener), POLLIN, 0};
        if (poll(&entry, 1, 20000) != 1) fail_msg("nothing wakes");
        listener_progress(pair.listener, clock_now_ns());
    }
    const uint64_t took = clock_now_ns() - began;
    assert_true(took >= 19 * (HELLO_TIMEOUT_NS / 20) && took < 15 * SECOND_NS);
    close(fd);
    pair_close(&pair);
}

/* Lines of the log from here on, instead of on the screen. */
static int catch_log(int *screen)
{
    const int caught = memfd_create("log", MFD_CLOEXEC);
    fflush(stderr);
    *screen = dup(STDERR_FILENO);
    assert_true(caught >= 0 && *screen >= 0);
    dup2(caught, STDERR_FILENO);
    return caught;
}

static int release_log(int caught, int screen)
{
    char text[1 << 16];
    dup2(screen, STDERR_FILENO);
    close(screen);
    const ssize_t bytes = pread(caught, text, sizeof text - 1, 0);
    close(caught);
    int lines = 0;
    for (ssize_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    return lines;
}

/* Random bytes, many with the right beginning, in batches larger than the table. Real peers get
 * through meanwhile, and neither descriptors nor lines in the log add up. */
static void ten_thousand_strangers_do_not_keep_anybody_out(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { BATCHES = 100, BATCH = 100 };
    struct pair pair = pair_of(8);
    const int descriptors = belongings_descriptors();
    const uint64_t began = clock_now_ns();
    uint64_t random = 0x9e3779b97f4a7c15u;
    int screen, fds[BATCH];
    const int caught = catch_log(&screen);
    for (int batch = 0; batch < BATCHES; batch++) {
        struct connector *connector =
            batch % 5 != 0 ? NULL
                           : sent(pair.caller, &pair.address, (uint32_t)batch, 30 * SECOND_NS);
        for (int i = 0; i < BATCH; i++) {
            unsigned char bytes[300];
            for (size_t b = 0; b < sizeof bytes; b++)
                bytes[b] = (unsigned char)(chance_next(&random) >> 23);
            if (i % 3 == 0) memcpy(bytes, "TUTTIHI1\1\0\0\0", 12);
            fds[i] = stranger(&pair.address);
            say(fds[i], bytes, 1 + bytes[20] % sizeof bytes);
            if (i % 50 == 49) listener_progress(pair.listener, clock_now_ns());
            if (connector != NULL) listener_progress(pair.caller, clock_now_ns());
        }
        listener_progress(pair.listener, clock_now_ns());
        if (belongings_descriptors() > descriptors + BATCH + 8 + 6) fail_msg("descriptors add up");
        if (connector != NULL) {
            struct accepted_connection own;
            const enum tutti_status status = outcome(&pair, connector, &own);
            if (status != TUTTI_OK) fail_msg("%s", tutti_error_message());
            close(own.socket.fd);
            connector_free(connector);
            expect_accepted(&pair, (uint32_t)batch);
        }
        for (int i = 0; i < BATCH; i++) close(fds[i]);
    }
    while (counts_of(&pair).incoming < BATCHES * BATCH) {
        const uint64_t before = counts_of(&pair).incoming;
        listener_progress(pair.listener, clock_now_ns());
        if (counts_of(&pair).incoming == before) break; /* some are gone before they are accepted */
    }
    listener_progress(pair.listener, clock_now_ns() + 3 * SECOND_NS);
    const int lines = release_log(caught, screen);
    const struct listener_counts counts = counts_of(&pair);
    assert_int_equal(counts.accepted, BATCHES / 5);
    assert_true(counts.incoming >= BATCHES * BATCH / 2);
    assert_int_equal(counts.strays + counts.pushed_out + counts.auth_failed + counts.accepted,
                     counts.incoming);
    assert_true(counts.auth_failed > 0 && counts.pushed_out > 0);
    expect_nobody(&pair);
    assert_true(lines <= 2 + (int)((clock_now_ns() - began) / (10 * SECOND_NS)));
    assert_true(belongings_descriptors() <= descriptors);
    pair_close(&pair);
}

/* All that a real caller once said, said again. */
static void a_recorded_hello_is_of_no_use(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = pair_of(0);
    const struct listener_options caller = options_for(SECRET, 1, NULL);
    const unsigned char nonce[HELLO_NONCE_BYTES] = {1, 2, 3};
    const struct hello_call call = {.peer_rank = 0};
    struct hello hello;
    struct accepted_connection accepted;
    size_t done;
    int fd = stranger(&pair.address);
    hello_start_call(&hello, &caller.self, &call, nonce, clock_now_ns());
    while (hello.state == HELLO_GOING) {
        unsigned char in[HELLO_BYTES];
        const void *out;
        const size_t count = hello_gives(&hello, &out);
        if (count > 0) say(fd, out, count);
        hello_given(&hello, count);
        listener_progress(pair.listener, clock_now_ns());
        assert_int_equal(tcp_read(fd, in, hello_wants(&hello), &done), TUTTI_OK);
        hello_take(&hello, in, done, clock_now_ns());
    }
    assert_int_equal(hello.state, HELLO_DONE);
    assert_true(listener_take(pair.listener, &accepted));
    assert_int_equal(accepted.status, TUTTI_OK);
    close(accepted.socket.fd);
    close(fd);

    fd = stranger(&pair.address);
    say(fd, hello.transcript, HELLO_CALL_BYTES);
    for (int i = 0; i < 100; i++) listener_progress(pair.listener, clock_now_ns());
    unsigned char answer[HELLO_ANSWER_BYTES];
    hear(fd, answer, sizeof answer);
    say(fd, hello.transcript + HELLO_CALL_BYTES + HELLO_ANSWER_BYTES, HELLO_PROOF_BYTES);
    const uint64_t limit = clock_now_ns() + 10 * SECOND_NS;
    while (counts_of(&pair).auth_failed == 0 && clock_now_ns() < limit) move(&pair);
    assert_int_equal(counts_of(&pair).auth_failed, 1);
    assert_true(was_hung_up(fd));
    expect_nobody(&pair);
    close(fd);
    pair_close(&pair);
}

/* A peer that has said a valid hello stays when strangers fill the table. */
static void proven_peers_are_pushed_out_last(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { STRANGERS = 40 };
    struct pair pair = pair_of(4);
    int fds[STRANGERS];
    struct connector *connector = sent(pair.caller, &pair.address, 9, 20 * SECOND_NS);
    /* The CALL is in and the ANSWER out; the caller has not yet looked at it. */
    listener_progress(pair.caller, clock_now_ns());
    listener_progress(pair.listener, clock_now_ns());
    assert_int_equal(counts_of(&pair).incoming, 1);
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = stranger(&pair.address);
        listener_progress(pair.listener, clock_now_ns());
    }
    assert_int_equal(counts_of(&pair).pushed_out, STRANGERS - 3);
    struct accepted_connection own;
    assert_int_equal(outcome(&pair, connector, &own), TUTTI_OK);
    assert_int_equal(counts_of(&pair).incoming, STRANGERS + 1); /* at its first attempt */
    expect_accepted(&pair, 9);
    close(own.socket.fd);
    connector_free(connector);
    for (int i = 0; i < STRANGERS; i++) close(fds[i]);
    pair_close(&pair);
}

/* --------------------------------------------------------------------------------------- system */

static void without_descriptors_the_listener_waits(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = pair_of(0);
    struct rlimit limit, before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct connector *connector = sent(pair.caller, &pair.address, 2, 20 * SECOND_NS);
    const int highest = dup(STDERR_FILENO);
    close(highest);
    limit = before;
    limit.rlim_cur = (rlim_t)highest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const uint64_t now = clock_now_ns();
    for (int i = 0; i < 20; i++) listener_progress(pair.listener, now);
    assert_int_equal(counts_of(&pair).incoming, 0);
    assert_int_equal(counts_of(&pair).starved, 1);
    /* It does not keep who sleeps on it awake meanwhile. */
    struct pollfd entry = {listener_descriptor(pair.listener), POLLIN, 0};
    const int awake = poll(&entry, 1, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (clock_now_ns() - now < SECOND_NS / 20) assert_int_equal(awake, 0);
    struct accepted_connection own;
    assert_int_equal(outcome(&pair, connector, &own), TUTTI_OK);
    expect_accepted(&pair, 2);
    close(own.socket.fd);
    connector_free(connector);
    pair_close(&pair);
}

/* Two callers, and a descriptor for one of them: each attempt to let the other one in would end the
 * first one's handshake. */
static void without_descriptors_one_comes_after_the_other(void **state)
{
    (void)state;
    skip_without_openssl();
    struct pair pair = pair_of(0);
    struct rlimit before;
    struct connector *connectors[2];
    struct accepted_connection own[2];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 2; i++) connectors[i] = sent(pair.caller, &pair.address, 2, 20 * SECOND_NS);
    listener_progress(pair.caller, clock_now_ns());
    const int first_free = dup(STDERR_FILENO);
    close(first_free);
    const struct rlimit limit = {(rlim_t)first_free + 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    listener_progress(pair.listener, clock_now_ns());
    assert_int_equal(counts_of(&pair).starved, 1);
    assert_int_equal(counts_of(&pair).pushed_out, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(outcome(&pair, connectors[i], &own[i]), TUTTI_OK);
        expect_accepted(&pair, 2);
        close(own[i].socket.fd);
        connector_free(connectors[i]);
    }
    assert_int_equal(counts_of(&pair).incoming, 2); /* at their first attempts */
    pair_close(&pair);
}

static void ports_are_taken_from_the_range(void **state)
{
    (void)state;
    skip_without_openssl();
    static const struct {
        const char *text;
        unsigned first, last;
    } good[] = {{"5000-5010", 5000, 5010}, {"80", 80, 80}, {"1-65535", 1, 65535}, {"", 0, 0}};
    static const char *const bad[] = {"0",    "5000-",  "-5000",   "5010-5000", "5000-65536",
                                      "a-b",  "5000 ",  " 5000",   "1-2-3",     "+1-2",
                                      "1--2", "100000", "1-100000"};
    uint16_t first, last;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("TUTTI_PORT_RANGE", good[i].text, 1);
        assert_int_equal(listener_ports_read(&first, &last), TUTTI_OK);
        assert_int_equal(first, good[i].first);
        assert_int_equal(last, good[i].last);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TUTTI_PORT_RANGE", bad[i], 1);
        if (listener_ports_read(&first, &last) != TUTTI_INVALID_OPTIONS)
            fail_msg("\"%s\" is fine", bad[i]);
        assert_non_null(strstr(tutti_error_message(), "TUTTI_PORT_RANGE"));
    }
    unsetenv("TUTTI_PORT_RANGE");
    assert_int_equal(listener_ports_read(&first, &last), TUTTI_OK);
    assert_int_equal(first, 0);

    struct listener_options options = options_for(SECRET, 0, "127.0.0.1:0");
    struct net_address one_address, other_address;
    struct listener *one = opened(&options), *other;
    listener_address(one, &one_address);
    options.address.port = one_address.port;
    options.port_last = UINT16_MAX;
    if (one_address.port < UINT16_MAX) {
        other = opened(&options);
        listener_address(other, &other_address);
        assert_true(other_address.port > one_address.port);
        listener_close(other);
    }
    options.port_last = one_address.port;
    assert_int_equal(listener_open(&options, &other), TUTTI_INVALID_OPTIONS);
    assert_null(other);
    listener_close(one);
    listener_close(NULL);
    connector_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_over_ipv4_is_accepted),
        cmocka_unit_test(a_connection_over_ipv6_is_accepted),
        cmocka_unit_test(many_connectors_at_once_all_connect),
        cmocka_unit_test(an_accepted_connection_stays_until_taken),
        cmocka_unit_test(a_listener_that_opens_later_is_found),
        cmocka_unit_test(a_connector_ends_at_its_deadline_and_says_why),
        cmocka_unit_test(another_secret_is_refused),
        cmocka_unit_test(a_refusal_does_not_end_a_connector),
        cmocka_unit_test(other_versions_and_configurations_are_named_on_both_sides),
        cmocka_unit_test(an_encrypted_connection_is_accepted),
        cmocka_unit_test(a_connection_in_clear_to_one_that_encrypts_is_refused),
        cmocka_unit_test(what_comes_in_clear_after_a_hello_for_tls_is_dropped),
        cmocka_unit_test(a_listener_without_a_secret_does_not_encrypt),
        cmocka_unit_test(another_rank_than_the_one_called_is_refused),
        cmocka_unit_test(port_scans_are_dropped),
        cmocka_unit_test(slow_ones_are_dropped_when_their_time_is_over),
        cmocka_unit_test(the_descriptor_wakes_at_deadlines),
        cmocka_unit_test(ten_thousand_strangers_do_not_keep_anybody_out),
        cmocka_unit_test(a_recorded_hello_is_of_no_use),
        cmocka_unit_test(proven_peers_are_pushed_out_last),
        cmocka_unit_test(without_descriptors_the_listener_waits),
        cmocka_unit_test(without_descriptors_one_comes_after_the_other),
        cmocka_unit_test(ports_are_taken_from_the_range),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}

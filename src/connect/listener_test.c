/* ctest: timeout=120 */
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

#include "belongings.h"
#include "connect/listener.h"
#include "os/clock.h"

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

static struct door_options options_for(const char *secret, int rank, const char *address)
{
    struct secret_key key;
    struct door_options options = {.self.configuration = 42};
    assert_int_equal(secret_from_bytes(secret, strlen(secret), &key), TUTTI_OK);
    hello_self_init(&options.self, &key, rank);
    if (address != NULL) options.address = parsed(address);
    return options;
}

static struct door *opened(const struct door_options *options)
{
    struct door *door;
    if (door_open(options, &door) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    return door;
}

/* A door of rank 0 that listens, and one of rank 1 to go out from. */
struct street {
    struct door *host, *home;
    struct net_address address; /* the host's */
};

static struct street street_of(unsigned guest_max)
{
    struct door_options host = options_for(SECRET, 0, "127.0.0.1:0");
    const struct door_options home = options_for(SECRET, 1, NULL);
    host.guest_max = guest_max;
    struct street street = {opened(&host), opened(&home), {0}};
    door_address(street.host, &street.address);
    assert_true(street.address.port != 0);
    return street;
}

static void street_close(struct street *street)
{
    door_close(street->host);
    door_close(street->home);
}

static struct visit *sent(struct door *from, const struct net_address *to, uint32_t purpose,
                          uint64_t timeout_ns)
{
    struct visit *visit;
    struct door_call call = {.address = *to,
                             .hello = {0, purpose, "hello", 5},
                             .is_encrypted = purpose == PURPOSE_ENCRYPTED,
                             .deadline_ns = clock_now_ns() + timeout_ns};
    assert_int_equal(door_connect(from, &call, &visit), TUTTI_OK);
    return visit;
}

/* Sleeps as a process does that has nothing else to do. */
static void move(const struct street *street)
{
    struct pollfd entries[] = {{door_descriptor(street->host), POLLIN, 0},
                               {door_descriptor(street->home), POLLIN, 0}};
    poll(entries, 2, 1000);
    door_progress(street->host, clock_now_ns());
    door_progress(street->home, clock_now_ns());
}

static enum tutti_status outcome(const struct street *street, struct visit *visit,
                                 struct door_arrival *arrival)
{
    const uint64_t limit = clock_now_ns() + 30 * SECOND_NS;
    enum tutti_status status;
    while ((status = visit_test(visit, arrival)) == TUTTI_IN_PROGRESS) {
        if (clock_now_ns() > limit) fail_msg("a visit does not end");
        move(street);
    }
    return status;
}

static void expect_arrival(const struct street *street, uint32_t purpose)
{
    struct door_arrival arrival;
    const uint64_t limit = clock_now_ns() + 10 * SECOND_NS;
    while (!door_take(street->host, &arrival)) {
        if (clock_now_ns() > limit) fail_msg("nobody arrives");
        move(street);
    }
    assert_int_equal(arrival.status, TUTTI_OK);
    assert_int_equal(arrival.rank, 1);
    assert_int_equal(arrival.purpose, purpose);
    close(arrival.channel.fd);
}

/* Goes to the door and is let in. */
static void pay_a_visit(const struct street *street, uint32_t purpose)
{
    struct door_arrival own;
    struct visit *visit = sent(street->home, &street->address, purpose, 20 * SECOND_NS);
    if (outcome(street, visit, &own) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    expect_arrival(street, purpose);
    close(own.channel.fd);
    visit_free(visit);
}

static void expect_nobody(const struct street *street)
{
    struct door_arrival arrival;
    assert_false(door_take(street->host, &arrival));
}

static struct door_counts counts_of(const struct street *street)
{
    struct door_counts counts;
    door_count(street->host, &counts);
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

/* ------------------------------------------------------------------------------------------- visits */

static void meet_at(const char *text)
{
    struct door_options host = options_for(SECRET, 0, text);
    const struct door_options home = options_for(SECRET, 1, NULL);
    struct street street = {NULL, opened(&home), {0}};
    if (door_open(&host, &street.host) != TUTTI_OK) {
        print_message("%s cannot be used: %s\n", text, tutti_error_message());
        door_close(street.home);
        skip();
    }
    door_address(street.host, &street.address);
    struct visit *visit = sent(street.home, &street.address, 7, 10 * SECOND_NS);
    struct door_arrival own, arrival;
    if (outcome(&street, visit, &own) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    say(own.channel.fd, "what follows", 12); /* before the other side takes it */
    while (!door_take(street.host, &arrival)) move(&street);
    assert_int_equal(arrival.status, TUTTI_OK);
    assert_int_equal(arrival.rank, 1);
    assert_int_equal(own.rank, 0);
    assert_int_equal(arrival.version, own.version);
    assert_int_equal(arrival.purpose, 7);
    assert_int_equal(arrival.payload_bytes, 5);
    assert_memory_equal(arrival.payload, "hello", 5);
    assert_true(net_address_same_host(&arrival.address, &street.address));
    assert_true(net_address_equal(&own.address, &street.address));
    char text_after[12];
    hear(arrival.channel.fd, text_after, sizeof text_after);
    assert_memory_equal(text_after, "what follows", 12);
    say(arrival.channel.fd, "and back", 8);
    hear(own.channel.fd, text_after, 8);
    assert_memory_equal(text_after, "and back", 8);
    assert_int_equal(visit_test(visit, &own), TUTTI_INVALID_REQUEST); /* only once */
    close(arrival.channel.fd);
    close(own.channel.fd);
    visit_free(visit);
    street_close(&street);
}

static void a_visit_over_ipv4_arrives(void **state)
{
    (void)state;
    skip_without_openssl();
    meet_at("127.0.0.1:0");
}

static void a_visit_over_ipv6_arrives(void **state)
{
    (void)state;
    skip_without_openssl();
    meet_at("[::1]:0");
}

/* More than have a place: who is pushed out comes again. */
static void many_visits_at_once_all_arrive(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { VISITS = 150 };
    struct street street = street_of(8);
    struct visit *visits[VISITS];
    bool is_there[VISITS] = {false}, is_over[VISITS] = {false};
    int arrived = 0, over = 0;
    const uint64_t limit = clock_now_ns() + 60 * SECOND_NS;
    for (uint32_t i = 0; i < VISITS; i++)
        visits[i] = sent(street.home, &street.address, i, 50 * SECOND_NS);
    while (arrived < VISITS || over < VISITS) {
        struct door_arrival arrival;
        if (clock_now_ns() > limit) fail_msg("%d arrived, %d are over", arrived, over);
        move(&street);
        while (door_take(street.host, &arrival)) {
            assert_int_equal(arrival.status, TUTTI_OK);
            assert_true(arrival.purpose < VISITS && !is_there[arrival.purpose]);
            is_there[arrival.purpose] = true;
            arrived++;
            close(arrival.channel.fd);
        }
        for (int i = 0; i < VISITS; i++) {
            if (is_over[i] || visit_test(visits[i], &arrival) == TUTTI_IN_PROGRESS) continue;
            assert_int_equal(arrival.status, TUTTI_OK);
            is_over[i] = true;
            over++;
            close(arrival.channel.fd);
            visit_free(visits[i]);
        }
    }
    assert_int_equal(counts_of(&street).arrived, VISITS);
    street_close(&street);
}

static void who_has_arrived_stays_until_taken(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { VISITS = 6 };
    struct street street = street_of(2);
    struct visit *visits[VISITS];
    for (uint32_t i = 0; i < VISITS; i++)
        visits[i] = sent(street.home, &street.address, i, 30 * SECOND_NS);
    for (int i = 0; i < 50 || counts_of(&street).arrived < 2; i++) {
        door_progress(street.host, clock_now_ns());
        door_progress(street.home, clock_now_ns());
    }
    assert_int_equal(counts_of(&street).arrived, 2);
    bool is_there[VISITS] = {false};
    for (int arrived = 0; arrived < VISITS; arrived++) {
        struct door_arrival arrival;
        while (!door_take(street.host, &arrival)) move(&street);
        assert_int_equal(arrival.status, TUTTI_OK);
        assert_false(is_there[arrival.purpose]);
        is_there[arrival.purpose] = true;
        close(arrival.channel.fd);
    }
    for (int i = 0; i < VISITS; i++) visit_free(visits[i]);
    street_close(&street);
}

static void a_door_that_opens_later_is_found(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = street_of(0);
    door_close(street.host);
    struct door_options host = options_for(SECRET, 0, "127.0.0.1:0");
    host.address.port = street.address.port;
    struct visit *visit = sent(street.home, &street.address, 1, 20 * SECOND_NS);
    struct door_arrival arrival;
    /* The door wakes who sleeps on it when it is time to try again. */
    for (int i = 0; i < 5; i++) {
        struct pollfd entry = {door_descriptor(street.home), POLLIN, 0};
        assert_int_equal(poll(&entry, 1, 5000), 1);
        door_progress(street.home, clock_now_ns());
        assert_int_equal(visit_test(visit, &arrival), TUTTI_IN_PROGRESS);
    }
    street.host = opened(&host);
    assert_int_equal(outcome(&street, visit, &arrival), TUTTI_OK);
    close(arrival.channel.fd);
    visit_free(visit);
    street_close(&street);
}

static void a_visit_ends_at_its_deadline_and_says_why(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = street_of(0);
    struct net_address other, any = parsed("127.0.0.1:0");
    struct door_arrival arrival;
    char text[NET_ADDRESS_TEXT_MAX];
    int listener, fd;
    assert_int_equal(tcp_listen(&any, 0, &listener, &other), TUTTI_OK);
    net_address_print(&other, text);

    /* Somebody else listens there. */
    struct visit *visit = sent(street.home, &other, 1, SECOND_NS / 3);
    while (visit_test(visit, &arrival) == TUTTI_IN_PROGRESS) {
        struct pollfd entry = {listener, POLLIN, 0};
        struct net_address peer;
        poll(&entry, 1, 5);
        if (tcp_accept(listener, &fd, &peer) == TUTTI_OK) {
            say(fd, "SSH-2.0-something\r\n", 19);
            close(fd);
        }
        door_progress(street.home, clock_now_ns());
    }
    assert_int_equal(visit_test(visit, &arrival), TUTTI_INIT_TIMEOUT);
    assert_non_null(strstr(tutti_error_message(), text));
    assert_non_null(strstr(tutti_error_message(), "another protocol"));
    visit_free(visit);

    /* Nobody does. */
    close(listener);
    visit = sent(street.home, &other, 1, SECOND_NS / 5);
    assert_int_equal(outcome(&street, visit, &arrival), TUTTI_INIT_TIMEOUT);
    assert_non_null(strstr(tutti_error_message(), text));
    assert_non_null(strstr(tutti_error_message(), "refused"));
    visit_free(visit);

    /* One that is given up half-way. */
    visit = sent(street.home, &street.address, 1, SECOND_NS);
    door_progress(street.home, clock_now_ns());
    visit_free(visit);
    street_close(&street);
}

/* ---------------------------------------------------------------------------- peers that do not fit */

static void refuse_from(const struct door_options *visitor, enum tutti_status status,
                        const char *word, bool is_told)
{
    struct street street = street_of(0);
    door_close(street.home);
    street.home = opened(visitor);
    /* The answer of a listener with the key ends a visit; the answers of others only explain why it failed. */
    const uint64_t began = clock_now_ns(), deadline_ns = is_told ? 20 * SECOND_NS : SECOND_NS;
    struct visit *visit = sent(street.home, &street.address, 3, deadline_ns);
    struct door_arrival arrival;
    char text[NET_ADDRESS_TEXT_MAX];
    net_address_print(&street.address, text);
    assert_int_equal(outcome(&street, visit, &arrival), status);
    assert_true(is_told == (clock_now_ns() - began < SECOND_NS));
    assert_non_null(strstr(tutti_error_message(), text));
    if (strstr(tutti_error_message(), word) == NULL)
        fail_msg("\"%s\" does not say %s", tutti_error_message(), word);
    visit_free(visit);

    const uint64_t limit = clock_now_ns() + 10 * SECOND_NS;
    struct door_counts counts;
    do {
        move(&street);
        counts = counts_of(&street);
    } while (counts.unfit + counts.auth_failed == 0 && clock_now_ns() < limit);
    assert_int_equal(counts.unfit, is_told);
    assert_true((counts.auth_failed > 0) == !is_told);
    assert_int_equal(door_take(street.host, &arrival), is_told);
    if (is_told) {
        assert_int_equal(arrival.status, status);
        assert_int_equal(arrival.channel.fd, -1);
        assert_int_equal(arrival.rank, 1);
        if (strstr(arrival.text, word) == NULL)
            fail_msg("\"%s\" does not say %s", arrival.text, word);
    }
    /* The job goes on. */
    const struct door_options home = options_for(SECRET, 1, NULL);
    door_close(street.home);
    street.home = opened(&home);
    pay_a_visit(&street, 4);
    street_close(&street);
}

static void another_secret_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    const struct door_options visitor = options_for("somebody else's secret", 1, NULL);
    refuse_from(&visitor, TUTTI_AUTH_FAILED, "key", false);
}

/* Somebody has the place of a rank that is not there yet, refuses all who come, and goes. */
static void a_refusal_does_not_end_a_visit(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = street_of(0);
    struct door_options host = options_for("somebody else's secret", 0, NULL);
    host.address = street.address;
    door_close(street.host);
    street.host = opened(&host);
    struct visit *visit = sent(street.home, &street.address, 3, 30 * SECOND_NS);
    struct door_arrival arrival;
    struct door_counts counts;
    const uint64_t limit = clock_now_ns() + 20 * SECOND_NS;
    do {
        assert_int_equal(visit_test(visit, &arrival), TUTTI_IN_PROGRESS);
        assert_true(clock_now_ns() < limit);
        move(&street);
        door_count(street.home, &counts);
    } while (visit_foreign_answers(visit) < 3);
    assert_in_range(counts.refused, 3, 20);
    door_close(street.host);
    host = options_for(SECRET, 0, NULL);
    host.address = street.address;
    street.host = opened(&host);
    assert_int_equal(outcome(&street, visit, &arrival), TUTTI_OK);
    close(arrival.channel.fd);
    visit_free(visit);
    street_close(&street);
}

static void other_versions_and_configurations_are_named_on_both_sides(void **state)
{
    (void)state;
    skip_without_openssl();
    struct door_options visitor = options_for(SECRET, 1, NULL);
    visitor.self.version_min = HELLO_VERSION(7, 0);
    visitor.self.version_max = HELLO_VERSION(7, 3);
    refuse_from(&visitor, TUTTI_VERSION, "7.0 to 7.3", true);
    visitor = options_for(SECRET, 1, NULL);
    visitor.self.configuration = 0xbeef;
    refuse_from(&visitor, TUTTI_INVALID_OPTIONS, "000000000000beef", true);
}

/* A street on which all is encrypted. */
static struct street secret_street(void)
{
    struct door_options host = options_for(SECRET, 0, "127.0.0.1:0"),
                        home = options_for(SECRET, 1, NULL);
    host.self.configuration = HELLO_ENCRYPTS;
    home.self.configuration = 0; /* each visit says so itself */
    struct street street = {opened(&host), opened(&home), {0}};
    door_address(street.host, &street.address);
    assert_int_equal(door_encrypt(street.host), TUTTI_OK);
    assert_int_equal(door_encrypt(street.home), TUTTI_OK);
    return street;
}

static void an_encrypted_visit_arrives(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = secret_street();
    struct visit *visit = sent(street.home, &street.address, PURPOSE_ENCRYPTED, 20 * SECOND_NS);
    struct door_arrival own, arrival;
    if (outcome(&street, visit, &own) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    while (!door_take(street.host, &arrival)) move(&street);
    assert_non_null(own.channel.tls);
    assert_non_null(arrival.channel.tls);
    char text[8] = "";
    size_t done;
    assert_int_equal(channel_write(&own.channel, "follows", 8, &done), TUTTI_OK);
    struct pollfd entry = {arrival.channel.fd, POLLIN, 0};
    assert_int_equal(poll(&entry, 1, 10000), 1);
    assert_int_equal(channel_read(&arrival.channel, text, sizeof text, &done), TUTTI_OK);
    assert_string_equal(text, "follows");
    channel_close(&own.channel);
    channel_close(&arrival.channel);
    visit_free(visit);
    street_close(&street);
}

static void a_visit_in_clear_to_who_encrypts_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = secret_street();
    struct visit *visit = sent(street.home, &street.address, 3, 20 * SECOND_NS);
    struct door_arrival own, arrival;
    assert_int_equal(outcome(&street, visit, &own), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "it encrypts, this rank does not"));
    while (!door_take(street.host, &arrival)) move(&street);
    assert_int_equal(arrival.status, TUTTI_INVALID_OPTIONS);
    assert_int_equal(arrival.channel.fd, -1);
    visit_free(visit);
    street_close(&street);
}

/* Says a good hello and then goes on in clear. */
static void what_comes_in_clear_after_a_hello_for_tls_is_dropped(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = secret_street();
    struct hello_self self = options_for(SECRET, 1, NULL).self;
    const struct hello_call call = {0, 3, "hello", 5};
    unsigned char nonce[HELLO_NONCE_BYTES] = {1};
    struct hello hello;
    const int fd = stranger(&street.address);
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
            move(&street);
    }
    assert_int_equal(hello.state, HELLO_SECURES);
    static const char clear[] = "a frame in clear instead of a client's first word, long enough";
    say(fd, clear, sizeof clear);
    const uint64_t limit = clock_now_ns() + 10 * SECOND_NS;
    while (counts_of(&street).strays == 0 && clock_now_ns() < limit) move(&street);
    assert_int_equal(counts_of(&street).strays, 1);
    expect_nobody(&street);
    assert_true(was_hung_up(fd));
    close(fd);
    hello_release(&hello);
    street_close(&street);
}

static void a_door_without_a_secret_does_not_encrypt(void **state)
{
    (void)state;
    skip_without_openssl();
    struct door_options options = options_for(SECRET, 0, NULL);
    assert_int_equal(secret_from_run("a job", &options.self.key), TUTTI_OK);
    struct door *const door = opened(&options);
    assert_int_equal(door_encrypt(door), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_SECRET_FILE"));
    door_close(door);
}

static void another_rank_than_the_one_called_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = street_of(0);
    struct visit *visit;
    struct door_arrival arrival;
    const struct door_call call = {.address = street.address,
                                   .hello = {.peer_rank = 5},
                                   .deadline_ns = clock_now_ns() + 10 * SECOND_NS};
    assert_int_equal(door_connect(street.home, &call, &visit), TUTTI_OK);
    assert_int_equal(outcome(&street, visit, &arrival), TUTTI_AUTH_FAILED);
    assert_non_null(strstr(tutti_error_message(), "rank 0 answers where rank 5 was called"));
    visit_free(visit);
    expect_nobody(&street);
    street_close(&street);
}

/* --------------------------------------------------------------------------------------- strangers */

static void port_scans_are_dropped(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { SCANS = 300 };
    struct street street = street_of(0);
    for (int i = 0; i < SCANS; i++) {
        close(stranger(&street.address));
        if (i % 20 == 0) door_progress(street.host, clock_now_ns());
    }
    pay_a_visit(&street, 1);
    /* Some are gone before they are accepted. */
    const struct door_counts counts = counts_of(&street);
    assert_int_equal(counts.strays + counts.pushed_out, counts.accepted - 1);
    assert_int_equal(counts.arrived, 1);
    expect_nobody(&street);
    street_close(&street);
}

/* Silent ones, and ones that are true to form but slow, have so long each. */
static void slow_ones_are_dropped_when_their_time_is_over(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { SLOW = 10 };
    struct street street = street_of(0);
    const struct door_options visitor = options_for(SECRET, 1, NULL);
    int slow[SLOW];
    struct hello hello;
    const unsigned char nonce[HELLO_NONCE_BYTES] = {1};
    const struct hello_call call = {.peer_rank = HELLO_ANY_RANK};
    uint64_t now = clock_now_ns();
    hello_start_call(&hello, &visitor.self, &call, nonce, now);
    for (int i = 0; i < SLOW; i++) slow[i] = stranger(&street.address);
    for (size_t sent_bytes = 0; sent_bytes < 19; sent_bytes++) {
        now += HELLO_TIMEOUT_NS / 20;
        for (int i = 0; i < SLOW; i++)
            if (i % 2 == 0) say(slow[i], hello.transcript + sent_bytes, 1);
        door_progress(street.host, now);
        assert_int_equal(counts_of(&street).strays, 0);
    }
    assert_int_equal(counts_of(&street).accepted, SLOW);
    door_progress(street.host, now + HELLO_TIMEOUT_NS / 8);
    assert_int_equal(counts_of(&street).strays, SLOW);
    for (int i = 0; i < SLOW; i++) {
        assert_true(was_hung_up(slow[i]));
        close(slow[i]);
    }
    pay_a_visit(&street, 1);
    street_close(&street);
}

/* The descriptor tells when a silent one's time is over, though nothing comes. */
static void the_descriptor_wakes_at_deadlines(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = street_of(0);
    const int fd = stranger(&street.address);
    const uint64_t began = clock_now_ns();
    while (counts_of(&street).strays == 0) {
        struct pollfd entry = {door_descriptor(street.host), POLLIN, 0};
        if (poll(&entry, 1, 20000) != 1) fail_msg("nothing wakes");
        door_progress(street.host, clock_now_ns());
    }
    const uint64_t took = clock_now_ns() - began;
    assert_true(took >= 19 * (HELLO_TIMEOUT_NS / 20) && took < 15 * SECOND_NS);
    close(fd);
    street_close(&street);
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

/* Random bytes, many with the right beginning, in batches larger than the table; real ones get through meanwhile, and
 * neither descriptors nor lines in the log add up. */
static void ten_thousand_strangers_do_not_keep_anybody_out(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { BATCHES = 100, BATCH = 100 };
    struct street street = street_of(8);
    const int descriptors = belongings_descriptors();
    const uint64_t began = clock_now_ns();
    uint64_t random = 0x9e3779b97f4a7c15u;
    int screen, fds[BATCH];
    const int caught = catch_log(&screen);
    for (int batch = 0; batch < BATCHES; batch++) {
        struct visit *visit =
            batch % 5 != 0 ? NULL
                           : sent(street.home, &street.address, (uint32_t)batch, 30 * SECOND_NS);
        for (int i = 0; i < BATCH; i++) {
            unsigned char bytes[300];
            for (size_t b = 0; b < sizeof bytes; b++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                bytes[b] = (unsigned char)(random >> 56);
            }
            if (i % 3 == 0) memcpy(bytes, "TUTTIHI1\1\0\0\0", 12);
            fds[i] = stranger(&street.address);
            say(fds[i], bytes, 1 + bytes[20] % sizeof bytes);
            if (i % 50 == 49) door_progress(street.host, clock_now_ns());
            if (visit != NULL) door_progress(street.home, clock_now_ns());
        }
        door_progress(street.host, clock_now_ns());
        if (belongings_descriptors() > descriptors + BATCH + 8 + 6) fail_msg("descriptors add up");
        if (visit != NULL) {
            struct door_arrival own;
            const enum tutti_status status = outcome(&street, visit, &own);
            if (status != TUTTI_OK) fail_msg("%s", tutti_error_message());
            close(own.channel.fd);
            visit_free(visit);
            expect_arrival(&street, (uint32_t)batch);
        }
        for (int i = 0; i < BATCH; i++) close(fds[i]);
    }
    while (counts_of(&street).accepted < BATCHES * BATCH) {
        const uint64_t before = counts_of(&street).accepted;
        door_progress(street.host, clock_now_ns());
        if (counts_of(&street).accepted == before)
            break; /* some are gone before they are accepted */
    }
    door_progress(street.host, clock_now_ns() + 3 * SECOND_NS);
    const int lines = release_log(caught, screen);
    const struct door_counts counts = counts_of(&street);
    assert_int_equal(counts.arrived, BATCHES / 5);
    assert_true(counts.accepted >= BATCHES * BATCH / 2);
    assert_int_equal(counts.strays + counts.pushed_out + counts.auth_failed + counts.arrived,
                     counts.accepted);
    assert_true(counts.auth_failed > 0 && counts.pushed_out > 0);
    expect_nobody(&street);
    assert_true(lines <= 2 + (int)((clock_now_ns() - began) / (10 * SECOND_NS)));
    assert_true(belongings_descriptors() <= descriptors);
    street_close(&street);
}

/* All that a real caller once said, said again. */
static void a_recorded_hello_is_of_no_use(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = street_of(0);
    const struct door_options visitor = options_for(SECRET, 1, NULL);
    const unsigned char nonce[HELLO_NONCE_BYTES] = {1, 2, 3};
    const struct hello_call call = {.peer_rank = 0};
    struct hello hello;
    struct door_arrival arrival;
    size_t done;
    int fd = stranger(&street.address);
    hello_start_call(&hello, &visitor.self, &call, nonce, clock_now_ns());
    while (hello.state == HELLO_GOING) {
        unsigned char in[HELLO_BYTES];
        const void *out;
        const size_t count = hello_gives(&hello, &out);
        if (count > 0) say(fd, out, count);
        hello_given(&hello, count);
        door_progress(street.host, clock_now_ns());
        assert_int_equal(tcp_read(fd, in, hello_wants(&hello), &done), TUTTI_OK);
        hello_take(&hello, in, done, clock_now_ns());
    }
    assert_int_equal(hello.state, HELLO_DONE);
    assert_true(door_take(street.host, &arrival));
    assert_int_equal(arrival.status, TUTTI_OK);
    close(arrival.channel.fd);
    close(fd);

    fd = stranger(&street.address);
    say(fd, hello.transcript, HELLO_CALL_BYTES);
    for (int i = 0; i < 100; i++) door_progress(street.host, clock_now_ns());
    unsigned char answer[HELLO_ANSWER_BYTES];
    hear(fd, answer, sizeof answer);
    say(fd, hello.transcript + HELLO_CALL_BYTES + HELLO_ANSWER_BYTES, HELLO_PROOF_BYTES);
    const uint64_t limit = clock_now_ns() + 10 * SECOND_NS;
    while (counts_of(&street).auth_failed == 0 && clock_now_ns() < limit) move(&street);
    assert_int_equal(counts_of(&street).auth_failed, 1);
    assert_true(was_hung_up(fd));
    expect_nobody(&street);
    close(fd);
    street_close(&street);
}

/* Who has said a valid hello stays when strangers fill the table. */
static void proven_guests_are_pushed_out_last(void **state)
{
    (void)state;
    skip_without_openssl();
    enum { STRANGERS = 40 };
    struct street street = street_of(4);
    int fds[STRANGERS];
    struct visit *visit = sent(street.home, &street.address, 9, 20 * SECOND_NS);
    /* The CALL is in and the ANSWER out; the visitor has not yet looked at it. */
    door_progress(street.home, clock_now_ns());
    door_progress(street.host, clock_now_ns());
    assert_int_equal(counts_of(&street).accepted, 1);
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = stranger(&street.address);
        door_progress(street.host, clock_now_ns());
    }
    assert_int_equal(counts_of(&street).pushed_out, STRANGERS - 3);
    struct door_arrival own;
    assert_int_equal(outcome(&street, visit, &own), TUTTI_OK);
    assert_int_equal(counts_of(&street).accepted, STRANGERS + 1); /* at its first attempt */
    expect_arrival(&street, 9);
    close(own.channel.fd);
    visit_free(visit);
    for (int i = 0; i < STRANGERS; i++) close(fds[i]);
    street_close(&street);
}

/* ------------------------------------------------------------------------------------------- system */

static void without_descriptors_the_door_waits(void **state)
{
    (void)state;
    skip_without_openssl();
    struct street street = street_of(0);
    struct rlimit limit, before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct visit *visit = sent(street.home, &street.address, 2, 20 * SECOND_NS);
    const int highest = dup(STDERR_FILENO);
    close(highest);
    limit = before;
    limit.rlim_cur = (rlim_t)highest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const uint64_t now = clock_now_ns();
    for (int i = 0; i < 20; i++) door_progress(street.host, now);
    assert_int_equal(counts_of(&street).accepted, 0);
    assert_int_equal(counts_of(&street).starved, 1);
    /* It does not keep who sleeps on it awake meanwhile. */
    struct pollfd entry = {door_descriptor(street.host), POLLIN, 0};
    const int awake = poll(&entry, 1, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (clock_now_ns() - now < SECOND_NS / 20) assert_int_equal(awake, 0);
    struct door_arrival own;
    assert_int_equal(outcome(&street, visit, &own), TUTTI_OK);
    expect_arrival(&street, 2);
    close(own.channel.fd);
    visit_free(visit);
    street_close(&street);
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
        assert_int_equal(door_ports_read(&first, &last), TUTTI_OK);
        assert_int_equal(first, good[i].first);
        assert_int_equal(last, good[i].last);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TUTTI_PORT_RANGE", bad[i], 1);
        if (door_ports_read(&first, &last) != TUTTI_INVALID_OPTIONS)
            fail_msg("\"%s\" is fine", bad[i]);
        assert_non_null(strstr(tutti_error_message(), "TUTTI_PORT_RANGE"));
    }
    unsetenv("TUTTI_PORT_RANGE");
    assert_int_equal(door_ports_read(&first, &last), TUTTI_OK);
    assert_int_equal(first, 0);

    struct door_options options = options_for(SECRET, 0, "127.0.0.1:0");
    struct net_address one_address, other_address;
    struct door *one = opened(&options), *other;
    door_address(one, &one_address);
    options.address.port = one_address.port;
    options.port_last = UINT16_MAX;
    if (one_address.port < UINT16_MAX) {
        other = opened(&options);
        door_address(other, &other_address);
        assert_true(other_address.port > one_address.port);
        door_close(other);
    }
    options.port_last = one_address.port;
    assert_int_equal(door_open(&options, &other), TUTTI_INVALID_OPTIONS);
    assert_null(other);
    door_close(one);
    door_close(NULL);
    visit_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_visit_over_ipv4_arrives),
        cmocka_unit_test(a_visit_over_ipv6_arrives),
        cmocka_unit_test(many_visits_at_once_all_arrive),
        cmocka_unit_test(who_has_arrived_stays_until_taken),
        cmocka_unit_test(a_door_that_opens_later_is_found),
        cmocka_unit_test(a_visit_ends_at_its_deadline_and_says_why),
        cmocka_unit_test(another_secret_is_refused),
        cmocka_unit_test(a_refusal_does_not_end_a_visit),
        cmocka_unit_test(other_versions_and_configurations_are_named_on_both_sides),
        cmocka_unit_test(an_encrypted_visit_arrives),
        cmocka_unit_test(a_visit_in_clear_to_who_encrypts_is_refused),
        cmocka_unit_test(what_comes_in_clear_after_a_hello_for_tls_is_dropped),
        cmocka_unit_test(a_door_without_a_secret_does_not_encrypt),
        cmocka_unit_test(another_rank_than_the_one_called_is_refused),
        cmocka_unit_test(port_scans_are_dropped),
        cmocka_unit_test(slow_ones_are_dropped_when_their_time_is_over),
        cmocka_unit_test(the_descriptor_wakes_at_deadlines),
        cmocka_unit_test(ten_thousand_strangers_do_not_keep_anybody_out),
        cmocka_unit_test(a_recorded_hello_is_of_no_use),
        cmocka_unit_test(proven_guests_are_pushed_out_last),
        cmocka_unit_test(without_descriptors_the_door_waits),
        cmocka_unit_test(ports_are_taken_from_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

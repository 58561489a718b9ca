/* Channels, plain and encrypted, on socket pairs: with a relay between the two sides where
 * something is to be seen or changed on the way. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/byte_stream.h"
#include "os/tls.h"

enum { BYTES = 3 << 20, RELAY_BYTES = 16 << 10 };

/* OpenSSL in FIPS mode does not know X25519, and then refuses the whole list that names it:
 * SSL_CTX_set1_groups_list. */
enum { SET_GROUPS_LIST = 92 };
static bool is_fips;

__attribute__((weak)) long __real_SSL_CTX_ctrl(void *context, int what, long number, void *pointer);
long __wrap_SSL_CTX_ctrl(void *context, int what, long number, void *pointer);
long __wrap_SSL_CTX_ctrl(void *context, int what, long number, void *pointer)
{
    if (is_fips && what == SET_GROUPS_LIST && strstr(pointer, "X25519") != NULL) return 0;
    return __real_SSL_CTX_ctrl(context, what, number, pointer);
}

/* Two sockets, and the wire between them: bytes that `sides[i]` sends come out of `relays[i]`. */
struct wire {
    struct tls_context *context;
    struct byte_stream sides[2];
    int relays[2];
    long carried[2];   /* from each side */
    long flip_at;      /* of what side 0 sends: a bit of this byte changes; -1: none */
    const char *hides; /* bytes that nobody should see on the way, or NULL */
    bool is_seen;
};

static void make_pair(int ends[2])
{
    const int small = 8192;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
}

static struct wire lay_wire(void)
{
    struct wire wire = {.flip_at = -1};
    for (int i = 0; i < 2; i++) {
        int ends[2];
        make_pair(ends);
        wire.sides[i] = byte_stream_plain(ends[0]);
        wire.relays[i] = ends[1];
    }
    assert_int_equal(tls_context_create(&wire.context), TUTTI_OK);
    return wire;
}

static void take_up(struct wire *wire)
{
    for (int i = 0; i < 2; i++) {
        byte_stream_close(&wire->sides[i]);
        close(wire->relays[i]);
    }
    tls_context_free(wire->context);
}

static void start(struct wire *wire, int side, unsigned char key_byte, uint64_t records_a_key)
{
    struct tls_options options = {
        .fd = wire->sides[side].fd, .is_client = side == 0, .records_a_key = records_a_key};
    memset(options.key, key_byte, sizeof options.key);
    assert_int_equal(tls_start(wire->context, &options, &wire->sides[side].tls), TUTTI_OK);
}

/* Bytes for which the other side has no room now wait in the relay's socket. */
static void carry(struct wire *wire, int from)
{
    char bytes[RELAY_BYTES];
    const ssize_t got = recv(wire->relays[from], bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (got <= 0) return;
    const long flip = wire->flip_at - wire->carried[0];
    if (from == 0 && wire->flip_at >= 0 && flip >= 0 && flip < got) bytes[flip] ^= 4;
    if (wire->hides != NULL)
        wire->is_seen |= memmem(bytes, (size_t)got, wire->hides, strlen(wire->hides)) != NULL;
    const ssize_t sent =
        send(wire->relays[1 - from], bytes, (size_t)got, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return;
    assert_int_equal(recv(wire->relays[from], bytes, (size_t)sent, 0), sent);
    wire->carried[from] += sent;
}

/* Until neither side makes progress any more. */
static void shake_hands(struct wire *wire, enum tutti_status statuses[2])
{
    statuses[0] = statuses[1] = TUTTI_IN_PROGRESS;
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 2; i++) {
            if (statuses[i] == TUTTI_IN_PROGRESS) statuses[i] = tls_handshake(wire->sides[i].tls);
            carry(wire, i);
        }
}

static struct wire lay_secure_wire(uint64_t records_a_key)
{
    struct wire wire = lay_wire();
    enum tutti_status statuses[2];
    for (int i = 0; i < 2; i++) start(&wire, i, 'k', records_a_key);
    shake_hands(&wire, statuses);
    for (int i = 0; i < 2; i++) assert_int_equal(statuses[i], TUTTI_OK);
    return wire;
}

static unsigned char byte_at(size_t place)
{
    return (unsigned char)(place * 7 + place / 251);
}

struct transfer {
    unsigned char *sent, *got;
    size_t sent_bytes, got_bytes;
    int error; /* of the reader, when it was the end */
};

/* Parts of all lengths, which the writer may find elsewhere at the next try. */
static void write_some(struct wire *wire, struct transfer *transfer)
{
    static const size_t lengths[] = {1, 48, 65536, 48, 4096, 300, 17, 20000};
    struct iovec parts[8];
    size_t at = transfer->sent_bytes;
    int count = 0;
    for (; count < 8 && at < BYTES; count++) {
        size_t bytes = lengths[(at + (size_t)count) % 8];
        if (bytes > BYTES - at) bytes = BYTES - at;
        parts[count] = (struct iovec){transfer->sent + at, bytes};
        at += bytes;
    }
    const ssize_t written = byte_stream_writev(&wire->sides[0], parts, count);
    if (written < 0) {
        assert_true(errno == EAGAIN || errno == EPIPE);
        return;
    }
    /* The stream does not look again at bytes that it has taken. */
    memset(transfer->sent + transfer->sent_bytes, 0xee, (size_t)written);
    transfer->sent_bytes += (size_t)written;
}

static bool read_some(struct wire *wire, struct transfer *transfer, bool looks)
{
    unsigned char *const at = transfer->got + transfer->got_bytes;
    const size_t left = BYTES - transfer->got_bytes, first = left < 48 ? left : 48;
    const struct iovec parts[2] = {{at, first}, {at + first, left - first}};
    const ssize_t got = looks ? byte_stream_readv(&wire->sides[1], parts, 2)
                              : byte_stream_drain(&wire->sides[1], parts, 2);
    if (got > 0) transfer->got_bytes += (size_t)got;
    if (got == 0) transfer->error = ENODATA;
    if (got < 0 && errno != EAGAIN) transfer->error = errno;
    return got > 0;
}

/* All bytes that come are the bytes that were sent; returns their number. */
static size_t send_all(struct wire *wire, int *error)
{
    struct transfer transfer = {malloc(BYTES), malloc(BYTES), 0, 0, 0};
    assert_non_null(transfer.sent);
    assert_non_null(transfer.got);
    for (size_t i = 0; i < BYTES; i++) transfer.sent[i] = byte_at(i);
    for (int idle = 0; idle < 1000 && transfer.got_bytes < BYTES && transfer.error == 0; idle++) {
        write_some(wire, &transfer);
        for (int i = 0; i < 20; i++) carry(wire, 0);
        if (read_some(wire, &transfer, true)) idle = 0;
        while (byte_stream_has_input(&wire->sides[1]) && read_some(wire, &transfer, false))
            continue;
    }
    size_t wrong = 0;
    for (size_t i = 0; i < transfer.got_bytes; i++) wrong += transfer.got[i] != byte_at(i);
    assert_int_equal(wrong, 0);
    *error = transfer.error;
    const size_t got_bytes = transfer.got_bytes;
    free(transfer.sent);
    free(transfer.got);
    return got_bytes;
}

static void plain_channels_carry_all(void **state)
{
    (void)state;
    struct wire wire = lay_wire();
    int error;
    assert_int_equal(send_all(&wire, &error), BYTES);
    assert_false(byte_stream_has_output(&wire.sides[0]));
    assert_false(byte_stream_has_input(&wire.sides[1]));
    take_up(&wire);
}

static void much_goes_through_small_sockets_and_many_keys(void **state)
{
    (void)state;
    static const uint64_t records_a_key[] = {TLS_RECORDS_A_KEY, 1, 5};
    for (int i = 0; i < 3; i++) {
        struct wire wire = lay_secure_wire(records_a_key[i]);
        int error;
        assert_int_equal(send_all(&wire, &error), BYTES);
        assert_false(byte_stream_has_output(&wire.sides[0]));
        take_up(&wire);
    }
}

/* It does not matter where a bit changes: nothing of its record is delivered, and nothing behind
 * that. */
static void a_changed_bit_ends_it(void **state)
{
    (void)state;
    for (long at = 0; at < 200000; at = at * 3 + 1) {
        struct wire wire = lay_secure_wire(TLS_RECORDS_A_KEY);
        wire.flip_at = wire.carried[0] + at;
        int error;
        assert_true(send_all(&wire, &error) <= (size_t)at);
        assert_int_equal(error, EBADMSG);
        char byte;
        assert_int_equal(byte_stream_readv(&wire.sides[1], &(struct iovec){&byte, 1}, 1), -1);
        assert_int_equal(errno, EBADMSG);
        take_up(&wire);
    }
}

/* Also when good bytes came before it, and none behind. */
static void a_changed_bit_is_told_at_once(void **state)
{
    (void)state;
    struct wire wire = lay_secure_wire(TLS_RECORDS_A_KEY);
    char bytes[64];
    size_t done;
    assert_int_equal(byte_stream_write(&wire.sides[0], "good", 4, &done), TUTTI_OK);
    carry(&wire, 0);
    wire.flip_at = wire.carried[0] + 10;
    assert_int_equal(byte_stream_write(&wire.sides[0], "bad", 3, &done), TUTTI_OK);
    carry(&wire, 0);
    assert_int_equal(byte_stream_readv(&wire.sides[1], &(struct iovec){bytes, sizeof bytes}, 1), -1);
    assert_int_equal(errno, EBADMSG);
    take_up(&wire);
}

static void a_changed_bit_ends_a_handshake(void **state)
{
    (void)state;
    for (long at = 0; at < 180; at += 11) {
        struct wire wire = lay_wire();
        enum tutti_status statuses[2];
        for (int i = 0; i < 2; i++) start(&wire, i, 'k', TLS_RECORDS_A_KEY);
        wire.flip_at = at;
        shake_hands(&wire, statuses);
        assert_int_not_equal(statuses[1], TUTTI_OK);
        take_up(&wire);
    }
}

static void another_key_is_refused_on_both_sides(void **state)
{
    (void)state;
    struct wire wire = lay_wire();
    enum tutti_status statuses[2];
    start(&wire, 0, 'k', TLS_RECORDS_A_KEY);
    start(&wire, 1, 'l', TLS_RECORDS_A_KEY);
    shake_hands(&wire, statuses);
    assert_int_equal(statuses[0], TUTTI_AUTH_FAILED);
    assert_int_equal(statuses[1], TUTTI_AUTH_FAILED);
    take_up(&wire);
}

static void who_speaks_in_clear_is_refused(void **state)
{
    (void)state;
    static const char clear[] = "a frame in clear, as long as it has to be to look like something";
    for (int side = 0; side < 2; side++) {
        struct wire wire = lay_wire();
        start(&wire, side, 'k', TLS_RECORDS_A_KEY);
        assert_int_equal(send(wire.relays[side], clear, sizeof clear, MSG_NOSIGNAL), sizeof clear);
        assert_int_equal(tls_handshake(wire.sides[side].tls), TUTTI_AUTH_FAILED);
        take_up(&wire);
    }
}

static void who_closes_is_lost(void **state)
{
    (void)state;
    struct wire wire = lay_wire();
    start(&wire, 0, 'k', TLS_RECORDS_A_KEY);
    assert_int_equal(tls_handshake(wire.sides[0].tls), TUTTI_IN_PROGRESS);
    shutdown(wire.relays[0], SHUT_RDWR);
    assert_int_equal(tls_handshake(wire.sides[0].tls), TUTTI_PROC_FAILED);
    take_up(&wire);

    wire = lay_secure_wire(TLS_RECORDS_A_KEY);
    char byte = 0;
    const struct iovec part = {&byte, 1};
    assert_int_equal(byte_stream_readv(&wire.sides[1], &part, 1), -1);
    assert_int_equal(errno, EAGAIN);
    shutdown(wire.relays[1], SHUT_RDWR);
    assert_int_equal(byte_stream_readv(&wire.sides[1], &part, 1), 0);
    assert_int_equal(byte_stream_writev(&wire.sides[1], &part, 1), -1);
    assert_int_equal(errno, EPIPE);
    take_up(&wire);
}

/* Bytes that come with the end of a handshake are not lost between the handshake and the data. */
static void nothing_is_read_beyond_the_handshake(void **state)
{
    (void)state;
    struct wire wire = lay_wire();
    for (int i = 0; i < 2; i++) start(&wire, i, 'k', TLS_RECORDS_A_KEY);
    enum tutti_status client;
    for (int i = 0; (client = tls_handshake(wire.sides[0].tls)) == TUTTI_IN_PROGRESS && i < 9; i++) {
        carry(&wire, 0);
        (void)tls_handshake(wire.sides[1].tls);
        carry(&wire, 1);
    }
    assert_int_equal(client, TUTTI_OK);
    size_t done;
    char text[8];
    assert_int_equal(byte_stream_write(&wire.sides[0], "at once", 8, &done), TUTTI_OK);
    assert_int_equal(byte_stream_flush(&wire.sides[0]), TUTTI_OK);
    carry(&wire, 0);
    assert_int_equal(tls_handshake(wire.sides[1].tls), TUTTI_OK);
    assert_false(byte_stream_has_input(&wire.sides[1]));
    assert_int_equal(byte_stream_read(&wire.sides[1], text, sizeof text, &done), TUTTI_OK);
    assert_int_equal(done, sizeof text);
    assert_string_equal(text, "at once");
    take_up(&wire);
}

static void what_is_sent_is_seen_in_clear_only(void **state)
{
    (void)state;
    static const char text[] = "a secret of the user";
    for (int encrypts = 0; encrypts < 2; encrypts++) {
        struct wire wire = encrypts ? lay_secure_wire(TLS_RECORDS_A_KEY) : lay_wire();
        size_t done;
        wire.hides = text;
        assert_int_equal(byte_stream_write(&wire.sides[0], text, sizeof text, &done), TUTTI_OK);
        assert_int_equal(done, sizeof text);
        carry(&wire, 0);
        assert_int_equal(wire.is_seen, !encrypts);
        take_up(&wire);
    }
}

/* An application's own errors stay where they are, and ours are not added. */
static void errors_of_others_stay(void **state)
{
    (void)state;
    enum { LIBRARY = 128, REASON = 77 };
    void (*const new_error)(void) = (void (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "ERR_new");
    void (*const set_error)(int, int, const char *, ...) =
        (void (*)(int, int, const char *, ...))(uintptr_t)dlsym(RTLD_DEFAULT, "ERR_set_error");
    unsigned long (*const get_error)(void) =
        (unsigned long (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "ERR_get_error");
    if (new_error == NULL || set_error == NULL || get_error == NULL) skip();
    struct wire wire = lay_secure_wire(TLS_RECORDS_A_KEY);
    int error;
    while (get_error() != 0) continue;
    new_error();
    set_error(LIBRARY, REASON, NULL);
    wire.flip_at = wire.carried[0] + 1000;
    (void)send_all(&wire, &error);
    assert_int_equal(error, EBADMSG);
    assert_int_equal(get_error() & 0xff, REASON);
    assert_int_equal(get_error(), 0);
    take_up(&wire);
}

/* Builds without OpenSSL. */
/* Each of both, or both. */
static void sides_in_fips_mode_meet_all_others(void **state)
{
    (void)state;
    for (int fips_sides = 1; fips_sides <= 3; fips_sides++) {
        struct wire wire = lay_wire();
        struct tls_context *others = wire.context, *fips;
        enum tutti_status statuses[2];
        int error;
        is_fips = true;
        assert_int_equal(tls_context_create(&fips), TUTTI_OK);
        is_fips = false;
        for (int i = 0; i < 2; i++) {
            wire.context = (fips_sides >> i & 1) != 0 ? fips : others;
            start(&wire, i, 'k', 1000);
        }
        wire.context = others;
        shake_hands(&wire, statuses);
        for (int i = 0; i < 2; i++) assert_int_equal(statuses[i], TUTTI_OK);
        assert_int_equal(send_all(&wire, &error), BYTES);
        take_up(&wire);
        tls_context_free(fips);
    }
}

static bool can_encrypt(void)
{
    struct tls_context *context;
    const bool can = tls_context_create(&context) != TUTTI_UNSUPPORTED;
    tls_context_free(context);
    return can;
}

int main(void)
{
    if (!can_encrypt()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_channels_carry_all),
        cmocka_unit_test(much_goes_through_small_sockets_and_many_keys),
        cmocka_unit_test(a_changed_bit_ends_it),
        cmocka_unit_test(a_changed_bit_is_told_at_once),
        cmocka_unit_test(a_changed_bit_ends_a_handshake),
        cmocka_unit_test(another_key_is_refused_on_both_sides),
        cmocka_unit_test(who_speaks_in_clear_is_refused),
        cmocka_unit_test(who_closes_is_lost),
        cmocka_unit_test(nothing_is_read_beyond_the_handshake),
        cmocka_unit_test(what_is_sent_is_seen_in_clear_only),
        cmocka_unit_test(errors_of_others_stay),
        cmocka_unit_test(sides_in_fips_mode_meet_all_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

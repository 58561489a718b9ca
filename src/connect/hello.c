#include "connect/hello.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "os/at_exit.h"

/* Every record begins with a prefix:
 *
 *      0  magic          8    "TUTTIHI1"; its last byte changes when the records do
 *      8  kind           1
 *      9  has a secret   1    0 or 1: only to explain what went wrong
 *     10  payload bytes  1    of a CALL
 *     11  zero           1
 *     12  purpose        4    of a CALL
 *
 * CALL and ANSWER go on with
 *
 *     16  rank           4    its own
 *     20  peer rank      4    of a CALL: whom it wants
 *     24  version min    4
 *     28  version max    4
 *     32  configuration  8
 *     40  nonce         32
 *     72  payload       64    of a CALL, zero behind its end
 *
 * and all but a REFUSAL, which is a prefix alone, end with a mac. Numbers are little-endian. */
enum {
    MAGIC_BYTES = 8,
    AT_KIND = 8,
    AT_HAS_SECRET = 9,
    AT_PAYLOAD_BYTES = 10,
    AT_ZERO = 11,
    AT_PURPOSE = 12,
    PREFIX_BYTES = 16,
    AT_RANK = 16,
    AT_PEER_RANK = 20,
    AT_VERSION_MIN = 24,
    AT_VERSION_MAX = 28,
    AT_CONFIGURATION = 32,
    AT_NONCE = 40,
    AT_PAYLOAD = AT_NONCE + HELLO_NONCE_BYTES
};
static const char MAGIC[MAGIC_BYTES + 1] = "TUTTIHI1";

_Static_assert(AT_PAYLOAD + HELLO_PAYLOAD_MAX + MAC_BYTES == HELLO_CALL_BYTES, "a CALL");
_Static_assert(AT_PAYLOAD + MAC_BYTES == HELLO_ANSWER_BYTES, "an ANSWER has no payload");
_Static_assert(PREFIX_BYTES + MAC_BYTES == HELLO_PROOF_BYTES, "a PROOF");
_Static_assert(PREFIX_BYTES + MAC_BYTES == HELLO_WELCOME_BYTES, "a WELCOME");

enum record { CALL, ANSWER, PROOF, WELCOME, RECORD_COUNT };
enum { KIND_REFUSAL = 9 }; /* the kind of a record is its number, plus 1 */

/* The offset at which each record begins, and at which the last record ends. */
static const size_t begins[RECORD_COUNT + 1] = {
    0, HELLO_CALL_BYTES, HELLO_CALL_BYTES + HELLO_ANSWER_BYTES,
    HELLO_CALL_BYTES + HELLO_ANSWER_BYTES + HELLO_PROOF_BYTES, HELLO_BYTES};

static void put(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* Any number below 0 reads as HELLO_ANY_RANK: it is no rank. */
static int get_rank(const unsigned char *from)
{
    const uint64_t value = get(from, 4);
    return value > INT32_MAX ? HELLO_ANY_RANK : (int)value;
}

static void finish(struct hello *hello, enum hello_state state, enum tutti_status status,
                   const char *why)
{
    hello->state = state;
    hello->status = status;
    hello->why = why;
}

/* A result stays as it is, even if the other side may not hear of it any more. */
static void stray(struct hello *hello, const char *why)
{
    if (hello->status == TUTTI_OK)
        finish(hello, HELLO_STRAY, TUTTI_PROC_FAILED, why);
    else
        hello->state = HELLO_FAILED;
}

static bool is_under_way(const struct hello *hello)
{
    return hello->state == HELLO_GOING || hello->state == HELLO_SECURES;
}

static enum hello_state state_at_end(const struct hello *hello)
{
    return (hello->self.configuration & HELLO_ENCRYPTS) != 0 ? HELLO_SECURES : HELLO_DONE;
}

static bool is_own(const struct hello *hello)
{
    return (hello->record % 2 == 0) == hello->is_caller;
}

/* ---------------------------------------------------------------------------------- records out */

static unsigned char *record_of(struct hello *hello, enum record record)
{
    return hello->transcript + begins[record];
}

static void write_prefix(struct hello *hello, unsigned char *record, int kind)
{
    memset(record, 0, PREFIX_BYTES);
    memcpy(record, MAGIC, MAGIC_BYTES);
    record[AT_KIND] = (unsigned char)kind;
    record[AT_HAS_SECRET] = hello->self.key.is_secret;
}

static void write_self(const struct hello *hello, unsigned char *record, int peer_rank)
{
    put(record + AT_RANK, (uint32_t)hello->self.rank, 4);
    put(record + AT_PEER_RANK, (uint32_t)peer_rank, 4);
    put(record + AT_VERSION_MIN, hello->self.version_min, 4);
    put(record + AT_VERSION_MAX, hello->self.version_max, 4);
    put(record + AT_CONFIGURATION, hello->self.configuration, 8);
    memcpy(record + AT_NONCE, hello->nonce, HELLO_NONCE_BYTES);
}

/* The mac covers all bytes before it in the transcript. Records have fixed sizes, so the length
 * tells which record the mac is for, and no two macs cover the same bytes. False, and the hello is
 * over, if there can be no mac. */
static bool compute_mac(struct hello *hello, enum record record, unsigned char mac[MAC_BYTES])
{
    const enum tutti_status status =
        mac_compute(hello->self.key.bytes, sizeof hello->self.key.bytes, hello->transcript,
                    begins[record + 1] - MAC_BYTES, mac);
    if (status == TUTTI_OK) return true;
    if (at_exit_has_begun())
        finish(hello, HELLO_STRAY, TUTTI_PROC_FAILED, "this process is ending");
    else
        finish(hello, HELLO_FAILED, status, "a message authentication code cannot be computed");
    return false;
}

/* Sends a record, which is written but for its mac. then: the state once it is out. */
static void send_record(struct hello *hello, enum record record, enum hello_state then)
{
    hello->record = record;
    hello->at = begins[record];
    hello->end = begins[record + 1];
    hello->then = then;
    compute_mac(hello, record, hello->transcript + hello->end - MAC_BYTES);
}

static void expect_record(struct hello *hello, enum record record)
{
    hello->record = record;
    hello->at = begins[record];
    hello->end = begins[record] + PREFIX_BYTES;
}

static void send_call(struct hello *hello)
{
    unsigned char *const record = record_of(hello, CALL);
    write_prefix(hello, record, CALL + 1);
    record[AT_PAYLOAD_BYTES] = hello->call.payload_bytes;
    put(record + AT_PURPOSE, hello->call.purpose, 4);
    write_self(hello, record, hello->call.peer_rank);
    memset(record + AT_PAYLOAD, 0, HELLO_PAYLOAD_MAX);
    memcpy(record + AT_PAYLOAD, hello->call.payload, hello->call.payload_bytes);
    send_record(hello, CALL, HELLO_GOING);
}

static void send_answer(struct hello *hello)
{
    unsigned char *const record = record_of(hello, ANSWER);
    write_prefix(hello, record, ANSWER + 1);
    write_self(hello, record, hello->peer.rank);
    send_record(hello, ANSWER, HELLO_GOING);
}

/* In place of an ANSWER; it proves nothing and asks for nothing. */
static void send_refusal(struct hello *hello)
{
    write_prefix(hello, record_of(hello, ANSWER), KIND_REFUSAL);
    hello->record = ANSWER;
    hello->at = begins[ANSWER];
    hello->end = hello->at + PREFIX_BYTES;
    hello->then = HELLO_FAILED;
    hello->status = TUTTI_AUTH_FAILED;
    hello->why = "it does not have this job's key";
}

static void send_bare(struct hello *hello, enum record record, enum hello_state then)
{
    write_prefix(hello, record_of(hello, record), (int)record + 1);
    send_record(hello, record, then);
}

/* ----------------------------------------------------------------------------------- records in */

static void read_self(struct hello *hello, const unsigned char *record)
{
    hello->peer = (struct hello_self){.key.is_secret = record[AT_HAS_SECRET],
                                      .rank = get_rank(record + AT_RANK),
                                      .version_min = (uint32_t)get(record + AT_VERSION_MIN, 4),
                                      .version_max = (uint32_t)get(record + AT_VERSION_MAX, 4),
                                      .configuration = get(record + AT_CONFIGURATION, 8)};
}

/* Both sides know the same about each other, so both come to the same result. */
static void compare(struct hello *hello, int wanted_rank, int answering_rank)
{
    const struct hello_self *const self = &hello->self, *const peer = &hello->peer;
    const uint32_t oldest =
        self->version_min > peer->version_min ? self->version_min : peer->version_min;
    hello->version = self->version_max < peer->version_max ? self->version_max : peer->version_max;
    hello->status = TUTTI_OK;
    if (hello->version < oldest) {
        hello->status = TUTTI_VERSION;
        hello->why = "no version of Tutti is spoken by both sides";
    } else if (self->configuration != peer->configuration) {
        hello->status = TUTTI_INVALID_OPTIONS;
        hello->why = "the ranks are configured differently";
    } else if (wanted_rank != HELLO_ANY_RANK && wanted_rank != answering_rank) {
        hello->status = TUTTI_AUTH_FAILED;
        hello->why = "another rank was meant";
        hello->is_other_rank = true;
    }
}

static bool mac_holds(struct hello *hello, enum record record)
{
    unsigned char mac[MAC_BYTES];
    return compute_mac(hello, record, mac) &&
           mac_equal(mac, hello->transcript + begins[record + 1] - MAC_BYTES);
}

static void fail_authentication(struct hello *hello, const char *why)
{
    if (hello->state == HELLO_GOING) finish(hello, HELLO_FAILED, TUTTI_AUTH_FAILED, why);
}

static void read_call(struct hello *hello)
{
    const unsigned char *const record = record_of(hello, CALL);
    read_self(hello, record);
    hello->call.peer_rank = get_rank(record + AT_PEER_RANK);
    hello->call.purpose = (uint32_t)get(record + AT_PURPOSE, 4);
    hello->call.payload_bytes = record[AT_PAYLOAD_BYTES];
    memcpy(hello->call.payload, record + AT_PAYLOAD, HELLO_PAYLOAD_MAX);
    hello->is_proven = mac_holds(hello, CALL);
    if (hello->state != HELLO_GOING) return;
    if (!hello->is_proven) {
        send_refusal(hello);
        return;
    }
    struct hello_self *const self = &hello->self;
    if (self->configure != NULL)
        self->configuration =
            self->configure(self->configure_context, &hello->call, hello->peer.configuration);
    send_answer(hello);
}

static void read_answer(struct hello *hello)
{
    read_self(hello, record_of(hello, ANSWER));
    hello->is_proven = mac_holds(hello, ANSWER);
    if (!hello->is_proven) {
        fail_authentication(hello, "it does not have this job's key");
        return;
    }
    compare(hello, hello->call.peer_rank, hello->peer.rank);
    /* The other side has to know which side was at fault, to report the same. */
    send_bare(hello, PROOF, hello->status == TUTTI_OK ? HELLO_GOING : HELLO_FAILED);
}

static void read_proof(struct hello *hello)
{
    if (!mac_holds(hello, PROOF)) {
        fail_authentication(hello, "its hello was somebody else's before: a replay");
        return;
    }
    compare(hello, hello->call.peer_rank, hello->self.rank);
    if (hello->status == TUTTI_OK)
        send_bare(hello, WELCOME, state_at_end(hello));
    else
        hello->state = HELLO_FAILED;
}

static void read_welcome(struct hello *hello)
{
    if (mac_holds(hello, WELCOME))
        hello->state = state_at_end(hello);
    else
        fail_authentication(hello, "its welcome does not hold");
}

static void read_record(struct hello *hello)
{
    switch ((enum record)hello->record) {
    case CALL: read_call(hello); break;
    case ANSWER: read_answer(hello); break;
    case PROOF: read_proof(hello); break;
    case WELCOME: read_welcome(hello); break;
    case RECORD_COUNT: break;
    }
}

/* The record goes on, is over, or is none. */
static void read_prefix(struct hello *hello)
{
    const unsigned char *const record = hello->transcript + begins[hello->record];
    const bool is_refusal = hello->record == ANSWER && record[AT_KIND] == KIND_REFUSAL;
    const bool is_call = hello->record == CALL;
    if ((record[AT_KIND] != hello->record + 1 && !is_refusal) || record[AT_HAS_SECRET] > 1 ||
        record[AT_ZERO] != 0 || record[AT_PAYLOAD_BYTES] > (is_call ? HELLO_PAYLOAD_MAX : 0) ||
        (!is_call && get(record + AT_PURPOSE, 4) != 0)) {
        hello->is_foreign = true;
        stray(hello, "it sent what makes no sense");
    } else if (is_refusal) {
        hello->peer.key.is_secret = record[AT_HAS_SECRET];
        fail_authentication(hello, "it says that this rank does not have its job's key");
    } else {
        hello->end = begins[hello->record + 1];
    }
}

/* --------------------------------------------------------------------------------------- public */

void hello_self_init(struct hello_self *self, const struct secret_key *key, int rank)
{
    self->key = *key;
    self->rank = rank;
    self->version_min = HELLO_VERSION(TUTTI_VERSION_MAJOR, 0);
    self->version_max = HELLO_VERSION(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR);
}

static void start(struct hello *hello, const struct hello_self *self,
                  const unsigned char nonce[HELLO_NONCE_BYTES], uint64_t now_ns)
{
    memset(hello, 0, sizeof *hello);
    hello->self = *self;
    hello->peer.rank = HELLO_ANY_RANK;
    hello->deadline_ns = now_ns + HELLO_TIMEOUT_NS;
    memcpy(hello->nonce, nonce, HELLO_NONCE_BYTES);
}

void hello_start_call(struct hello *hello, const struct hello_self *self,
                      const struct hello_call *call, const unsigned char nonce[HELLO_NONCE_BYTES],
                      uint64_t now_ns)
{
    start(hello, self, nonce, now_ns);
    hello->is_caller = true;
    hello->call = *call;
    if (call->payload_bytes > HELLO_PAYLOAD_MAX)
        finish(hello, HELLO_FAILED, TUTTI_INTERNAL, "the payload is too long");
    else
        send_call(hello);
}

void hello_start_answer(struct hello *hello, const struct hello_self *self,
                        const unsigned char nonce[HELLO_NONCE_BYTES], uint64_t now_ns)
{
    start(hello, self, nonce, now_ns);
    hello->call.peer_rank = HELLO_ANY_RANK;
    expect_record(hello, CALL);
}

void hello_release(struct hello *hello)
{
    mac_wipe(&hello->self.key, sizeof hello->self.key);
}

size_t hello_wants(const struct hello *hello)
{
    return hello->state == HELLO_GOING && !is_own(hello) ? hello->end - hello->at : 0;
}

/* The first wrong byte gives away a peer that does not even begin like one of us. */
static bool magic_holds(const struct hello *hello)
{
    const size_t begin = begins[hello->record], got = hello->at - begin;
    return memcmp(hello->transcript + begin, MAGIC, got < MAGIC_BYTES ? got : MAGIC_BYTES) == 0;
}

static size_t take_some(struct hello *hello, const unsigned char *bytes, size_t count)
{
    const size_t wanted = hello_wants(hello), taken = count < wanted ? count : wanted;
    if (taken == 0) {
        stray(hello, "it speaks out of turn");
        return 0;
    }
    memcpy(hello->transcript + hello->at, bytes, taken);
    hello->at += taken;
    if (!magic_holds(hello)) {
        hello->is_foreign = true;
        stray(hello, "it speaks another protocol");
    } else if (hello->at == begins[hello->record] + PREFIX_BYTES)
        read_prefix(hello);
    else if (hello->at == begins[hello->record + 1])
        read_record(hello);
    return taken;
}

void hello_take(struct hello *hello, const void *bytes, size_t count, uint64_t now_ns)
{
    const unsigned char *from = bytes;
    hello_tick(hello, now_ns);
    while (count > 0 && hello->state == HELLO_GOING) {
        const size_t taken = take_some(hello, from, count);
        from += taken;
        count -= taken;
    }
}

size_t hello_gives(const struct hello *hello, const void **bytes)
{
    *bytes = hello->transcript + hello->at;
    return hello->state == HELLO_GOING && is_own(hello) ? hello->end - hello->at : 0;
}

void hello_given(struct hello *hello, size_t count)
{
    if (hello->state != HELLO_GOING || !is_own(hello)) return;
    hello->at += count;
    if (hello->at < hello->end) return;
    if (hello->then == HELLO_GOING)
        expect_record(hello, (enum record)(hello->record + 1));
    else
        hello->state = hello->then;
}

/* One block of HKDF-Expand (RFC 5869). No record of a hello begins like this. */
enum tutti_status hello_key(const struct hello *hello, unsigned char key[MAC_BYTES])
{
    static const char what[] = "tutti tls";
    unsigned char info[sizeof what + HELLO_BYTES + 1];
    memcpy(info, what, sizeof what);
    memcpy(info + sizeof what, hello->transcript, HELLO_BYTES);
    info[sizeof info - 1] = 1;
    return mac_compute(hello->self.key.bytes, sizeof hello->self.key.bytes, info, sizeof info, key);
}

void hello_secured(struct hello *hello, bool is_secure)
{
    if (hello->state != HELLO_SECURES) return;
    if (is_secure)
        hello->state = HELLO_DONE;
    else
        stray(hello, "encryption could not be agreed on");
}

void hello_leave(struct hello *hello)
{
    if (is_under_way(hello))
        stray(hello,
              hello->at == 0 ? "it closed without a word" : "it closed in the middle of the hello");
}

void hello_tick(struct hello *hello, uint64_t now_ns)
{
    if (is_under_way(hello) && now_ns >= hello->deadline_ns)
        stray(hello, "it took too long for the hello");
}

static void explain_versions(const struct hello *hello, char text[HELLO_TEXT_MAX])
{
    const struct hello_self *const peer = &hello->peer, *const self = &hello->self;
    snprintf(text, HELLO_TEXT_MAX,
             "rank %d speaks versions %u.%u to %u.%u of Tutti, this rank %u.%u to %u.%u",
             peer->rank, peer->version_min >> 16, peer->version_min & 0xffff,
             peer->version_max >> 16, peer->version_max & 0xffff, self->version_min >> 16,
             self->version_min & 0xffff, self->version_max >> 16, self->version_max & 0xffff);
}

static void explain_configurations(const struct hello *hello, char text[HELLO_TEXT_MAX])
{
    const uint64_t own = hello->self.configuration, other = hello->peer.configuration;
    if ((own ^ other) == HELLO_ENCRYPTS)
        snprintf(text, HELLO_TEXT_MAX,
                 "it %s, this rank %s: TUTTI_ENCRYPTION, or what options say, has to be the same "
                 "on all ranks",
                 (other & HELLO_ENCRYPTS) != 0 ? "encrypts" : "does not encrypt",
                 (own & HELLO_ENCRYPTS) != 0 ? "does" : "does not");
    else
        snprintf(text, HELLO_TEXT_MAX,
                 "rank %d is configured differently: %016" PRIx64 ", this rank %016" PRIx64,
                 hello->peer.rank, other, own);
}

static void explain_authentication(const struct hello *hello, char text[HELLO_TEXT_MAX])
{
    const bool has_one = hello->self.key.is_secret, peer_has_one = hello->peer.key.is_secret;
    if (has_one == peer_has_one)
        snprintf(text, HELLO_TEXT_MAX, "%s", hello->why);
    else
        snprintf(text, HELLO_TEXT_MAX,
                 "%s: set TUTTI_SECRET_FILE or TUTTI_SECRET alike on all ranks",
                 has_one ? "this rank has a secret and it has none"
                         : "it has a secret and this rank has none");
}

void hello_explain(const struct hello *hello, char text[HELLO_TEXT_MAX])
{
    const int answering_rank = hello->is_caller ? hello->peer.rank : hello->self.rank;
    if (hello->why == NULL)
        snprintf(text, HELLO_TEXT_MAX, "nothing is wrong");
    else if (hello->status == TUTTI_VERSION)
        explain_versions(hello, text);
    else if (hello->status == TUTTI_INVALID_OPTIONS)
        explain_configurations(hello, text);
    else if (hello->is_other_rank)
        snprintf(text, HELLO_TEXT_MAX, "rank %d answers where rank %d was called", answering_rank,
                 hello->call.peer_rank);
    else if (hello->status == TUTTI_AUTH_FAILED)
        explain_authentication(hello, text);
    else
        snprintf(text, HELLO_TEXT_MAX, "%s", hello->why);
}

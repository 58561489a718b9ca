/* hello.h - how two ranks that share a key authenticate each other: a pure state machine.
 *
 * Bytes go in, bytes come out, and the time is an argument; it knows no sockets (listener.h has
 * them).
 *
 *     caller                                                          answerer
 *       │ CALL     rank, whom it calls, purpose, payload, nonce, mac      │  is the caller one of us?
 *       │ ──────────────────────────────────────────────────────────────► │  no: REFUSAL, or silence
 *       │ ANSWER   rank, nonce, mac                                       │
 *       │ ◄────────────────────────────────────────────────────────────── │
 *       │ PROOF    mac                                                    │
 *       │ ──────────────────────────────────────────────────────────────► │  is it here, now?
 *       │ WELCOME  mac                                                    │
 *       │ ◄────────────────────────────────────────────────────────────── │
 *
 * The four records lie one after the other in a transcript that both sides have; each mac covers
 * all of the transcript so far. That is Bellare and Rogaway's MAP1 ("Entity Authentication and Key
 * Distribution", CRYPTO '93). The nonces of both sides are in every later mac, so nothing recorded
 * can be played again. Roles and the place in the exchange are in every mac, too, so nothing can be
 * sent back to where it came from. Because of the mac of the first record, an answerer can be
 * silent to strangers; the last record tells the caller that it was accepted.
 *
 * 1. Done means that the other side has the key, is here now, called this rank (or any rank), and
 *    that both sides have the same transcript: ranks, purpose, payload, version and configuration
 *    are what the other side said.
 * 2. A hello takes and gives at most HELLO_BYTES, in at most HELLO_TIMEOUT_NS, and allocates
 *    nothing.
 * 3. Versions and configurations count only after the other side has proven that it has the key. A
 *    REFUSAL proves nothing: it is a hint for a person who looks for a mistake, and decides nothing
 *    (listener.h).
 * 4. If both sides are configured to encrypt, the hello stops before it is done, with a key of its
 *    own for TLS. That key is made from the job's key and the transcript, so it depends on what
 *    they said here in clear. An attacker between them cannot make one side go on in clear.
 *
 * It does not encrypt, and says nothing about what follows it in clear: an attacker that can change
 * packets on their way can take over such a connection. A process that has the key can say that it
 * is any rank.
 */
#ifndef TUTTI_CONNECT_HELLO_H
#define TUTTI_CONNECT_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/secret.h"
#include "tutti/tutti.h"

enum {
    HELLO_PAYLOAD_MAX = 64,
    HELLO_NONCE_BYTES = 32,
    HELLO_CALL_BYTES = 168,
    HELLO_ANSWER_BYTES = 104,
    HELLO_PROOF_BYTES = 48,
    HELLO_WELCOME_BYTES = 48,
    HELLO_BYTES = HELLO_CALL_BYTES + HELLO_ANSWER_BYTES + HELLO_PROOF_BYTES + HELLO_WELCOME_BYTES,
    HELLO_ANY_RANK = -1,
    HELLO_TEXT_MAX = 240,
    HELLO_ENCRYPTS = 1 /* of a configuration: TLS comes after the hello */
};
/* A silent peer is gone within 2 s of its coming, even if the process gets no CPU for a moment. */
#define HELLO_TIMEOUT_NS UINT64_C(1800000000)
/* A version as hellos write it. */
#define HELLO_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

struct hello_call;

/* A rank's description of itself. */
struct hello_self {
    struct secret_key key;
    int rank;             /* HELLO_ANY_RANK: it has none (yet) */
    uint32_t version_min; /* the oldest and the newest that it can speak */
    uint32_t version_max;
    uint64_t configuration; /* has to be the same on both sides: HELLO_ENCRYPTS */
    /* An answerer may have another configuration for each call: returns the one for this call,
     * whose caller has `theirs`. NULL: the configuration above. */
    uint64_t (*configure)(void *context, const struct hello_call *call, uint64_t theirs);
    void *configure_context;
};

/* The rank that a caller wants to reach, and why. */
struct hello_call {
    int peer_rank; /* the rank that it means to reach; HELLO_ANY_RANK: any rank that listens there */
    uint32_t purpose;
    uint8_t payload[HELLO_PAYLOAD_MAX];
    uint8_t payload_bytes;
};

enum hello_state {
    HELLO_GOING,
    HELLO_SECURES, /* done but for TLS: report the outcome of TLS with hello_secured */
    HELLO_DONE,
    HELLO_STRAY, /* the other side speaks another protocol, closed, or was silent: it is no peer, or not now */
    HELLO_FAILED /* status: AUTH_FAILED, which is nobody's proven word unless is_other_rank; or VERSION, INVALID_OPTIONS: a peer that
                    does not fit */
};

struct hello {
    /* the results */
    enum hello_state state;
    enum tutti_status status; /* FAILED: the reason */
    const char *why;          /* STRAY and FAILED: the reason in words, static */
    struct hello_self peer;   /* its words, without its key; believed only when `is_proven` */
    struct hello_call call;   /* the caller's; believed by an answerer only when DONE */
    bool is_proven;     /* the other side has proven that it has the key (now, or once: its CALL) */
    bool is_foreign;    /* STRAY: it speaks another protocol */
    bool is_other_rank; /* FAILED with AUTH_FAILED: a rank of this job, but not the called rank */
    uint32_t version;   /* DONE: the newest that both speak */
    uint64_t deadline_ns; /* when it is over in any case */

    /* private */
    struct hello_self self;
    bool is_caller;
    enum hello_state then; /* the state after the bytes that are to be given have gone */
    unsigned record;       /* 0 CALL .. 3 WELCOME: the one under way */
    size_t at,
        end; /* in the transcript: how many bytes have gone either way, and where the record ends */
    unsigned char nonce[HELLO_NONCE_BYTES];
    unsigned char transcript[HELLO_BYTES];
};

/* Fills in this build's version, the key and the rank; leaves the rest of *self as it is. */
void hello_self_init(struct hello_self *self, const struct secret_key *key, int rank);

/* Begins one side. The nonce is random and never used twice. The memory of *hello belongs to the
 * caller; hello_release wipes its copy of the key. */
void hello_start_call(struct hello *hello, const struct hello_self *self,
                      const struct hello_call *call, const unsigned char nonce[HELLO_NONCE_BYTES],
                      uint64_t now_ns);
void hello_start_answer(struct hello *hello, const struct hello_self *self,
                        const unsigned char nonce[HELLO_NONCE_BYTES], uint64_t now_ns);
void hello_release(struct hello *hello);

/* The number of bytes that it can take now: none beyond the hello, so later bytes stay in the
 * socket. 0: it takes none now. */
size_t hello_wants(const struct hello *hello);
/* Takes bytes of the other side. More bytes than it wants make it a STRAY. */
void hello_take(struct hello *hello, const void *bytes, size_t count, uint64_t now_ns);
/* The bytes that have to be sent now, and their number; tell hello_given how many of them have
 * gone. */
size_t hello_gives(const struct hello *hello, const void **bytes);
void hello_given(struct hello *hello, size_t count);
/* In SECURES: the key for TLS, which only the two sides have. The caller of the hello is the client
 * of TLS. */
enum tutti_status hello_key(const struct hello *hello, unsigned char key[MAC_BYTES]);
/* Says whether TLS succeeded: the state becomes DONE, or STRAY. */
void hello_secured(struct hello *hello, bool is_secure);
/* The other side closed. */
void hello_leave(struct hello *hello);
/* Ends it if its time is over. */
void hello_tick(struct hello *hello, uint64_t now_ns);

/* Explains STRAY and FAILED in a sentence, for a message that names the other side's address
 * first. */
void hello_explain(const struct hello *hello, char text[HELLO_TEXT_MAX]);

#endif

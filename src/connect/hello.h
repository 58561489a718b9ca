/* hello.h - how two ranks that share a key make sure of each other: a pure state machine.
 *
 * Bytes go in, bytes come out, and the time is an argument; it knows no sockets (listener.h has them).
 *
 *     caller                                                          answerer
 *       │ CALL     rank, whom it calls, purpose, payload, nonce, mac      │  is this one of us?
 *       │ ──────────────────────────────────────────────────────────────► │  no: REFUSAL, or silence
 *       │ ANSWER   rank, nonce, mac                                       │
 *       │ ◄────────────────────────────────────────────────────────────── │
 *       │ PROOF    mac                                                    │
 *       │ ──────────────────────────────────────────────────────────────► │  is it here, now?
 *       │ WELCOME  mac                                                    │
 *       │ ◄────────────────────────────────────────────────────────────── │
 *
 * The four records lie one after the other in a transcript that both sides have; each mac is over all of it so far.
 * That is Bellare and Rogaway's MAP1 ("Entity Authentication and Key Distribution", CRYPTO '93): the nonces of both
 * sides are in every later mac, so nothing recorded can be played again; roles and the place in the exchange are,
 * too, so nothing can be sent back to where it came from. The mac of the first record lets an answerer be silent to
 * strangers, the last record lets a caller know that it was let in.
 *
 * 1. Done means that the other side has the key, is here now, called this rank (or anybody), and that both have the
 *    same transcript: ranks, purpose, payload, version and configuration are what the other side said.
 * 2. At most HELLO_BYTES are taken and given, in at most HELLO_TIMEOUT_NS; nothing is allocated.
 * 3. Versions and configurations count only after the other side has proven that it has the key. A REFUSAL proves nothing: it is a
 *    hint for who looks for a mistake, and decides nothing (listener.h).
 * 4. Where both sides are configured to encrypt it stops before it is done, with a key of its own for TLS: made from the job's key
 *    and the transcript, so what they said here in clear is part of it. Nobody between them can make one side go on in clear.
 *
 * It does not encrypt, and says nothing about what comes after it in clear: who can change packets under way can take over
 * such a connection. Who has the key can say that he is any rank.
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
    HELLO_ENCRYPTS = 1 /* of a configuration: what comes after the hello is TLS */
};
/* A silent guest is gone within 2 s of its coming, also where the process gets no CPU for a moment. */
#define HELLO_TIMEOUT_NS UINT64_C(1800000000)
/* A version as hellos have it. */
#define HELLO_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

struct hello_call;

/* What a rank says of itself. */
struct hello_self {
    struct secret_key key;
    int rank;             /* HELLO_ANY_RANK: has none (yet) */
    uint32_t version_min; /* the oldest and the newest that it can speak */
    uint32_t version_max;
    uint64_t configuration; /* what has to be the same on both sides: HELLO_ENCRYPTS */
    /* Who answers may have another configuration for each call: that for this one, whose caller has `theirs`. NULL: as above. */
    uint64_t (*configure)(void *context, const struct hello_call *call, uint64_t theirs);
    void *configure_context;
};

/* What a caller wants. */
struct hello_call {
    int peer_rank; /* whom it means to reach; HELLO_ANY_RANK: whoever listens there */
    uint32_t purpose;
    uint8_t payload[HELLO_PAYLOAD_MAX];
    uint8_t payload_bytes;
};

enum hello_state {
    HELLO_GOING,
    HELLO_SECURES, /* done but for TLS: say hello_secured then */
    HELLO_DONE,
    HELLO_STRAY, /* it does not speak our language, left, or was silent: no peer, or not now */
    HELLO_FAILED /* status: AUTH_FAILED, which is nobody's proven word unless is_other_rank; or VERSION, INVALID_OPTIONS: a peer that
                    does not fit */
};

struct hello {
    /* results, to be read */
    enum hello_state state;
    enum tutti_status status; /* FAILED: why */
    const char *why;          /* STRAY and FAILED: in words, static */
    struct hello_self peer; /* what the other side said, without its key; believed only when `is_proven` */
    struct hello_call call; /* the caller's; believed by an answerer only when DONE */
    bool is_proven;  /* the other side has proven that it has the key (now, or once: its CALL) */
    bool is_foreign; /* STRAY: it speaks something else */
    bool is_other_rank; /* FAILED with AUTH_FAILED: a rank of this job, but not the one that was called */
    uint32_t version;     /* DONE: the newest that both speak */
    uint64_t deadline_ns; /* when it is over in any case */

    /* its own */
    struct hello_self self;
    bool is_caller;
    enum hello_state then; /* what it comes to when what is to be given is out */
    unsigned record;       /* 0 CALL .. 3 WELCOME: the one under way */
    size_t at,
        end; /* in the transcript: bytes that have gone either way, and where the record ends */
    unsigned char nonce[HELLO_NONCE_BYTES];
    unsigned char transcript[HELLO_BYTES];
};

/* Today's version and the key, with the rest of *self as it is. */
void hello_self_init(struct hello_self *self, const struct secret_key *key, int rank);

/* Begins one side; the nonce is random and never used twice. `hello` is the caller's; hello_release wipes what it
 * knew of the key. */
void hello_start_call(struct hello *hello, const struct hello_self *self,
                      const struct hello_call *call, const unsigned char nonce[HELLO_NONCE_BYTES],
                      uint64_t now_ns);
void hello_start_answer(struct hello *hello, const struct hello_self *self,
                        const unsigned char nonce[HELLO_NONCE_BYTES], uint64_t now_ns);
void hello_release(struct hello *hello);

/* How many bytes it can take now: not one beyond the hello, so what follows stays where it is. 0: it is not its turn. */
size_t hello_wants(const struct hello *hello);
/* Bytes of the other side. More than it wants make it a STRAY. */
void hello_take(struct hello *hello, const void *bytes, size_t count, uint64_t now_ns);
/* What has to be sent now, and how much; call hello_given with what has gone. */
size_t hello_gives(const struct hello *hello, const void **bytes);
void hello_given(struct hello *hello, size_t count);
/* SECURES: the key for TLS, which nobody else has; the caller of the hello is its client. */
enum tutti_status hello_key(const struct hello *hello, unsigned char key[MAC_BYTES]);
/* What became of that: DONE, or a STRAY. */
void hello_secured(struct hello *hello, bool is_secure);
/* The other side closed. */
void hello_leave(struct hello *hello);
/* Ends what is over its time. */
void hello_tick(struct hello *hello, uint64_t now_ns);

/* STRAY and FAILED in a sentence, for a message that names the other side's address in front of it. */
void hello_explain(const struct hello *hello, char text[HELLO_TEXT_MAX]);

#endif

/* tls.h - TLS 1.3 on a connected socket, from a key that both sides have; through OpenSSL.
 *
 *     tls_start ──► tls_handshake, until it is not IN_PROGRESS ──► tls_readv, tls_writev
 *
 * There are no certificates: both sides prove that they have the same 32 bytes (an external PSK),
 * which should be of this connection alone, and make new keys by an ephemeral exchange (psk_dhe_ke
 * with X25519 or P-256): somebody who learns the 32 bytes later can read nothing of what was
 * recorded. AES-128-GCM where both processors have instructions for it, else ChaCha20-Poly1305; no
 * tickets, no early data, nothing else to choose from. If OpenSSL is in FIPS mode, there are only
 * P-256 and AES-128-GCM.
 *
 * 1. A side without the key gets nothing and gives nothing. A changed or replayed record is
 *    EBADMSG, and ends the connection.
 * 2. A record is taken as a whole: bytes that tls_writev took are encrypted and wait here, and are
 *    never read again. So a caller may go on with other bytes than those that did not fit.
 * 3. Up to 64 KiB go with one call of the kernel, and come with one. Large parts are decrypted to
 *    where they belong.
 * 4. Its own direction's key is renewed long before the cipher's limit (RFC 8446, 5.5).
 * 5. Errors of OpenSSL are taken out of its queue again, and no state of it that others see is
 *    changed: neither signals nor configuration. (A handshake empties the thread's queue before.)
 *
 * 6. While the process is in exit() nothing moves any more (os/at_exit.h): connections seem to wait
 *    for their sockets.
 *
 * tls_absent.c takes its place in builds without OpenSSL: there all is UNSUPPORTED. One thread at a
 * time for one struct tls; those of one context may be used at once.
 */
#ifndef TUTTI_OS_TLS_H
#define TUTTI_OS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tutti/tutti.h"

enum { TLS_KEY_BYTES = 32 };
/* Records, of up to 16 KiB each, between two keys. AES-GCM is good for 23 million. */
#define TLS_RECORDS_A_KEY (UINT64_C(1) << 22)

struct tls_context; /* the part that connections have in common */
struct tls;

enum tutti_status tls_context_create(struct tls_context **context);
/* May go before its connections. NULL is fine. */
void tls_context_free(struct tls_context *context);

struct tls_options {
    int fd;         /* non-blocking; stays the caller's, and open until tls_free */
    bool is_client; /* the other side is not */
    unsigned char key[TLS_KEY_BYTES];
    uint64_t records_a_key;
};

enum tutti_status tls_start(struct tls_context *context, const struct tls_options *options,
                            struct tls **tls);
/* IN_PROGRESS: waits for the socket, for room in it when tls_has_output. AUTH_FAILED: the other
 * side's records do not fit; PROC_FAILED: it closed. Nothing is read beyond the handshake. */
enum tutti_status tls_handshake(struct tls *tls);
/* Says nothing to the other side; the socket stays open. NULL is fine. */
void tls_free(struct tls *tls);

/* As byte_stream_readv and byte_stream_drain (looks: at the socket), byte_stream_writev and the
 * like. After the handshake. */
ssize_t tls_readv(struct tls *tls, const struct iovec *parts, int count, bool looks);
ssize_t tls_writev(struct tls *tls, const struct iovec *parts, int count);
bool tls_has_input(const struct tls *tls);
bool tls_has_output(const struct tls *tls);
/* The memory that one takes, about. */
size_t tls_bytes(void);

#endif

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/status.h"
#include "os/at_exit.h"
#include "os/cpu.h"
#include "os/tls.h"

enum {
    RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH,
    RECORDS_A_CALL = 4, /* of the kernel */
    SEALED_BYTES_MAX = RECORD_BYTES + 256,
    /* Room for other words of TLS between them, a handshake's above all. */
    OUT_BYTES = RECORDS_A_CALL * SEALED_BYTES_MAX + 4096,
    IN_BYTES = RECORDS_A_CALL * SEALED_BYTES_MAX,
    /* Shorter parts are copied together first: a record costs as much as a copy of some
     * kilobytes. */
    ALONE_BYTES_MIN = 2048
};

struct tls_context {
    struct at_exit_kept kept;
    SSL_CTX *ssl;
    BIO_METHOD *socket;
};

struct tls {
    struct at_exit_kept kept;
    SSL *ssl;
    int fd;
    unsigned char key[TLS_KEY_BYTES]; /* until the handshake is over */
    uint64_t records, records_a_key;
    bool looks;     /* at the socket: there may be something */
    bool waits;     /* for more from there; else what OpenSSL cannot go on from is an error */
    bool has_ended; /* the socket, with `error` or 0 */
    int error;
    bool is_broken; /* a record came changed */
    size_t out_first, out_end;
    unsigned char out[OUT_BYTES]; /* encrypted */
    unsigned char record[RECORD_BYTES];
};

/* ----------------------------------------------------------------------------------- the socket */

static void has_ended(struct tls *tls, int error)
{
    tls->has_ended = true;
    tls->error = error;
}

static int socket_read(BIO *bio, char *data, int bytes)
{
    struct tls *const tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->has_ended) return 0;
    tls->waits = false;
    ssize_t got = -1;
    errno = EAGAIN;
    while (tls->looks && (got = recv(tls->fd, data, (size_t)bytes, MSG_DONTWAIT)) < 0 &&
           errno == EINTR)
        continue;
    if (got < bytes) tls->looks = false; /* that was all */
    if (got > 0) return (int)got;
    tls->waits = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (tls->waits)
        BIO_set_retry_read(bio);
    else
        has_ended(tls, got < 0 ? errno : 0);
    return (int)got;
}

/* There is room: nothing is encrypted before all is out that was. */
static int socket_write(BIO *bio, const char *data, int bytes)
{
    struct tls *const tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (bytes < 0 || (size_t)bytes > OUT_BYTES - tls->out_end) return -1;
    memcpy(tls->out + tls->out_end, data, (size_t)bytes);
    tls->out_end += (size_t)bytes;
    return bytes;
}

static long socket_control(BIO *bio, int what, long number, void *pointer)
{
    (void)number, (void)pointer;
    if (what == BIO_CTRL_EOF) return ((const struct tls *)BIO_get_data(bio))->has_ended;
    return what == BIO_CTRL_FLUSH; /* with the rest, by push */
}

/* Sends the encrypted bytes. False: some are left, errno says why. */
static bool push(struct tls *tls)
{
    while (tls->out_first < tls->out_end) {
        const ssize_t sent = send(tls->fd, tls->out + tls->out_first, tls->out_end - tls->out_first,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        tls->out_first += (size_t)sent;
    }
    tls->out_first = tls->out_end = 0;
    return true;
}

/* ---------------------------------------------------------------------------------- the one key */

static const unsigned char identity[] =
    "tutti"; /* the key is of one connection: there is nothing to tell apart */

/* NULL: no memory, which fails the handshake. */
static SSL_SESSION *session_of_key(SSL *ssl)
{
    static const unsigned char aes_128_gcm_sha256[2] = {0x13, 0x01}; /* the hash is what counts */
    const struct tls *const tls = SSL_get_app_data(ssl);
    SSL_SESSION *const session = SSL_SESSION_new();
    if (session != NULL && SSL_SESSION_set1_master_key(session, tls->key, sizeof tls->key) == 1 &&
        SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, aes_128_gcm_sha256)) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int offer_key(SSL *ssl, const EVP_MD *hash, const unsigned char **id, size_t *id_bytes,
                     SSL_SESSION **session)
{
    (void)hash;
    *id = identity;
    *id_bytes = sizeof identity;
    *session = session_of_key(ssl);
    return *session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session)
{
    const bool is_known = id_bytes == sizeof identity && memcmp(id, identity, id_bytes) == 0;
    *session = is_known ? session_of_key(ssl) : NULL;
    return !is_known || *session != NULL;
}

/* ------------------------------------------------------------------------------------- contexts */

/* In FIPS mode OpenSSL does not know X25519, and refuses a list that has it. Sides that differ
 * agree on P-256. */
static bool choose_groups(SSL_CTX *ssl)
{
    return SSL_CTX_set1_groups_list(ssl, "X25519:P-256") == 1 ||
           SSL_CTX_set1_groups_list(ssl, "P-256") == 1;
}

static bool restrict_context(SSL_CTX *ssl)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_clear_options(ssl, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_quiet_shutdown(ssl, 1);
    SSL_CTX_set_default_read_buffer_len(ssl, IN_BYTES);
    SSL_CTX_set_psk_use_session_callback(ssl, offer_key);
    SSL_CTX_set_psk_find_session_callback(ssl, find_key);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(ssl, 0) == 1 && choose_groups(ssl) &&
           SSL_CTX_set_ciphersuites(
               ssl, cpu_has_aes() ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                  : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256") == 1;
}

static void prepare(void)
{
    (void)OPENSSL_init_ssl(0, NULL); /* a failure is found where it is used */
    at_exit_watch();
}

static enum tutti_status is_ending(struct tls_context **context)
{
    free(*context);
    *context = NULL;
    return error_set(TUTTI_UNSUPPORTED, "encryption: this process is ending");
}

enum tutti_status tls_context_create(struct tls_context **context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *context = calloc(1, sizeof **context);
    if (*context == NULL) return error_set(TUTTI_NO_MEMORY, "encryption: out of memory");
    struct tls_context *const new = *context;
    if (!at_exit_enter()) return is_ending(context);
    pthread_once(&once, prepare);
    ERR_set_mark();
    new->ssl = SSL_CTX_new(TLS_method());
    new->socket = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tutti socket");
    const bool is_good =
        new->ssl != NULL &&new->socket != NULL &&BIO_meth_set_read(new->socket, socket_read) == 1 &&
        BIO_meth_set_write(new->socket, socket_write) == 1 &&
        BIO_meth_set_ctrl(new->socket, socket_control) == 1 && restrict_context(new->ssl);
    ERR_pop_to_mark();
    at_exit_leave();
    if (is_good) return TUTTI_OK;
    tls_context_free(new);
    *context = NULL;
    return error_set(TUTTI_UNSUPPORTED, "OpenSSL has no TLS 1.3 with AES-128-GCM and "
                                        "ChaCha20-Poly1305 here: Tutti cannot encrypt");
}

void tls_context_free(struct tls_context *context)
{
    if (context == NULL) return;
    if (!at_exit_enter()) {
        at_exit_keep(&context->kept);
        return;
    }
    SSL_CTX_free(context->ssl);
    BIO_meth_free(context->socket);
    at_exit_leave();
    free(context);
}

/* ------------------------------------------------------------------------------------ beginning */

/* Makes its SSL. False: no memory. */
static bool connect_to(struct tls *tls, const struct tls_context *context, bool is_client)
{
    ERR_set_mark();
    tls->ssl = SSL_new(context->ssl);
    BIO *const bio = BIO_new(context->socket);
    const bool is_good = tls->ssl != NULL && bio != NULL && SSL_set_app_data(tls->ssl, tls) == 1;
    ERR_pop_to_mark();
    if (!is_good) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    if (is_client) {
        SSL_set_verify(tls->ssl, SSL_VERIFY_PEER,
                       NULL); /* and there is nobody to be trusted by a certificate */
        SSL_set_connect_state(tls->ssl);
    } else {
        SSL_set_accept_state(tls->ssl);
    }
    return true;
}

enum tutti_status tls_start(struct tls_context *context, const struct tls_options *options,
                            struct tls **tls)
{
    *tls = calloc(1, sizeof **tls);
    if (*tls == NULL) return error_set(TUTTI_NO_MEMORY, "encryption: out of memory");
    struct tls *const new = *tls;
    new->fd = options->fd;
    new->records_a_key = options->records_a_key;
    memcpy(new->key, options->key, sizeof new->key);
    const bool is_ending = !at_exit_enter();
    const bool is_good = !is_ending && connect_to(new, context, options->is_client);
    if (!is_ending) at_exit_leave();
    if (is_good) return TUTTI_OK;
    tls_free(new);
    *tls = NULL;
    return is_ending ? error_set(TUTTI_UNSUPPORTED, "encryption: this process is ending")
                     : error_set(TUTTI_NO_MEMORY, "encryption: out of memory");
}

void tls_free(struct tls *tls)
{
    if (tls == NULL) return;
    OPENSSL_cleanse(tls->key, sizeof tls->key);
    OPENSSL_cleanse(tls->record, sizeof tls->record);
    if (!at_exit_enter()) {
        at_exit_keep(&tls->kept);
        return;
    }
    SSL_free(tls->ssl);
    at_exit_leave();
    free(tls);
}

static enum tutti_status explain_handshake(const struct tls *tls)
{
    if (tls->has_ended) return error_set(TUTTI_PROC_FAILED, "encryption: the other side closed");
    if (tls->waits) return TUTTI_IN_PROGRESS;
    const char *const why = ERR_reason_error_string(ERR_peek_last_error());
    return error_set(TUTTI_AUTH_FAILED, "encryption cannot be agreed on: %s",
                     why != NULL ? why : "what the other side says does not fit");
}

static enum tutti_status shake_hands(struct tls *tls)
{
    tls->looks = true;
    tls->waits = false;
    ERR_set_mark();
    const bool is_done = SSL_do_handshake(tls->ssl) == 1;
    const enum tutti_status status = is_done ? TUTTI_OK : explain_handshake(tls);
    ERR_pop_to_mark();
    const bool is_out = push(tls);
    if (status != TUTTI_OK && status != TUTTI_IN_PROGRESS) return status;
    if (!is_out && errno != EAGAIN && errno != EWOULDBLOCK)
        return error_set(TUTTI_PROC_FAILED, "encryption: the other side closed");
    if (status != TUTTI_OK) return status;
    if (SSL_session_reused(tls->ssl) != 1)
        return error_set(TUTTI_AUTH_FAILED, "encryption: the other side does not have the key");
    if (!is_out) return TUTTI_IN_PROGRESS;
    OPENSSL_cleanse(tls->key, sizeof tls->key);
    /* From now on: the owner that takes the socket over looks at it first. */
    SSL_set_read_ahead(tls->ssl, 1);
    return TUTTI_OK;
}

enum tutti_status tls_handshake(struct tls *tls)
{
    if (!at_exit_enter()) return TUTTI_IN_PROGRESS;
    const enum tutti_status status = shake_hands(tls);
    at_exit_leave();
    return status;
}

/* -------------------------------------------------------------------------------------- reading */

/* The other side has found something wrong and said so: it ends the connection, too. */
static bool is_complaint(void)
{
    return ERR_GET_REASON(ERR_peek_last_error()) >= SSL_AD_REASON_OFFSET;
}

/* Why nothing could be read. */
static ssize_t explain_read(struct tls *tls)
{
    errno = tls->error;
    if (tls->has_ended) return tls->error != 0 ? -1 : 0;
    if (SSL_get_shutdown(tls->ssl) == SSL_RECEIVED_SHUTDOWN) return 0;
    errno = EAGAIN;
    if (tls->waits) return -1;
    if (is_complaint())
        has_ended(tls, ECONNRESET);
    else
        tls->is_broken = true;
    errno = tls->is_broken ? EBADMSG : ECONNRESET;
    return -1;
}

static ssize_t read_parts(struct tls *tls, const struct iovec *parts, int count, bool looks)
{
    size_t total = 0, filled = 0;
    bool goes_on = true;
    if (tls->is_broken) {
        errno = EBADMSG;
        return -1;
    }
    tls->looks = looks;
    ERR_set_mark();
    for (int p = 0; p < count;) {
        size_t got;
        if (filled == parts[p].iov_len) {
            p++;
            filled = 0;
            continue;
        }
        tls->waits = false;
        goes_on = SSL_read_ex(tls->ssl, (char *)parts[p].iov_base + filled,
                              parts[p].iov_len - filled, &got) == 1;
        if (!goes_on) break;
        filled += got;
        total += got;
    }
    /* A changed record is reported at once: nothing more may come. */
    goes_on |= tls->waits || tls->has_ended;
    const ssize_t result = total > 0 && goes_on ? (ssize_t)total : explain_read(tls);
    const int error = errno;
    ERR_pop_to_mark();
    errno = error;
    return result;
}

ssize_t tls_readv(struct tls *tls, const struct iovec *parts, int count, bool looks)
{
    if (!at_exit_enter()) {
        errno = EAGAIN;
        return -1;
    }
    const ssize_t got = read_parts(tls, parts, count, looks);
    at_exit_leave();
    return got;
}

bool tls_has_input(const struct tls *tls)
{
    if (!at_exit_enter()) return false;
    const bool has_input = SSL_has_pending(tls->ssl) == 1;
    at_exit_leave();
    return has_input;
}

/* -------------------------------------------------------------------------------------- writing */

/* The place in the data to be written at which the next record begins. */
struct place {
    const struct iovec *part, *end;
    size_t at; /* of the part */
};

static size_t left_of_part(const struct place *place)
{
    return place->part < place->end ? place->part->iov_len - place->at : 0;
}

static const unsigned char *step(struct place *place, size_t bytes)
{
    const unsigned char *const from = (const unsigned char *)place->part->iov_base + place->at;
    place->at += bytes;
    if (place->at == place->part->iov_len) {
        place->part++;
        place->at = 0;
    }
    return from;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The bytes of the next record: where they lie in a large part, or gathered from several short
 * parts in tls->record; 0: there are none. */
static size_t next_record(struct tls *tls, struct place *place, const unsigned char **data)
{
    size_t bytes = min_size(left_of_part(place), RECORD_BYTES);
    if (bytes >= ALONE_BYTES_MIN) {
        *data = step(place, bytes);
        return bytes;
    }
    *data = tls->record;
    size_t total = 0;
    while (place->part < place->end && left_of_part(place) < ALONE_BYTES_MIN &&
           total < RECORD_BYTES) {
        bytes = min_size(left_of_part(place), RECORD_BYTES - total);
        memcpy(tls->record + total, step(place, bytes), bytes);
        total += bytes;
    }
    return total;
}

static bool write_record(struct tls *tls, const unsigned char *data, size_t bytes)
{
    size_t written;
    if (++tls->records > tls->records_a_key) {
        tls->records = 1;
        if (SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return false;
    }
    return SSL_write_ex(tls->ssl, data, bytes, &written) == 1 && written == bytes;
}

static ssize_t write_parts(struct tls *tls, const struct iovec *parts, int count)
{
    struct place place = {parts, parts + count, 0};
    const unsigned char *data;
    size_t total = 0, bytes;
    if (!push(tls)) return -1;
    ERR_set_mark();
    bool is_good = true;
    for (int r = 0; is_good && r < RECORDS_A_CALL; r++) {
        if ((bytes = next_record(tls, &place, &data)) == 0) break;
        is_good = write_record(tls, data, bytes);
        total += bytes;
    }
    ERR_pop_to_mark();
    if (!is_good) { /* it was broken before */
        errno = ECONNRESET;
        return -1;
    }
    if (!push(tls) && errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    return (ssize_t)total;
}

ssize_t tls_writev(struct tls *tls, const struct iovec *parts, int count)
{
    if (!at_exit_enter()) {
        errno = EAGAIN;
        return -1;
    }
    const ssize_t sent = write_parts(tls, parts, count);
    at_exit_leave();
    return sent;
}

bool tls_has_output(const struct tls *tls)
{
    return tls->out_first < tls->out_end;
}

size_t tls_bytes(void)
{
    return sizeof(struct tls) + IN_BYTES + SEALED_BYTES_MAX;
}

/* exchange.c - one interface over three means; what they do differently is in their own files.
 *
 * PMI-1 alone needs more here: its values are short words without blanks, so bytes travel as
 * hexadecimal digits, over
 * several keys where one is too short:  tutti.<number>.<rank>.<key>.<piece>, the first with "<bytes>:" in front.
 * The process's connection is opened once and left at exit: afterwards the manager would expect the
 * process to end.
 */
#include "bootstrap/exchange.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "base/status.h"
#include "bootstrap/folder.h"
#include "bootstrap/pmi1.h"
#include "bootstrap/pmix_service.h"
#include "os/clock.h"
#include "os/turn.h"

enum { KEY_BYTES_MAX = 64, LENGTH_CHARACTERS = 5, CLOSE_NS = 2000000000 };
static_assert(EXCHANGE_VALUE_BYTES_MAX <= 9999, "a length is four digits and a colon");

struct exchange_ops {
    enum exchange_means means;
    enum tutti_status (*put)(struct exchange *exchange, const char *key, const void *value,
                             size_t value_bytes, uint64_t deadline_ns);
    enum tutti_status (*fence)(struct exchange *exchange, uint64_t deadline_ns);
    enum tutti_status (*get)(struct exchange *exchange, int rank, const char *key, void *buffer,
                             size_t buffer_bytes, size_t *value_bytes, uint64_t deadline_ns);
    void (*close)(struct exchange *exchange);
};

struct exchange {
    const struct exchange_ops *ops;
    int rank, size;
    unsigned number; /* of those over PMIx or PMI-1 in this process: keys live as long as the job */
    struct folder *folder;
    struct pmix_service *pmix;
    struct pmi1 *pmi1; /* the connection's */
};

/* --------------------------------------------------------------------------------------- folder */

static enum tutti_status put_in_folder(struct exchange *exchange, const char *key,
                                       const void *value, size_t value_bytes, uint64_t deadline_ns)
{
    (void)deadline_ns;
    return folder_put(exchange->folder, key, value, value_bytes);
}

static enum tutti_status fence_in_folder(struct exchange *exchange, uint64_t deadline_ns)
{
    return folder_fence(exchange->folder, deadline_ns);
}

static enum tutti_status get_from_folder(struct exchange *exchange, int rank, const char *key,
                                         void *buffer, size_t buffer_bytes, size_t *value_bytes,
                                         uint64_t deadline_ns)
{
    return folder_get(exchange->folder, rank, key, buffer, buffer_bytes, value_bytes, deadline_ns);
}

static void close_folder(struct exchange *exchange)
{
    folder_close(exchange->folder);
}

static const struct exchange_ops folder_ops = {EXCHANGE_FOLDER, put_in_folder, fence_in_folder,
                                               get_from_folder, close_folder};

/* ----------------------------------------------------------------------------------------- PMIx */

/* Beside other users of the job's keys, such as an MPI library, and earlier exchanges: keys live as
 * long as the job. */
static void name_for_pmix(const struct exchange *exchange, const char *key, char name[KEY_BYTES_MAX])
{
    snprintf(name, KEY_BYTES_MAX, "tutti.%u.%s", exchange->number, key);
}

static enum tutti_status put_by_pmix(struct exchange *exchange, const char *key, const void *value,
                                     size_t value_bytes, uint64_t deadline_ns)
{
    (void)deadline_ns; /* stays in this process until the fence */
    char name[KEY_BYTES_MAX];
    name_for_pmix(exchange, key, name);
    return pmix_service_put(exchange->pmix, name, value, value_bytes);
}

static enum tutti_status fence_by_pmix(struct exchange *exchange, uint64_t deadline_ns)
{
    return pmix_service_fence(exchange->pmix, deadline_ns);
}

static enum tutti_status get_by_pmix(struct exchange *exchange, int rank, const char *key,
                                     void *buffer, size_t buffer_bytes, size_t *value_bytes,
                                     uint64_t deadline_ns)
{
    char name[KEY_BYTES_MAX];
    name_for_pmix(exchange, key, name);
    return pmix_service_get(exchange->pmix, rank, name, buffer, buffer_bytes, value_bytes,
                            deadline_ns);
}

static void close_pmix(struct exchange *exchange)
{
    pmix_service_close(exchange->pmix);
}

static const struct exchange_ops pmix_ops = {EXCHANGE_PMIX, put_by_pmix, fence_by_pmix, get_by_pmix,
                                             close_pmix};

/* ---------------------------------------------------------------------------------------- PMI-1 */

/* This process's one use of PMI-1. */
static struct {
    struct turn turn; /* of who opens it */
    pid_t process;    /* that opens it; 0: none yet */
    long fd;          /* PMI_FD: another number is another connection */
    bool is_open;
    unsigned opened;
    struct pmi1 client;
} connection;

static void name_for_pmi1(const struct exchange *exchange, int rank, const char *key, size_t piece,
                          char name[KEY_BYTES_MAX])
{
    snprintf(name, KEY_BYTES_MAX, "tutti.%u.%d.%s.%zu", exchange->number, rank, key, piece);
}

/* Digits in one piece: the same on all ranks, so it counts on the longest key. Even. */
static size_t piece_digits(const struct exchange *exchange)
{
    const size_t room = pmi1_value_room(exchange->pmi1, KEY_BYTES_MAX);
    return room > LENGTH_CHARACTERS + 1 ? (room - LENGTH_CHARACTERS) / 2 * 2 : 0;
}

static enum tutti_status put_by_pmi1(struct exchange *exchange, const char *key, const void *value,
                                     size_t value_bytes, uint64_t deadline_ns)
{
    const unsigned char *const bytes = value;
    const size_t piece_bytes = piece_digits(exchange) / 2;
    char name[KEY_BYTES_MAX], text[PMI1_LINE_BYTES_MAX];
    if (piece_bytes == 0)
        return error_set(TUTTI_UNSUPPORTED, "PMI: the process manager's lines are too short");
    size_t done = 0;
    for (size_t piece = 0; piece == 0 || done < value_bytes; piece++) {
        size_t used = 0;
        if (piece == 0) used += (size_t)snprintf(text, sizeof text, "%04zu:", value_bytes);
        for (size_t i = 0; i < piece_bytes && done < value_bytes; i++, used += 2)
            snprintf(text + used, sizeof text - used, "%02x", bytes[done++]);
        name_for_pmi1(exchange, exchange->rank, key, piece, name);
        TRY(pmi1_put(exchange->pmi1, name, text, deadline_ns));
    }
    return TUTTI_OK;
}

static enum tutti_status fence_by_pmi1(struct exchange *exchange, uint64_t deadline_ns)
{
    return pmi1_fence(exchange->pmi1, deadline_ns);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes digits until the text or the value ends. False: they are none, or not whole bytes. */
static bool take_digits(const char *text, unsigned char *bytes, size_t *done, size_t value_bytes)
{
    for (; *text != '\0' && *done < value_bytes; text += 2) {
        const int high = digit(text[0]), low = high < 0 ? -1 : digit(text[1]);
        if (low < 0) return false;
        bytes[(*done)++] = (unsigned char)(high << 4 | low);
    }
    return *text == '\0';
}

/* "<bytes>:" */
static const char *take_length(const char *text, size_t *bytes)
{
    size_t length = 0;
    for (int i = 0; i < LENGTH_CHARACTERS - 1; i++) {
        if (text[i] < '0' || text[i] > '9') return NULL;
        length = length * 10 + (size_t)(text[i] - '0');
    }
    *bytes = length;
    return text[LENGTH_CHARACTERS - 1] == ':' ? text + LENGTH_CHARACTERS : NULL;
}

static enum tutti_status get_by_pmi1(struct exchange *exchange, int rank, const char *key,
                                     void *buffer, size_t buffer_bytes, size_t *value_bytes,
                                     uint64_t deadline_ns)
{
    char name[KEY_BYTES_MAX], text[PMI1_LINE_BYTES_MAX];
    size_t done = 0, length = 0;
    for (size_t piece = 0; piece == 0 || done < length; piece++) {
        const size_t before = done;
        const char *digits = text;
        name_for_pmi1(exchange, rank, key, piece, name);
        TRY(pmi1_get(exchange->pmi1, name, text, sizeof text, deadline_ns));
        if (piece == 0) {
            digits = take_length(text, &length);
            if (digits != NULL && length > buffer_bytes)
                return error_set(TUTTI_INVALID_OPTIONS, "PMI: rank %d's %s has %zu bytes, not %zu",
                                 rank, key, length, buffer_bytes);
        }
        if (digits == NULL || !take_digits(digits, buffer, &done, length) ||
            (done == before && length > 0))
            return error_set(TUTTI_AUTH_FAILED, "PMI: rank %d's %s is not what Tutti puts", rank,
                             key);
    }
    *value_bytes = length;
    return TUTTI_OK;
}

/* The connection stays for the next exchange. */
static void close_pmi1(struct exchange *exchange)
{
    (void)exchange;
}

static const struct exchange_ops pmi1_ops = {EXCHANGE_PMI1, put_by_pmi1, fence_by_pmi1, get_by_pmi1,
                                             close_pmi1};

/* A manager that does not answer any more has nothing to be told. */
static void leave_manager(void)
{
    if (connection.is_open && connection.process == getpid())
        (void)pmi1_close(&connection.client, clock_now_ns() + CLOSE_NS);
}

/* With the turn. Whose connection it is, is known before it is made: so a child that is forked
 * meanwhile is refused. */
static enum tutti_status connect_to_manager(long fd, uint64_t deadline_ns)
{
    static bool leaves_at_exit;
    const bool is_known = connection.process != 0 && connection.fd == fd;
    if (is_known && connection.process != getpid())
        return error_set(TUTTI_UNSUPPORTED,
                         "PMI: this process was forked from one that uses the connection; the "
                         "process manager knows that one alone");
    if (is_known && !connection.client.is_broken) return TUTTI_OK;
    if (is_known)
        return error_set(TUTTI_UNSUPPORTED, "PMI: the connection to the process manager is broken");
    connection.is_open = false;
    connection.process = getpid();
    connection.fd = fd;
    const enum tutti_status status = pmi1_open(&connection.client, (int)fd, deadline_ns);
    if (status != TUTTI_OK) {
        connection.process = 0;
        return status;
    }
    connection.is_open = true;
    connection.opened = 0;
    if (!leaves_at_exit && atexit(leave_manager) != 0)
        return error_set(TUTTI_NO_MEMORY, "PMI: nothing can be done at exit");
    leaves_at_exit = true;
    return TUTTI_OK;
}

static enum tutti_status open_pmi1(struct exchange *exchange, uint64_t deadline_ns)
{
    const char *text = getenv("PMI_FD");
    char *end = NULL;
    errno = 0;
    const long fd = text != NULL ? strtol(text, &end, 10) : -1;
    if (text == NULL || errno != 0 || end == text || *end != '\0' || fd < 0 || fd > INT_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "PMI_FD=%.20s: the number of a descriptor is needed",
                         text == NULL ? "" : text);
    if (turn_take(&connection.turn, deadline_ns) == TURN_LATE)
        return error_set(TUTTI_INIT_TIMEOUT,
                         "PMI: another thread of this process was still connecting to the process "
                         "manager at the deadline");
    const enum tutti_status status = connect_to_manager(fd, deadline_ns);
    exchange->pmi1 = &connection.client;
    exchange->number = connection.opened;
    if (status == TUTTI_OK) connection.opened++;
    turn_give(&connection.turn);
    return status;
}

/* --------------------------------------------------------------------------------------- choice */

static enum tutti_status open_some(struct exchange *exchange, const struct launcher_facts *facts,
                                   unsigned means, uint64_t deadline_ns)
{
    const char *path = option_text(OPTION_RENDEZVOUS_DIR);
    if ((means & EXCHANGE_FOLDER) != 0 && path != NULL) {
        exchange->ops = &folder_ops;
        return folder_open(path, facts->run_id, facts->rank, facts->size, deadline_ns,
                           &exchange->folder);
    }
    if ((means & EXCHANGE_PMIX) != 0 && facts->service == LAUNCHER_SERVICE_PMIX) {
        static atomic_uint opened;
        exchange->ops = &pmix_ops;
        exchange->number = atomic_fetch_add_explicit(&opened, 1, memory_order_relaxed);
        return pmix_service_open(facts->rank, facts->size, deadline_ns, &exchange->pmix);
    }
    if ((means & EXCHANGE_PMI1) != 0 && facts->service == LAUNCHER_SERVICE_PMI1) {
        exchange->ops = &pmi1_ops;
        return open_pmi1(exchange, deadline_ns);
    }
    return error_set(TUTTI_UNSUPPORTED,
                     "the ranks have no way to exchange addresses: %s offers none that may be used "
                     "here; set TUTTI_RENDEZVOUS_DIR to a folder that all of them see",
                     facts->launcher != NULL ? facts->launcher : "what started them");
}

enum tutti_status exchange_open(const struct launcher_facts *facts, unsigned means,
                                uint64_t deadline_ns, struct exchange **exchange)
{
    *exchange = NULL;
    struct exchange *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return error_set(TUTTI_NO_MEMORY, "exchange: out of memory");
    opened->rank = facts->rank;
    opened->size = facts->size;
    const enum tutti_status status = open_some(opened, facts, means, deadline_ns);
    if (status != TUTTI_OK) {
        free(opened);
        return status;
    }
    *exchange = opened;
    return TUTTI_OK;
}

enum exchange_means exchange_means_of(const struct exchange *exchange)
{
    return exchange->ops->means;
}

static enum tutti_status check_key(const char *key)
{
    const size_t characters = strlen(key);
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    if (characters > 0 && characters <= EXCHANGE_KEY_CHARACTERS_MAX &&
        strspn(key, allowed) == characters)
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "exchange: \"%.60s\" is no key", key);
}

enum tutti_status exchange_put(struct exchange *exchange, const char *key, const void *value,
                               size_t value_bytes, uint64_t deadline_ns)
{
    TRY(check_key(key));
    if (value_bytes > EXCHANGE_VALUE_BYTES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "exchange: %s has %zu bytes, %d are possible", key,
                         value_bytes, EXCHANGE_VALUE_BYTES_MAX);
    return exchange->ops->put(exchange, key, value, value_bytes, deadline_ns);
}

enum tutti_status exchange_fence(struct exchange *exchange, uint64_t deadline_ns)
{
    return exchange->ops->fence(exchange, deadline_ns);
}

enum tutti_status exchange_get(struct exchange *exchange, int rank, const char *key, void *buffer,
                               size_t buffer_bytes, size_t *value_bytes, uint64_t deadline_ns)
{
    TRY(check_key(key));
    if (rank < 0 || rank >= exchange->size)
        return error_set(TUTTI_INVALID_RANK, "exchange: %d is no rank of %d", rank, exchange->size);
    return exchange->ops->get(exchange, rank, key, buffer, buffer_bytes, value_bytes, deadline_ns);
}

void exchange_close(struct exchange *exchange)
{
    if (exchange == NULL) return;
    exchange->ops->close(exchange);
    free(exchange);
}

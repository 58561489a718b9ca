#include "bootstrap/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

enum { GUESSABLE_BYTES = 16 };

/* What comes in has any length and is spread unevenly: extracted as in HKDF (RFC 5869), with what it is as salt. */
static enum tutti_status extract(const char *what, const void *from, size_t bytes, bool is_secret,
                                 struct secret_key *key)
{
    memset(key, 0, sizeof *key);
    TRY(mac_compute(what, strlen(what), from, bytes, key->bytes));
    key->is_secret = is_secret;
    return TUTTI_OK;
}

enum tutti_status secret_from_bytes(const void *secret, size_t bytes, struct secret_key *key)
{
    if (bytes == 0 || bytes > SECRET_BYTES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a secret of %zu bytes: 1 to %d are needed", bytes,
                         SECRET_BYTES_MAX);
    return extract("tutti hello: secret", secret, bytes, true, key);
}

enum tutti_status secret_from_run(const char *run_id, struct secret_key *key)
{
    if (run_id == NULL) run_id = "";
    return extract("tutti hello: run id", run_id, strlen(run_id), false, key);
}

/* One byte more than a secret may have, so that a longer one is noticed. */
static enum tutti_status read_file(const char *path, unsigned char text[SECRET_BYTES_MAX + 2],
                                   size_t *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t count = fd < 0 ? -1 : 0;
    *bytes = 0;
    while (fd >= 0 && *bytes < SECRET_BYTES_MAX + 2) {
        count = read(fd, text + *bytes, SECRET_BYTES_MAX + 2 - *bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        *bytes += (size_t)count;
    }
    const int error = errno;
    if (fd >= 0) close(fd);
    if (count >= 0) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "TUTTI_SECRET_FILE=%.200s: %s", path, strerror(error));
}

static enum tutti_status from_user(const void *secret, size_t bytes, struct secret_key *key)
{
    if (bytes < GUESSABLE_BYTES)
        log_write(LOG_WARN, "the job's secret has only %zu bytes: it can be guessed", bytes);
    return secret_from_bytes(secret, bytes, key);
}

static enum tutti_status from_file(const char *path, struct secret_key *key)
{
    unsigned char text[SECRET_BYTES_MAX + 2];
    size_t bytes;
    enum tutti_status status = read_file(path, text, &bytes);
    if (bytes > 0 && text[bytes - 1] == '\n') bytes--;
    if (bytes > 0 && text[bytes - 1] == '\r') bytes--;
    if (status == TUTTI_OK && (bytes == 0 || bytes > SECRET_BYTES_MAX))
        status = error_set(TUTTI_INVALID_OPTIONS, "TUTTI_SECRET_FILE=%.200s: is %s", path,
                           bytes == 0 ? "empty" : "too long for a secret");
    if (status == TUTTI_OK) status = from_user(text, bytes, key);
    mac_wipe(text, sizeof text);
    return status;
}

enum tutti_status secret_read(const char *run_id, struct secret_key *key)
{
    const char *secret = getenv("TUTTI_SECRET"), *file = getenv("TUTTI_SECRET_FILE");
    memset(key, 0, sizeof *key);
    if (secret != NULL && *secret == '\0') secret = NULL;
    if (file != NULL && *file == '\0') file = NULL;
    if (secret != NULL && file != NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "TUTTI_SECRET and TUTTI_SECRET_FILE are both set: only one can be");
    if (file != NULL) return from_file(file, key);
    if (secret != NULL) return from_user(secret, strlen(secret), key);
    return secret_from_run(run_id, key);
}

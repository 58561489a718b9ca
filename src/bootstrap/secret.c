#include "bootstrap/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "os/clock.h"

enum { GUESSABLE_BYTES = 16 };
static const uint64_t PIPE_NS = 10000000000u;

/* The bytes may have any length and an uneven distribution. So the key is extracted as in HKDF (RFC
 * 5869), with the text `what` as salt. */
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

/* Users who can read the file can join the job, and its owner can let others read it. Looks at the
 * open file, not at the file that lies at its path now. */
static enum tutti_status check_privacy(const char *path, int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return error_set(TUTTI_INVALID_OPTIONS, "%s=%.200s: %s", option_names.SECRET_FILE, path,
                         strerror(errno));
    if (S_ISDIR(about.st_mode))
        return error_set(TUTTI_INVALID_OPTIONS, "%s=%.200s: it is a directory",
                         option_names.SECRET_FILE, path);
    if (about.st_uid != geteuid() && about.st_uid != 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s=%.200s: it belongs to user %u, and only a file of user "
                         "%u (this process's) or 0 will do: copy it, with mode 600",
                         option_names.SECRET_FILE, path, (unsigned)about.st_uid,
                         (unsigned)geteuid());
    if ((about.st_mode & 077) != 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s=%.200s: it is open to other users (mode %04o): say "
                         "`chmod 600` and, if they may have read it, make a new secret",
                         option_names.SECRET_FILE, path, (unsigned)about.st_mode & 07777);
    return TUTTI_OK;
}

/* One byte more than a secret may have, so that a longer one is noticed. A pipe is read, too, but
 * not waited for without end. */
static enum tutti_status read_open(const char *path, int fd,
                                   unsigned char text[SECRET_BYTES_MAX + 2], size_t *bytes)
{
    const uint64_t deadline_ns = clock_now_ns() + PIPE_NS;
    TRY(check_privacy(path, fd));
    while (*bytes < SECRET_BYTES_MAX + 2) {
        const ssize_t count = read(fd, text + *bytes, SECRET_BYTES_MAX + 2 - *bytes);
        if (count == 0) return TUTTI_OK;
        if (count > 0) {
            *bytes += (size_t)count;
            continue;
        }
        if (errno != EINTR && errno != EAGAIN)
            return error_set(TUTTI_INVALID_OPTIONS, "%s=%.200s: %s", option_names.SECRET_FILE, path,
                             strerror(errno));
        if (clock_now_ns() >= deadline_ns)
            return error_set(TUTTI_INVALID_OPTIONS, "%s=%.200s: nobody writes to it",
                             option_names.SECRET_FILE, path);
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, clock_poll_ms(deadline_ns));
    }
    return TUTTI_OK;
}

static enum tutti_status read_file(const char *path, unsigned char text[SECRET_BYTES_MAX + 2],
                                   size_t *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    *bytes = 0;
    if (fd < 0)
        return error_set(TUTTI_INVALID_OPTIONS, "%s=%.200s: %s", option_names.SECRET_FILE, path,
                         strerror(errno));
    const enum tutti_status status = read_open(path, fd, text, bytes);
    close(fd);
    return status;
}

static enum tutti_status from_user(const void *secret, size_t bytes, struct secret_key *key)
{
    if (bytes < GUESSABLE_BYTES)
        log_write(LOG_WARN, "the job's secret has only %zu bytes: it can be guessed", bytes);
    return secret_from_bytes(secret, bytes, key);
}

static enum tutti_status read_key(const char *path, unsigned char text[SECRET_BYTES_MAX + 2],
                                  struct secret_key *key)
{
    size_t bytes;
    TRY(read_file(path, text, &bytes));
    if (bytes > 0 && text[bytes - 1] == '\n') bytes--;
    if (bytes > 0 && text[bytes - 1] == '\r') bytes--;
    if (bytes == 0 || bytes > SECRET_BYTES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%s=%.200s: is %s", option_names.SECRET_FILE, path,
                         bytes == 0 ? "empty" : "too long for a secret");
    return from_user(text, bytes, key);
}

static enum tutti_status from_file(const char *path, struct secret_key *key)
{
    unsigned char text[SECRET_BYTES_MAX + 2];
    const enum tutti_status status = read_key(path, text, key);
    mac_wipe(text, sizeof text);
    return status;
}

enum tutti_status secret_read(const char *run_id, struct secret_key *key)
{
    const char *secret = option_text(OPTION_SECRET), *file = option_text(OPTION_SECRET_FILE);
    memset(key, 0, sizeof *key);
    if (secret != NULL && file != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "%s and %s are both set: only one can be",
                         option_names.SECRET, option_names.SECRET_FILE);
    if (file != NULL) return from_file(file, key);
    if (secret != NULL) return from_user(secret, strlen(secret), key);
    return secret_from_run(run_id, key);
}

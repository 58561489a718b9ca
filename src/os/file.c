#include "os/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/thread.h"

char *file_read_all(FILE *file, size_t size_max, size_t *size)
{
    char *text = NULL;
    size_t capacity = 0;
    *size = 0;
    do {
        if (*size + 1 >= capacity) {
            capacity = capacity * 2 + 65536;
            if (capacity > size_max && capacity - size_max > 2) capacity = size_max + 2;
            char *grown = *size > size_max ? NULL : realloc(text, capacity);
            if (grown == NULL) {
                const int error = *size > size_max ? EFBIG : ENOMEM;
                free(text);
                errno = error;
                return NULL;
            }
            text = grown;
        }
        *size += fread(text + *size, 1, capacity - *size - 1, file);
    } while (!feof(file) && !ferror(file));
    text[*size] = '\0';
    if (!ferror(file) && *size <= size_max) return text;
    const int error = ferror(file) ? errno : EFBIG;
    free(text);
    errno = error;
    return NULL;
}

static bool write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(fd, text, size);
        if (written < 0 && errno != EINTR) return false;
        if (written <= 0) continue;
        text += written;
        size -= (size_t)written;
    }
    return true;
}

void file_make_mark(char mark[static FILE_MARK_SIZE])
{
    char host[HOST_NAME_MAX + 1] = "";
    uint64_t number;
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') strcpy(host, "host");
    for (char *c = host; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.') *c = '_';
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = clock_now_ns(); /* a system that has just started */
    snprintf(mark, FILE_MARK_SIZE, "%s-%d-%016" PRIx64, host, (int)getpid(), number);
}

enum tutti_status file_replace(const char *path, const char *text, size_t size)
{
    char temporary[PATH_MAX], mark[FILE_MARK_SIZE];
    file_make_mark(mark);
    const int length = snprintf(temporary, sizeof temporary, "%s.%s.new", path, mark);
    if (length < 0 || (size_t)length >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return error_system("writing %.200s", path);
    }
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return error_system("writing %s", temporary);
    bool is_written = write_all(fd, text, size);
    int error = errno;
    if (close(fd) != 0 && is_written) {
        is_written = false;
        error = errno;
    }
    if (is_written && rename(temporary, path) == 0) return TUTTI_OK;
    if (is_written) error = errno;
    unlink(temporary);
    errno = error;
    return error_system("writing %s", path);
}

/* ------------------------------------------------------------------------------ with a deadline */

/* Belongs to the thread that waits for the writer or, once nobody waits any more, to the writer. */
enum { IS_WRITING, IS_OVER, IS_LEFT };
struct writing {
    _Atomic uint32_t state;
    enum tutti_status status;
    char message[640];
    char *folder, *path, *text;
    size_t size;
};

/* Writers that were left to themselves: the process in the upper half, for a child of fork has none
 * of its parent's; their number in the lower one. */
static _Atomic uint64_t left;

static uint64_t own_left(uint64_t seen)
{
    const uint64_t own = (uint64_t)(uint32_t)getpid() << 32;
    return (seen & ~UINT64_C(0xffffffff)) == own ? seen : own;
}

static void count_left(int change)
{
    uint64_t seen = atomic_load(&left);
    while (!atomic_compare_exchange_weak(&left, &seen, own_left(seen) + (uint64_t)(int64_t)change))
        ;
}

static bool is_any_left(void)
{
    return (uint32_t)own_left(atomic_load(&left)) > 0;
}

static void writing_free(struct writing *writing)
{
    free(writing->folder);
    free(writing->path);
    free(writing->text);
    free(writing);
}

/* NULL: no memory; the text is the caller's then. */
static struct writing *writing_create(const char *folder, const char *path, char *text, size_t size)
{
    struct writing *writing = calloc(1, sizeof *writing);
    if (writing == NULL) return NULL;
    writing->folder = strdup(folder);
    writing->path = strdup(path);
    writing->size = size;
    if (writing->folder != NULL && writing->path != NULL) {
        writing->text = text;
        return writing;
    }
    writing_free(writing);
    return NULL;
}

static enum tutti_status make_and_replace(const struct writing *writing)
{
    mkdir(writing->folder, 0777); /* if it is not there; the next call shows a failure */
    return file_replace(writing->path, writing->text, writing->size);
}

static void *write_and_tell(void *context)
{
    struct writing *const writing = context;
    writing->status = make_and_replace(writing);
    error_copy(writing->message, sizeof writing->message);
    if (atomic_exchange(&writing->state, IS_OVER) == IS_LEFT) {
        writing_free(writing);
        count_left(-1);
    } else {
        futex_wake(&writing->state); /* the waiting thread joins this thread before it frees that */
    }
    return NULL;
}

/* False: from now on it is the writer's. */
static bool await_writer(struct writing *writing, uint64_t timeout_ns)
{
    const uint64_t until_ns = clock_now_ns() + timeout_ns;
    uint32_t state = IS_WRITING;
    while (atomic_load(&writing->state) == IS_WRITING) {
        const uint64_t now_ns = clock_now_ns();
        if (now_ns >= until_ns) break;
        futex_wait(&writing->state, IS_WRITING, until_ns - now_ns);
    }
    if (atomic_load(&writing->state) == IS_OVER) return true;
    count_left(1);
    if (atomic_compare_exchange_strong(&writing->state, &state, IS_LEFT)) return false;
    count_left(-1);
    return true;
}

enum tutti_status file_replace_within(const char *folder, const char *path, char *text, size_t size,
                                      uint64_t timeout_ns)
{
    if (is_any_left()) {
        free(text);
        return error_set(TUTTI_SYSTEM,
                         "writing %.200s: another file is still being written, for "
                         "too long",
                         path);
    }
    struct writing *writing = writing_create(folder, path, text, size);
    if (writing == NULL) {
        free(text);
        return error_set(TUTTI_NO_MEMORY, "writing %.200s: out of memory", path);
    }
    pthread_t writer;
    enum tutti_status status;
    if (thread_start(&writer, write_and_tell, writing, NULL, "a writer") != TUTTI_OK) {
        status = make_and_replace(writing); /* better late than never */
        writing_free(writing);
        return status;
    }
    if (!await_writer(writing, timeout_ns)) {
        pthread_detach(writer);
        return error_set(TUTTI_SYSTEM, "writing %.200s: the file system has not answered for %.1f s",
                         path, (double)timeout_ns / 1e9);
    }
    pthread_join(writer, NULL);
    status = writing->status;
    if (status != TUTTI_OK) status = error_set(status, "%s", writing->message);
    writing_free(writing);
    return status;
}

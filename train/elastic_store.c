#include "elastic_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "os/clock.h"

enum { LOOK_EVERY_NS = 10000000 };

struct elastic_folder_store {
    char folder[PATH_MAX];
};

static bool place_of(const struct elastic_folder_store *store, const char *key, const char *ending,
                     char path[PATH_MAX])
{
    const int length = snprintf(path, PATH_MAX, "%s/%s%s", store->folder, key, ending);
    for (char *at = path + strlen(store->folder) + 1; length < PATH_MAX && *at != '\0'; at++)
        if (*at == '/') *at = '.';
    return length < PATH_MAX;
}

static bool write_whole(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t put = write(fd, bytes, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        bytes += put;
        size -= (size_t)put;
    }
    return true;
}

/* A file is there whole, or not at all. */
static int set(void *context, const char *key, const void *value, size_t value_bytes)
{
    char path[PATH_MAX], fresh[PATH_MAX], ending[64];
    snprintf(ending, sizeof ending, ".%ld.%llu", (long)getpid(), (unsigned long long)clock_now_ns());
    if (!place_of(context, key, "", path) || !place_of(context, key, ending, fresh)) return 1;
    const int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return 1;
    bool is_written = write_whole(fd, value, value_bytes);
    is_written = close(fd) == 0 && is_written;
    if (is_written && rename(fresh, path) == 0) return 0;
    unlink(fresh);
    return 1;
}

/* Whether there is a file of exactly that size. */
static bool read_whole(const char *path, char *bytes, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be no file, but a pipe */
    struct stat status;
    size_t got = 0;
    if (fd < 0) return false;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size == size) {
        while (got < size) {
            const ssize_t part = read(fd, bytes + got, size - got);
            if (part < 0 && errno == EINTR) continue;
            if (part <= 0) break;
            got += (size_t)part;
        }
    }
    close(fd);
    return got == size && size > 0;
}

static int get(void *context, const char *key, void *value, size_t value_bytes, uint64_t timeout_ns)
{
    const uint64_t now_ns = clock_now_ns();
    const uint64_t until_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
    char path[PATH_MAX];
    if (!place_of(context, key, "", path)) return 1;
    while (!read_whole(path, value, value_bytes)) {
        if (clock_now_ns() >= until_ns) return 1;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_NS}, NULL);
    }
    return 0;
}

enum tutti_status elastic_folder_store_open(const char *folder, struct tutti_store *store,
                                            struct elastic_folder_store **made)
{
    struct stat status;
    if (stat(folder, &status) != 0)
        return error_system("tutti_elastic_open: TUTTI_ELASTIC_STORE=%s", folder);
    if (!S_ISDIR(status.st_mode) || strlen(folder) >= PATH_MAX)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_elastic_open: TUTTI_ELASTIC_STORE=%s is not a directory", folder);
    *made = calloc(1, sizeof **made);
    if (*made == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_elastic_open: out of memory");
    snprintf((*made)->folder, sizeof(*made)->folder, "%s", folder);
    *store = (struct tutti_store){sizeof *store, set, get, *made};
    return TUTTI_OK;
}

void elastic_folder_store_sign(struct elastic_folder_store *store)
{
    char key[160];
    const char *const name = option_text(OPTION_ELASTIC_MEMBER);
    if (name == NULL) return; /* nobody wants to know */
    snprintf(key, sizeof key, "tutti/member/%.100s", name);
    if (set(store, key, "", 1) != 0)
        log_write(LOG_INFO, "elastic: cannot write into %s: %s", store->folder, strerror(errno));
}

void elastic_folder_store_close(struct elastic_folder_store *store)
{
    free(store);
}

#include "bootstrap/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "bootstrap/key.h"
#include "os/clock.h"

enum {
    TOKEN_CHARACTERS = 32,
    NAME_BYTES_MAX = 96,
    PAUSE_NS_MIN = 200000,
    PAUSE_NS_MAX = 50000000,
    LISTED_MAX = 40 /* ranks in a message */
};

struct folder {
    int rank, size;
    unsigned fences, temporaries;
    int parent, run, generation; /* descriptors of folders; -1 */
    char run_name[NAME_BYTES_MAX];
    char token[TOKEN_CHARACTERS + 1];           /* this rank's in this run */
    char generation_name[TOKEN_CHARACTERS + 1]; /* rank 0's */
};

/* -------------------------------------------------------------------------------------- waiting */

/* Sleeps a little longer each time; false when the deadline has passed. */
static bool pause_until(uint64_t deadline_ns, uint64_t *pause_ns)
{
    const uint64_t now = clock_now_ns();
    if (now >= deadline_ns) return false;
    const uint64_t left = deadline_ns - now;
    const uint64_t nap = *pause_ns < left ? *pause_ns : left;
    nanosleep(&(struct timespec){0, (long)nap}, NULL);
    if (*pause_ns < PAUSE_NS_MAX) *pause_ns *= 2;
    return true;
}

/* ---------------------------------------------------------------------------------------- files */

static enum tutti_status read_open(int fd, const char *name, void *data, size_t room, size_t *bytes)
{
    struct stat about;
    *bytes = 0;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return error_set(TUTTI_AUTH_FAILED, "rendezvous folder: %s is no file", name);
    if (about.st_size < 0 || (uint64_t)about.st_size > room)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "rendezvous folder: %s has %lld bytes where at most %zu fit", name,
                         (long long)about.st_size, room);
    while (*bytes < room) {
        const ssize_t got = read(fd, (char *)data + *bytes, room - *bytes);
        if (got > 0)
            *bytes += (size_t)got;
        else if (got == 0)
            break;
        else if (errno == ESTALE)
            return TUTTI_IN_PROGRESS;
        else if (errno != EINTR)
            return error_system("rendezvous folder: reading %s", name);
    }
    return TUTTI_OK;
}

/* IN_PROGRESS: it is not there (yet). Reads at most `room` bytes. */
static enum tutti_status read_whole(int folder, const char *name, void *data, size_t room,
                                    size_t *bytes)
{
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        const bool not_yet = errno == ENOENT || errno == ESTALE || errno == EINTR;
        return not_yet ? TUTTI_IN_PROGRESS : error_system("rendezvous folder: reading %s", name);
    }
    const enum tutti_status status = read_open(fd, name, data, room, bytes);
    close(fd);
    return status;
}

static enum tutti_status write_all(int fd, const char *name, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t written = write(fd, (const char *)data + done, bytes - done);
        if (written > 0)
            done += (size_t)written;
        else if (errno != EINTR)
            return error_system("rendezvous folder: writing %s", name);
    }
    return TUTTI_OK;
}

static enum tutti_status folder_is_gone(void)
{
    return error_set(TUTTI_PROC_FAILED,
                     "rendezvous folder: it was removed: rank 0 has given up, or left");
}

/* Beside its place, then renamed: invariant 1. */
static enum tutti_status write_whole(struct folder *folder, int where, const char *name,
                                     const void *data, size_t bytes)
{
    char temporary[NAME_BYTES_MAX];
    snprintf(temporary, sizeof temporary, "new.%s.%u", folder->token, folder->temporaries++);
    const int fd =
        openat(where, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT) return folder_is_gone();
    if (fd < 0) return error_system("rendezvous folder: making %s", name);
    enum tutti_status status = write_all(fd, name, data, bytes);
    /* On NFS it is the closing that writes. */
    if (close(fd) != 0 && status == TUTTI_OK)
        status = error_system("rendezvous folder: writing %s", name);
    if (status == TUTTI_OK && renameat(where, temporary, where, name) != 0)
        status = errno == ENOENT ? folder_is_gone()
                                 : error_system("rendezvous folder: renaming %s", name);
    if (status != TUTTI_OK) unlinkat(where, temporary, 0);
    return status;
}

static bool is_there(int folder, const char *name)
{
    struct stat about;
    return fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

/* -------------------------------------------------------------------------------------- opening */

static enum tutti_status make_token(char *token)
{
    unsigned char bytes[TOKEN_CHARACTERS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_system("getrandom");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return TUTTI_OK;
}

/* The same for all ranks of the job. */
static void name_run(struct folder *folder, const char *run_id)
{
    struct rendezvous_key key = {{0}}, derived;
    const uint64_t numbers[2] = {geteuid(), (uint64_t)folder->size};
    memcpy(key.bytes, numbers, sizeof numbers);
    rendezvous_key_derive(&key, run_id, strlen(run_id), &derived);
    int used = snprintf(folder->run_name, sizeof folder->run_name, "tutti-");
    for (int i = 0; i < 16; i++)
        used += snprintf(folder->run_name + used, sizeof folder->run_name - (size_t)used, "%02x",
                         derived.bytes[i]);
}

/* Ours alone: in a folder that everybody may write, somebody else may have been here first. */
static enum tutti_status open_run(struct folder *folder, const char *path)
{
    enum { FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC };
    folder->parent = open(path, FOLDER);
    if (folder->parent < 0) return error_system("rendezvous folder %s", path);
    /* A process that leaves an earlier run may remove the folder between the two calls. */
    for (int attempt = 0; attempt < 100 && folder->run < 0; attempt++) {
        if (mkdirat(folder->parent, folder->run_name, 0700) != 0 && errno != EEXIST)
            return error_system("rendezvous folder %s: making %s", path, folder->run_name);
        folder->run = openat(folder->parent, folder->run_name, FOLDER | O_NOFOLLOW);
        if (folder->run < 0 && errno != ENOENT) break;
    }
    struct stat about;
    if (folder->run < 0 || fstat(folder->run, &about) != 0)
        return error_system("rendezvous folder %s: opening %s", path, folder->run_name);
    if (about.st_uid != geteuid() || (about.st_mode & 022) != 0)
        return error_set(
            TUTTI_AUTH_FAILED,
            "rendezvous folder %s: %s belongs to somebody else, or others may write it", path,
            folder->run_name);
    return TUTTI_OK;
}

static void close_run(struct folder *folder)
{
    if (folder->run >= 0) close(folder->run);
    if (folder->parent >= 0) close(folder->parent);
    folder->run = folder->parent = -1;
}

/* Rank 0 makes a generation, all others say that they are here. PROC_FAILED: the run's folder has
 * been removed. */
static enum tutti_status settle(struct folder *folder)
{
    char hello[NAME_BYTES_MAX];
    if (folder->rank != 0) {
        snprintf(hello, sizeof hello, "hello.%d", folder->rank);
        return write_whole(folder, folder->run, hello, folder->token, TOKEN_CHARACTERS);
    }
    if (mkdirat(folder->run, folder->token, 0700) == 0) return TUTTI_OK;
    return errno == ENOENT ? folder_is_gone()
                           : error_system("rendezvous folder: making a generation");
}

/* As long as this rank has nothing in the run's folder, a rank that leaves an earlier run may
 * remove it. */
static enum tutti_status enter_run(struct folder *folder, const char *path)
{
    enum tutti_status status = TUTTI_PROC_FAILED;
    for (int attempt = 0; attempt < 100 && status == TUTTI_PROC_FAILED; attempt++) {
        close_run(folder);
        TRY(open_run(folder, path));
        status = settle(folder);
    }
    return status;
}

static enum tutti_status open_generation(struct folder *folder, const char *name)
{
    memcpy(folder->generation_name, name, TOKEN_CHARACTERS);
    folder->generation = openat(folder->run, folder->generation_name,
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder->generation >= 0) return TUTTI_OK;
    return error_system("rendezvous folder: the roster's generation");
}

static enum tutti_status join(struct folder *folder)
{
    char name[NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%d.joined", folder->rank);
    return write_whole(folder, folder->generation, name, "", 0);
}

/* Joins once rank 0 has put this rank into the roster, which is read into `room` bytes. */
static enum tutti_status join_by_roster(struct folder *folder, char *roster, size_t room,
                                        uint64_t deadline_ns)
{
    const char *const mine = roster + (size_t)folder->rank * TOKEN_CHARACTERS;
    for (uint64_t pause_ns = PAUSE_NS_MIN;;) {
        size_t bytes;
        const enum tutti_status status = read_whole(folder->run, "roster", roster, room, &bytes);
        if (status != TUTTI_OK && status != TUTTI_IN_PROGRESS) return status;
        if (status == TUTTI_OK && bytes == room && memcmp(mine, folder->token, TOKEN_CHARACTERS) == 0)
            break;
        if (!pause_until(deadline_ns, &pause_ns))
            return error_set(
                TUTTI_INIT_TIMEOUT,
                "rendezvous folder: rank 0 is missing at the deadline: was it started, "
                "as part of the same job, and does it see the same folder?");
    }
    TRY(open_generation(folder, roster));
    return join(folder);
}

static enum tutti_status join_as_other(struct folder *folder, uint64_t deadline_ns)
{
    char hello[NAME_BYTES_MAX];
    snprintf(hello, sizeof hello, "hello.%d", folder->rank);
    const size_t room = (size_t)folder->size * TOKEN_CHARACTERS;
    char *const roster = malloc(room);
    if (roster == NULL) return error_set(TUTTI_NO_MEMORY, "rendezvous folder: out of memory");
    const enum tutti_status status = join_by_roster(folder, roster, room, deadline_ns);
    unlinkat(folder->run, hello, 0);
    free(roster);
    return status;
}

/* The ranks for which there is no file "<rank>.<what>" in the generation. */
static enum tutti_status missing_ranks(const struct folder *folder, const char *what)
{
    char message[400], name[NAME_BYTES_MAX];
    int missing = 0, used = 0;
    for (int r = 0; r < folder->size; r++) {
        snprintf(name, sizeof name, "%d.%s", r, what);
        if (is_there(folder->generation, name)) continue;
        if (missing++ < LISTED_MAX)
            used += snprintf(message + used, sizeof message - (size_t)used, " %d", r);
    }
    if (missing > LISTED_MAX) snprintf(message + used, sizeof message - (size_t)used, " ...");
    return error_set(TUTTI_INIT_TIMEOUT,
                     "rendezvous folder: at the deadline of %s %d of %d ranks are missing:%s", what,
                     missing, folder->size, missing > 0 ? message : " none");
}

/* Takes in who is there; *changed: the roster has somebody new. */
static enum tutti_status look_around(const struct folder *folder, char *roster, bool *joined,
                                     int *joined_count, bool *changed)
{
    *changed = false;
    for (int r = 1; r < folder->size; r++) {
        char name[NAME_BYTES_MAX], token[TOKEN_CHARACTERS];
        size_t bytes;
        if (joined[r]) continue;
        snprintf(name, sizeof name, "%d.joined", r);
        if (is_there(folder->generation, name)) {
            joined[r] = true;
            ++*joined_count;
            continue;
        }
        snprintf(name, sizeof name, "hello.%d", r);
        const enum tutti_status status = read_whole(folder->run, name, token, sizeof token, &bytes);
        if (status == TUTTI_IN_PROGRESS || (status == TUTTI_OK && bytes != sizeof token)) continue;
        if (status != TUTTI_OK) return status;
        char *const theirs = roster + (size_t)r * TOKEN_CHARACTERS;
        if (memcmp(theirs, token, sizeof token) == 0) continue;
        memcpy(theirs, token, sizeof token);
        *changed = true;
    }
    return TUTTI_OK;
}

static enum tutti_status gather_others(struct folder *folder, char *roster, bool *joined,
                                       uint64_t deadline_ns)
{
    const size_t bytes = (size_t)folder->size * TOKEN_CHARACTERS;
    uint64_t pause_ns = PAUSE_NS_MIN;
    for (int joined_count = 1; joined_count < folder->size;) {
        bool changed;
        const int before = joined_count;
        TRY(look_around(folder, roster, joined, &joined_count, &changed));
        if (changed) TRY(write_whole(folder, folder->run, "roster", roster, bytes));
        if (changed || joined_count > before)
            pause_ns = PAUSE_NS_MIN;
        else if (!pause_until(deadline_ns, &pause_ns))
            return missing_ranks(folder, "joined");
    }
    return TUTTI_OK;
}

static enum tutti_status join_as_rank_0(struct folder *folder, uint64_t deadline_ns)
{
    TRY(open_generation(folder, folder->token));
    TRY(join(folder));
    const size_t bytes = (size_t)folder->size * TOKEN_CHARACTERS;
    char *const roster = malloc(bytes);
    bool *const joined = calloc((size_t)folder->size, sizeof *joined);
    enum tutti_status status;
    if (roster == NULL || joined == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "rendezvous folder: out of memory");
    } else {
        memset(roster, '0', bytes);
        memcpy(roster, folder->token, TOKEN_CHARACTERS);
        status = gather_others(folder, roster, joined, deadline_ns);
    }
    unlinkat(folder->run, "roster", 0); /* everybody has read it, or it was in vain */
    free(roster);
    free(joined);
    return status;
}

/* -------------------------------------------------------------------------------------- leaving */

/* Whether a name is a rank's: <number>.<anything>; -1 when not. */
static long owner_of(const char *name)
{
    char *end;
    if (*name < '0' || *name > '9') return -1;
    const long rank = strtol(name, &end, 10);
    return *end == '.' ? rank : -1;
}

enum leftovers { OWN, ALL };

/* Removes own files, or all; returns how many files of ranks are left. */
static int sweep(const struct folder *folder, enum leftovers which)
{
    const int fd = openat(folder->generation, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (entries == NULL) {
        if (fd >= 0) close(fd);
        return -1;
    }
    int left = 0;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        const long owner = owner_of(entry->d_name);
        if (which == ALL || owner == folder->rank)
            unlinkat(folder->generation, entry->d_name, 0);
        else
            left += owner >= 0;
    }
    closedir(entries);
    return left;
}

/* Rank 0 may still look for ranks that have not passed a fence, so their files stay. */
static void leave(struct folder *folder, bool is_in_vain)
{
    if (folder->generation >= 0) {
        const bool may_go = folder->fences > 0 || folder->rank == 0;
        const bool gives_up = is_in_vain && folder->rank == 0;
        if (may_go) sweep(folder, OWN);
        /* A second look, after this rank's own files are gone: if several ranks leave at once, the
         * last of them to begin this look finds no files of the others either. */
        const bool is_last = gives_up || (may_go && sweep(folder, OWN) == 0);
        /* A rank that does not know yet that rank 0 gives up may still be writing. Once the folder
         * is gone, its writes fail. */
        for (int attempt = 0; is_last && attempt < 100; attempt++) {
            sweep(folder, ALL);
            if (unlinkat(folder->run, folder->generation_name, AT_REMOVEDIR) == 0) break;
        }
        unlinkat(folder->parent, folder->run_name, AT_REMOVEDIR); /* not while others are in it */
        close(folder->generation);
    }
    close_run(folder);
    free(folder);
}

static enum tutti_status enter(struct folder *folder, const char *path, uint64_t deadline_ns)
{
    TRY(make_token(folder->token));
    TRY(enter_run(folder, path));
    return folder->rank == 0 ? join_as_rank_0(folder, deadline_ns)
                             : join_as_other(folder, deadline_ns);
}

enum tutti_status folder_open(const char *path, const char *run_id, int rank, int size,
                              uint64_t deadline_ns, struct folder **folder)
{
    *folder = NULL;
    struct folder *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return error_set(TUTTI_NO_MEMORY, "rendezvous folder: out of memory");
    opened->rank = rank;
    opened->size = size;
    opened->parent = opened->run = opened->generation = -1;
    name_run(opened, run_id);
    const enum tutti_status status = enter(opened, path, deadline_ns);
    if (status != TUTTI_OK) {
        leave(opened, true);
        return status;
    }
    *folder = opened;
    return TUTTI_OK;
}

void folder_close(struct folder *folder)
{
    if (folder != NULL) leave(folder, false);
}

/* ----------------------------------------------------------------------------------------- keys */

enum tutti_status folder_put(struct folder *folder, const char *key, const void *value,
                             size_t value_bytes)
{
    char name[NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%d.value.%.60s", folder->rank, key);
    return write_whole(folder, folder->generation, name, value, value_bytes);
}

static enum tutti_status await_all(struct folder *folder, const char *what, uint64_t deadline_ns)
{
    char name[NAME_BYTES_MAX];
    uint64_t pause_ns = PAUSE_NS_MIN;
    for (int r = 1; r < folder->size;) {
        snprintf(name, sizeof name, "%d.%s", r, what);
        if (is_there(folder->generation, name))
            r++;
        else if (!pause_until(deadline_ns, &pause_ns))
            return missing_ranks(folder, what);
    }
    return write_whole(folder, folder->generation, what, "", 0);
}

enum tutti_status folder_fence(struct folder *folder, uint64_t deadline_ns)
{
    char what[NAME_BYTES_MAX / 2], mine[NAME_BYTES_MAX];
    snprintf(what, sizeof what, "fence.%u", folder->fences);
    snprintf(mine, sizeof mine, "%d.%s", folder->rank, what);
    TRY(write_whole(folder, folder->generation, mine, "", 0));
    if (folder->rank == 0) {
        TRY(await_all(folder, what, deadline_ns));
    } else {
        for (uint64_t pause_ns = PAUSE_NS_MIN; !is_there(folder->generation, what);) {
            if (!is_there(folder->generation, mine)) return folder_is_gone();
            if (!pause_until(deadline_ns, &pause_ns)) return missing_ranks(folder, what);
        }
    }
    folder->fences++;
    return TUTTI_OK;
}

enum tutti_status folder_get(struct folder *folder, int rank, const char *key, void *buffer,
                             size_t buffer_bytes, size_t *value_bytes, uint64_t deadline_ns)
{
    char name[NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%d.value.%.60s", rank, key);
    for (uint64_t pause_ns = PAUSE_NS_MIN;;) {
        const enum tutti_status status =
            read_whole(folder->generation, name, buffer, buffer_bytes, value_bytes);
        if (status != TUTTI_IN_PROGRESS) return status;
        if (!pause_until(deadline_ns, &pause_ns))
            return error_set(TUTTI_INIT_TIMEOUT,
                             "rendezvous folder: rank %d has no %s at the deadline", rank, key);
    }
}

#include "checkpoint_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "checkpoint_manifest.h"
#include "checkpoint_out.h"
#include "os/file.h"
#include "os/fork.h"

enum { NAMES_BYTES = 80, STEP_DIGITS = 12, STEP_NAME_BYTES = 32 };
static const char manifest_name[] = "manifest", new_manifest_name[] = "manifest.new";

/* ---------------------------------------------------------------------------------------- names */

static void step_name(uint64_t step, char name[STEP_NAME_BYTES])
{
    snprintf(name, STEP_NAME_BYTES, "step-%0*llu", STEP_DIGITS, (unsigned long long)step);
}

void folder_path(const struct folder *folder, uint64_t step, const char *name, char path[PATH_MAX])
{
    char own[STEP_NAME_BYTES];
    step_name(step, own);
    const int length = snprintf(path, PATH_MAX, "%.*s/%s%s%s", PATH_MAX - NAMES_BYTES, folder->path,
                                own, name != NULL ? "/" : "", name != NULL ? name : "");
    (void)length;
}

static void shard_name(size_t shard, char name[32])
{
    snprintf(name, 32, "shard-%05zu", shard);
}

void folder_shard_path(const struct folder *folder, uint64_t step, size_t shard, char path[PATH_MAX])
{
    char name[32];
    shard_name(shard, name);
    folder_path(folder, step, name, path);
}

/* Whether a name is a word and a number, such as "step-000000000100". The number has at least so
 * many digits, and more only if it needs more. */
static bool is_numbered(const char *name, const char *word, size_t digits, uint64_t *number)
{
    const size_t length = strlen(word);
    char *end;
    if (strncmp(name, word, length) != 0 || name[length] < '0' || name[length] > '9') return false;
    errno = 0;
    *number = strtoull(name + length, &end, 10);
    const size_t given = (size_t)(end - name) - length;
    return errno == 0 && *end == '\0' &&
           (given == digits || (given > digits && name[length] != '0'));
}

static bool is_of_checkpoint(const char *name)
{
    uint64_t shard;
    return strcmp(name, manifest_name) == 0 || strcmp(name, new_manifest_name) == 0 ||
           is_numbered(name, "shard-", 5, &shard);
}

/* -------------------------------------------------------------------------------------- folders */

static enum tutti_status failed(const struct folder *folder, const char *doing, const char *path)
{
    return error_system("rank %d: %s %.400s", folder->rank, doing, path);
}

/* Waits until names in the open folder are on the disk. */
static enum tutti_status sync_names(const struct folder *folder, int fd, const char *path)
{
    /* A file system may have nothing to wait for. */
    return fsync(fd) == 0 || errno == EINVAL ? TUTTI_OK : failed(folder, "writing", path);
}

static enum tutti_status sync_path(const struct folder *folder, const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed(folder, "opening", path);
    const enum tutti_status status = sync_names(folder, fd, path);
    close(fd);
    return status;
}

/* Itself, rather than by a link to another place. Otherwise errno is as it was. */
static bool is_folder(const char *path)
{
    struct stat about;
    const int error = errno;
    const bool is = lstat(path, &about) == 0 && S_ISDIR(about.st_mode);
    errno = error;
    return is;
}

enum tutti_status folder_find(struct folder *folder, const char *path, int rank)
{
    struct stat about;
    *folder = (struct folder){.rank = rank, .lock = -1};
    char *const absolute = realpath(path, NULL);
    if (absolute == NULL || stat(absolute, &about) != 0) {
        free(absolute);
        return failed(folder, "opening the folder", path);
    }
    const size_t length = strlen(absolute);
    if (!S_ISDIR(about.st_mode) || length >= PATH_MAX - NAMES_BYTES) {
        free(absolute);
        errno = S_ISDIR(about.st_mode) ? ENAMETOOLONG : ENOTDIR;
        return failed(folder, "opening the folder", path);
    }
    memcpy(folder->path, absolute, length + 1);
    free(absolute);
    return TUTTI_OK;
}

/* The folder's own name is on the disk when the folder above it is. */
static enum tutti_status sync_above(const struct folder *folder)
{
    char above[PATH_MAX];
    memcpy(above, folder->path, sizeof above);
    char *const last = strrchr(above, '/');
    if (last != NULL) last[last == above] = '\0';
    return sync_path(folder, above);
}

enum tutti_status folder_make(struct folder *folder, const char *path, int rank)
{
    *folder = (struct folder){.rank = rank, .lock = -1};
    const bool is_new = mkdir(path, 0777) == 0;
    if (!is_new && errno != EEXIST) return failed(folder, "making the folder", path);
    TRY(folder_find(folder, path, rank));
    return is_new ? sync_above(folder) : TUTTI_OK;
}

/* ----------------------------------------------------------------------------------------- lock */

/* Folders of this process that are locked, or about to be. A lock of flock() ends when no process
 * has its descriptor any more, so a child of fork() closes the descriptors that it inherits. */
static struct folder *locked;

static void close_inherited(bool is_held)
{
    (void)is_held; /* a folder is in the list before it is locked */
    for (struct folder *folder = locked; folder != NULL; folder = folder->next_locked) {
        close(folder->lock);
        folder->lock = -1;
    }
    locked = NULL;
}

FORK_LOCK(locked_lock, FORK_CHECKPOINTS, close_inherited);

/* Another descriptor of a folder that is open: the file system has nothing to do, so no fork()
 * waits for it. */
static bool open_listed(struct folder *folder, int opened)
{
    pthread_mutex_lock(&locked_lock);
    folder->lock = openat(opened, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock >= 0) {
        folder->next_locked = locked;
        locked = folder;
    }
    pthread_mutex_unlock(&locked_lock);
    return folder->lock >= 0;
}

enum tutti_status folder_lock(struct folder *folder)
{
    if (folder->lock >= 0) return TUTTI_OK;
    const int opened = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_listed = opened >= 0 && open_listed(folder, opened);
    const int error = errno;
    if (opened >= 0) close(opened);
    errno = error;
    if (!is_listed) return failed(folder, "opening", folder->path);
    if (flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        folder_unlock(folder);
        return error_set(TUTTI_SYSTEM, "rank %d: %.400s: another run writes checkpoints there",
                         folder->rank, folder->path);
    } /* a file system without locks has none */
    return TUTTI_OK;
}

void folder_unlock(struct folder *folder)
{
    if (folder->lock < 0) return;
    pthread_mutex_lock(&locked_lock);
    struct folder **link = &locked;
    while (*link != folder) link = &(*link)->next_locked;
    *link = folder->next_locked;
    close(folder->lock);
    folder->lock = -1;
    pthread_mutex_unlock(&locked_lock);
}

/* -------------------------------------------------------------------------------- what is there */

struct steps {
    uint64_t *steps;
    size_t count, room;
};

static enum tutti_status add_step(struct steps *steps, uint64_t step)
{
    if (steps->count == steps->room) {
        const size_t room = 2 * steps->room + 16;
        uint64_t *const grown = realloc(steps->steps, room * sizeof *grown);
        if (grown == NULL) return error_set(TUTTI_NO_MEMORY, "checkpoint: out of memory");
        steps->steps = grown;
        steps->room = room;
    }
    steps->steps[steps->count++] = step;
    return TUTTI_OK;
}

static int newest_first(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? 1 : left > right ? -1 : 0;
}

bool folder_has(const struct folder *folder, uint64_t step)
{
    char path[PATH_MAX];
    folder_path(folder, step, manifest_name, path);
    return access(path, F_OK) == 0;
}

/* Whether an entry is a folder itself, rather than a link to another place. An entry that is not
 * may be the user's, so it is never cleaned. */
static bool is_own_folder(DIR *entries, const char *name)
{
    struct stat about;
    return fstatat(dirfd(entries), name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

static void tell_stray(const struct folder *folder, const char *name)
{
    log_write(LOG_WARN, "rank %d: %.400s/%.40s is no folder of a checkpoint, and is left alone",
              folder->rank, folder->path, name);
}

enum wanted { COMPLETE, COMPLETE_TO_CLEAN, UNFINISHED_TO_CLEAN };

static enum tutti_status read_steps(const struct folder *folder, DIR *entries, enum wanted wanted,
                                    struct steps *steps)
{
    const bool are_complete = wanted != UNFINISHED_TO_CLEAN;
    const struct dirent *entry;
    errno = 0;
    for (uint64_t step; (entry = readdir(entries)) != NULL; errno = 0) {
        if (!is_numbered(entry->d_name, "step-", STEP_DIGITS, &step) ||
            folder_has(folder, step) != are_complete)
            continue;
        if (wanted == COMPLETE || is_own_folder(entries, entry->d_name))
            TRY(add_step(steps, step));
        else
            tell_stray(folder, entry->d_name);
    }
    return errno == 0 ? TUTTI_OK : failed(folder, "reading", folder->path);
}

/* Lists the wanted steps. A step to clean must be a folder of its own; the log tells of other
 * entries. */
static enum tutti_status list(const struct folder *folder, enum wanted wanted, struct steps *steps)
{
    *steps = (struct steps){NULL, 0, 0};
    DIR *const entries = opendir(folder->path);
    if (entries == NULL) return failed(folder, "reading", folder->path);
    const enum tutti_status status = read_steps(folder, entries, wanted, steps);
    closedir(entries);
    if (status != TUTTI_OK)
        free(steps->steps);
    else if (steps->count > 0)
        qsort(steps->steps, steps->count, sizeof *steps->steps, newest_first);
    return status;
}

enum tutti_status folder_list(const struct folder *folder, uint64_t **steps, size_t *count)
{
    struct steps found;
    *steps = NULL;
    *count = 0;
    TRY(list(folder, COMPLETE, &found));
    *steps = found.steps;
    *count = found.count;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------- coming, going */

/* The folder of a checkpoint, but not one that a link of its name leads to. -1: errno says why. */
static int open_step(int root, uint64_t step)
{
    char name[STEP_NAME_BYTES];
    step_name(step, name);
    return openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static enum tutti_status remove_manifest(const struct folder *folder, int fd, const char *path)
{
    if (unlinkat(fd, manifest_name, 0) != 0)
        return errno == ENOENT ? TUTTI_OK : failed(folder, "removing the manifest of", path);
    return sync_names(folder, fd, path);
}

/* Takes over the descriptor. */
static enum tutti_status remove_files(const struct folder *folder, int fd, const char *path)
{
    DIR *const entries = fdopendir(fd);
    if (entries == NULL) {
        const int error = errno;
        close(fd);
        errno = error;
        return failed(folder, "removing", path);
    }
    enum tutti_status status = remove_manifest(folder, fd, path);
    errno = 0;
    for (const struct dirent *entry; status == TUTTI_OK && (entry = readdir(entries)) != NULL;)
        if (is_of_checkpoint(entry->d_name) && unlinkat(fd, entry->d_name, 0) != 0)
            status = failed(folder, "removing files of", path);
    if (status == TUTTI_OK && errno != 0) status = failed(folder, "reading", path);
    closedir(entries);
    return status;
}

enum tutti_status folder_remove(const struct folder *folder, uint64_t step)
{
    char path[PATH_MAX], name[STEP_NAME_BYTES];
    folder_path(folder, step, NULL, path);
    step_name(step, name);
    const int root = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int fd = root >= 0 ? open_step(root, step) : -1;
    enum tutti_status status =
        fd >= 0 ? remove_files(folder, fd, path) : failed(folder, "removing", path);
    /* If the folder contains something else, it stays: a network file system may have put it
     * there. */
    if (status == TUTTI_OK && unlinkat(root, name, AT_REMOVEDIR) != 0 && errno != ENOTEMPTY &&
        errno != EEXIST)
        status = failed(folder, "removing", path);
    if (root >= 0) close(root);
    return status;
}

/* A checkpoint that cannot be cleaned away does no harm to others. */
static void clean(const struct folder *folder, uint64_t step)
{
    if (folder_remove(folder, step) != TUTTI_OK)
        log_write(LOG_WARN, "an old or unfinished checkpoint stays: %s", tutti_error_message());
}

/* Removes the checkpoints that ended before they were complete. */
static void remove_unfinished(const struct folder *folder)
{
    struct steps found;
    if (list(folder, UNFINISHED_TO_CLEAN, &found) != TUTTI_OK) {
        log_write(LOG_WARN, "unfinished checkpoints stay: %s", tutti_error_message());
        return;
    }
    for (size_t i = 0; i < found.count; i++) clean(folder, found.steps[i]);
    free(found.steps);
}

enum tutti_status folder_begin(struct folder *folder, uint64_t step)
{
    char path[PATH_MAX];
    TRY(folder_lock(folder));
    remove_unfinished(folder);
    folder_path(folder, step, NULL, path);
    if (mkdir(path, 0777) != 0 && (errno != EEXIST || !is_folder(path)))
        return failed(folder, "making the folder", path);
    return sync_path(folder, folder->path);
}

enum tutti_status folder_commit(const struct folder *folder, uint64_t step, const char *manifest,
                                bool *is_complete)
{
    char own[PATH_MAX], fresh[PATH_MAX], path[PATH_MAX];
    folder_path(folder, step, NULL, own);
    folder_path(folder, step, new_manifest_name, fresh);
    folder_path(folder, step, manifest_name, path);
    TRY(sync_path(folder, own));
    const struct out_part text = {manifest, strlen(manifest)};
    if (!out_write(fresh, &text, 1)) return failed(folder, "writing", fresh);
    if (rename(fresh, path) != 0) return failed(folder, "writing", path);
    *is_complete = true;
    return sync_path(folder, own);
}

void folder_keep(const struct folder *folder, uint64_t step, size_t keep)
{
    struct steps found;
    if (list(folder, COMPLETE_TO_CLEAN, &found) != TUTTI_OK) {
        log_write(LOG_WARN, "old checkpoints stay: %s", tutti_error_message());
        return;
    }
    for (size_t i = 0, kept = 0; i < found.count; i++)
        if (found.steps[i] <= step && kept++ >= keep) clean(folder, found.steps[i]);
    free(found.steps);
}

enum tutti_status folder_read_manifest(const struct folder *folder, uint64_t step, char **text,
                                       size_t *size)
{
    char path[PATH_MAX];
    *text = NULL;
    folder_path(folder, step, manifest_name, path);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe has no end to wait for */
    FILE *const file = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (file == NULL) {
        const int error = errno;
        if (fd >= 0) close(fd);
        errno = error;
        return failed(folder, "reading", path);
    }
    *text = file_read_all(file, MANIFEST_BYTES_MAX, size);
    const int error = errno;
    fclose(file);
    errno = error;
    return *text != NULL ? TUTTI_OK : failed(folder, "reading", path);
}

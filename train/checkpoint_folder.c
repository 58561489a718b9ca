#include "checkpoint_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "checkpoint_manifest.h"
#include "checkpoint_out.h"
#include "os/file.h"

enum { NAMES_BYTES = 80, STEP_DIGITS = 12 };
static const char manifest_name[] = "manifest", new_manifest_name[] = "manifest.new";

/* ------------------------------------------------------------------------------------------------- names */

void folder_path(const struct folder *folder, uint64_t step, const char *name, char path[PATH_MAX])
{
    const int length = snprintf(path, PATH_MAX, "%.*s/step-%0*llu%s%s", PATH_MAX - NAMES_BYTES,
                                folder->path, STEP_DIGITS, (unsigned long long)step,
                                name != NULL ? "/" : "", name != NULL ? name : "");
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

/* Of a name such as "step-000000000100", with so many digits at least, and more only where it takes more. */
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

/* ------------------------------------------------------------------------------------------------ folders */

static enum tutti_status failed(const struct folder *folder, const char *doing, const char *path)
{
    return error_system("rank %d: %s %.400s", folder->rank, doing, path);
}

/* Waits until names in the folder are on the disk. */
static enum tutti_status sync_names(const struct folder *folder, const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed(folder, "opening", path);
    const bool is_synced =
        fsync(fd) == 0 || errno == EINVAL; /* a file system that has nothing to wait for */
    const int error = errno;
    close(fd);
    errno = error;
    return is_synced ? TUTTI_OK : failed(folder, "writing", path);
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
    return sync_names(folder, above);
}

enum tutti_status folder_make(struct folder *folder, const char *path, int rank)
{
    *folder = (struct folder){.rank = rank, .lock = -1};
    const bool is_new = mkdir(path, 0777) == 0;
    if (!is_new && errno != EEXIST) return failed(folder, "making the folder", path);
    TRY(folder_find(folder, path, rank));
    return is_new ? sync_above(folder) : TUTTI_OK;
}

enum tutti_status folder_lock(struct folder *folder)
{
    if (folder->lock >= 0) return TUTTI_OK;
    const int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed(folder, "opening", folder->path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return error_set(TUTTI_SYSTEM, "rank %d: %.400s: another run writes checkpoints there",
                         folder->rank, folder->path);
    } /* a file system without locks has none */
    folder->lock = fd;
    return TUTTI_OK;
}

void folder_unlock(struct folder *folder)
{
    if (folder->lock >= 0) close(folder->lock);
    folder->lock = -1;
}

/* ------------------------------------------------------------------------------------------- what is there */

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

/* Of all checkpoints that are complete, or of all others. */
static enum tutti_status list(const struct folder *folder, bool are_complete, struct steps *steps)
{
    *steps = (struct steps){NULL, 0, 0};
    DIR *const entries = opendir(folder->path);
    if (entries == NULL) return failed(folder, "reading", folder->path);
    enum tutti_status status = TUTTI_OK;
    const struct dirent *entry;
    errno = 0;
    for (uint64_t step; status == TUTTI_OK && (entry = readdir(entries)) != NULL; errno = 0)
        if (is_numbered(entry->d_name, "step-", STEP_DIGITS, &step) &&
            folder_has(folder, step) == are_complete)
            status = add_step(steps, step);
    if (status == TUTTI_OK && errno != 0) status = failed(folder, "reading", folder->path);
    closedir(entries);
    if (status != TUTTI_OK) free(steps->steps);
    if (status == TUTTI_OK && steps->count > 0)
        qsort(steps->steps, steps->count, sizeof *steps->steps, newest_first);
    return status;
}

enum tutti_status folder_list(const struct folder *folder, uint64_t **steps, size_t *count)
{
    struct steps found;
    *steps = NULL;
    *count = 0;
    TRY(list(folder, true, &found));
    *steps = found.steps;
    *count = found.count;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------ coming, going */

static enum tutti_status remove_files(const struct folder *folder, uint64_t step)
{
    char path[PATH_MAX];
    folder_path(folder, step, NULL, path);
    DIR *const entries = opendir(path);
    if (entries == NULL) return failed(folder, "removing", path);
    enum tutti_status status = TUTTI_OK;
    for (const struct dirent *entry; status == TUTTI_OK && (entry = readdir(entries)) != NULL;)
        if (is_of_checkpoint(entry->d_name) && unlinkat(dirfd(entries), entry->d_name, 0) != 0)
            status = failed(folder, "removing files of", path);
    closedir(entries);
    /* Where there is something else, the folder stays: a network file system may have put it there. */
    if (status == TUTTI_OK && rmdir(path) != 0 && errno != ENOTEMPTY && errno != EEXIST)
        status = failed(folder, "removing", path);
    return status;
}

enum tutti_status folder_remove(const struct folder *folder, uint64_t step)
{
    char path[PATH_MAX];
    folder_path(folder, step, manifest_name, path);
    if (unlink(path) != 0) {
        if (errno != ENOENT) return failed(folder, "removing", path);
    } else {
        folder_path(folder, step, NULL, path);
        TRY(sync_names(folder, path));
    }
    return remove_files(folder, step);
}

/* Those that ended before they were complete. */
static enum tutti_status remove_unfinished(const struct folder *folder)
{
    struct steps found;
    TRY(list(folder, false, &found));
    enum tutti_status status = TUTTI_OK;
    for (size_t i = 0; i < found.count && status == TUTTI_OK; i++)
        status = remove_files(folder, found.steps[i]);
    free(found.steps);
    return status;
}

enum tutti_status folder_begin(struct folder *folder, uint64_t step)
{
    char path[PATH_MAX];
    TRY(folder_lock(folder));
    TRY(remove_unfinished(folder));
    folder_path(folder, step, NULL, path);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return failed(folder, "making the folder", path);
    return sync_names(folder, folder->path);
}

enum tutti_status folder_commit(const struct folder *folder, uint64_t step, const char *manifest,
                                bool *is_complete)
{
    char own[PATH_MAX], fresh[PATH_MAX], path[PATH_MAX];
    folder_path(folder, step, NULL, own);
    folder_path(folder, step, new_manifest_name, fresh);
    folder_path(folder, step, manifest_name, path);
    TRY(sync_names(folder, own));
    const struct out_part text = {manifest, strlen(manifest)};
    if (!out_write(fresh, &text, 1)) return failed(folder, "writing", fresh);
    if (rename(fresh, path) != 0) return failed(folder, "writing", path);
    *is_complete = true;
    return sync_names(folder, own);
}

enum tutti_status folder_keep(const struct folder *folder, uint64_t step, size_t keep)
{
    struct steps found;
    TRY(list(folder, true, &found));
    enum tutti_status status = TUTTI_OK;
    for (size_t i = 0, kept = 0; i < found.count && status == TUTTI_OK; i++)
        if (found.steps[i] <= step && kept++ >= keep)
            status = folder_remove(folder, found.steps[i]);
    free(found.steps);
    return status;
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

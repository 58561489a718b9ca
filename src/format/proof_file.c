#include "format/proof_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "format/cache_folder.h"
#include "format/plan_file.h"
#include "format/trusted_file.h"
#include "os/file.h"
#include "plan/text.h"
#include "plan/verify.h"

#define WRITE_NS UINT64_C(1000000000)

/* NULL: out of memory, or too long to be kept. The caller frees it. */
static char *entry_of(const struct algorithm *algorithm, const struct loaded_proof *proof,
                      size_t *size)
{
    char *text = NULL;
    FILE *const file = open_memstream(&text, size);
    if (file == NULL) return NULL;
    fprintf(file, "# proven: in rank order %d, one tree %d\n", proof->in_rank_order,
            proof->has_one_tree);
    plan_print(algorithm->plan, file);
    if (fclose(file) == 0 && *size <= PLAN_FILE_BYTES_MAX) return text;
    free(text);
    return NULL;
}

/* The folder, and the entry in it. */
static bool find_places(const struct algorithm *algorithm, char folder[PATH_MAX],
                        char path[PATH_MAX])
{
    char name[100];
    snprintf(name, sizeof name, "proofs/%016llx-%s-%d.proof",
             (unsigned long long)algorithm->plan_fingerprint, tutti_version_text(), VERIFY_VERSION);
    return cache_folder_path("proofs", folder, PATH_MAX) && cache_folder_path(name, path, PATH_MAX);
}

static bool is_private(const char *folder)
{
    struct stat about;
    return lstat(folder, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
           (about.st_mode & 077) == 0;
}

/* Reads the proof from the entry, if the entry belongs to exactly this plan. */
static bool compare(const struct algorithm *algorithm, const char *text, size_t size,
                    struct loaded_proof *proof)
{
    bool is_same = false;
    for (int said = 0; said < 4 && !is_same; said++) {
        size_t expected_size = 0;
        *proof = (struct loaded_proof){.in_rank_order = (said & 1) != 0,
                                       .has_one_tree = (said & 2) != 0};
        char *const expected = entry_of(algorithm, proof, &expected_size);
        if (expected == NULL) return false;
        is_same = expected_size == size && memcmp(expected, text, size) == 0;
        free(expected);
    }
    return is_same;
}

/* -------------------------------------------------------------------------------------- pruning */

struct entry {
    struct timespec used;
    uint64_t bytes;
    char name[NAME_MAX + 1];
};

static int by_age(const void *a, const void *b)
{
    const struct timespec *const one = &((const struct entry *)a)->used,
                                 *const other = &((const struct entry *)b)->used;
    if (one->tv_sec != other->tv_sec) return one->tv_sec < other->tv_sec ? -1 : 1;
    return one->tv_nsec != other->tv_nsec ? (one->tv_nsec < other->tv_nsec ? -1 : 1) : 0;
}

/* Files alone: whatever else somebody put there stays. */
static struct entry *read_entries(DIR *folder, size_t *count)
{
    struct entry *entries = NULL;
    size_t room = 0;
    *count = 0;
    for (const struct dirent *found; (found = readdir(folder)) != NULL;) {
        struct stat about;
        if (fstatat(dirfd(folder), found->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(about.st_mode))
            continue;
        if (*count == room) {
            room = 2 * room + 64;
            struct entry *const grown = reallocarray(entries, room, sizeof *grown);
            if (grown == NULL) break; /* the others are next time's */
            entries = grown;
        }
        struct entry *const entry = &entries[(*count)++];
        entry->used = about.st_mtim;
        entry->bytes = (uint64_t)about.st_size;
        snprintf(entry->name, sizeof entry->name, "%s", found->d_name);
    }
    return entries;
}

/* Removes what was used longest ago, with what writers left that did not come to an end. */
static void prune(const char *path)
{
    size_t count;
    uint64_t bytes = 0;
    DIR *const folder = opendir(path);
    if (folder == NULL) return;
    struct entry *const entries = read_entries(folder, &count);
    for (size_t i = 0; i < count; i++) bytes += entries[i].bytes;
    if (count > PROOFS_MAX || bytes > PROOF_BYTES_MAX)
        qsort(entries, count, sizeof *entries, by_age);
    for (size_t i = 0; i < count && (count - i > PROOFS_MAX || bytes > PROOF_BYTES_MAX); i++) {
        (void)unlinkat(dirfd(folder), entries[i].name, 0);
        bytes -= entries[i].bytes;
    }
    free(entries);
    closedir(folder);
}

/* -------------------------------------------------------------------------------- find and keep */

bool proof_file_find(const struct algorithm *algorithm, struct loaded_proof *proof)
{
    char folder[PATH_MAX], path[PATH_MAX], before[ERROR_TEXT_MAX], *text;
    size_t size;
    bool is_found = false;
    if (!find_places(algorithm, folder, path) || !is_private(folder)) return false;
    error_copy(before, sizeof before);
    if (access(path, F_OK) == 0 &&
        trusted_file_read(path, PLAN_FILE_BYTES_MAX, &text, &size) == TUTTI_OK) {
        is_found = compare(algorithm, text, size, proof);
        if (is_found) (void)utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW); /* used now */
        free(text);
    }
    (void)error_unless_ok(TUTTI_OK, before);
    return is_found;
}

void proof_file_keep(const struct algorithm *algorithm, const struct loaded_proof *proof)
{
    char folder[PATH_MAX], path[PATH_MAX], before[ERROR_TEXT_MAX];
    size_t size;
    if (!find_places(algorithm, folder, path)) return;
    trusted_file_make_folders(path);
    if (!is_private(folder)) return;
    char *const text = entry_of(algorithm, proof, &size);
    if (text == NULL) return;
    error_copy(before, sizeof before);
    if (file_replace_within(folder, path, text, size, WRITE_NS) == TUTTI_OK) prune(folder);
    (void)error_unless_ok(TUTTI_OK, before);
}

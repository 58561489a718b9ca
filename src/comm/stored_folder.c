#include "comm/stored_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/stored_turn.h"

struct kept_folder {
    struct stored_folder *folder; /* NULL: not read yet */
    struct turn turn;             /* of who reads it */
    struct kept_folder *next;
    char path[];
};

static struct kept_folder *kept_folders;

/* ---------------------------------------------------------------------------------------- names */

/* "2-hosts" or "4-hosts-2-racks" */
static bool parse_place(const char *name, struct stored_place *place)
{
    int hosts = 0, racks = 0, end = 0;
    char again[NAME_MAX + 1];
    if (sscanf(name, "%5d-hosts%n", &hosts, &end) != 1 || end == 0 || hosts < 1) return false;
    if (name[end] == '\0') {
        snprintf(again, sizeof again, "%d-hosts", hosts);
    } else {
        if (sscanf(name + end, "-%5d-racks", &racks) != 1 || racks < 1) return false;
        snprintf(again, sizeof again, "%d-hosts-%d-racks", hosts, racks);
    }
    *place = (struct stored_place){NULL, hosts, racks};
    return strcmp(name, again) == 0;
}

static int is_plan(const struct dirent *entry)
{
    static const char suffix[] = ".plan";
    const size_t length = strlen(entry->d_name);
    return length >= sizeof suffix && entry->d_name[0] != '.' &&
           strcmp(entry->d_name + length - (sizeof suffix - 1), suffix) == 0;
}

static int is_place(const struct dirent *entry)
{
    struct stored_place place;
    return parse_place(entry->d_name, &place);
}

/* The locale has no say in the order. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void names_free(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
}

/* -------------------------------------------------------------------------------------- reading */

/* The message of a thread that could not read a file begins with its path. */
static enum tutti_status add_refusal(struct stored_folder *folder, const char *path)
{
    char message[ERROR_TEXT_MAX];
    const char *why = message;
    error_copy(message, sizeof message);
    log_write(LOG_WARN, "a plan is not used: %s", message);
    const char *const cause = strstr(message, ": ");
    if (cause != NULL && strncmp(message, path, (size_t)(cause - message)) == 0) why = cause + 2;
    struct stored_refusal *const grown =
        realloc(folder->refusals, ((size_t)folder->refusal_count + 1) * sizeof *folder->refusals);
    if (grown != NULL) folder->refusals = grown;
    static const char prefix[] = "file:";
    char *const name = malloc(sizeof prefix + strlen(path)), *const text = strdup(why);
    if (grown == NULL || name == NULL || text == NULL) {
        free(name);
        free(text);
        return error_set(TUTTI_NO_MEMORY, "reading %.200s: out of memory", path);
    }
    strcpy(name, prefix);
    strcat(name, path);
    folder->refusals[folder->refusal_count++] = (struct stored_refusal){name, text};
    return TUTTI_OK;
}

static enum tutti_status add(struct stored_folder *folder, const char *root, const char *name,
                             const struct plan_budget *limits, struct stored_place place)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", root, name) >= sizeof path)
        return error_set(TUTTI_INVALID_OPTIONS, "%.200s: the path is too long", root);
    if (folder->count == STORED_FOLDER_PLANS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%.200s has more than %d plans", root,
                         STORED_FOLDER_PLANS_MAX);
    const enum tutti_status status = stored_plan_find(path, limits, &place.plan);
    if (status == TUTTI_NO_MEMORY || status == TUTTI_TIMEOUT || status == TUTTI_ABORTED)
        return status; /* they say nothing of the plan */
    if (status != TUTTI_OK) return add_refusal(folder, path);
    folder->places[folder->count++] = place;
    for (const char *c = name; *c != '\0'; c++)
        folder->fingerprint = hash_take(folder->fingerprint, (unsigned char)*c);
    folder->fingerprint =
        hash_take(folder->fingerprint, stored_plan_algorithm(place.plan)->plan_fingerprint);
    return TUTTI_OK;
}

/* root/under, or root itself. */
static enum tutti_status read_plans(struct stored_folder *folder, const char *root,
                                    const char *under, const struct plan_budget *limits,
                                    struct stored_place place)
{
    char path[PATH_MAX], name[2 * NAME_MAX + 2];
    struct dirent **names;
    snprintf(path, sizeof path, "%s/%s", root, under);
    const int count = scandir(path, &names, is_plan, by_bytes);
    if (count < 0)
        return error_set(TUTTI_INVALID_OPTIONS, "the folder %.200s: %s", path, strerror(errno));
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        snprintf(name, sizeof name, "%s%s%s", under, under[0] != '\0' ? "/" : "", names[i]->d_name);
        status = add(folder, root, name, limits, place);
    }
    names_free(names, count);
    return status;
}

static enum tutti_status read_all(struct stored_folder *folder, const char *root,
                                  const struct plan_budget *limits)
{
    struct dirent **names;
    TRY(read_plans(folder, root, "", limits, (struct stored_place){NULL, 0, 0}));
    const int count = scandir(root, &names, is_place, by_bytes);
    if (count < 0)
        return error_set(TUTTI_INVALID_OPTIONS, "the folder %.200s: %s", root, strerror(errno));
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        struct stored_place place;
        if (parse_place(names[i]->d_name, &place))
            status = read_plans(folder, root, names[i]->d_name, limits, place);
    }
    names_free(names, count);
    return status;
}

static void folder_free(struct stored_folder *folder)
{
    for (int i = 0; folder != NULL && i < folder->refusal_count; i++) {
        free(folder->refusals[i].name);
        free(folder->refusals[i].why);
    }
    if (folder != NULL) free(folder->refusals);
    free(folder);
}

/* The entry of that path, which may be new; NULL: out of memory. */
static struct kept_folder *entry_of(const char *path)
{
    struct kept_folder *kept = kept_folders;
    while (kept != NULL && strcmp(kept->path, path) != 0) kept = kept->next;
    if (kept != NULL) return kept;
    kept = calloc(1, sizeof *kept + strlen(path) + 1);
    if (kept == NULL) return NULL;
    strcpy(kept->path, path);
    kept->next = kept_folders;
    kept_folders = kept;
    return kept;
}

static enum tutti_status read_folder(const char *path, const struct plan_budget *limits,
                                     struct stored_folder **folder)
{
    struct stored_folder *const read =
        calloc(1, sizeof *read + STORED_FOLDER_PLANS_MAX * sizeof *read->places);
    if (read == NULL) return error_set(TUTTI_NO_MEMORY, "reading %.200s: out of memory", path);
    const enum tutti_status status = read_all(read, path, limits);
    if (status == TUTTI_OK)
        *folder = read;
    else
        folder_free(read);
    return status;
}

/* With the lock, which it lets go of while it reads. */
static enum tutti_status find(const char *path, const struct plan_budget *limits,
                              const struct stored_folder **folder)
{
    struct kept_folder *const kept = entry_of(path);
    if (kept == NULL) return error_set(TUTTI_NO_MEMORY, "reading %.200s: out of memory", path);
    enum tutti_status status = TUTTI_OK;
    if (kept->folder == NULL) {
        TRY(stored_turn_take(&kept->turn, limits, path));
        if (kept->folder == NULL) {
            struct stored_folder *read = NULL;
            stored_unlock();
            status = read_folder(path, limits, &read);
            stored_lock();
            kept->folder = read;
        }
        turn_give(&kept->turn);
    }
    *folder = kept->folder;
    return status;
}

enum tutti_status stored_folder_find(const char *path, const struct plan_budget *limits,
                                     const struct stored_folder **folder)
{
    *folder = NULL;
    stored_lock();
    const enum tutti_status status = find(path, limits, folder);
    stored_unlock();
    return status;
}

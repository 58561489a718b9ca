#include "comm/stored_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "os/fork.h"

struct kept_folder {
    struct stored_folder *folder;
    struct kept_folder *next;
    char path[];
};

static struct kept_folder *kept_folders;
FORK_LOCK(lock, FORK_STORED_FOLDERS, NULL);

/* --------------------------------------------------------------------------------------------------- names */

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
    return length > sizeof suffix && entry->d_name[0] != '.' &&
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

/* --------------------------------------------------------------------------------------------------- reading */

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
                             struct stored_place place)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", root, name) >= sizeof path)
        return error_set(TUTTI_INVALID_OPTIONS, "%.200s: the path is too long", root);
    if (folder->count == STORED_FOLDER_PLANS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%.200s has more than %d plans", root,
                         STORED_FOLDER_PLANS_MAX);
    const enum tutti_status status = stored_plan_find(path, &place.plan);
    if (status == TUTTI_NO_MEMORY) return status;
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
                                    const char *under, struct stored_place place)
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
        status = add(folder, root, name, place);
    }
    names_free(names, count);
    return status;
}

static enum tutti_status read_all(struct stored_folder *folder, const char *root)
{
    struct dirent **names;
    TRY(read_plans(folder, root, "", (struct stored_place){NULL, 0, 0}));
    const int count = scandir(root, &names, is_place, by_bytes);
    if (count < 0)
        return error_set(TUTTI_INVALID_OPTIONS, "the folder %.200s: %s", root, strerror(errno));
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        struct stored_place place;
        if (parse_place(names[i]->d_name, &place))
            status = read_plans(folder, root, names[i]->d_name, place);
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

static enum tutti_status find(const char *path, const struct stored_folder **folder)
{
    for (const struct kept_folder *kept = kept_folders; kept != NULL; kept = kept->next)
        if (strcmp(kept->path, path) == 0) {
            *folder = kept->folder;
            return TUTTI_OK;
        }
    struct kept_folder *const kept = calloc(1, sizeof *kept + strlen(path) + 1);
    struct stored_folder *const read =
        calloc(1, sizeof *read + STORED_FOLDER_PLANS_MAX * sizeof *read->places);
    enum tutti_status status =
        kept != NULL && read != NULL
            ? read_all(read, path)
            : error_set(TUTTI_NO_MEMORY, "reading %.200s: out of memory", path);
    if (status != TUTTI_OK) {
        free(kept);
        folder_free(read);
        return status;
    }
    strcpy(kept->path, path);
    kept->folder = read;
    kept->next = kept_folders;
    kept_folders = kept;
    *folder = read;
    return TUTTI_OK;
}

enum tutti_status stored_folder_find(const char *path, const struct stored_folder **folder)
{
    *folder = NULL;
    pthread_mutex_lock(&lock);
    const enum tutti_status status = find(path, folder);
    pthread_mutex_unlock(&lock);
    return status;
}

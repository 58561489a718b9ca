#include "comm/knowledge.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "format/calibration_file.h"
#include "format/table_file.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/hardware.h"
#include "os/turn.h"
#include "transport/open.h"

static const char shipped_name[] = "shipped";

/* The numbers of a file, which are kept for good. */
struct file {
    struct knowledge knowledge;
    bool is_wrong; /* it has none; that was said */
    struct file *next;
    char path[];
};

static struct knowledge shipped;
static struct file *files;
FORK_LOCK(files_lock, FORK_KNOWLEDGE, NULL); /* of the lists */
/* The turn of the thread that reads a file. Other threads wait, and find what was read; if that
 * takes too long, they read the file for themselves. */
static struct turn reading;
static const uint64_t READ_NS = 60000000000;

static void ship(void)
{
    calibration_init(&shipped.calibration, NULL, NULL);
}

const struct knowledge *knowledge_shipped(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ship);
    return &shipped;
}

static bool is_for_this_machine(const char *path, const struct calibration *calibration)
{
    char why[CALIBRATION_WHY_SIZE];
    struct calibration_key here = calibration->key; /* measuring code looks at hosts and ranks */
    hardware_of_host(&here.hardware);
    if (!calibration_is_for(calibration, &here, why)) {
        log_write(LOG_WARN,
                  "%s is of another machine than this, so algorithms are chosen by shipped "
                  "numbers: %s",
                  path, why);
        return false;
    }
    if (calibration->is_loaded)
        log_write(LOG_WARN,
                  "%s was measured while others used the machine: tutti-topo --calibrate "
                  "measures again",
                  path);
    return true;
}

static uint32_t fold(uint64_t fingerprint)
{
    const uint32_t folded = (uint32_t)(fingerprint ^ fingerprint >> 32);
    return folded != 0 ? folded : 1;
}

static enum tutti_status load(const char *path, struct knowledge *knowledge)
{
    const struct path_table *within, *between;
    struct calibration read;
    *knowledge = *knowledge_shipped();
    transports_paths(&within, &between);
    calibration_init(&read, within, between);
    TRY(calibration_file_load(path, &read));
    if (!is_for_this_machine(path, &read)) return TUTTI_OK;
    knowledge->calibration = read;
    knowledge->fingerprint = fold(calibration_fingerprint(&read));
    log_write(LOG_INFO, "algorithms are chosen by the numbers of %s", path);
    return TUTTI_OK;
}

static struct file *known(const char *path)
{
    pthread_mutex_lock(&files_lock);
    struct file *file = files;
    while (file != NULL && strcmp(file->path, path) != 0) file = file->next;
    pthread_mutex_unlock(&files_lock);
    return file;
}

/* A new one, which nobody knows yet; NULL: out of memory. */
static struct file *make_file(const char *path)
{
    struct file *const file = calloc(1, sizeof *file + strlen(path) + 1);
    if (file != NULL) strcpy(file->path, path);
    return file;
}

static void keep(struct file *file)
{
    pthread_mutex_lock(&files_lock);
    file->next = files;
    files = file;
    pthread_mutex_unlock(&files_lock);
}

/* The entry of that path, or a new one. A file that was wrong is read again, so that whoever asks
 * for it gets the reason. */
static enum tutti_status find(const char *path, const struct knowledge **knowledge)
{
    struct file *file = known(path);
    if (file == NULL || file->is_wrong) {
        file = make_file(path);
        if (file == NULL) return error_set(TUTTI_NO_MEMORY, "reading %s: out of memory", path);
        const enum tutti_status status = load(path, &file->knowledge);
        if (status != TUTTI_OK) {
            free(file);
            return status;
        }
        keep(file);
    }
    *knowledge = &file->knowledge;
    return TUTTI_OK;
}

static bool is_wrong(const char *path)
{
    const struct file *const file = known(path);
    return file != NULL && file->is_wrong;
}

/* Says so, once. */
static void note_wrong(const char *path)
{
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    log_write(LOG_WARN, "algorithms are chosen by shipped numbers: %s", why);
    struct file *const file = make_file(path);
    if (file == NULL) return;
    file->is_wrong = true;
    keep(file);
}

/* Nobody has asked for it, so nothing fails. */
static void look_into_cache(const struct knowledge **knowledge)
{
    char path[PATH_MAX], before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    if (calibration_file_path(path, sizeof path) == TUTTI_OK && access(path, F_OK) == 0 &&
        !is_wrong(path) && find(path, knowledge) != TUTTI_OK)
        note_wrong(path);
    (void)error_unless_ok(TUTTI_OK, before);
}

bool knowledge_is_fixed(void)
{
    const char *const told = option_text(OPTION_CALIBRATION);
    return told != NULL && strcmp(told, shipped_name) == 0;
}

enum tutti_status knowledge_read(const struct knowledge **knowledge)
{
    const char *const told = option_text(OPTION_CALIBRATION);
    enum tutti_status status = TUTTI_OK;
    *knowledge = knowledge_shipped();
    if (knowledge_is_fixed()) return TUTTI_OK;
    const bool has_turn = turn_take(&reading, clock_now_ns() + READ_NS) != TURN_LATE;
    if (told != NULL)
        status = find(told, knowledge);
    else
        look_into_cache(knowledge);
    if (has_turn) turn_give(&reading);
    return status;
}

/* -------------------------------------------------------------------------- measured by the job */

/* The knowledge of a communicator and of the communicators that were derived from it. */
struct shared_knowledge {
    struct knowledge knowledge;
    atomic_int shares;
};

enum tutti_status knowledge_with(const struct knowledge *base, const struct between *between,
                                 const struct knowledge **knowledge)
{
    struct shared_knowledge *const shared = calloc(1, sizeof *shared);
    if (shared == NULL) return error_set(TUTTI_NO_MEMORY, "numbers between hosts: out of memory");
    shared->knowledge = *base;
    shared->knowledge.shared = shared;
    atomic_init(&shared->shares, 1);
    between_take(between, &shared->knowledge.calibration);
    *knowledge = &shared->knowledge;
    return TUTTI_OK;
}

const struct knowledge *knowledge_share(const struct knowledge *knowledge)
{
    if (knowledge->shared != NULL)
        atomic_fetch_add_explicit(&knowledge->shared->shares, 1, memory_order_relaxed);
    return knowledge;
}

/* The last one to drop its share sees what the others did with theirs. */
void knowledge_drop(const struct knowledge *knowledge)
{
    struct shared_knowledge *const shared = knowledge != NULL ? knowledge->shared : NULL;
    if (shared != NULL && atomic_fetch_sub_explicit(&shared->shares, 1, memory_order_acq_rel) == 1)
        free(shared);
}

/* ---------------------------------------------------------------------------------------- table */

static struct table_of_file {
    struct tune_table table;
    struct table_of_file *next;
    char path[];
} * tables;

static struct table_of_file *known_table(const char *path)
{
    pthread_mutex_lock(&files_lock);
    struct table_of_file *file = tables;
    while (file != NULL && strcmp(file->path, path) != 0) file = file->next;
    pthread_mutex_unlock(&files_lock);
    return file;
}

static void keep_table(struct table_of_file *file)
{
    pthread_mutex_lock(&files_lock);
    file->next = tables;
    tables = file;
    pthread_mutex_unlock(&files_lock);
}

static enum tutti_status find_table(const char *path, const struct tune_table **table)
{
    const struct table_of_file *const kept = known_table(path);
    if (kept != NULL) {
        *table = &kept->table;
        return TUTTI_OK;
    }
    struct table_of_file *const file = calloc(1, sizeof *file + strlen(path) + 1);
    if (file == NULL) return error_set(TUTTI_NO_MEMORY, "reading %s: out of memory", path);
    strcpy(file->path, path);
    tune_table_init(&file->table);
    const enum tutti_status status = table_file_load(path, &file->table);
    if (status != TUTTI_OK) {
        tune_table_release(&file->table);
        free(file);
        return status;
    }
    log_write(LOG_INFO, "%s has %d measured choice%s", path, file->table.count,
              file->table.count == 1 ? "" : "s");
    if (file->table.is_loaded)
        log_write(LOG_WARN,
                  "%s was measured while others used the machines: tutti-tune measures again", path);
    keep_table(file);
    *table = &file->table;
    return TUTTI_OK;
}

enum tutti_status knowledge_read_table(const struct tune_table **table)
{
    const char *const path = option_text(OPTION_TABLE);
    *table = NULL;
    if (path == NULL) return TUTTI_OK;
    const bool has_turn = turn_take(&reading, clock_now_ns() + READ_NS) != TURN_LATE;
    const enum tutti_status status = find_table(path, table);
    if (has_turn) turn_give(&reading);
    return status;
}

uint32_t knowledge_table_fingerprint(const struct tune_table *table)
{
    const uint64_t fingerprint = tune_table_fingerprint(table);
    return fingerprint != 0 ? fold(fingerprint) : 0;
}

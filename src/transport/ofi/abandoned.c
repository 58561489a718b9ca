#include "transport/ofi/abandoned.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "os/futex.h"
#include "os/process.h"
#include "os/thread.h"

enum { HELD_MAX = 64, HEAD_BYTES = 128, LINE_BYTES = 512 };

static const char folder[] = "/dev/shm/";

/* Layouts of the head of such a file (struct smr_region): its first byte is the version, and the
 * pid of its owner lies behind it. */
static const struct {
    uint8_t first_version, last_version;
    size_t lock, bytes; /* where they are; bytes: size_t, of the whole file */
} layouts[] = {{2, 5, 24, 40}, {6, 6, 64, 80}, {7, 8, 56, 72}};

enum { OWNER = 4 };

/* A lock that was held at the last look. */
struct held {
    uintptr_t address;
    unsigned looks;
    bool was_seen; /* at this look */
};

struct abandoned {
    pthread_t thread;
    bool has_thread;
    uint32_t generation; /* of the process that has the thread */
    _Atomic uint32_t ends;
    pthread_spinlock_t free; /* a lock that is not held, to compare with */
    struct held held[HELD_MAX];
    int count;
    pid_t pids[];
};

/* --------------------------------------------------------------------------------------------- memory */

/* Reads memory of this process, which may not be mapped any more. */
static bool read_own(uintptr_t address, void *to, size_t bytes)
{
    const struct iovec here = {to, bytes}, there = {(void *)address, bytes};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

static void write_own(uintptr_t address, const void *from, size_t bytes)
{
    const struct iovec here = {(void *)(uintptr_t)from, bytes}, there = {(void *)address, bytes};
    (void)!process_vm_writev(getpid(), &here, 1, &there, 1, 0);
}

/* ---------------------------------------------------------------------------------------------- looks */

static bool is_ours(const struct abandoned *abandoned, pid_t pid)
{
    if (pid == getpid()) return true;
    for (int i = 0; i < abandoned->count; i++)
        if (abandoned->pids[i] == pid) return true;
    return false;
}

/* The address of a lock that is held; 0: there is none. The line is one of /proc/self/maps. */
static uintptr_t held_lock(const struct abandoned *abandoned, const char *line)
{
    unsigned long begin, end, offset;
    int name = 0, owner, pid;
    unsigned char head[HEAD_BYTES];
    if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %n", &begin, &end, &offset, &name) != 3 ||
        name == 0 || offset != 0 || strncmp(line + name, folder, sizeof folder - 1) != 0 ||
        sscanf(line + name + sizeof folder - 1, "%d:%*d:%*d", &pid) != 1)
        return 0;
    if (!is_ours(abandoned, pid) || !read_own(begin, head, sizeof head)) return 0;
    memcpy(&owner, head + OWNER, sizeof owner);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        size_t bytes;
        memcpy(&bytes, head + layouts[i].bytes, sizeof bytes);
        if (head[0] < layouts[i].first_version || head[0] > layouts[i].last_version ||
            owner != pid || bytes != end - begin)
            continue;
        const void *const lock = head + layouts[i].lock;
        return memcmp(lock, (const void *)&abandoned->free, sizeof abandoned->free) == 0
                   ? 0
                   : begin + layouts[i].lock;
    }
    return 0;
}

static struct held *find(struct abandoned *abandoned, uintptr_t address)
{
    struct held *unused = NULL;
    for (int i = 0; i < HELD_MAX; i++) {
        if (abandoned->held[i].address == address) return &abandoned->held[i];
        if (abandoned->held[i].address == 0) unused = &abandoned->held[i];
    }
    if (unused != NULL) *unused = (struct held){.address = address};
    return unused;
}

static bool note(struct abandoned *abandoned, uintptr_t address)
{
    struct held *held = find(abandoned, address);
    if (held == NULL) return false;
    held->was_seen = true;
    if (++held->looks < ABANDONED_LOOKS) return false;
    log_write(LOG_WARN, "provider shm of libfabric: a rank was killed while it held a lock; it is "
                        "freed, so that calls return");
    write_own(address, (const void *)&abandoned->free, sizeof abandoned->free);
    *held = (struct held){0};
    return true;
}

static void forget_unseen(struct abandoned *abandoned)
{
    for (int i = 0; i < HELD_MAX; i++) {
        if (!abandoned->held[i].was_seen) abandoned->held[i] = (struct held){0};
        abandoned->held[i].was_seen = false;
    }
}

static bool some_ended(const struct abandoned *abandoned)
{
    for (int i = 0; i < abandoned->count; i++)
        if (abandoned->pids[i] > 0 && process_is_ending(abandoned->pids[i])) return true;
    return false;
}

static bool some_is_stopped(const struct abandoned *abandoned)
{
    for (int i = 0; i < abandoned->count; i++)
        if (abandoned->pids[i] > 0 && process_is_stopped(abandoned->pids[i])) return true;
    return false;
}

unsigned abandoned_look(struct abandoned *abandoned)
{
    unsigned freed = 0;
    char line[LINE_BYTES];
    FILE *maps = NULL;
    if (some_ended(abandoned) && !some_is_stopped(abandoned)) maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        const uintptr_t lock = held_lock(abandoned, line);
        if (lock != 0) freed += note(abandoned, lock);
    }
    if (maps != NULL) fclose(maps);
    forget_unseen(abandoned);
    return freed;
}

/* ----------------------------------------------------------------------------------------- life cycle */

static void *watch(void *context)
{
    struct abandoned *abandoned = context;
    while (atomic_load_explicit(&abandoned->ends, memory_order_acquire) == 0) {
        (void)abandoned_look(abandoned);
        futex_wait(&abandoned->ends, 0, (uint64_t)ABANDONED_LOOK_MS * 1000000u);
    }
    return NULL;
}

enum tutti_status abandoned_init(const pid_t *pids, int count, struct abandoned **created)
{
    struct abandoned *abandoned =
        calloc(1, sizeof *abandoned + (size_t)count * sizeof *abandoned->pids);
    *created = abandoned;
    if (abandoned == NULL) return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
    pthread_spin_init(&abandoned->free, PTHREAD_PROCESS_SHARED);
    abandoned->generation = process_generation();
    abandoned->count = count;
    memcpy(abandoned->pids, pids, (size_t)count * sizeof *pids);
    return TUTTI_OK;
}

enum tutti_status abandoned_create(const pid_t *pids, int count, struct abandoned **created)
{
    TRY(abandoned_init(pids, count, created));
    const enum tutti_status status = thread_start(&(*created)->thread, watch, *created, NULL,
                                                  "the thread that frees locks of provider shm");
    if (status == TUTTI_OK) {
        (*created)->has_thread = true;
        return TUTTI_OK;
    }
    abandoned_free(*created);
    *created = NULL;
    return status;
}

void abandoned_free(struct abandoned *abandoned)
{
    if (abandoned == NULL) return;
    if (abandoned->has_thread && abandoned->generation == process_generation()) {
        atomic_store_explicit(&abandoned->ends, 1, memory_order_release); /* pairs with watch */
        futex_wake(&abandoned->ends);
        pthread_join(abandoned->thread, NULL);
    }
    free(abandoned);
}

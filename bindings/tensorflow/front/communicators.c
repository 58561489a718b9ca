#include "front/communicators.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct communicator {
    struct communicator *next;
    bool is_made;
    struct communicator_turn turn; /* of the last operation */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock. */
static struct communicator *first;
static unsigned long life = 1;
/* The process that has made the first one; 0: none has. A child of fork() has no lock that it could
 * trust: another thread may have held it. */
static _Atomic pid_t owner;

static bool is_child(void)
{
    const pid_t known = owner;
    return known != 0 && known != getpid();
}

static struct communicator **find(int32_t group)
{
    struct communicator **link = &first;
    while (*link != NULL && (*link)->turn.group != group) link = &(*link)->next;
    return link;
}

static void name_of(int32_t group, char name[static COMMUNICATORS_NAME_MAX])
{
    snprintf(name, COMMUNICATORS_NAME_MAX, "%lu:%d", life % 1000000000, group);
}

bool communicators_begin(int32_t group)
{
    if (is_child()) return true; /* the service refuses it */
    owner = getpid();
    pthread_mutex_lock(&lock);
    struct communicator *added = NULL;
    if (*find(group) == NULL) added = calloc(1, sizeof *added);
    if (added != NULL) {
        added->turn.group = group;
        added->next = first;
        first = added;
    }
    pthread_mutex_unlock(&lock);
    return added != NULL;
}

void communicators_made(int32_t group, int32_t group_size, uint64_t timeout_ns,
                        char name[static COMMUNICATORS_NAME_MAX])
{
    pthread_mutex_lock(&lock);
    struct communicator *const made = *find(group);
    if (made != NULL) { /* else clear has been faster, and the name stands for nothing */
        made->is_made = true;
        made->turn.group_size = group_size;
        made->turn.timeout_ns = timeout_ns;
    }
    name_of(group, name);
    pthread_mutex_unlock(&lock);
}

void communicators_failed(int32_t group)
{
    if (is_child()) return;
    pthread_mutex_lock(&lock);
    struct communicator **const link = find(group), *const failed = *link;
    if (failed != NULL) *link = failed->next;
    pthread_mutex_unlock(&lock);
    free(failed);
}

bool communicators_next(const char *name, struct communicator_turn *turn)
{
    if (is_child()) return false;
    pthread_mutex_lock(&lock);
    struct communicator *found = first;
    char known[COMMUNICATORS_NAME_MAX];
    for (; found != NULL; found = found->next) {
        name_of(found->turn.group, known);
        if (found->is_made && strcmp(known, name) == 0) break;
    }
    if (found != NULL) {
        found->turn.instance = (int32_t)(((uint32_t)found->turn.instance + 1) & INT32_MAX);
        *turn = found->turn;
    }
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

void communicators_clear(void)
{
    if (is_child()) return;
    pthread_mutex_lock(&lock);
    struct communicator *left = first;
    first = NULL;
    life++;
    pthread_mutex_unlock(&lock);
    while (left != NULL) {
        struct communicator *const next = left->next;
        free(left);
        left = next;
    }
}

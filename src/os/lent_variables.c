#include "os/lent_variables.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/fork.h"

enum { SPARE = 16, TRIES_MAX = 100, NAME_MAX_BYTES = 128 };

/* An array that was made here, and may be in use for ever. */
struct array {
    struct array *before;
    char *variables[];
};

static struct array *made;
FORK_LOCK(lock, FORK_ENVIRONMENT, NULL);

static size_t name_bytes(const char *variable)
{
    return strcspn(variable, "=");
}

static bool has_name(char *const *variables, const char *variable)
{
    const size_t bytes = name_bytes(variable) + 1;
    for (; variables != NULL && *variables != NULL; variables++)
        if (strncmp(*variables, variable, bytes) == 0) return true;
    return false;
}

static size_t count_of(char *const *variables)
{
    size_t count = 0;
    while (variables != NULL && variables[count] != NULL) count++;
    return count;
}

/* A copy of the environment, and the variables whose names it lacks. */
static struct array *extend(char *const *now, const char *const *variables, unsigned count)
{
    const size_t room = count_of(now) + count + SPARE;
    struct array *const array = calloc(1, sizeof *array + room * sizeof(char *));
    if (array == NULL) return NULL;
    size_t used = 0;
    while (now != NULL && now[used] != NULL && used < room - count - 1) {
        array->variables[used] = now[used];
        used++;
    }
    for (unsigned i = 0; i < count; i++)
        if (!has_name(array->variables, variables[i]))
            array->variables[used++] = (char *)(size_t)variables[i];
    return array;
}

/* Whether another thread has changed the environment, in its array, since it was copied. */
static bool has_changed(char *const *now, const struct array *array)
{
    for (size_t i = 0; now != NULL && now[i] != NULL; i++)
        if (now[i] != array->variables[i]) return true;
    return false;
}

/* From the array `from` to the array `to`; false: another thread was first. */
static bool replace(char **from, char **to)
{
    return __atomic_compare_exchange_n(&environ, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

bool lent_variables_put(const char *const *variables, unsigned count)
{
    bool is_there = false;
    pthread_mutex_lock(&lock);
    for (int tries = 0; tries < TRIES_MAX && !is_there; tries++) {
        char **const now = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
        struct array *const array = extend(now, variables, count);
        if (array == NULL) break;
        const bool is_replaced = replace(now, array->variables);
        is_there = is_replaced && !has_changed(now, array);
        if (is_replaced && !is_there) (void)replace(array->variables, now);
        if (is_replaced) {
            array->before = made;
            made = array;
        } else {
            free(array);
        }
    }
    pthread_mutex_unlock(&lock);
    return is_there;
}

static bool is_in(char *const *variables, const char *variable)
{
    for (; variables != NULL && *variables != NULL; variables++)
        if (*variables == variable) return true;
    return false;
}

/* unsetenv moves entries within the array, and frees nothing. */
void lent_variables_take_back(const char *const *variables, unsigned count)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < count; i++) {
        char name[NAME_MAX_BYTES];
        const size_t bytes = name_bytes(variables[i]);
        if (bytes >= sizeof name || !is_in(environ, variables[i])) continue;
        memcpy(name, variables[i], bytes);
        name[bytes] = '\0';
        (void)unsetenv(name);
    }
    pthread_mutex_unlock(&lock);
}

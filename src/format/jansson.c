#include "format/jansson.h"

#include <dlfcn.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* The library of all versions 2.x that have these functions. */
static const char name_of_library[] = "libjansson.so.4";

/* X(what it returns, its name, its parameters, the arguments) */
#define FUNCTIONS(X)                                                                              \
    X(json_t *, json_loadb, (const char *buffer, size_t size, size_t flags, json_error_t *error), \
      (buffer, size, flags, error))                                                               \
    X(char *, json_dumps, (const json_t *json, size_t flags), (json, flags))                      \
    X(json_t *, json_string, (const char *value), (value))                                        \
    X(const char *, json_string_value, (const json_t *string), (string))                          \
    X(size_t, json_string_length, (const json_t *string), (string))                               \
    X(json_int_t, json_integer_value, (const json_t *integer), (integer))                         \
    X(size_t, json_array_size, (const json_t *array), (array))                                    \
    X(json_t *, json_array_get, (const json_t *array, size_t index), (array, index))              \
    X(json_t *, json_object_get, (const json_t *object, const char *key), (object, key))          \
    X(void *, json_object_iter, (json_t * object), (object))                                      \
    X(void *, json_object_iter_next, (json_t * object, void *iterator), (object, iterator))       \
    X(void *, json_object_key_to_iter, (const char *key), (key))                                  \
    X(const char *, json_object_iter_key, (void *iterator), (iterator))                           \
    X(json_t *, json_object_iter_value, (void *iterator), (iterator))

static struct {
#define X(result, name, parameters, arguments) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
    __typeof__(json_delete) *json_delete;
} functions;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why_not[256];

static void find(void *library, const char *name, void *function, size_t size)
{
    void *const symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    if (symbol == NULL) snprintf(why_not, sizeof why_not, "%s has no %s", name_of_library, name);
}

/* It stays for good. */
static void load(void)
{
    void *const library = dlopen(name_of_library, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why_not, sizeof why_not, "jansson cannot be loaded (Debian: libjansson4): %.180s",
                 dlerror());
        return;
    }
#define X(result, name, parameters, arguments) \
    find(library, #name, &functions.name, sizeof functions.name);
    FUNCTIONS(X)
#undef X
    find(library, "json_delete", &functions.json_delete, sizeof functions.json_delete);
}

enum tutti_status jansson_load(void)
{
    pthread_once(&once, load);
    return why_not[0] == '\0' ? TUTTI_OK : error_set(TUTTI_UNSUPPORTED, "%s", why_not);
}

/* Without the library all of them return nothing. */
#define X(result, name, parameters, arguments)                                   \
    result name parameters                                                       \
    {                                                                            \
        pthread_once(&once, load);                                               \
        return functions.name != NULL ? functions.name arguments : (result)NULL; \
    }
FUNCTIONS(X)
#undef X

void json_delete(json_t *json)
{
    pthread_once(&once, load);
    if (functions.json_delete != NULL) functions.json_delete(json);
}

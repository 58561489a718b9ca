#include "studio/synth/z3.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

/* Z3's objects, opaque here as there; its `unsigned` and `bool` are C's. */
typedef void *z3_object;

/* X(result, name, arguments) */
#define FUNCTIONS(X)                                                                           \
    X(z3_object, Z3_mk_config, (void))                                                         \
    X(void, Z3_del_config, (z3_object config))                                                 \
    X(z3_object, Z3_mk_context, (z3_object config))                                            \
    X(void, Z3_del_context, (z3_object context))                                               \
    X(void, Z3_set_error_handler, (z3_object context, void (*handler)(z3_object, int)))        \
    X(int, Z3_get_error_code, (z3_object context))                                             \
    X(z3_object, Z3_mk_string_symbol, (z3_object context, const char *text))                   \
    X(z3_object, Z3_mk_int_symbol, (z3_object context, int number))                            \
    X(z3_object, Z3_mk_bool_sort, (z3_object context))                                         \
    X(z3_object, Z3_mk_const, (z3_object context, z3_object symbol, z3_object sort))           \
    X(z3_object, Z3_mk_not, (z3_object context, z3_object term))                               \
    X(z3_object, Z3_mk_or, (z3_object context, unsigned count, const z3_object terms[]))       \
    X(z3_object, Z3_mk_atmost,                                                                 \
      (z3_object context, unsigned count, const z3_object terms[], unsigned most))             \
    X(z3_object, Z3_mk_params, (z3_object context))                                            \
    X(void, Z3_params_inc_ref, (z3_object context, z3_object params))                          \
    X(void, Z3_params_dec_ref, (z3_object context, z3_object params))                          \
    X(void, Z3_params_set_uint,                                                                \
      (z3_object context, z3_object params, z3_object symbol, unsigned value))                 \
    X(void, Z3_params_set_bool,                                                                \
      (z3_object context, z3_object params, z3_object symbol, bool value))                     \
    X(z3_object, Z3_mk_solver_for_logic, (z3_object context, z3_object symbol))                \
    X(void, Z3_solver_inc_ref, (z3_object context, z3_object solver))                          \
    X(void, Z3_solver_dec_ref, (z3_object context, z3_object solver))                          \
    X(void, Z3_solver_set_params, (z3_object context, z3_object solver, z3_object params))     \
    X(void, Z3_solver_assert, (z3_object context, z3_object solver, z3_object term))           \
    X(int, Z3_solver_check, (z3_object context, z3_object solver))                             \
    X(z3_object, Z3_solver_get_model, (z3_object context, z3_object solver))                   \
    X(void, Z3_model_inc_ref, (z3_object context, z3_object model))                            \
    X(void, Z3_model_dec_ref, (z3_object context, z3_object model))                            \
    X(bool, Z3_model_eval,                                                                     \
      (z3_object context, z3_object model, z3_object term, bool completion, z3_object *value)) \
    X(int, Z3_get_bool_value, (z3_object context, z3_object term))                             \
    X(void, Z3_interrupt, (z3_object context))

static struct {
#define X(result, name, arguments) result(*name) arguments;
    FUNCTIONS(X)
#undef X
    bool loaded;
} library;
static char missing[256]; /* why it is not loaded */

/* Stays loaded: threads of its own may run at any time. */
static void load(void)
{
    void *const handle = dlopen("libz3.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        const char *const reason = dlerror();
        snprintf(missing, sizeof missing, "%s", reason != NULL ? reason : "libz3.so.4 is not here");
        return;
    }
#define X(result, name, arguments)                                                 \
    *(void **)&library.name = dlsym(handle, #name);                                \
    if (library.name == NULL) {                                                    \
        snprintf(missing, sizeof missing, "libz3.so.4 has no function %s", #name); \
        dlclose(handle);                                                           \
        return;                                                                    \
    }
    FUNCTIONS(X)
#undef X
    library.loaded = true;
}

struct terms {
    z3_object *items;
    int count, room;
};

struct z3 {
    z3_object context, solver, model;
    struct terms facts, work;
    bool out_of_memory;
};

/* Errors are asked for, not told. */
static void ignore(z3_object context, int code)
{
    (void)context;
    (void)code;
}

enum tutti_status z3_open(struct z3 **z3)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    *z3 = NULL;
    if (!library.loaded)
        return error_set(TUTTI_UNSUPPORTED, "exact synthesis needs Z3 (Debian: libz3-4): %s",
                         missing);
    struct z3 *const opened = calloc(1, sizeof *opened);
    if (opened == NULL) return error_set(TUTTI_NO_MEMORY, "a solver");
    const z3_object config = library.Z3_mk_config();
    opened->context = library.Z3_mk_context(config);
    library.Z3_del_config(config);
    library.Z3_set_error_handler(opened->context, ignore);
    opened->solver = library.Z3_mk_solver_for_logic(
        opened->context, library.Z3_mk_string_symbol(opened->context, "QF_FD"));
    if (opened->solver == NULL) {
        library.Z3_del_context(opened->context);
        free(opened);
        return error_set(TUTTI_UNSUPPORTED, "Z3 has no solver for this kind of question");
    }
    library.Z3_solver_inc_ref(opened->context, opened->solver);
    *z3 = opened;
    return TUTTI_OK;
}

static void forget_model(struct z3 *z3)
{
    if (z3->model != NULL) library.Z3_model_dec_ref(z3->context, z3->model);
    z3->model = NULL;
}

void z3_close(struct z3 *z3)
{
    if (z3 == NULL) return;
    forget_model(z3);
    library.Z3_solver_dec_ref(z3->context, z3->solver);
    library.Z3_del_context(z3->context);
    free(z3->facts.items);
    free(z3->work.items);
    free(z3);
}

static bool make_room(struct z3 *z3, struct terms *terms, int room)
{
    if (room <= terms->room) return true;
    const int wanted = room > 2 * terms->room ? room : 2 * terms->room;
    z3_object *const items = realloc(terms->items, (size_t)wanted * sizeof *items);
    if (items == NULL) {
        z3->out_of_memory = true;
        return false;
    }
    terms->items = items;
    terms->room = wanted;
    return true;
}

int z3_new_fact(struct z3 *z3)
{
    struct terms *const facts = &z3->facts;
    if (!make_room(z3, facts, facts->count + 1)) return 1; /* never solved */
    facts->items[facts->count] =
        library.Z3_mk_const(z3->context, library.Z3_mk_int_symbol(z3->context, facts->count),
                            library.Z3_mk_bool_sort(z3->context));
    return ++facts->count;
}

static void say(struct z3 *z3, z3_object term)
{
    library.Z3_solver_assert(z3->context, z3->solver, term);
}

static z3_object literal_term(const struct z3 *z3, int literal)
{
    const z3_object fact = z3->facts.items[abs(literal) - 1];
    return literal > 0 ? fact : library.Z3_mk_not(z3->context, fact);
}

/* In `work`; false when memory is out. */
static bool literal_terms(struct z3 *z3, const int *literals, int literal_count)
{
    if (z3->out_of_memory || !make_room(z3, &z3->work, literal_count)) return false;
    for (int i = 0; i < literal_count; i++) z3->work.items[i] = literal_term(z3, literals[i]);
    return true;
}

void z3_any(struct z3 *z3, const int *literals, int literal_count)
{
    if (literal_terms(z3, literals, literal_count))
        say(z3, library.Z3_mk_or(z3->context, (unsigned)literal_count, z3->work.items));
}

void z3_at_most(struct z3 *z3, const int *literals, int literal_count, int most)
{
    if (most >= literal_count) return;
    if (literal_terms(z3, literals, literal_count))
        say(z3, library.Z3_mk_atmost(z3->context, (unsigned)literal_count, z3->work.items,
                                     (unsigned)most));
}

static void set_timeout(struct z3 *z3, uint64_t timeout_ns)
{
    const uint64_t ms = timeout_ns / 1000000 + 1;
    const z3_object params = library.Z3_mk_params(z3->context);
    library.Z3_params_inc_ref(z3->context, params);
    library.Z3_params_set_uint(z3->context, params,
                               library.Z3_mk_string_symbol(z3->context, "timeout"),
                               ms < UINT_MAX ? (unsigned)ms : UINT_MAX);
    /* Ctrl-C is for the process, not only for this question. */
    library.Z3_params_set_bool(z3->context, params,
                               library.Z3_mk_string_symbol(z3->context, "ctrl_c"), false);
    library.Z3_solver_set_params(z3->context, z3->solver, params);
    library.Z3_params_dec_ref(z3->context, params);
}

enum tutti_status z3_solve(struct z3 *z3, uint64_t timeout_ns, enum z3_answer *answer)
{
    *answer = Z3_UNDECIDED;
    forget_model(z3);
    if (z3->out_of_memory) return error_set(TUTTI_NO_MEMORY, "a question to the solver");
    if (library.Z3_get_error_code(z3->context) != 0)
        return error_set(TUTTI_UNSUPPORTED, "Z3 refuses the question (its error %d)",
                         library.Z3_get_error_code(z3->context));
    set_timeout(z3, timeout_ns);
    const int result = library.Z3_solver_check(z3->context, z3->solver);
    if (result < 0) *answer = Z3_IMPOSSIBLE;
    if (result <= 0) return TUTTI_OK;
    z3->model = library.Z3_solver_get_model(z3->context, z3->solver);
    if (z3->model == NULL) return error_set(TUTTI_UNSUPPORTED, "Z3 shows no solution");
    library.Z3_model_inc_ref(z3->context, z3->model);
    *answer = Z3_POSSIBLE;
    return TUTTI_OK;
}

bool z3_holds(struct z3 *z3, int literal)
{
    z3_object value = NULL;
    if (z3->model == NULL ||
        !library.Z3_model_eval(z3->context, z3->model, literal_term(z3, literal), true, &value))
        return false;
    return library.Z3_get_bool_value(z3->context, value) > 0;
}

void z3_interrupt(struct z3 *z3)
{
    library.Z3_interrupt(z3->context);
}

#include "base/op.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sized.h"
#include "base/status.h"

const struct tutti_operation op_builtins[OP_BUILTIN_COUNT] = {
#define X(enumerator, text) \
    [enumerator] = {.kind = enumerator, .commutative = true, .name = text, .identity = enumerator},
    OP_LIST(X)
#undef X
};

const struct tutti_operation *op_builtin(enum op kind)
{
    return &op_builtins[kind];
}

tutti_op op_handle(const struct tutti_operation *operation)
{
    return operation->kind < OP_BUILTIN_COUNT ? (tutti_op)(uintptr_t)(operation->kind + 1)
                                              : operation;
}

bool op_is_for(const struct tutti_operation *operation, enum tutti_dtype dtype)
{
    const bool is_float = dtype_kind(dtype) == DTYPE_FLOAT;
    switch (operation->kind) {
    case OP_LAND:
    case OP_LOR:
    case OP_LXOR:
    case OP_BAND:
    case OP_BOR:
    case OP_BXOR: return !is_float;
    case OP_SCALED_SUM: return is_float;
    case OP_SUM:
    case OP_PROD:
    case OP_MIN:
    case OP_MAX:
    case OP_AVG:
    case OP_USER:
    case OP_COUNT: break;
    }
    return true;
}

const char *op_kind_name(enum op kind)
{
    if (kind < OP_BUILTIN_COUNT) return op_builtins[kind].name;
    return kind == OP_SCALED_SUM ? "scaled_sum" : kind == OP_USER ? "user" : "unknown";
}

enum op op_from_name(const char *name)
{
    unsigned i = 0;
    while (i < OP_BUILTIN_COUNT && strcmp(op_builtins[i].name, name) != 0) i++;
    return (enum op)i;
}

const char *tutti_op_name(tutti_op op)
{
    const struct tutti_operation *operation = op_resolve(op);
    return operation != NULL ? operation->name : "unknown";
}

/* FNV-1a over what ranks must agree on. */
static uint64_t identity_of(const struct tutti_operation *operation)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *const parts[] = {(const unsigned char *)operation->name,
                                          (const unsigned char *)&operation->factor};
    const size_t sizes[] = {strlen(operation->name), sizeof operation->factor};
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < sizes[p]; i++) hash = (hash ^ parts[p][i]) * 0x100000001b3u;
    return (hash ^ (unsigned)operation->kind) * 0x100000001b3u + operation->commutative;
}

enum tutti_status tutti_op_create(const struct tutti_op_options *given, tutti_op *op)
{
    static _Atomic uint64_t created; /* relaxed: only that numbers differ matters */
    if (op == NULL)
        return error_set(TUTTI_INVALID_OP,
                         "tutti_op_create: op must be the address of an operation, is NULL");
    *op = NULL;
    if (given == NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_op_create: options must be a struct tutti_op_options, is NULL");
    struct tutti_op_options own;
    const struct tutti_op_options *const options = &own;
    TRY(SIZED_READ("tutti_op_create: options", tutti_op_options, given, &own));
    if (options->combine == NULL && (!isfinite(options->factor) || options->factor == 0))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_op_create: options.factor must be finite and not 0, is %g",
                         options->factor);
    const char *name = options->name;
    if (name == NULL) name = options->combine != NULL ? "user" : "scaled_sum";
    const size_t length_max = sizeof((struct tutti_operation *)NULL)->name - 1;
    if (strlen(name) > length_max)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_op_create: options.name must have at most %zu characters, has %zu",
                         length_max, strlen(name));
    struct tutti_operation *operation = calloc(1, sizeof *operation);
    if (operation == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_op_create: out of memory");
    strcpy(operation->name, name);
    operation->kind = options->combine != NULL ? OP_USER : OP_SCALED_SUM;
    operation->commutative = options->combine == NULL || options->commutative != 0;
    operation->factor = options->combine != NULL ? 0 : options->factor;
    operation->combine = options->combine;
    operation->context = options->context;
    operation->serial = 1 + atomic_fetch_add_explicit(&created, 1, memory_order_relaxed);
    operation->identity = identity_of(operation);
    *op = operation;
    return TUTTI_OK;
}

enum tutti_status tutti_op_free(tutti_op op)
{
    if ((uintptr_t)op >= OP_HANDLE_CONSTANTS) free((void *)(uintptr_t)op);
    return TUTTI_OK;
}

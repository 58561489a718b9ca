/* op.h - the one list of operations, and what the public handle of one stands for.
 *
 * The constants of tutti.h are small numbers, 1 + enum op; other handles are objects of
 * tutti_op_create. Inside, an operation is always a struct tutti_operation.
 */
#ifndef TUTTI_BASE_OP_H
#define TUTTI_BASE_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* X(enumerator, name); the constants of tutti.h in their order. */
#define OP_LIST(X)     \
    X(OP_SUM, "sum")   \
    X(OP_PROD, "prod") \
    X(OP_MIN, "min")   \
    X(OP_MAX, "max")   \
    X(OP_AVG, "avg")   \
    X(OP_LAND, "land") \
    X(OP_LOR, "lor")   \
    X(OP_LXOR, "lxor") \
    X(OP_BAND, "band") \
    X(OP_BOR, "bor")   \
    X(OP_BXOR, "bxor")

enum op {
#define X(enumerator, name) enumerator,
    OP_LIST(X)
#undef X
        OP_BUILTIN_COUNT,
    OP_SCALED_SUM = OP_BUILTIN_COUNT, /* sum, times a factor where it is final */
    OP_USER,
    OP_COUNT
};

struct tutti_operation {
    enum op kind;
    bool commutative;
    char name[32];
    double factor;          /* SCALED_SUM */
    tutti_combine *combine; /* USER */
    void *context;
    uint64_t serial; /* of this process: tells operations apart, also in one place; 0: a constant */
    uint64_t identity; /* of all that ranks must agree on */
};

/* The operations that the constants stand for, by kind. */
extern const struct tutti_operation op_builtins[OP_BUILTIN_COUNT];
/* Handles below are constants; no object lies there. */
enum { OP_HANDLE_CONSTANTS = 4096 };
/* The operation that a handle stands for; NULL if it is no handle. */
static inline const struct tutti_operation *op_resolve(tutti_op op)
{
    const uintptr_t number = (uintptr_t)op;
    if (number >= OP_HANDLE_CONSTANTS) return op;
    return number >= 1 && number <= OP_BUILTIN_COUNT ? &op_builtins[number - 1] : NULL;
}
/* A constant of that kind. */
const struct tutti_operation *op_builtin(enum op kind);
/* The public handle. */
tutti_op op_handle(const struct tutti_operation *operation);
/* Whether an operation that is not for every dtype is for that one. */
bool op_is_for(const struct tutti_operation *operation, enum tutti_dtype dtype);
static inline bool op_supports(const struct tutti_operation *operation, enum tutti_dtype dtype)
{
    return operation->kind < OP_LAND || op_is_for(operation, dtype); /* arithmetic is for all */
}
/* "sum"; also for SCALED_SUM and USER. */
const char *op_kind_name(enum op kind);
/* OP_BUILTIN_COUNT when there is no constant of that name. */
enum op op_from_name(const char *name);

#endif

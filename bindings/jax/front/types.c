#include "front/types.h"

/* clang-format off */
static const struct front_type_entry types[] = {
#define FRONT_ENTRY(name, dtype, elements, kind) {"MPI_" #name, dtype, elements, FRONT_##kind},
    FRONT_TYPES(FRONT_ENTRY)
#undef FRONT_ENTRY
};

static const struct op_entry {
    const char *name;
    tutti_op op;
} ops[] = {
#define FRONT_ENTRY(name, op) {"MPI_" #name, op},
    FRONT_OPS(FRONT_ENTRY)
#undef FRONT_ENTRY
};
/* clang-format on */

int front_type_find(const char *function, front_handle type, const struct front_type_entry **entry)
{
    if (type <= FRONT_TYPE_NULL || type >= FRONT_TYPE_END)
        return front_fail(FRONT_ERR_TYPE, function, "the datatype is not one of MPI's own");
    *entry = &types[type - FRONT_TYPE_NULL - 1];
    return FRONT_SUCCESS;
}

size_t front_type_size(const struct front_type_entry *type)
{
    return tutti_dtype_size(type->dtype) * (size_t)type->element_count;
}

int front_elements(const char *function, const struct front_type_entry *type, int count,
                   size_t *elements)
{
    if (count < 0)
        return front_fail(
            FRONT_ERR_COUNT,
            function, "the count is %d: it is below 0, or was above 2147483647, which MPI's counts cannot hold",
            count);
    *elements = (size_t)count * (size_t)type->element_count;
    return FRONT_SUCCESS;
}

int front_same_elements(const char *function, int send_count, front_handle send_type, int recv_count,
                        front_handle recv_type, size_t *elements, enum tutti_dtype *dtype)
{
    const struct front_type_entry *sent = NULL, *received = NULL;
    size_t recv_elements = 0;
    FRONT_TRY(front_type_find(function, send_type, &sent));
    FRONT_TRY(front_type_find(function, recv_type, &received));
    FRONT_TRY(front_elements(function, sent, send_count, elements));
    FRONT_TRY(front_elements(function, received, recv_count, &recv_elements));
    if (sent->dtype != received->dtype || *elements != recv_elements)
        return front_fail(FRONT_ERR_TYPE, function, "%d of %s are sent, and %d of %s received",
                          send_count, sent->name, recv_count, received->name);
    *dtype = sent->dtype;
    return FRONT_SUCCESS;
}

int front_op_find(const char *function, front_handle op, const struct front_type_entry *type,
                  tutti_op *found)
{
    if (op <= FRONT_OP_NULL || op >= FRONT_OP_END)
        return front_fail(FRONT_ERR_OP, function, "the operation is not one of MPI's own");
    const struct op_entry *entry = &ops[op - FRONT_OP_NULL - 1];
    const int is_complex = type->kind == FRONT_COMPLEX;
    if (entry->op == NULL || type->kind == FRONT_BYTES ||
        (is_complex && entry->op != TUTTI_SUM && entry->op != TUTTI_PROD))
        return front_fail(FRONT_ERR_OP, function, "Tutti's JAX front has no %s for %s", entry->name,
                          type->name);
    *found = is_complex && entry->op == TUTTI_PROD ? NULL : entry->op;
    return FRONT_SUCCESS;
}

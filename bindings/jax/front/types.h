/* types.h - datatypes, operations and counts of MPI in Tutti's words. */
#ifndef TUTTI_JAX_TYPES_H
#define TUTTI_JAX_TYPES_H

#include "front/error.h"

enum front_type_kind { FRONT_NUMBER, FRONT_COMPLEX, FRONT_BYTES };

struct front_type_entry {
    const char *name;
    enum tutti_dtype dtype;
    int element_count; /* of dtype in one value */
    enum front_type_kind kind;
};

/* Finds the datatype, or says that it is none. Static; any thread. */
int front_type_find(const char *function, front_handle type, const struct front_type_entry **entry);
/* Bytes of one value. */
size_t front_type_size(const struct front_type_entry *type);

/* Elements of `count` values; MPI_ERR_COUNT below 0, which is also what XLA makes of a number that
 * no int can hold. */
int front_elements(const char *function, const struct front_type_entry *type, int count,
                   size_t *elements);
/* The same for two descriptions of the same block, which must have equal dtypes and sizes. */
int front_same_elements(const char *function, int send_count, front_handle send_type, int recv_count,
                        front_handle recv_type, size_t *elements, enum tutti_dtype *dtype);

/* The operation on values of that type: MPI_ERR_OP where there is none. For products of complex
 * numbers *op is NULL. */
int front_op_find(const char *function, front_handle op, const struct front_type_entry *type,
                  tutti_op *found);

#endif

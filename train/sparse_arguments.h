/* sparse_arguments.h - what a caller of a sparse collective gave, checked. */
#ifndef TUTTI_TRAIN_SPARSE_ARGUMENTS_H
#define TUTTI_TRAIN_SPARSE_ARGUMENTS_H

#include "base/op.h"
#include "sparse_agree.h"
#include "tutti/sparse.h"

/* Reads the options, and sets the deadline of the call. allows_way: other ways than CHOSEN are
 * allowed. INVALID_OPTIONS. */
enum tutti_status sparse_read_options(struct sparse_call *call,
                                      const struct tutti_sparse_options *given, bool allows_way,
                                      struct tutti_sparse_options *own);
/* A matrix of rows, some of which are given: their shape, dtype, indices and values.
 * INVALID_BUFFER, INVALID_COUNT, INVALID_DTYPE. */
enum tutti_status sparse_check_rows(const char *function, const struct tutti_sparse_rows *rows);
/* INVALID_OP. The dtype is valid. */
enum tutti_status sparse_check_op(const char *function, tutti_op op, enum tutti_dtype dtype,
                                  const struct tutti_operation **operation);
/* The question of a rank that gave this. operation may be NULL. */
struct sparse_question sparse_question_of(enum sparse_function function,
                                          const struct tutti_sparse_rows *rows,
                                          const struct tutti_operation *operation,
                                          const struct tutti_sparse_options *options);

#endif

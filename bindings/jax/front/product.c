#include "front/product.h"

#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 4096 };

/* result[i] *= factor[i], both as real and imaginary part. */
static void multiply_float(float *result, const float *factor, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float real = result[2 * i] * factor[2 * i] - result[2 * i + 1] * factor[2 * i + 1];
        result[2 * i + 1] = result[2 * i] * factor[2 * i + 1] + result[2 * i + 1] * factor[2 * i];
        result[2 * i] = real;
    }
}

static void multiply_double(double *result, const double *factor, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double real = result[2 * i] * factor[2 * i] - result[2 * i + 1] * factor[2 * i + 1];
        result[2 * i + 1] = result[2 * i] * factor[2 * i + 1] + result[2 * i + 1] * factor[2 * i];
        result[2 * i] = real;
    }
}

int front_product(const char *function, const void *send, void *recv, size_t count,
                  const struct front_type_entry *type, struct tutti_comm *comm)
{
    const size_t size = front_type_size(type);
    const size_t piece_max = count < VALUES_MAX ? count : VALUES_MAX;
    const int ranks = tutti_comm_size(comm);
    char *all = malloc((piece_max * size + 1) * (size_t)ranks);
    if (all == NULL)
        return front_fail(FRONT_ERR_NO_MEM, function, "no memory for %d ranks' values", ranks);
    int error = FRONT_SUCCESS;
    for (size_t done = 0; error == FRONT_SUCCESS && done < count; done += piece_max) {
        const size_t piece = count - done < piece_max ? count - done : piece_max;
        error = front_result(function, tutti_allgather((const char *)send + done * size, all,
                                                       2 * piece, type->dtype, comm));
        if (error != FRONT_SUCCESS) break;
        for (int rank = 1; rank < ranks; rank++) {
            void *factor = all + (size_t)rank * piece * size;
            if (type->dtype == TUTTI_FLOAT32)
                multiply_float((float *)(void *)all, factor, piece);
            else
                multiply_double((double *)(void *)all, factor, piece);
        }
        memcpy((char *)recv + done * size, all, piece * size);
    }
    free(all);
    return error;
}

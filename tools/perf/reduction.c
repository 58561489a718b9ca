#include "reduction.h"

#include "dtype.h"

const char *reduction_name(enum reduction reduction)
{
    static const char *const names[] = {
#define X(enumerator, name) name,
        REDUCTION_LIST(X)
#undef X
    };
    return names[reduction];
}

bool reduction_supports(enum reduction reduction, enum tutti_dtype dtype)
{
    const bool real = number_kind(dtype) == NUMBER_REAL;
    if (reduction == REDUCTION_SCALED) return real;
    return !(real && reduction >= REDUCTION_LAND && reduction <= REDUCTION_BXOR);
}

bool reduction_is_of_words(enum reduction reduction)
{
    return reduction == REDUCTION_USER || reduction == REDUCTION_USER_ANY;
}

uint64_t reduction_compose(int bits, uint64_t left, uint64_t right)
{
    const int half = bits / 2;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    const uint64_t left_a = left >> half & mask, right_a = right >> half & mask;
    const uint64_t a = left_a * right_a & mask;
    const uint64_t b = (right_a * (left & mask) + (right & mask)) & mask; /* left is applied first */
    return a << half | b;
}

static void combine_functions(const void *left, const void *right, void *result, size_t count,
                              enum tutti_dtype dtype, void *context)
{
    (void)context;
    const size_t bytes = tutti_dtype_size(dtype);
    for (size_t i = 0; i < count * bytes; i += bytes)
        word_store(bytes,
                   reduction_compose(8 * (int)bytes, word_load(bytes, (const char *)left + i),
                                     word_load(bytes, (const char *)right + i)),
                   (char *)result + i);
}

static void combine_words(const void *left, const void *right, void *result, size_t count,
                          enum tutti_dtype dtype, void *context)
{
    (void)context;
    const size_t bytes = tutti_dtype_size(dtype);
    for (size_t i = 0; i < count * bytes; i += bytes)
        word_store(bytes,
                   word_load(bytes, (const char *)left + i) +
                       word_load(bytes, (const char *)right + i),
                   (char *)result + i);
}

enum tutti_status reduction_create(enum reduction reduction, tutti_op *op)
{
    struct tutti_op_options options = TUTTI_OP_OPTIONS_INIT;
    options.name = reduction_name(reduction);
    switch (reduction) {
    case REDUCTION_SCALED: options.factor = REDUCTION_FACTOR; break;
    case REDUCTION_USER: options.combine = combine_functions; break;
    case REDUCTION_USER_ANY:
        options.combine = combine_words;
        options.commutative = 1;
        break;
    default: *op = (tutti_op)((uintptr_t)reduction + 1); return TUTTI_OK;
    }
    return tutti_op_create(&options, op);
}

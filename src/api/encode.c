/* encode.c - the functions of tutti/encode.h: argument checks around passes over memory. */
#include "tutti/encode.h"

#include <stdint.h>

#include "api/check.h"
#include "base/encoding.h"
#include "base/status.h"
#include "encoding/encoding.h"

/* "float16, bfloat16, ..." */
#define NAME(enumerator, name, ...) ", " #name
static const char *encoding_names(void)
{
    static const char names[] = ENCODING_LIST(NAME);
    return names + 2;
}
#undef NAME

enum tutti_status tutti_encoding_find(const char *name, enum tutti_encoding *encoding)
{
    if (encoding == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_encoding_find: encoding is NULL");
    *encoding = name == NULL ? TUTTI_ENCODING_NONE : encoding_from_name(name);
    if (*encoding != TUTTI_ENCODING_NONE) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "tutti_encoding_find: name must be that of an encoding (%s), is %s",
                     encoding_names(), name == NULL ? "NULL" : name);
}

/* The arguments, checked. */
struct shape_of_encoded {
    const struct kernel_encoding *format;
    size_t element_bytes, encoded_bytes;
};

static enum tutti_status check_shape(const char *call, enum tutti_encoding encoding,
                                     enum tutti_dtype dtype, size_t count,
                                     struct shape_of_encoded *shape)
{
    if (!encoding_is_valid(encoding))
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_%s: encoding must be one of %s; is %d (%s)",
                         call, encoding_names(), (int)encoding, tutti_encoding_name(encoding));
    TRY(api_check_dtype(call, dtype));
    shape->format = encoding_of(encoding, dtype);
    if (shape->format == NULL)
        return error_set(TUTTI_UNSUPPORTED, "tutti_%s: encoding %s takes elements of %s, not of %s",
                         call, tutti_encoding_name(encoding),
                         encoding_takes(encoding, TUTTI_BFLOAT16) ? "float32, bfloat16 and float16"
                                                                  : "float32 alone",
                         tutti_dtype_name(dtype));
    const unsigned unit_elements = encoding_unit_elements(encoding);
    const size_t element_bytes = tutti_dtype_size(dtype);
    const size_t units = count / unit_elements + (count % unit_elements != 0);
    if (count > SIZE_MAX / element_bytes || units > SIZE_MAX / encoding_unit_bytes(encoding))
        return error_set(TUTTI_INVALID_COUNT,
                         "tutti_%s: %zu elements of %s, plain or encoded, do not fit into memory",
                         call, count, tutti_dtype_name(dtype));
    shape->element_bytes = count * element_bytes;
    shape->encoded_bytes = units * encoding_unit_bytes(encoding);
    return TUTTI_OK;
}

static enum tutti_status check_apart(const char *call, const char *first_name, const void *first,
                                     size_t first_bytes, const char *second_name,
                                     const void *second, size_t second_bytes)
{
    const uintptr_t a = (uintptr_t)first, b = (uintptr_t)second;
    const bool overlap = a < b ? b - a < first_bytes : a - b < second_bytes;
    if (!overlap || first_bytes == 0 || second_bytes == 0) return TUTTI_OK;
    return error_set(TUTTI_INVALID_BUFFER, "tutti_%s: %s (%zu bytes) and %s (%zu bytes) overlap",
                     call, first_name, first_bytes, second_name, second_bytes);
}

static enum tutti_status check_places(const char *call, const void *elements, const void *encoded,
                                      const struct shape_of_encoded *shape)
{
    TRY(api_check_buffer(call, "elements", elements, shape->element_bytes));
    TRY(api_check_buffer(call, "encoded", encoded, shape->encoded_bytes));
    return check_apart(call, "elements", elements, shape->element_bytes, "encoded", encoded,
                       shape->encoded_bytes);
}

enum tutti_status tutti_encoded_size(enum tutti_encoding encoding, enum tutti_dtype dtype,
                                     size_t count, size_t *bytes)
{
    struct shape_of_encoded shape = {NULL, 0, 0};
    TRY(check_shape("encoded_size", encoding, dtype, count, &shape));
    TRY(api_check_buffer("encoded_size", "bytes", bytes, sizeof *bytes));
    *bytes = shape.encoded_bytes;
    return TUTTI_OK;
}

enum tutti_status tutti_encode(enum tutti_encoding encoding, enum tutti_dtype dtype,
                               const void *elements, size_t count, void *encoded)
{
    struct shape_of_encoded shape = {NULL, 0, 0};
    TRY(check_shape("encode", encoding, dtype, count, &shape));
    TRY(check_places("encode", elements, encoded, &shape));
    encoding_encode(kernel_level_chosen(), shape.format, elements, count, encoded);
    return TUTTI_OK;
}

enum tutti_status tutti_decode(enum tutti_encoding encoding, enum tutti_dtype dtype,
                               const void *encoded, size_t count, void *elements)
{
    struct shape_of_encoded shape = {NULL, 0, 0};
    TRY(check_shape("decode", encoding, dtype, count, &shape));
    TRY(check_places("decode", elements, encoded, &shape));
    encoding_decode(kernel_level_chosen(), shape.format, encoded, count, elements);
    return TUTTI_OK;
}

enum tutti_status tutti_encode_residual(enum tutti_encoding encoding, enum tutti_dtype dtype,
                                        const void *elements, size_t count, void *encoded,
                                        void *residual)
{
    const char *const call = "encode_residual";
    struct shape_of_encoded shape = {NULL, 0, 0};
    TRY(check_shape(call, encoding, dtype, count, &shape));
    TRY(check_places(call, elements, encoded, &shape));
    TRY(api_check_buffer(call, "residual", residual, shape.element_bytes));
    if (residual != elements)
        TRY(check_apart(call, "elements", elements, shape.element_bytes, "residual", residual,
                        shape.element_bytes));
    TRY(check_apart(call, "encoded", encoded, shape.encoded_bytes, "residual", residual,
                    shape.element_bytes));
    encoding_encode_residual(kernel_level_chosen(), shape.format, elements, count, encoded,
                             residual);
    return TUTTI_OK;
}

#include "tests/engine/toy_encoding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUE_MAX = 0x7fff };

static void load(const void *from, const struct kernel_format *format, size_t count, int32_t *to)
{
    assert_null(format->memory);
    if (format->encoding == NULL) {
        memcpy(to, from, count * sizeof *to);
        return;
    }
    uint16_t first = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t in_unit = i % format->encoding->unit_elements;
        uint16_t element;
        memcpy(&element, (const char *)from + i * sizeof element, sizeof element);
        if (in_unit == 0) first = element;
        to[i] = in_unit == 0 ? element : first ^ element;
    }
}

static void store(void *to, const struct kernel_format *format, size_t count, const int32_t *from)
{
    assert_null(format->memory);
    if (format->encoding == NULL) {
        memcpy(to, from, count * sizeof *from);
        return;
    }
    const size_t unit_elements = format->encoding->unit_elements,
                 whole = (count + unit_elements - 1) / unit_elements * unit_elements;
    int32_t first = 0;
    for (size_t i = 0; i < whole; i++) {
        const int32_t value = i < count ? from[i] : 0;
        assert_true(value >= 0 && value <= VALUE_MAX);
        if (i % unit_elements == 0) first = value;
        const uint16_t element = (uint16_t)(i % unit_elements == 0 ? value : value ^ first);
        memcpy((char *)to + i * sizeof element, &element, sizeof element);
    }
}

static void toy_reduce(const struct kernel_call *call)
{
    const struct kernel_formats *const formats = call->formats;
    assert_non_null(formats);
    assert_null(call->also);
    int32_t *const sum = calloc(call->count + 1, sizeof *sum), *const more = calloc(call->count + 1,
                                                                                    sizeof *more);
    assert_true(sum != NULL && more != NULL);
    for (unsigned s = 0; s < call->source_count; s++) {
        load(call->sources[s], &formats->sources[s], call->count, more);
        for (size_t i = 0; i < call->count; i++) sum[i] += more[i];
    }
    store(call->destination, &formats->destination, call->count, sum);
    for (unsigned o = 0; o < call->other_count; o++)
        store(call->others[o], &formats->others[o], call->count, sum);
    free(sum);
    free(more);
}

const struct kernel_set toy_kernels = {toy_reduce, toy_reduce};

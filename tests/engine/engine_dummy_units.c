/* An encoding of half the bytes, in units of a number of elements that divides no piece. */
#include "tests/engine/engine_dummy.h"
#include "tests/engine/toy_encoding.h"

static const struct kernel_encoding units = {
    .name = "units", .id = 0x756e6974, .unit_elements = 7, .unit_bytes = 14};

const struct engine_dummy engine_dummy_units = {
    .name = "units", .encoding = &units, .kernels = &toy_kernels};

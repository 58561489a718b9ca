/* An encoding of half the bytes, element by element. */
#include "tests/engine/engine_dummy.h"
#include "tests/engine/toy_encoding.h"

static const struct kernel_encoding half = {
    .name = "half", .id = 0x68616c66, .unit_elements = 1, .unit_bytes = 2};

const struct engine_dummy engine_dummy_half = {
    .name = "half", .encoding = &half, .kernels = &toy_kernels};

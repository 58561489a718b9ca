#include "base/encoding.h"

#include <string.h>

static const struct {
    const char *name;
    unsigned unit_elements, unit_bytes;
    bool takes_halves;
    double error, largest;
} encodings[ENCODING_COUNT] = {[TUTTI_ENCODING_NONE] = {"none", 1, 0, false, 0, 0},
#define X(enumerator, name, unit_elements, unit_bytes, takes_halves, error, largest) \
    [enumerator] = {#name, unit_elements, unit_bytes, takes_halves, error, largest},
                               ENCODING_LIST(X)
#undef X
};

bool encoding_takes(enum tutti_encoding encoding, enum tutti_dtype dtype)
{
    if (dtype == TUTTI_FLOAT32) return true;
    return (dtype == TUTTI_BFLOAT16 || dtype == TUTTI_FLOAT16) && encodings[encoding].takes_halves;
}

unsigned encoding_unit_elements(enum tutti_encoding encoding)
{
    return encodings[encoding].unit_elements;
}

unsigned encoding_unit_bytes(enum tutti_encoding encoding)
{
    return encodings[encoding].unit_bytes;
}

double encoding_error_max(enum tutti_encoding encoding)
{
    return encodings[encoding].error;
}

double encoding_largest(enum tutti_encoding encoding)
{
    return encodings[encoding].largest;
}

enum tutti_encoding encoding_from_name(const char *name)
{
    for (unsigned i = 1; i < ENCODING_COUNT; i++)
        if (strcmp(encodings[i].name, name) == 0) return (enum tutti_encoding)i;
    return TUTTI_ENCODING_NONE;
}

const char *tutti_encoding_name(enum tutti_encoding encoding)
{
    return (unsigned)encoding < ENCODING_COUNT ? encodings[encoding].name : "unknown";
}

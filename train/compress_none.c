/* compress_none.c - the method that leaves every tensor alone. */
#include "compress_state.h"

static size_t measure(const struct tutti_compressor *c, struct compress_tensor *tensor)
{
    (void)c, (void)tensor;
    return 0;
}

static enum tutti_status prepare(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    (void)c, (void)bucket;
    return TUTTI_OK;
}

static void begin(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    (void)c, (void)bucket;
}

static enum tutti_status middle(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    (void)c, (void)bucket;
    return TUTTI_OK;
}

static size_t end(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    (void)c, (void)bucket;
    return 0;
}

const struct compress_method compress_none = {"none", measure, prepare, begin, middle, end};

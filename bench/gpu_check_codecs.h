/* gpu_check_codecs.h - the part of gpu_check that compares encodings: the bits that a device
 * encodes, decodes and adds up, beside those of the scalar codecs of the CPU. Only gpu_check.c includes it.
 */
#ifndef BENCH_GPU_CHECK_CODECS_H
#define BENCH_GPU_CHECK_CODECS_H

/* One sum with an encoding: of the places, sources come first. */
struct codec_trial {
    const struct kernel_encoding *encoding;
    enum tutti_dtype dtype;
    size_t count;
    unsigned source_count, blocks;
    bool through, is_encoded[PLACES_MAX];
    unsigned offsets[PLACES_MAX];
};
enum { CODEC_PLACES = 2 }; /* one of each form */

static size_t codec_bytes(const struct codec_trial *t, bool is_encoded)
{
    return is_encoded ? kernel_encoded_bytes(t->encoding, t->count)
                      : t->count * dtype_size(t->dtype);
}

/* Any bits; or numbers of whose sums none is too large, as NaN that are computed may differ. */
static void codec_fill(const struct codec_trial *t, unsigned s, bool is_wild)
{
    const size_t size = dtype_size(t->dtype);
    unsigned char *const plain = t->is_encoded[s] ? expected : host_rooms[s] + t->offsets[s];
    for (size_t i = 0; i < t->count; i++) {
        uint64_t bits = trial_element(t->dtype);
        const float number = (float)(int32_t)random_next() * 0x1p-26f;
        if (!is_wild) memcpy(&bits, (const char *)&number + 4 - size, size);
        if (!is_wild && t->dtype == TUTTI_FLOAT16) bits &= 0xb7ff; /* below 1 */
        memcpy(plain + i * size, &bits, size);
    }
    if (t->is_encoded[s])
        encoding_encode(KERNEL_SCALAR, t->encoding, plain, t->count, host_rooms[s] + t->offsets[s]);
}

static void codec_compare(const struct codec_trial *t, unsigned place)
{
    const unsigned room = SOURCES_MAX + place;
    const unsigned char *const got = host_rooms[room];
    const size_t begin = GUARD + t->offsets[room], bytes = codec_bytes(t, place == 0);
    for (size_t i = 0; i < begin + bytes + GUARD; i++) {
        const bool is_guard = i < begin || i >= begin + bytes;
        const unsigned char right = is_guard ? 0xa5 : expected[i - begin];
        if (got[i] == right || differing++ >= COMPLAINTS_MAX) continue;
        printf("DIFFERS: %s, dtype %s, %zu elements of %u sources%s: byte %zd of the %s place is "
               "%#x instead of %#x\n",
               t->encoding->name, dtype_names[t->dtype], t->count, t->source_count,
               t->through ? ", through" : "", (ssize_t)(i - begin),
               place == 0 ? "encoded" : "plain", got[i], right);
    }
}

static void codec_run(const struct codec_trial *t)
{
    uint64_t from[SOURCES_MAX], to[CODEC_PLACES];
    const void *sources[SOURCES_MAX];
    struct kernel_format formats[SOURCES_MAX] = {{0}};
    for (unsigned s = 0; s < t->source_count; s++) {
        sources[s] = host_rooms[s] + t->offsets[s];
        copy(device_rooms[s] + t->offsets[s], address_of(sources[s]),
             codec_bytes(t, t->is_encoded[s]));
        formats[s].encoding = t->is_encoded[s] ? t->encoding : NULL;
        from[s] = (device_rooms[s] + t->offsets[s]) | (t->is_encoded[s] ? GPU_ENCODED : 0);
    }
    for (unsigned p = 0; p < CODEC_PLACES; p++) {
        const unsigned room = SOURCES_MAX + p;
        const size_t bytes = 2 * GUARD + t->offsets[room] + codec_bytes(t, p == 0);
        memset(host_rooms[room], 0xa5, bytes);
        copy(device_rooms[room], address_of(host_rooms[room]), bytes);
        to[p] = (device_rooms[room] + GUARD + t->offsets[room]) | (p == 0 ? GPU_ENCODED : 0);
    }
    struct order order =
        order_of(t->dtype, OP_SUM, t->count, to, CODEC_PLACES, from, t->source_count);
    order.reduce.encoding = (uint8_t)(encoding_named(t->encoding) | (t->through ? GPU_THROUGH : 0));
    stream_wait(stream);
    reduce_launch(reduce_function, &order, t->blocks);
    for (unsigned p = 0; p < CODEC_PLACES; p++)
        copy(address_of(host_rooms[SOURCES_MAX + p]), device_rooms[SOURCES_MAX + p],
             2 * GUARD + t->offsets[SOURCES_MAX + p] + codec_bytes(t, p == 0));
    stream_wait(stream);
    for (unsigned p = 0; p < CODEC_PLACES; p++) {
        const struct kernel_formats all = {.destination = {p == 0 ? t->encoding : NULL, NULL},
                                           .sources = formats,
                                           .through = t->through ? t->encoding : NULL};
        encoding_kernels(KERNEL_SCALAR, t->dtype)
            .reduce(&(struct kernel_call){.destination = expected,
                                          .sources = sources,
                                          .source_count = t->source_count,
                                          .count = t->count,
                                          .dtype = t->dtype,
                                          .formats = &all});
        codec_compare(t, p);
    }
    cases++;
    elements += t->count * CODEC_PLACES;
}

static void bits_of_codecs(unsigned rounds)
{
    static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_FLOAT16};
    for (unsigned e = 1; e < ENCODING_COUNT; e++) {
        const uint64_t differing_before = differing, elements_before = elements;
        const double begin = seconds_now();
        for (unsigned round = 0; round < rounds; round++) {
            struct codec_trial t = {
                .encoding = encoding_of((enum tutti_encoding)e, dtypes[round % 3]),
                .dtype = dtypes[round % 3],
                .count = 1 + (round % 16 == 3 ? random_below(1 << 20) : random_below(3000)),
                .source_count = round % 4 < 2 ? 1 : 1 + random_below(SOURCES_MAX),
                .blocks = 1 + random_below((unsigned)multiprocessors),
                .through = random_below(2) == 0};
            if (t.encoding == NULL) continue;
            for (unsigned i = 0; i < PLACES_MAX; i++) {
                t.is_encoded[i] = random_below(2) == 0;
                t.offsets[i] = random_below(2) == 0 ? 0 : random_below(64);
            }
            for (unsigned s = 0; s < t.source_count; s++)
                codec_fill(&t, s, t.source_count == 1 && round % 2 == 0);
            codec_run(&t);
        }
        printf("bits %-12s %llu elements, %llu differ, %.1f s\n",
               tutti_encoding_name((enum tutti_encoding)e),
               (unsigned long long)(elements - elements_before),
               (unsigned long long)(differing - differing_before), seconds_now() - begin);
        fflush(stdout);
    }
}

#endif

/* encoded_run.h - gpu_encoded_run: one sum of plain and encoded sources to plain and encoded places,
 * by all threads of a device together. Only reduce_run.h includes it.
 *
 *     encoded source ──► image ─ decode ─┐
 *     plain source   ────────────────────┴─ sum, in float32 ─► rounded to the dtype ─┬─ encode ─► image ──► encoded places
 *                                           in order            (16 bits: once)      └──────────────────► plain places
 *                                                                                through: the encoded one, decoded
 *
 * Warps go by rows of 128 elements, which are whole units of every encoding. A lane has four
 * neighbouring elements: 16 bytes of float32, so a warp reads and stores a row at once. An encoded
 * row has 68 to 256 bytes, which begin anywhere: lanes bring 16 bytes each to the row's *image*,
 * near the threads, and take their codes from there.
 *
 *     lane          0         1         2        ...        31
 *     elements   0 1 2 3   4 5 6 7   8 9 ...             124 .. 127
 *     mxfp8    [s 0 1 2 3 4 5 ... 31][s 32 ...      ][s ...     ][s ...      ]    image: 4 units of 33 bytes, 8 lanes each
 *     int8     [ssss 0 1 2 3 4 5 ...                                         ]    1 unit of 132 bytes, 32 lanes
 *     fp8      [0 1 2 3 4 ...                                                ]    no scales
 *
 * 1. Codecs give the bits of codec_scalar.c for all numbers, infinities and NaN. Scales and codes
 *    come from the same source (encoding/codec_element.h).
 * 2. An image is written between two barriers of its warp, and read by others only behind the
 *    second one.
 * 3. All of a row is read before any of it is stored, so a destination may be a source that is
 *    encoded alike.
 */
#ifndef TUTTI_GPU_ENCODED_RUN_H
#define TUTTI_GPU_ENCODED_RUN_H

enum {
    ENCODED_LANE = GPU_ROW / DEVICE_LANES, /* elements */
    ENCODED_ROW_BYTES = 2 * GPU_ROW,       /* the most that a row has when encoded */
    ENCODED_WARPS_MAX = 512 / DEVICE_LANES
};

/* An encoded row, and a word more, which reads of two words may touch. */
struct encoded_image {
    union {
        uint32_t words[ENCODED_ROW_BYTES / 4 + 4];
        uint8_t bytes[ENCODED_ROW_BYTES + 16];
    };
};

/* The way in which an encoding lies in a row. */
struct encoded_shape {
    uint32_t unit_lanes, unit_bytes;
    uint32_t head;      /* bytes of a scale; 0: none */
    uint32_t code_bits; /* 4, 8 or 16 */
};

/* One sum, seen from a thread. */
struct encoded_work {
    struct reduce_work reduce; /* of float32 */
    enum tutti_dtype dtype;
    enum tutti_encoding encoding;
    bool through;
    struct encoded_shape shape;
    struct encoded_image *image; /* of the warp */
    uint64_t first;              /* element of the row */
    uint32_t count;              /* elements that there are in it */
};

/* The elements of the lanes that a thread plays. */
struct encoded_row {
    float elements[DEVICE_OWN_LANES][ENCODED_LANE];
};

/* ------------------------------------------------------------------------------ single elements
 *
 * As kernel_element.h's, with the digits of NaN, but without branches. */

DEVICE_FUNCTION float encoded_widen_float16(uint32_t code)
{
    const uint32_t nan = (code & 0x8000u) << 16 | FLOAT32_NAN | (code & 0x3ffu) << 13;
    const float a = reduce_load_float16(NULL, code);
    return (code & 0x7fffu) > 0x7c00u ? float32_of_bits(nan) : a;
}

DEVICE_FUNCTION uint32_t encoded_narrow_float16(float a)
{
    const uint32_t bits = float32_bits(a);
    const uint32_t nan = (bits >> 16 & 0x8000u) | 0x7e00u | (bits & 0x007fffffu) >> 13;
    const uint32_t code = (uint32_t)reduce_store_float16(NULL, a);
    return a != a ? nan : code;
}

DEVICE_FUNCTION uint32_t encoded_narrow_bfloat16(float a)
{
    const uint32_t bits = float32_bits(a);
    return (a != a ? bits | FLOAT32_QUIET : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

DEVICE_FUNCTION float encoded_widen_float8(bool is_e4m3, uint32_t code)
{
    const uint32_t magnitude = code & 0x7f, nan = (code & 0x80u) << 24 | FLOAT32_NAN;
    const float a = reduce_widen_float8(reduce_float8_of(is_e4m3), code);
    if (is_e4m3) return magnitude == 0x7f ? float32_of_bits(nan) : a;
    return magnitude > 0x7c ? float32_of_bits(nan | (code & 3u) << 21) : a;
}

DEVICE_FUNCTION uint32_t encoded_narrow_float8(bool is_e4m3, float a)
{
    const uint32_t bits = float32_bits(a);
    const uint32_t nan = (bits >> 24 & 0x80u) | 0x7eu | (bits >> 21 & 1u);
    const uint32_t code = reduce_narrow_float8(reduce_float8_of(is_e4m3), a);
    return a != a && !is_e4m3 ? nan : code;
}

/* A number times a factor, which may be NaN: its digits then. */
DEVICE_FUNCTION float encoded_product(float a, float factor)
{
    const float product = multiply_one_float32(a, factor);
    return factor != factor ? float32_of_bits(float32_bits(factor) | FLOAT32_QUIET) : product;
}

/* The number that a code stands for, without its unit's scale. */
DEVICE_FUNCTION float encoded_value(enum tutti_encoding encoding, uint32_t code)
{
    switch (encoding) {
    case TUTTI_ENCODING_FLOAT16: return encoded_widen_float16(code);
    case TUTTI_ENCODING_BFLOAT16: return float32_of_bits(code << 16);
    case TUTTI_ENCODING_FP8_E5M2: return encoded_widen_float8(false, code);
    case TUTTI_ENCODING_INT8: return (float)(int8_t)code;
    case TUTTI_ENCODING_INT4: return (float)((int32_t)(code ^ 8u) - 8);
    case TUTTI_ENCODING_MXINT8: return mxint8_value(code);
    case TUTTI_ENCODING_MXFP4: return mxfp4_value(code);
    default: return encoded_widen_float8(true, code); /* and MXFP8 */
    }
}

/* The code of a number. scale: of int8 and int4 what it is divided by, of Microscaling what it is
 * multiplied with. */
DEVICE_FUNCTION uint32_t encoded_code(enum tutti_encoding encoding, float a, float scale)
{
    switch (encoding) {
    case TUTTI_ENCODING_FLOAT16: return encoded_narrow_float16(a);
    case TUTTI_ENCODING_BFLOAT16: return encoded_narrow_bfloat16(a);
    case TUTTI_ENCODING_FP8_E4M3: return encoded_narrow_float8(true, a);
    case TUTTI_ENCODING_FP8_E5M2: return encoded_narrow_float8(false, a);
    case TUTTI_ENCODING_INT8: return (uint32_t)to_integer(divide_one_by_float32(a, scale)) & 0xff;
    case TUTTI_ENCODING_INT4: return (uint32_t)to_integer(divide_one_by_float32(a, scale)) & 0xf;
    case TUTTI_ENCODING_MXINT8: return mxint8_code(a * scale) & 0xff;
    case TUTTI_ENCODING_MXFP4: return mxfp4_code(a * scale);
    default: { /* MXFP8 */
        float b = a * scale;
        b = b > E4M3_LARGEST ? E4M3_LARGEST : b;
        return encoded_narrow_float8(true, b < -E4M3_LARGEST ? -E4M3_LARGEST : b);
    }
    }
}

/* ---------------------------------------------------------------------------------------- images */

DEVICE_FUNCTION struct encoded_shape encoded_shape_of(enum tutti_encoding encoding)
{
    switch (encoding) {
    case TUTTI_ENCODING_FLOAT16:
    case TUTTI_ENCODING_BFLOAT16: return (struct encoded_shape){DEVICE_LANES, 256, 0, 16};
    case TUTTI_ENCODING_FP8_E4M3:
    case TUTTI_ENCODING_FP8_E5M2: return (struct encoded_shape){DEVICE_LANES, 128, 0, 8};
    case TUTTI_ENCODING_INT8: return (struct encoded_shape){DEVICE_LANES, 132, SCALED_HEAD, 8};
    case TUTTI_ENCODING_INT4: return (struct encoded_shape){DEVICE_LANES, 68, SCALED_HEAD, 4};
    case TUTTI_ENCODING_MXFP4: return (struct encoded_shape){8, 17, MX_HEAD, 4};
    default: return (struct encoded_shape){8, 33, MX_HEAD, 8};
    }
}

/* The bytes of so many elements of a row: whole units, but for single elements. */
DEVICE_FUNCTION uint32_t encoded_bytes(const struct encoded_shape *shape, uint32_t count)
{
    const uint32_t unit = shape->unit_lanes * ENCODED_LANE;
    if (shape->head == 0) return count * shape->code_bits / 8;
    return (count + unit - 1) / unit * shape->unit_bytes;
}

DEVICE_FUNCTION uint32_t encoded_unit_offset(const struct encoded_shape *shape, uint32_t lane)
{
    return lane / shape->unit_lanes * shape->unit_bytes;
}

/* Where the codes of a lane begin. */
DEVICE_FUNCTION uint32_t encoded_code_offset(const struct encoded_shape *shape, uint32_t lane)
{
    return encoded_unit_offset(shape, lane) + shape->head +
           lane % shape->unit_lanes * (shape->code_bits / 2);
}

/* Four bytes from anywhere in an image. */
DEVICE_FUNCTION uint32_t encoded_take(const struct encoded_image *image, uint32_t offset)
{
    const uint64_t low = image->words[offset / 4], high = image->words[offset / 4 + 1];
    return (uint32_t)((high << 32 | low) >> 8 * (offset % 4));
}

/* The part of a row's `bytes` in its vector `lane`. */
DEVICE_FUNCTION uint32_t encoded_part(uint32_t bytes, uint32_t lane)
{
    const uint32_t begin = lane * DEVICE_VECTOR_BYTES;
    const uint32_t left = bytes > begin ? bytes - begin : 0;
    return left < DEVICE_VECTOR_BYTES ? left : DEVICE_VECTOR_BYTES;
}

DEVICE_FUNCTION void encoded_load_image(const struct encoded_work *work, uint64_t address)
{
    const uint32_t bytes = encoded_bytes(&work->shape, work->count);
    device_warp_barrier();
    DEVICE_EACH (l, DEVICE_OWN_LANES) {
        const uint32_t lane = device_lane() + l;
        const uint32_t part = encoded_part(bytes, lane);
        if (part > 0) {
            const struct device_vector v = vector_load(address + lane * DEVICE_VECTOR_BYTES, part);
            DEVICE_EACH (i, 4) work->image->words[4 * lane + i] = v.words[i];
        }
    }
    device_warp_barrier();
}

DEVICE_FUNCTION void encoded_store_image(const struct encoded_work *work, uint64_t address)
{
    const uint32_t bytes = encoded_bytes(&work->shape, work->count);
    DEVICE_EACH (l, DEVICE_OWN_LANES) {
        const uint32_t lane = device_lane() + l;
        const uint32_t part = encoded_part(bytes, lane);
        if (part > 0) {
            struct device_vector v;
            DEVICE_EACH (i, 4) v.words[i] = work->image->words[4 * lane + i];
            vector_store(address + lane * DEVICE_VECTOR_BYTES, v, part);
        }
    }
}

/* ---------------------------------------------------------------------------------------- codecs */

/* The factor of a lane's unit. */
DEVICE_FUNCTION float encoded_factor(const struct encoded_work *work, uint32_t lane)
{
    const uint32_t head = encoded_take(work->image, encoded_unit_offset(&work->shape, lane));
    return work->shape.head == MX_HEAD ? mx_factor((unsigned char)head) : float32_of_bits(head);
}

DEVICE_FUNCTION void encoded_decode(const struct encoded_work *work, struct encoded_row *row)
{
    const struct encoded_shape *const shape = &work->shape;
    const uint32_t mask = (1u << shape->code_bits) - 1;
    DEVICE_EACH (l, DEVICE_OWN_LANES) {
        const uint32_t lane = device_lane() + l, offset = encoded_code_offset(shape, lane);
        const uint32_t low = encoded_take(work->image, offset),
                       high = encoded_take(work->image, offset + 4);
        const uint64_t codes = (uint64_t)high << 32 | low;
        DEVICE_EACH (i, ENCODED_LANE) {
            const uint32_t code = (uint32_t)(codes >> i * shape->code_bits) & mask;
            row->elements[l][i] = encoded_value(work->encoding, code);
        }
        if (shape->head != 0) {
            const float factor = encoded_factor(work, lane);
            DEVICE_EACH (i, ENCODED_LANE)
                row->elements[l][i] = encoded_product(row->elements[l][i], factor);
        }
    }
}

/* Writes the head of a lane's unit, whose largest magnitude is given as bits, if the lane is the
 * unit's first. Returns the scale for encoded_code; *is_empty: the unit has no numbers. */
DEVICE_FUNCTION float encoded_begin(const struct encoded_work *work, uint32_t lane,
                                    uint32_t largest, bool *is_empty)
{
    const struct encoded_shape *const shape = &work->shape;
    const uint32_t exponent = work->encoding == TUTTI_ENCODING_MXFP8    ? E4M3_EXPONENT
                              : work->encoding == TUTTI_ENCODING_MXINT8 ? MXINT8_EXPONENT
                                                                        : E2M1_EXPONENT;
    const unsigned char power = mx_scale_of(largest, exponent);
    float scale = mx_inverse(power);
    uint32_t head = power;
    if (shape->head == SCALED_HEAD) {
        scale =
            scale_of(largest, work->encoding == TUTTI_ENCODING_INT8 ? INT8_LARGEST : INT4_LARGEST);
        head = float32_bits(scale);
    }
    *is_empty = largest >= FLOAT32_INFINITY;
    if (lane % shape->unit_lanes == 0)
        for (uint32_t b = 0; b < shape->head; b++)
            work->image->bytes[encoded_unit_offset(shape, lane) + b] = (uint8_t)(head >> 8 * b);
    return scale;
}

/* To the image. Elements that there are not are zeros. */
DEVICE_FUNCTION void encoded_encode(const struct encoded_work *work, const struct encoded_row *row)
{
    const struct encoded_shape *const shape = &work->shape;
    uint32_t largest[DEVICE_OWN_LANES];
    DEVICE_EACH (l, DEVICE_OWN_LANES) {
        largest[l] = 0;
        DEVICE_EACH (i, ENCODED_LANE) {
            const uint32_t bits = float32_bits(row->elements[l][i]) & FLOAT32_MAGNITUDE;
            largest[l] = bits > largest[l] ? bits : largest[l];
        }
    }
    device_largest(largest, shape->unit_lanes);
    device_warp_barrier();
    DEVICE_EACH (l, DEVICE_OWN_LANES) {
        const uint32_t lane = device_lane() + l, offset = encoded_code_offset(shape, lane);
        bool is_empty = false;
        float scale = 1;
        if (shape->head != 0) scale = encoded_begin(work, lane, largest[l], &is_empty);
        uint64_t codes = 0;
        DEVICE_EACH (i, ENCODED_LANE) {
            const uint64_t code = encoded_code(work->encoding, row->elements[l][i], scale);
            codes |= code << i * shape->code_bits;
        }
        if (is_empty) codes = 0;
        for (uint32_t b = 0; b < shape->code_bits / 2; b++)
            work->image->bytes[offset + b] = (uint8_t)(codes >> 8 * b);
    }
    device_warp_barrier();
}

/* ----------------------------------------------------------------------------------- plain places */

/* How many elements of the row a lane has. */
DEVICE_FUNCTION uint32_t encoded_lane_count(const struct encoded_work *work, uint32_t lane)
{
    const uint32_t begin = lane * ENCODED_LANE;
    const uint32_t left = work->count > begin ? work->count - begin : 0;
    return left < ENCODED_LANE ? left : ENCODED_LANE;
}

DEVICE_FUNCTION uint32_t encoded_dtype_bytes(const struct encoded_work *work)
{
    return work->dtype == TUTTI_FLOAT32 ? 4 : 2;
}

DEVICE_FUNCTION float encoded_widen(const struct encoded_work *work, uint32_t half)
{
    return work->dtype == TUTTI_BFLOAT16 ? float32_of_bits(half << 16) : encoded_widen_float16(half);
}

DEVICE_FUNCTION uint32_t encoded_narrow(const struct encoded_work *work, float a)
{
    return work->dtype == TUTTI_BFLOAT16 ? encoded_narrow_bfloat16(a) : encoded_narrow_float16(a);
}

DEVICE_FUNCTION void encoded_load_plain(const struct encoded_work *work, uint64_t address,
                                        struct encoded_row *row)
{
    const uint32_t size = encoded_dtype_bytes(work);
    DEVICE_EACH (l, DEVICE_OWN_LANES) {
        const uint32_t lane = device_lane() + l;
        const struct device_vector v = vector_load(address + lane * ENCODED_LANE * size,
                                                   encoded_lane_count(work, lane) * size);
        DEVICE_EACH (i, ENCODED_LANE) {
            row->elements[l][i] = work->dtype == TUTTI_FLOAT32
                                      ? float32_of_bits(v.words[i])
                                      : encoded_widen(work, v.words[i / 2] >> i % 2 * 16 & 0xffffu);
        }
    }
}

DEVICE_FUNCTION void encoded_store_plain(const struct encoded_work *work, uint64_t address,
                                         const struct encoded_row *row)
{
    const uint32_t size = encoded_dtype_bytes(work);
    DEVICE_EACH (l, DEVICE_OWN_LANES) {
        const uint32_t lane = device_lane() + l, bytes = encoded_lane_count(work, lane) * size;
        struct device_vector v = vector_zero();
        DEVICE_EACH (i, ENCODED_LANE) {
            if (work->dtype == TUTTI_FLOAT32)
                v.words[i] = float32_bits(row->elements[l][i]);
            else
                v.words[i / 2] |= encoded_narrow(work, row->elements[l][i]) << i % 2 * 16;
        }
        vector_store(address + lane * ENCODED_LANE * size, v, bytes);
    }
}

/* ------------------------------------------------------------------------------------------- rows */

/* Where the row begins in a place, as its pointer says. */
DEVICE_FUNCTION uint64_t encoded_place(const struct encoded_work *work, uint64_t pointer)
{
    const uint64_t rows = work->first / GPU_ROW;
    if ((pointer & GPU_ENCODED) == 0) return pointer + work->first * encoded_dtype_bytes(work);
    return (pointer & ~GPU_ENCODED) + rows * encoded_bytes(&work->shape, GPU_ROW);
}

DEVICE_FUNCTION void encoded_sum(const struct encoded_work *work, struct encoded_row *sum)
{
    for (uint32_t s = 0; s < work->reduce.source_count; s++) {
        const uint64_t pointer = work->reduce.sources[s], address = encoded_place(work, pointer);
        struct encoded_row row;
        if (pointer & GPU_ENCODED) {
            encoded_load_image(work, address);
            encoded_decode(work, &row);
        } else {
            encoded_load_plain(work, address, &row);
        }
        DEVICE_EACH (l, DEVICE_OWN_LANES) {
            DEVICE_EACH (i, ENCODED_LANE) {
                const float a = sum->elements[l][i], b = row.elements[l][i];
                sum->elements[l][i] = s == 0 ? b : add_one_float32(a, b);
            }
        }
    }
}

/* Divides or scales a sum, rounds it to the dtype, and makes zeros of elements that there are
 * not. */
DEVICE_FUNCTION void encoded_finish(const struct encoded_work *work, struct encoded_row *sum)
{
    DEVICE_EACH (l, DEVICE_OWN_LANES) {
        const uint32_t count = encoded_lane_count(work, device_lane() + l);
        DEVICE_EACH (i, ENCODED_LANE) {
            float a = sum->elements[l][i];
            if (work->reduce.finish == REDUCE_DIVIDE)
                a = reduce_divide_float32(&work->reduce, a);
            else if (work->reduce.finish == REDUCE_SCALE)
                a = reduce_scale_float32(&work->reduce, a);
            if (work->dtype != TUTTI_FLOAT32) a = encoded_widen(work, encoded_narrow(work, a));
            sum->elements[l][i] = i < count ? a : 0;
        }
    }
}

DEVICE_FUNCTION void encoded_run_row(const struct encoded_work *work)
{
    struct encoded_row row = {{{0}}};
    bool encodes = work->through;
    for (uint32_t d = 0; d < work->reduce.destination_count; d++)
        encodes |= (work->reduce.destinations[d] & GPU_ENCODED) != 0;
    encoded_sum(work, &row);
    encoded_finish(work, &row);
    if (encodes) encoded_encode(work, &row);
    if (work->through) encoded_decode(work, &row);
    for (uint32_t d = 0; d < work->reduce.destination_count; d++) {
        const uint64_t pointer = work->reduce.destinations[d],
                       address = encoded_place(work, pointer);
        if (pointer & GPU_ENCODED)
            encoded_store_image(work, address);
        else
            encoded_store_plain(work, address, &row);
    }
}

/* The part of a thread: `reduce` is ready, but for the loops. */
DEVICE_FUNCTION void gpu_encoded_run(const struct reduce_work *reduce)
{
    DEVICE_SHARED struct encoded_image images[DEVICE_WARP == 1 ? 1 : ENCODED_WARPS_MAX];
    const uint64_t rows = (reduce->reduce->count + GPU_ROW - 1) / GPU_ROW;
    struct encoded_work work = {.reduce = *reduce};
    work.dtype = (enum tutti_dtype)reduce->reduce->dtype;
    work.through = (reduce->reduce->encoding & GPU_THROUGH) != 0;
    work.encoding = (enum tutti_encoding)(reduce->reduce->encoding & ~GPU_THROUGH);
    work.shape = encoded_shape_of(work.encoding);
    work.image = &images[device_thread() / DEVICE_WARP];
    for (uint64_t r = reduce->thread / DEVICE_WARP; r < rows; r += reduce->threads / DEVICE_WARP) {
        const uint64_t left = reduce->reduce->count - r * GPU_ROW;
        work.first = r * GPU_ROW;
        work.count = left < GPU_ROW ? (uint32_t)left : GPU_ROW;
        encoded_run_row(&work);
    }
}

#endif

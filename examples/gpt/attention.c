#include "attention.h"

/* Queries are taken in blocks, so that most products that the mask would hide are never
 * computed. */
enum { BLOCK = 64 };

void attention_rotation(size_t context, size_t head_size, real *rotation)
{
    const size_t half = head_size / 2;
    for (size_t position = 0; position < context; position++)
        for (size_t i = 0; i < half; i++) {
            const double angle = (double)position * pow(10000, -(double)i / (double)half);
            rotation[position * head_size + i] = (real)cos(angle);
            rotation[position * head_size + half + i] = (real)sin(angle);
        }
}

/* Turns all heads of all rows: by the angles of their positions, or, with direction -1, back. */
static void rotate(const struct attention *attention, size_t samples, real direction, real *values)
{
    const size_t size = attention->head_size, half = size / 2;
    for (size_t row = 0; row < samples * attention->context; row++) {
        const real *restrict cosine = attention->rotation + row % attention->context * size;
        const real *restrict sine = cosine + half;
        for (size_t head = 0; head < attention->heads; head++, values += size) {
            real *restrict low = values, *restrict high = values + half;
            for (size_t i = 0; i < half; i++) {
                const real s = direction * sine[i], a = low[i], b = high[i];
                low[i] = a * cosine[i] - b * s;
                high[i] = a * s + b * cosine[i];
            }
        }
    }
}

/* Softmax over the first `seen` of `count` values; the rest becomes 0. */
static void softmax(real *restrict values, size_t seen, size_t count)
{
    real most = values[0], sum = 0;
    for (size_t i = 1; i < seen; i++) most = values[i] > most ? values[i] : most;
    for (size_t i = 0; i < seen; i++) values[i] = real_exp(values[i] - most);
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < seen; i++) sum += values[i];
    const real inverse = 1 / sum;
    for (size_t i = 0; i < seen; i++) values[i] *= inverse;
    for (size_t i = seen; i < count; i++) values[i] = 0;
}

/* One head of one sample: `shares` and `mixed` from rotated queries and keys, and values. */
static void mix(const struct attention *attention, const real *query, const real *key,
                const real *value, real *shares, real *mixed)
{
    const size_t context = attention->context, size = attention->head_size;
    const size_t stride = attention->heads * size;
    const real scale = (real)(1 / sqrt((double)size));
    for (size_t first = 0; first < context; first += BLOCK) {
        const size_t rows = context - first < BLOCK ? context - first : BLOCK;
        const size_t seen = first + rows; /* keys and values up to the block's last */
        real *block = shares + first * context;
        multiply(rows, seen, size, scale, plain(query + first * stride, stride),
                 transposed(key, stride), PRODUCT_SET, block, context);
        for (size_t r = 0; r < rows; r++) softmax(block + r * context, first + r + 1, seen);
        multiply(rows, size, seen, 1, plain(block, context), plain(value, stride), PRODUCT_SET,
                 mixed + first * stride, stride);
    }
}

/* The backward pass of mix. With P the shares and S the products before softmax:
 *     dV = P^T dO,   dP = dO V^T,   dS = P * (dP - sum over the row of P * dP),   dQ = dS K,   dK = dS^T Q. */
static void mix_backward(const struct attention *attention, const real *query, const real *key,
                         const real *value, const real *shares, const real *mixed_gradient,
                         real *shares_gradient, real *query_gradient, real *key_gradient,
                         real *value_gradient)
{
    const size_t context = attention->context, size = attention->head_size;
    const size_t stride = attention->heads * size;
    const real scale = (real)(1 / sqrt((double)size));
    for (size_t r = 0; r < context; r++) { /* blocks add to these */
        memset(key_gradient + r * stride, 0, size * sizeof(real));
        memset(value_gradient + r * stride, 0, size * sizeof(real));
    }
    for (size_t first = 0; first < context; first += BLOCK) {
        const size_t rows = context - first < BLOCK ? context - first : BLOCK;
        const size_t seen = first + rows;
        const real *block = shares + first * context;
        const struct matrix back = plain(mixed_gradient + first * stride, stride);
        multiply(seen, size, rows, 1, transposed(block, context), back, PRODUCT_ADD, value_gradient,
                 stride);
        multiply(rows, seen, size, 1, back, transposed(value, stride), PRODUCT_SET, shares_gradient,
                 context);
        for (size_t r = 0; r < rows; r++) {
            const real *restrict share = block + r * context;
            real *restrict gradient = shares_gradient + r * context;
            real sum = 0;
#pragma omp simd reduction(+ : sum)
            for (size_t i = 0; i < seen; i++) sum += share[i] * gradient[i];
            for (size_t i = 0; i < seen; i++) gradient[i] = share[i] * (gradient[i] - sum);
        }
        multiply(rows, size, seen, scale, plain(shares_gradient, context), plain(key, stride),
                 PRODUCT_SET, query_gradient + first * stride, stride);
        multiply(seen, size, rows, scale, transposed(shares_gradient, context),
                 plain(query + first * stride, stride), PRODUCT_ADD, key_gradient, stride);
    }
}

void attention_forward(const struct attention *attention, const struct attention_weights *weights,
                       const real *input, size_t samples, const struct attention_saved *saved,
                       real *output)
{
    const size_t context = attention->context, width = attention->width;
    const size_t features = attention->heads * attention->head_size, rows = samples * context;
    const struct matrix in = plain(input, width);
    multiply(rows, features, width, 1, in, plain(weights->query, features), PRODUCT_SET,
             saved->query, features);
    multiply(rows, features, width, 1, in, plain(weights->key, features), PRODUCT_SET, saved->key,
             features);
    multiply(rows, features, width, 1, in, plain(weights->value, features), PRODUCT_SET,
             saved->value, features);
    rotate(attention, samples, 1, saved->query);
    rotate(attention, samples, 1, saved->key);
    for (size_t i = 0; i < samples * attention->heads; i++) {
        const size_t sample = i / attention->heads, head = i % attention->heads;
        const size_t at = sample * context * features + head * attention->head_size;
        mix(attention, saved->query + at, saved->key + at, saved->value + at,
            saved->shares + i * context * context, saved->mixed + at);
    }
    multiply(rows, width, features, 1, plain(saved->mixed, features), plain(weights->output, width),
             PRODUCT_SET, output, width);
}

void attention_backward(const struct attention *attention, const struct attention_weights *weights,
                        const real *input, const struct attention_saved *saved,
                        const real *output_gradient, size_t samples,
                        const struct attention_scratch *scratch,
                        const struct attention_weights *gradients, real *input_gradient)
{
    const size_t context = attention->context, width = attention->width;
    const size_t features = attention->heads * attention->head_size, rows = samples * context;
    multiply(features, width, rows, 1, transposed(saved->mixed, features),
             plain(output_gradient, width), PRODUCT_ADD, gradients->output, width);
    multiply(rows, features, width, 1, plain(output_gradient, width),
             transposed(weights->output, width), PRODUCT_SET, scratch->mixed, features);
    for (size_t i = 0; i < samples * attention->heads; i++) {
        const size_t sample = i / attention->heads, head = i % attention->heads;
        const size_t at = sample * context * features + head * attention->head_size;
        mix_backward(attention, saved->query + at, saved->key + at, saved->value + at,
                     saved->shares + i * context * context, scratch->mixed + at, scratch->shares,
                     scratch->query + at, scratch->key + at, scratch->value + at);
    }
    rotate(attention, samples, -1, scratch->query);
    rotate(attention, samples, -1, scratch->key);

    const struct matrix in = transposed(input, width);
    const struct {
        const real *back, *weights;
        real *gradient;
    } branches[3] = {{scratch->query, weights->query, gradients->query},
                     {scratch->key, weights->key, gradients->key},
                     {scratch->value, weights->value, gradients->value}};
    for (int i = 0; i < 3; i++) {
        const struct matrix back = plain(branches[i].back, features);
        multiply(width, features, rows, 1, in, back, PRODUCT_ADD, branches[i].gradient, features);
        multiply(rows, width, features, 1, back, transposed(branches[i].weights, features),
                 i == 0 ? PRODUCT_SET : PRODUCT_ADD, input_gradient, width);
    }
}

#include "layers.h"

#include "counter.h"

static const real norm_epsilon = (real)1e-5; /* a row of zeros stays one */

/* ----------------------------------------------------------------------------------------- norm */

void norm_forward(const real *input, const real *gain, size_t rows, size_t width, real *inverse_rms,
                  real *output)
{
    for (size_t r = 0; r < rows; r++, input += width, output += width) {
        real squares = 0;
#pragma omp simd reduction(+ : squares)
        for (size_t i = 0; i < width; i++) squares += input[i] * input[i];
        const real inverse = 1 / real_sqrt(squares / (real)width + norm_epsilon);
        for (size_t i = 0; i < width; i++) output[i] = gain[i] * input[i] * inverse;
        inverse_rms[r] = inverse;
    }
}

void norm_backward(const real *input, const real *gain, const real *inverse_rms,
                   const real *output_gradient, size_t rows, size_t width, real *gain_gradient,
                   real *input_gradient)
{
    for (size_t r = 0; r < rows; r++) {
        const real inverse = inverse_rms[r];
        real product = 0;
#pragma omp simd reduction(+ : product)
        for (size_t i = 0; i < width; i++) product += gain[i] * output_gradient[i] * input[i];
        const real back = product * inverse * inverse * inverse / (real)width;
        for (size_t i = 0; i < width; i++) {
            gain_gradient[i] += output_gradient[i] * input[i] * inverse;
            input_gradient[i] += inverse * gain[i] * output_gradient[i] - back * input[i];
        }
        input += width;
        output_gradient += width;
        input_gradient += width;
    }
}

/* -------------------------------------------------------------------------------------- dropout */

uint64_t dropout_key(uint64_t seed, uint64_t step, size_t layer, enum dropout_place place)
{
    const uint64_t key = counter_bits(counter_bits(seed, COUNTER_DROPOUT), step);
    return counter_bits(key, layer * DROPOUT_PLACES + place);
}

void dropout_apply(const struct dropout *dropout, struct range range, size_t width, real *values)
{
    if (dropout->rate == 0) return;
    const real scale = 1 / (1 - dropout->rate);
    for (size_t r = range.first; r < range.first + range.count; r++, values += width) {
        const uint64_t sample = dropout->numbers[r / dropout->context];
        const uint64_t key = counter_bits(counter_bits(dropout->key, sample), r % dropout->context);
        for (size_t i = 0; i < width; i++)
            values[i] = counter_unit(key, i) < (double)dropout->rate ? 0 : values[i] * scale;
    }
}

/* ------------------------------------------------------------------------------------ embedding */

void embedding_forward(const uint32_t *tokens, size_t rows, const real *embedding,
                       struct range slice, size_t width, real *output)
{
    for (size_t r = 0; r < rows; r++, output += width) {
        if (tokens[r] - slice.first < slice.count)
            memcpy(output, embedding + (tokens[r] - slice.first) * width, width * sizeof *output);
        else
            memset(output, 0, width * sizeof *output);
    }
}

void embedding_backward(const uint32_t *tokens, const real *output_gradient, size_t rows,
                        struct range slice, size_t width, real *embedding_gradient)
{
    for (size_t r = 0; r < rows; r++, output_gradient += width) {
        if (tokens[r] - slice.first >= slice.count) continue;
        real *row = embedding_gradient + (tokens[r] - slice.first) * width;
        for (size_t i = 0; i < width; i++) row[i] += output_gradient[i];
    }
}

/* ------------------------------------------------------------------------------------------ MLP */

void mlp_forward(const struct mlp_weights *weights, const real *input, size_t rows, size_t width,
                 size_t hidden, const struct mlp_saved *saved, real *output)
{
    const struct matrix in = plain(input, width);
    multiply(rows, hidden, width, 1, in, plain(weights->gate, hidden), PRODUCT_SET, saved->gate,
             hidden);
    multiply(rows, hidden, width, 1, in, plain(weights->up, hidden), PRODUCT_SET, saved->up, hidden);
    const real *restrict gate = saved->gate, *restrict up = saved->up;
    real *restrict product = saved->product;
    for (size_t i = 0; i < rows * hidden; i++)
        product[i] = gate[i] / (1 + real_exp(-gate[i])) * up[i];
    multiply(rows, width, hidden, 1, plain(product, hidden), plain(weights->down, width),
             PRODUCT_SET, output, width);
}

void mlp_backward(const struct mlp_weights *weights, const real *input,
                  const struct mlp_saved *saved, const real *output_gradient, size_t rows,
                  size_t width, size_t hidden, const struct mlp_saved *scratch,
                  const struct mlp_weights *gradients, real *input_gradient)
{
    const struct matrix in = transposed(input, width);
    multiply(hidden, width, rows, 1, transposed(saved->product, hidden),
             plain(output_gradient, width), PRODUCT_ADD, gradients->down, width);
    multiply(rows, hidden, width, 1, plain(output_gradient, width),
             transposed(weights->down, width), PRODUCT_SET, scratch->product, hidden);

    /* With s = 1 / (1 + e^-x):  silu(x) = x s  and  silu'(x) = s (1 + x (1 - s)). */
    const real *restrict gate = saved->gate, *restrict up = saved->up;
    const real *restrict back = scratch->product;
    real *restrict gate_back = scratch->gate, *restrict up_back = scratch->up;
    for (size_t i = 0; i < rows * hidden; i++) {
        const real s = 1 / (1 + real_exp(-gate[i]));
        up_back[i] = back[i] * gate[i] * s;
        gate_back[i] = back[i] * up[i] * s * (1 + gate[i] * (1 - s));
    }

    multiply(width, hidden, rows, 1, in, plain(gate_back, hidden), PRODUCT_ADD, gradients->gate,
             hidden);
    multiply(width, hidden, rows, 1, in, plain(up_back, hidden), PRODUCT_ADD, gradients->up, hidden);
    multiply(rows, width, hidden, 1, plain(gate_back, hidden), transposed(weights->gate, hidden),
             PRODUCT_SET, input_gradient, width);
    multiply(rows, width, hidden, 1, plain(up_back, hidden), transposed(weights->up, hidden),
             PRODUCT_ADD, input_gradient, width);
}

/* ----------------------------------------------------------------------------------------- head */

/* Softmax in three passes, between which tensor-parallel ranks meet: the largest logit of each row,
 * the sum of exponentials, and the logit of the target, which one rank has. */
double head_forward(const real *head, const real *input, const uint32_t *targets, size_t rows,
                    size_t width, struct range slice, const struct exchange *exchange,
                    real *scratch, real *probabilities)
{
    const size_t count = slice.count;
    real *largest = scratch, *sums = scratch + rows, *wanted = scratch + 2 * rows;
    multiply(rows, count, width, 1, plain(input, width), transposed(head, width), PRODUCT_SET,
             probabilities, count);

    for (size_t r = 0; r < rows; r++) {
        const real *row = probabilities + r * count;
        real most = -INFINITY;
        for (size_t i = 0; i < count; i++) most = row[i] > most ? row[i] : most;
        largest[r] = most;
        const size_t target = targets[r] - slice.first;
        wanted[r] = target < count ? row[target] : 0;
    }
    exchange->max_values(largest, rows, exchange->context);

    for (size_t r = 0; r < rows; r++) {
        real *restrict row = probabilities + r * count;
        const real most = largest[r];
        real sum = 0;
        for (size_t i = 0; i < count; i++) row[i] = real_exp(row[i] - most);
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < count; i++) sum += row[i];
        sums[r] = sum;
    }
    exchange->sum_values(sums, 2 * rows, exchange->context); /* and what is wanted, behind them */

    double loss = 0;
    for (size_t r = 0; r < rows; r++) {
        real *restrict row = probabilities + r * count;
        const real inverse = 1 / sums[r];
        for (size_t i = 0; i < count; i++) row[i] *= inverse;
        loss += log((double)sums[r]) + (double)(largest[r] - wanted[r]);
    }
    return loss;
}

void head_backward(const real *head, const real *input, const uint32_t *targets, size_t rows,
                   size_t width, struct range slice, real scale, real *probabilities,
                   real *head_gradient, real *input_gradient)
{
    const size_t count = slice.count;
    for (size_t r = 0; r < rows; r++) {
        real *row = probabilities + r * count;
        const size_t target = targets[r] - slice.first;
        if (target < count) row[target] -= 1;
        for (size_t i = 0; i < count; i++) row[i] *= scale;
    }
    multiply(count, width, rows, 1, transposed(probabilities, count), plain(input, width),
             PRODUCT_ADD, head_gradient, width);
    multiply(rows, width, count, 1, plain(probabilities, count), plain(head, width), PRODUCT_SET,
             input_gradient, width);
}

#include "writer.h"

#include "counter.h"
#include "give_up.h"

static uint32_t likeliest(const real *probabilities, size_t vocabulary)
{
    size_t best = 0;
    for (size_t i = 1; i < vocabulary; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    return (uint32_t)best;
}

/* `unit` is evenly drawn from [0, 1). */
static uint32_t draw(const real *probabilities, size_t vocabulary, double temperature, double unit)
{
    if (temperature == 0) return likeliest(probabilities, vocabulary);
    double sum = 0;
    for (size_t i = 0; i < vocabulary; i++) sum += pow((double)probabilities[i], 1 / temperature);
    double left = sum * unit;
    for (size_t i = 0; i < vocabulary; i++)
        if ((left -= pow((double)probabilities[i], 1 / temperature)) < 0) return (uint32_t)i;
    return likeliest(probabilities, vocabulary);
}

static void print(const struct tokenizer *tokenizer, uint32_t token, FILE *file)
{
    size_t size;
    const unsigned char *bytes = tokenizer_bytes(tokenizer, token, &size);
    fwrite(bytes, 1, size, file);
}

void writer_write(struct model *model, struct saved *saved, const struct tokenizer *tokenizer,
                  const struct writer_options *options, const uint32_t *prompt, size_t prompt_count,
                  FILE *file)
{
    const size_t context = model->options.shape.context;
    const size_t vocabulary = model->options.shape.vocabulary;
    const uint64_t key = counter_bits(options->seed, COUNTER_WRITING), number = 0;
    uint32_t *tokens = allocate(context, sizeof *tokens);
    size_t count = prompt_count;
    memcpy(tokens, prompt, prompt_count * sizeof *tokens);
    for (size_t i = 0; i < count; i++) print(tokenizer, tokens[i], file);
    for (size_t i = 0; i < options->tokens; i++) {
        /* Tokens behind the last one change nothing before it. Targets are needed for a loss that
         * nobody asks for. */
        const struct batch batch = {
            .samples = 1, .inputs = tokens, .targets = tokens, .numbers = &number};
        model_forward(model, &batch, saved, NULL, NULL);
        const real *probabilities = saved_probabilities(saved) + (count - 1) * vocabulary;
        const uint32_t next =
            draw(probabilities, vocabulary, options->temperature, counter_unit(key, i));
        print(tokenizer, next, file);
        if (count == context) memmove(tokens, tokens + 1, --count * sizeof *tokens);
        tokens[count++] = next;
    }
    fputc('\n', file);
    free(tokens);
}

#include "data.h"

#include <dirent.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "counter.h"
#include "give_up.h"

enum {
    TEXT_BYTES_MAX = 256 << 20,
    STRETCH = 20,                 /* contexts, of which the last is held out */
    STRETCH_SAMPLES = STRETCH - 2 /* of training, at any shift of less than a context */
};
static const char licences[] = "/usr/share/common-licenses";

/* -------------------------------------------------------------------------------------- reading */

static void append_file(const char *path, unsigned char **bytes, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) give_up(path, strerror(errno));
    unsigned char buffer[1 << 14];
    for (size_t got; (got = fread(buffer, 1, sizeof buffer, file)) > 0;) {
        if (*size + got > TEXT_BYTES_MAX) give_up(path, "more than 256 MiB of text");
        *bytes = realloc(*bytes, *size + got);
        if (*bytes == NULL) give_up("memory", strerror(errno));
        memcpy(*bytes + *size, buffer, got);
        *size += got;
    }
    if (ferror(file)) give_up(path, strerror(errno));
    fclose(file);
}

/* Files alone: links lead to files that are there under another name. */
static int is_wanted(const struct dirent *entry)
{
    char path[sizeof licences + sizeof entry->d_name];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", licences, entry->d_name);
    return lstat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

unsigned char *data_read_text(const char *path, size_t *size)
{
    unsigned char *bytes = NULL;
    *size = 0;
    if (path != NULL) {
        append_file(path, &bytes, size);
    } else {
        struct dirent **entries;
        const int count = scandir(licences, &entries, is_wanted, compare_names);
        if (count < 0) give_up(licences, strerror(errno));
        for (int i = 0; i < count; i++) {
            char name[sizeof licences + sizeof entries[i]->d_name];
            snprintf(name, sizeof name, "%s/%s", licences, entries[i]->d_name);
            append_file(name, &bytes, size);
            free(entries[i]);
        }
        free(entries);
    }
    if (bytes == NULL) give_up(path != NULL ? path : licences, "no text there");
    return bytes;
}

/* -------------------------------------------------------------------------------------- samples */

static double entropy(const struct data *data, size_t vocabulary)
{
    size_t *counts = allocate(vocabulary, sizeof *counts);
    for (size_t i = 0; i < data->token_count; i++) counts[data->tokens[i]]++;
    double sum = 0;
    for (size_t i = 0; i < vocabulary; i++) {
        const double share = (double)counts[i] / (double)data->token_count;
        if (counts[i] > 0) sum -= share * log(share);
    }
    free(counts);
    return sum;
}

void data_init(struct data *data, const struct tokenizer *tokenizer, const unsigned char *text,
               size_t size, size_t context, uint64_t seed)
{
    *data = (struct data){.context = context, .seed = seed};
    data->tokens = allocate(size, sizeof *data->tokens);
    data->token_count = tokenizer_encode(tokenizer, text, size, data->tokens);
    if (data->token_count > 0) /* one more follows the last sample */
        data->stretches = (data->token_count - 1) / (STRETCH * context);
    if (data->stretches == 0) give_up("text", "it is too short: 20 contexts are needed");
    data->entropy_nats = entropy(data, tokenizer_vocabulary(tokenizer));
    data->bytes_per_token = (double)size / (double)data->token_count;
}

void data_release(struct data *data)
{
    free(data->tokens);
    data->tokens = NULL;
}

static void copy_sample(const struct data *data, size_t first, uint32_t *inputs, uint32_t *targets)
{
    memcpy(inputs, data->tokens + first, data->context * sizeof *inputs);
    memcpy(targets, data->tokens + first + 1, data->context * sizeof *targets);
}

void data_sample(const struct data *data, uint64_t number, uint32_t *inputs, uint32_t *targets)
{
    const uint64_t samples = data->stretches * STRETCH_SAMPLES;
    const uint64_t order = counter_bits(data->seed, COUNTER_ORDER);
    const uint64_t epoch = counter_bits(order, number / samples);
    const uint64_t sample = counter_permuted(epoch, samples, number % samples);
    const size_t shift = (size_t)(counter_bits(epoch, 0) % data->context);
    const size_t stretch = (size_t)sample / STRETCH_SAMPLES;
    const size_t place = stretch * STRETCH + (size_t)sample % STRETCH_SAMPLES;
    copy_sample(data, place * data->context + shift, inputs, targets);
}

size_t data_held_out_count(const struct data *data)
{
    return data->stretches;
}

void data_held_out(const struct data *data, size_t index, uint32_t *inputs, uint32_t *targets)
{
    const size_t place = index * STRETCH + STRETCH - 1;
    copy_sample(data, place * data->context, inputs, targets);
}

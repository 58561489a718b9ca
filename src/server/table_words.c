#include "server/table_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/printable.h"

enum word_kind { WORD_NUMBER, WORD_REAL, WORD_OPTIMIZER, WORD_INITIAL };

static const struct {
    const char *name;
    enum word_kind kind;
} fields[TABLE_WORDS_NUMBERS] = {
    {"row_count", WORD_NUMBER}, {"width", WORD_NUMBER},       {"optimizer", WORD_OPTIMIZER},
    {"initial", WORD_INITIAL},  {"rate", WORD_REAL},          {"momentum", WORD_REAL},
    {"rate_decay", WORD_REAL},  {"beta1", WORD_REAL},         {"beta2", WORD_REAL},
    {"epsilon", WORD_REAL},     {"initial_state", WORD_REAL}, {"weight_decay", WORD_REAL},
    {"decoupled", WORD_NUMBER}, {"nesterov", WORD_NUMBER},    {"initial_value", WORD_REAL},
    {"seed", WORD_NUMBER},      {"allows_nan", WORD_NUMBER},  {"state_count", WORD_NUMBER}};

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

void table_words_of(const struct tutti_server_table *table, struct table_words *words)
{
    *words = (struct table_words){
        .numbers = {table->row_count, table->width, (uint64_t)table->optimizer,
                    (uint64_t)table->initial, bits_of(table->rate), bits_of(table->momentum),
                    bits_of(table->rate_decay), bits_of(table->beta1), bits_of(table->beta2),
                    bits_of(table->epsilon), bits_of(table->initial_state),
                    bits_of(table->weight_decay), table->decoupled != 0, table->nesterov != 0,
                    bits_of(table->initial_value), table->seed, table->allows_nan != 0,
                    (uint64_t)table->state_count}};
    memcpy(words->name, table->name, strlen(table->name));
}

uint64_t table_words_hash(uint64_t hash, const struct table_words *words)
{
    for (const char *at = words->name; *at != 0; at++) hash = hash_take(hash, (unsigned char)*at);
    for (size_t i = 0; i < TABLE_WORDS_NUMBERS; i++) hash = hash_take(hash, words->numbers[i]);
    return hash;
}

static void write_word(enum word_kind kind, uint64_t word, char *text, size_t bytes)
{
    static const char *const optimizers[] = {[TUTTI_SERVER_SGD] = "SGD",
                                             [TUTTI_SERVER_MOMENTUM] = "MOMENTUM",
                                             [TUTTI_SERVER_ADAGRAD] = "ADAGRAD",
                                             [TUTTI_SERVER_ADAM] = "ADAM",
                                             [TUTTI_SERVER_FUNCTION] = "FUNCTION"};
    static const char *const initials[] = {[TUTTI_SERVER_CONSTANT] = "CONSTANT",
                                           [TUTTI_SERVER_UNIFORM] = "UNIFORM",
                                           [TUTTI_SERVER_NORMAL] = "NORMAL"};
    double real;
    memcpy(&real, &word, sizeof real);
    if (kind == WORD_REAL)
        snprintf(text, bytes, "%.17g", real);
    else if (kind == WORD_OPTIMIZER && word < sizeof optimizers / sizeof *optimizers)
        snprintf(text, bytes, "%s", optimizers[word]);
    else if (kind == WORD_INITIAL && word < sizeof initials / sizeof *initials)
        snprintf(text, bytes, "%s", initials[word]);
    else
        snprintf(text, bytes, "%" PRIu64, word);
}

/* Numbers that people wrote are short. */
static void write_both(enum word_kind kind, uint64_t own, uint64_t other, char texts[2][32])
{
    double reals[2];
    memcpy(&reals[0], &own, sizeof reals[0]);
    memcpy(&reals[1], &other, sizeof reals[1]);
    if (kind == WORD_REAL) {
        for (int i = 0; i < 2; i++) snprintf(texts[i], sizeof texts[i], "%g", reals[i]);
        if (strcmp(texts[0], texts[1]) != 0) return;
    }
    write_word(kind, own, texts[0], sizeof texts[0]);
    write_word(kind, other, texts[1], sizeof texts[1]);
}

static bool table_differs(size_t index, const struct table_words *own,
                          const struct table_words *other, char *text, size_t text_bytes)
{
    char names[2][61], values[2][32];
    snprintf(names[0], sizeof names[0], "%.60s", own->name);
    snprintf(names[1], sizeof names[1], "%.60s", other->name);
    for (int i = 0; i < 2; i++) printable_make(names[i]);
    if (strncmp(own->name, other->name, sizeof own->name) != 0) {
        snprintf(text, text_bytes, "tables[%zu] is '%s' and not '%s'", index, names[0], names[1]);
        return true;
    }
    for (size_t i = 0; i < TABLE_WORDS_NUMBERS; i++) {
        if (own->numbers[i] == other->numbers[i]) continue;
        write_both(fields[i].kind, own->numbers[i], other->numbers[i], values);
        snprintf(text, text_bytes, "table '%s' has %s %s and not %s", names[0], fields[i].name,
                 values[0], values[1]);
        return true;
    }
    return false;
}

bool table_words_differ(const struct table_words *own, size_t own_count,
                        const struct table_words *other, size_t other_count, char *text,
                        size_t text_bytes)
{
    for (size_t t = 0; t < own_count && t < other_count; t++)
        if (table_differs(t, &own[t], &other[t], text, text_bytes)) return true;
    if (own_count == other_count) return false;
    snprintf(text, text_bytes, "they are %zu tables and not %zu", own_count, other_count);
    return true;
}

#include "tune/rules.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/status.h"

enum { TEXT_MAX = 4096, RULES_MAX = 256 };

struct rule {
    enum collective collective;
    size_t from, to;                   /* bytes of a block; `to` is not included */
    const struct algorithm *algorithm; /* NULL: of a file, and not known */
    unsigned radix;                    /* 0: the algorithm's default */
    bool forbids;
    char *path;                /* of its file; NULL: it has a name */
    struct encoding_wish wish; /* of rules for encodings */
};

struct rules {
    bool is_for_encodings;
    size_t count;
    struct rule rules[RULES_MAX];
};

/* The reader's position in the text, for its errors. */
struct reader {
    const char *text, *at;
    const char *kind; /* of rules: "algorithm" */
    bool is_for_encodings;
};

static enum tutti_status wrong(const struct reader *reader, const char *what)
{
    return error_set(TUTTI_INVALID_OPTIONS, "%s rules, at \"%.30s\" (character %zu): %s",
                     reader->kind, reader->at, (size_t)(reader->at - reader->text) + 1, what);
}

static bool read_word(struct reader *reader, char word[32])
{
    size_t n = 0;
    while (isalnum((unsigned char)*reader->at) ||
           (*reader->at != '\0' && strchr("_-/", *reader->at))) {
        if (n == 31) return false;
        word[n++] = *reader->at++;
    }
    word[n] = '\0';
    return n > 0;
}

static bool read_size(struct reader *reader, size_t *size)
{
    if (!isdigit((unsigned char)*reader->at)) return false;
    uint64_t value = 0;
    for (; isdigit((unsigned char)*reader->at); reader->at++) {
        if (value > UINT64_MAX / 100) return false;
        value = value * 10 + (uint64_t)(*reader->at - '0');
    }
    static const char units[] = "kmg";
    const char *unit =
        *reader->at != '\0' ? strchr(units, tolower((unsigned char)*reader->at)) : NULL;
    if (unit != NULL) {
        const int shift = 10 * (int)(unit - units + 1);
        if (value > SIZE_MAX >> shift) return false;
        value <<= shift;
        reader->at++;
    }
    *size = value;
    return true;
}

/* "0-64k=", "64k-=", "-64k=", or nothing. */
static enum tutti_status read_range(struct reader *reader, struct rule *rule)
{
    rule->from = 0;
    rule->to = SIZE_MAX;
    if (!isdigit((unsigned char)*reader->at) && *reader->at != '-') return TUTTI_OK;
    if (*reader->at != '-' && !read_size(reader, &rule->from))
        return wrong(reader, "a size is needed");
    if (*reader->at++ != '-') return reader->at--, wrong(reader, "'-' between two sizes is needed");
    if (*reader->at != '=' && !read_size(reader, &rule->to))
        return wrong(reader, "a size is needed");
    if (*reader->at != '=') return wrong(reader, "'=' and a name are needed");
    reader->at++;
    return rule->from < rule->to ? TUTTI_OK : wrong(reader, "the range is empty");
}

static enum tutti_status add(const struct reader *reader, struct rules *rules,
                             const struct rule *rule)
{
    if (rules->count == RULES_MAX) return wrong(reader, "too many rules");
    rules->rules[rules->count++] = *rule;
    return TUTTI_OK;
}

static const char file_prefix[] = "file:";

static bool names_file(const struct reader *reader)
{
    return strncmp(reader->at, file_prefix, sizeof file_prefix - 1) == 0;
}

static enum tutti_status read_file_rule(struct reader *reader, struct rule *rule,
                                        struct rules *rules)
{
    if (rule->forbids) return wrong(reader, "a name is needed: no file can be forbidden");
    const char *const path = reader->at + sizeof file_prefix - 1;
    const size_t length = strcspn(path, ",;");
    if (length == 0) return wrong(reader, "the path of a file is needed");
    rule->path = strndup(path, length);
    if (rule->path == NULL) return error_set(TUTTI_NO_MEMORY, "algorithm rules: out of memory");
    const enum tutti_status status = add(reader, rules, rule);
    if (status != TUTTI_OK) free(rule->path);
    reader->at = path + length;
    return status;
}

static enum tutti_status read_wish(struct reader *reader, struct rule *rule, struct rules *rules)
{
    char word[32];
    const char *const begin = reader->at;
    if (!read_word(reader, word)) return wrong(reader, "the name of an encoding is needed");
    const char *const why = encoding_wish_parse(word, &rule->wish);
    if (why != NULL) return reader->at = begin, wrong(reader, why);
    return add(reader, rules, rule);
}

static enum tutti_status read_rule(struct reader *reader, enum collective collective,
                                   struct rules *rules)
{
    struct rule rule = {.collective = collective};
    char name[32];
    TRY(read_range(reader, &rule));
    if (*reader->at == '=') reader->at++;
    if (rules->is_for_encodings) return read_wish(reader, &rule, rules);
    if (*reader->at == '^') {
        rule.forbids = true;
        reader->at++;
    }
    if (names_file(reader)) return read_file_rule(reader, &rule, rules);
    const char *begin = reader->at;
    if (!read_word(reader, name)) return wrong(reader, "the name of an algorithm is needed");
    if (!algo_parse(collective, name, &rule.algorithm, &rule.radix))
        return reader->at = begin, wrong(reader, "no algorithm of that name for this collective");
    return add(reader, rules, &rule);
}

/* The calls that rules can be for; false: there are none of that name. */
static bool find_subject(const struct reader *reader, const char *word, enum collective *collective)
{
    *collective = collective_from_name(word);
    return *collective != COLLECTIVE_COUNT ||
           (reader->is_for_encodings && strcmp(word, "send") == 0);
}

/* Whether the rules of a collective begin here: "allgather=", "allgather:". */
static bool names_collective(const struct reader *reader)
{
    struct reader ahead = *reader;
    char word[32];
    enum collective collective;
    return read_word(&ahead, word) && find_subject(reader, word, &collective) &&
           (*ahead.at == ':' || *ahead.at == '=');
}

static enum tutti_status read_all(struct reader *reader, struct rules *rules)
{
    while (*reader->at != '\0') {
        char word[32];
        const char *begin = reader->at;
        if (!read_word(reader, word)) return wrong(reader, "the name of a collective is needed");
        enum collective collective;
        if (!find_subject(reader, word, &collective))
            return reader->at = begin, wrong(reader, "no such collective");
        if (*reader->at != ':' && *reader->at != '=') return wrong(reader, "':' or '=' is needed");
        if (*reader->at == ':') reader->at++;
        TRY(read_rule(reader, collective, rules));
        while (*reader->at == ',') {
            reader->at++;
            if (names_collective(reader))
                return wrong(reader, "';' is needed before the rules of another collective");
            TRY(read_rule(reader, collective, rules));
        }
        if (*reader->at == ';')
            reader->at++;
        else if (*reader->at != '\0')
            return wrong(reader, "',' or ';' is needed");
    }
    return TUTTI_OK;
}

static enum tutti_status parse(const char *text, const char *kind, bool is_for_encodings,
                               struct rules **rules)
{
    *rules = NULL;
    if (text == NULL || *text == '\0') return TUTTI_OK;
    if (strnlen(text, TEXT_MAX + 1) > TEXT_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%s rules are longer than %d characters", kind,
                         TEXT_MAX);
    struct rules *parsed = calloc(1, sizeof *parsed);
    if (parsed == NULL) return error_set(TUTTI_NO_MEMORY, "%s rules: out of memory", kind);
    parsed->is_for_encodings = is_for_encodings;
    struct reader reader = {text, text, kind, is_for_encodings};
    const enum tutti_status status = read_all(&reader, parsed);
    if (status == TUTTI_OK)
        *rules = parsed;
    else
        rules_free(parsed);
    return status;
}

enum tutti_status rules_parse(const char *text, struct rules **rules)
{
    return parse(text, "algorithm", false, rules);
}

enum tutti_status rules_parse_encodings(const char *text, struct rules **rules)
{
    return parse(text, "encoding", true, rules);
}

void rules_free(struct rules *rules)
{
    for (size_t i = 0; rules != NULL && i < rules->count; i++) free(rules->rules[i].path);
    free(rules);
}

/* ---------------------------------------------------------------------------------------- files */

int rules_file_count(const struct rules *rules)
{
    int count = 0;
    for (size_t i = 0; rules != NULL && i < rules->count; i++)
        count += rules->rules[i].path != NULL;
    return count;
}

static const struct rule *file_rule(const struct rules *rules, int index)
{
    const struct rule *rule = rules->rules;
    for (;; rule++)
        if (rule->path != NULL && index-- == 0) return rule;
}

void rules_file(const struct rules *rules, int index, enum collective *collective, const char **path)
{
    const struct rule *const rule = file_rule(rules, index);
    *collective = rule->collective;
    *path = rule->path;
}

void rules_set_file(struct rules *rules, int index, const struct algorithm *algorithm)
{
    rules->rules[file_rule(rules, index) - rules->rules].algorithm = algorithm;
}

/* -------------------------------------------------------------------------------------- answers */

static const struct rule *last_match(const struct rules *rules, enum collective collective,
                                     size_t bytes, bool forbids, const char *name)
{
    for (size_t i = rules != NULL ? rules->count : 0; i > 0; i--) {
        const struct rule *rule = &rules->rules[i - 1];
        if (rule->algorithm != NULL && rule->collective == collective && rule->forbids == forbids &&
            bytes >= rule->from && bytes < rule->to &&
            (name == NULL || strcmp(name, rule->algorithm->name) == 0))
            return rule;
    }
    return NULL;
}

bool rules_wanted(const struct rules *rules, enum collective collective, size_t bytes,
                  const struct algorithm **algorithm, unsigned *radix)
{
    const struct rule *rule = last_match(rules, collective, bytes, false, NULL);
    if (rule == NULL) return false;
    *algorithm = rule->algorithm;
    *radix = rule->radix;
    return true;
}

bool rules_encode(const struct rules *rules, enum collective collective, size_t bytes,
                  struct encoding_wish *wish)
{
    for (size_t i = rules != NULL ? rules->count : 0; i > 0; i--) {
        const struct rule *const rule = &rules->rules[i - 1];
        if (rule->collective != collective || bytes < rule->from || bytes >= rule->to) continue;
        *wish = rule->wish;
        return true;
    }
    return false;
}

bool rules_forbids(const struct rules *rules, enum collective collective, size_t bytes,
                   const char *name)
{
    return last_match(rules, collective, bytes, true, name) != NULL;
}

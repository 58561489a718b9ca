#include "format/json_position.h"

#include <stdbool.h>
#include <string.h>

struct scanner {
    const char *at, *end;
};

static bool is_at(const struct scanner *scanner, char c)
{
    return scanner->at < scanner->end && *scanner->at == c;
}

static void skip_blanks(struct scanner *scanner)
{
    while (scanner->at < scanner->end && memchr(" \t\r\n", *scanner->at, 4) != NULL) scanner->at++;
}

/* Behind the string that begins here. */
static void skip_string(struct scanner *scanner)
{
    if (scanner->at < scanner->end) scanner->at++;
    while (scanner->at < scanner->end && *scanner->at != '"')
        scanner->at += *scanner->at == '\\' && scanner->end - scanner->at > 1 ? 2 : 1;
    if (scanner->at < scanner->end) scanner->at++;
}

/* Behind the value that begins here. Brackets are counted, so nesting costs nothing. */
static void skip_value(struct scanner *scanner)
{
    int depth = 0;
    while (scanner->at < scanner->end) {
        const char c = *scanner->at;
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) return;
        if (c == '"') {
            skip_string(scanner);
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        scanner->at++;
    }
}

static void skip_comma(struct scanner *scanner)
{
    skip_blanks(scanner);
    if (is_at(scanner, ',')) scanner->at++;
    skip_blanks(scanner);
}

/* To the value of that member of the object that begins here. */
static bool find_member(struct scanner *scanner, const char *key)
{
    const size_t length = strlen(key);
    if (!is_at(scanner, '{')) return false;
    scanner->at++;
    skip_blanks(scanner);
    while (is_at(scanner, '"')) {
        const char *name = scanner->at + 1;
        skip_string(scanner);
        const bool found =
            (size_t)(scanner->at - name) == length + 1 && memcmp(name, key, length) == 0;
        skip_blanks(scanner);
        if (is_at(scanner, ':')) scanner->at++;
        skip_blanks(scanner);
        if (found) return true;
        skip_value(scanner);
        skip_comma(scanner);
    }
    return false;
}

static bool find_element(struct scanner *scanner, size_t index)
{
    if (!is_at(scanner, '[')) return false;
    scanner->at++;
    skip_blanks(scanner);
    for (; index > 0 && scanner->at < scanner->end; index--) {
        skip_value(scanner);
        skip_comma(scanner);
    }
    return index == 0;
}

/* To the value, or as near as can be. Deep in what was accepted only: callers bound the depth of
 * places. */
static bool find_place(struct scanner *scanner, const struct json_position *place)
{
    if (place->up == NULL) {
        skip_blanks(scanner);
        return true;
    }
    if (!find_place(scanner, place->up)) return false;
    struct scanner inner = *scanner;
    const bool found =
        place->key != NULL ? find_member(&inner, place->key) : find_element(&inner, place->index);
    if (found) *scanner = inner;
    return found;
}

int json_position_line(const struct json_position *place, const char *text, size_t text_bytes)
{
    struct scanner scanner = {text, text + text_bytes};
    int line = 1;
    find_place(&scanner, place);
    for (const char *c = text; c < scanner.at; c++) line += *c == '\n';
    return line;
}

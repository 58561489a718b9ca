#include "topo/racks.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const char BLANKS[] = " \t\r\v\f";

/* -------------------------------------------------------------------------------------- reading */

/* The text being read, up to the end of a line. */
struct reader {
    const char *at, *end; /* of the line, without its comment */
    int line;
    struct topo *topo;
};

struct word {
    const char *text;
    size_t length;
};

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && *reader->at != '\0' && strchr(BLANKS, *reader->at) != NULL)
        reader->at++;
}

static bool ends_word(char c)
{
    return c == ':' || c == '/' || (c != '\0' && strchr(BLANKS, c) != NULL);
}

static enum tutti_status wrong(const struct reader *reader, const char *what)
{
    return error_set(TUTTI_INVALID_OPTIONS, "line %d: %s", reader->line, what);
}

/* The name that begins here. */
static enum tutti_status read_word(struct reader *reader, struct word *word)
{
    *word = (struct word){reader->at, 0};
    for (; reader->at < reader->end && !ends_word(*reader->at); reader->at++) {
        const unsigned char c = (unsigned char)*reader->at;
        if (c <= ' ' || c == 0x7f) return wrong(reader, "a character that no name has");
        word->length++;
    }
    if (word->length == 0) return wrong(reader, "a name is missing");
    if (word->length >= TOPO_NAME_SIZE) return wrong(reader, "a name is too long");
    return TUTTI_OK;
}

static bool is_named(const struct topo_node *node, const struct word *word)
{
    return strlen(node->name) == word->length && memcmp(node->name, word->text, word->length) == 0;
}

static enum tutti_status add(struct topo *topo, enum topo_kind kind, int parent,
                             const struct word *word, int *index)
{
    struct topo_node node = {.kind = kind, .parent = parent, .number = -1};
    char name[TOPO_NAME_SIZE] = "";
    memcpy(name, word->text, word->length);
    topo_set_text(node.name, sizeof node.name, name);
    return topo_add_node(topo, &node, index);
}

/* The rack or hall of that name in that parent, new if there is none. */
static enum tutti_status find_or_add(struct topo *topo, enum topo_kind kind, int parent,
                                     const struct word *word, int *index)
{
    for (*index = 1; *index < topo->node_count; ++*index) {
        const struct topo_node *node = &topo->nodes[*index];
        if (node->kind == kind && node->parent == parent && is_named(node, word)) return TUTTI_OK;
    }
    return add(topo, kind, parent, word, index);
}

/* "r0:" or "hall/r0:" */
static enum tutti_status read_rack(struct reader *reader, int *rack)
{
    struct word first, second;
    int hall = 0;
    TRY(read_word(reader, &first));
    const bool is_in_hall = reader->at < reader->end && *reader->at == '/';
    if (is_in_hall) {
        reader->at++;
        TRY(read_word(reader, &second));
    }
    skip_blanks(reader);
    if (reader->at == reader->end || *reader->at != ':')
        return wrong(reader, "expected RACK: HOST HOST ... or HALL/RACK: HOST HOST ...");
    reader->at++;
    if (is_in_hall) TRY(find_or_add(reader->topo, TOPO_CLUSTER, 0, &first, &hall));
    return find_or_add(reader->topo, TOPO_RACK, hall, is_in_hall ? &second : &first, rack);
}

static enum tutti_status read_line(struct reader *reader)
{
    int rack;
    skip_blanks(reader);
    if (reader->at == reader->end) return TUTTI_OK;
    TRY(read_rack(reader, &rack));
    for (skip_blanks(reader); reader->at < reader->end; skip_blanks(reader)) {
        struct word host;
        TRY(read_word(reader, &host));
        if (reader->at < reader->end && (*reader->at == ':' || *reader->at == '/'))
            return wrong(reader, "a host's name has a colon or a slash");
        TRY(add(reader->topo, TOPO_MACHINE, rack, &host, NULL));
    }
    return TUTTI_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No host may stand in two places. */
static enum tutti_status check_hosts(const struct topo *topo)
{
    int count = 0;
    const char **names = malloc(sizeof *names * (size_t)topo->node_count);
    if (names == NULL) return error_set(TUTTI_NO_MEMORY, "racks: out of memory");
    for (int i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == TOPO_MACHINE) names[count++] = topo->nodes[i].name;
    qsort(names, (size_t)count, sizeof *names, by_name);
    enum tutti_status status = TUTTI_OK;
    for (int i = 1; i < count && status == TUTTI_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = error_set(TUTTI_INVALID_OPTIONS, "host %s is there twice", names[i]);
    free(names);
    if (count == 0) status = error_set(TUTTI_INVALID_OPTIONS, "no host is in it");
    return status;
}

static enum tutti_status read_all(const char *text, size_t text_bytes, struct topo *topo)
{
    const struct word nameless = {"", 0};
    const char *const end = text + text_bytes;
    TRY(add(topo, TOPO_CLUSTER, -1, &nameless, NULL));
    for (int line = 1; text < end; line++) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (line_end == NULL) line_end = end;
        const char *comment = memchr(text, '#', (size_t)(line_end - text));
        struct reader reader = {text, comment != NULL ? comment : line_end, line, topo};
        TRY(read_line(&reader));
        text = line_end < end ? line_end + 1 : end;
    }
    return check_hosts(topo);
}

enum tutti_status topo_racks_load(const char *text, size_t text_bytes, struct topo *topo)
{
    *topo = (struct topo){0};
    const enum tutti_status status = read_all(text, text_bytes, topo);
    if (status != TUTTI_OK) topo_release(topo);
    return status;
}

/* --------------------------------------------------------------------------------------- places */

static int switch_of(const struct topo *topo, int machine)
{
    const int around = topo_within(topo, machine, TOPO_SWITCH);
    if (around >= 0) return around;
    for (int i = 0; i < topo->link_count; i++)
        for (int end = 0; end < 2; end++) {
            const int here = topo->links[i].ends[end], there = topo->links[i].ends[1 - end];
            if (topo->nodes[there].kind == TOPO_SWITCH &&
                topo_within(topo, there, TOPO_MACHINE) < 0 &&
                topo_within(topo, here, TOPO_MACHINE) == machine)
                return there;
        }
    return -1;
}

int topo_place_of_machine(const struct topo *topo, int machine, enum topo_kind kind)
{
    return kind == TOPO_SWITCH ? switch_of(topo, machine) : topo_within(topo, machine, kind);
}

/* -------------------------------------------------------------------------------------- writing */

static bool is_writable(const char *name)
{
    if (*name == '\0') return false;
    for (; *name != '\0'; name++)
        if ((unsigned char)*name <= ' ' || *name == 0x7f || strchr(":/#", *name) != NULL)
            return false;
    return true;
}

/* A node's name, or a number where it has none. */
static enum tutti_status write_name(const struct topo *topo, int node, FILE *file)
{
    const char *name = topo->nodes[node].name;
    if (*name == '\0' && topo->nodes[node].kind != TOPO_MACHINE)
        fprintf(file, "%s%d", topo_kind_name(topo->nodes[node].kind),
                topo->nodes[node].number >= 0 ? topo->nodes[node].number : node);
    else if (is_writable(name))
        fputs(name, file);
    else
        return error_set(
            TUTTI_UNSUPPORTED,
            "this form has no place for the name \"%s\" of a %s: names have no blanks, "
            "colons, slashes or #",
            name, topo_kind_name(topo->nodes[node].kind));
    return TUTTI_OK;
}

/* The rack, or the switch where there is none; and the hall it is in, unless that is everything. */
static void places_to_write(const struct topo *topo, int machine, int *hall, int *rack)
{
    *rack = topo_place_of_machine(topo, machine, TOPO_RACK);
    if (*rack < 0) *rack = topo_place_of_machine(topo, machine, TOPO_SWITCH);
    *hall = topo_within(topo, machine, TOPO_CLUSTER);
    if (*rack < 0) {
        *rack = *hall;
        *hall = -1;
    }
    if (*hall == 0) *hall = -1;
}

enum tutti_status topo_racks_dump(const struct topo *topo, FILE *file)
{
    int last_rack = -2, last_hall = -2;
    for (int i = 0; i < topo->node_count; i++) {
        int hall, rack;
        if (topo->nodes[i].kind != TOPO_MACHINE) continue;
        places_to_write(topo, i, &hall, &rack);
        if (rack != last_rack || hall != last_hall) {
            if (last_rack != -2) fputc('\n', file);
            if (hall >= 0) {
                TRY(write_name(topo, hall, file));
                fputc('/', file);
            }
            if (rack >= 0)
                TRY(write_name(topo, rack, file));
            else
                fprintf(file, "alone%d", i);
            fputc(':', file);
            last_rack = rack;
            last_hall = hall;
        }
        fputc(' ', file);
        TRY(write_name(topo, i, file));
    }
    if (last_rack == -2) return error_set(TUTTI_UNSUPPORTED, "no machine is in the topology");
    fputc('\n', file);
    return TUTTI_OK;
}

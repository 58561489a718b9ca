/* topo_json.c - jansson reads, this file says what it means. Where topo.h's own rules are broken,
 * the text is walked a second time, up to the node or link that breaks them, so that rules stand in
 * one place and errors have lines.
 */
#include "studio/topo/topo_json.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "format/json_position.h"
#include "format/json_text.h"

enum { VERSION = 1, ID_SIZE = 32 };

/* -------------------------------------------------------------------------------------- loading */

struct loader {
    const char *text;
    size_t text_bytes;
    struct topo *topo;
    json_t *ids;                    /* of nodes: id to index */
    const struct topo_fault *fault; /* known from an earlier pass, to be told with its line; or NULL */
};

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "topology: out of memory");
}

__attribute__((format(printf, 3, 4))) static enum tutti_status
fail(const struct loader *loader, const struct json_position *place, const char *format, ...)
{
    char why[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return error_set(TUTTI_INVALID_OPTIONS, "line %d: %s",
                     json_position_line(place, loader->text, loader->text_bytes), why);
}

/* Fails on members that nobody reads: most likely they are misspelt. */
static enum tutti_status check_members(const struct loader *loader,
                                       const struct json_position *place, json_t *object,
                                       const char *const *known)
{
    const char *key;
    json_t *value;
    char list[240] = "";
    size_t used = 0;
    if (!json_is_object(object)) return fail(loader, place, "an object is expected");
    json_object_foreach(object, key, value)
    {
        int i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0) i++;
        if (known[i] != NULL || strcmp(key, "comment") == 0) continue;
        for (i = 0; known[i] != NULL && used < sizeof list; i++)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, i > 0 ? ", %s" : "%s", known[i]);
        const struct json_position member = {place, key, 0};
        char shown[40];
        topo_set_text(shown, sizeof shown, key);
        return fail(loader, &member, "no \"%s\" is known here, but %s", shown, list);
    }
    return TUTTI_OK;
}

/* A string of less than size bytes. to stays as it is where there is no such member. */
static enum tutti_status read_text(const struct loader *loader, const struct json_position *place,
                                   json_t *object, const char *key, char *to, size_t size)
{
    json_t *value = json_object_get(object, key);
    const struct json_position member = {place, key, 0};
    if (value == NULL) return TUTTI_OK;
    if (!json_is_string(value) || json_string_length(value) >= size)
        return fail(loader, &member, "\"%s\": a text of at most %zu bytes is expected", key,
                    size - 1);
    memcpy(to, json_string_value(value), json_string_length(value) + 1);
    return TUTTI_OK;
}

static enum tutti_status read_integer(const struct loader *loader,
                                      const struct json_position *place, json_t *object,
                                      const char *key, json_int_t max, json_int_t *to)
{
    json_t *value = json_object_get(object, key);
    const struct json_position member = {place, key, 0};
    if (value == NULL) return TUTTI_OK;
    *to = json_integer_value(value);
    if (json_is_integer(value) && *to >= 0 && *to <= max) return TUTTI_OK;
    return fail(loader, &member,
                "\"%s\": a whole number from 0 to %" JSON_INTEGER_FORMAT " is expected", key, max);
}

static enum tutti_status read_amount(const struct loader *loader, const struct json_position *place,
                                     json_t *object, const char *key, double *to)
{
    json_t *value = json_object_get(object, key);
    const struct json_position member = {place, key, 0};
    if (value == NULL) return TUTTI_OK;
    *to = json_number_value(value);
    if (json_is_number(value) && *to >= 0 && *to <= 1e18) return TUTTI_OK;
    return fail(loader, &member, "\"%s\": a number from 0 to 1e18 is expected", key);
}

/* The faults that topo.h knows are told at the same place in the second pass. */
static enum tutti_status add_node(const struct loader *loader, const struct json_position *place,
                                  const struct topo_node *node, int *index)
{
    const struct topo_fault *fault = loader->fault;
    if (fault != NULL && !fault->is_link && fault->index == loader->topo->node_count)
        return fail(loader, place, "a %s: %s", topo_kind_name(node->kind), fault->why);
    return topo_add_node(loader->topo, node, index);
}

static enum tutti_status add_link(const struct loader *loader, const struct json_position *place,
                                  const struct topo_link *link)
{
    const struct topo_fault *fault = loader->fault;
    if (fault != NULL && fault->is_link && fault->index == loader->topo->link_count)
        return fail(loader, place, "a link: %s", fault->why);
    return topo_add_link(loader->topo, link);
}

/* Reads the members of a link's object, except for its ends. */
static enum tutti_status read_link(const struct loader *loader, const struct json_position *place,
                                   json_t *object, struct topo_link *link)
{
    char known[ID_SIZE] = "assumed";
    const struct json_position member = {place, "known", 0};
    TRY(read_amount(loader, place, object, "bytes_per_second", &link->bytes_per_second));
    TRY(read_amount(loader, place, object, "latency_ns", &link->latency_ns));
    TRY(read_text(loader, place, object, "known", known, sizeof known));
    link->known = topo_known_from_name(known);
    if (link->known != TOPO_KNOWN_COUNT) return TUTTI_OK;
    return fail(loader, &member, "\"known\": assumed, nominal or measured is expected");
}

static enum tutti_status read_kind(const struct loader *loader, const struct json_position *place,
                                   json_t *object, enum topo_kind *kind)
{
    char list[200] = "";
    size_t used = 0;
    const struct json_position member = {place, "kind", 0};
    const char *name = json_string_value(json_object_get(object, "kind"));
    *kind = name != NULL ? topo_kind_from_name(name) : TOPO_KIND_COUNT;
    if (*kind != TOPO_KIND_COUNT) return TUTTI_OK;
    for (int i = 0; i < TOPO_KIND_COUNT && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, i > 0 ? ", %s" : "%s",
                                 topo_kind_name((enum topo_kind)i));
    return fail(loader, &member, "\"kind\": one of %s is expected", list);
}

static enum tutti_status read_id(const struct loader *loader, const struct json_position *place,
                                 json_t *object, int index)
{
    json_t *id = json_object_get(object, "id");
    const struct json_position member = {place, "id", 0};
    if (id == NULL) return TUTTI_OK;
    if (!json_is_string(id) || json_string_length(id) == 0)
        return fail(loader, &member, "\"id\": a text is expected");
    if (json_object_get(loader->ids, json_string_value(id)) != NULL)
        return fail(loader, &member, "\"id\": another node has this one, too");
    return json_object_set_new(loader->ids, json_string_value(id), json_integer(index)) == 0
               ? TUTTI_OK
               : no_memory();
}

/* The link to what the node stands in. */
static enum tutti_status read_up(const struct loader *loader, const struct json_position *place,
                                 json_t *object, int index)
{
    static const char *const known[] = {"bytes_per_second", "latency_ns", "known", NULL};
    json_t *up = json_object_get(object, "up");
    const struct json_position member = {place, "up", 0};
    const int parent = loader->topo->nodes[index].parent;
    struct topo_link link = {.ends = {index, parent}};
    if (up == NULL) return TUTTI_OK;
    if (parent < 0) return fail(loader, &member, "\"up\": the root stands in nothing");
    TRY(check_members(loader, &member, up, known));
    TRY(read_link(loader, &member, up, &link));
    return add_link(loader, &member, &link);
}

static enum tutti_status read_ranks(const struct loader *loader, const struct json_position *place,
                                    json_t *object, int index)
{
    json_t *ranks = json_object_get(object, "ranks");
    const struct json_position member = {place, "ranks", 0};
    if (ranks == NULL) return TUTTI_OK;
    if (!json_is_array(ranks)) return fail(loader, &member, "\"ranks\": a list is expected");
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        const struct json_position element = {&member, NULL, i};
        json_t *value = json_array_get(ranks, i);
        const json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < 0 || number >= TOPO_RANKS_MAX)
            return fail(loader, &element, "\"ranks\": numbers from 0 to %d are expected",
                        TOPO_RANKS_MAX - 1);
        const struct topo_node node = {.kind = TOPO_RANK, .parent = index, .number = (int)number};
        TRY(add_node(loader, &element, &node, NULL));
    }
    return TUTTI_OK;
}

/* Reads the members of a node's object that describe the node itself. */
static enum tutti_status read_node(const struct loader *loader, const struct json_position *place,
                                   json_t *object, struct topo_node *node)
{
    static const char *const known[] = {
        "kind",        "id", "name",  "number",   "address", "bytes", "bytes_per_second",
        "cache_level", "up", "ranks", "children", NULL};
    json_int_t number = -1, cache_level = 0, bytes = 0;
    TRY(check_members(loader, place, object, known));
    TRY(read_kind(loader, place, object, &node->kind));
    TRY(read_text(loader, place, object, "name", node->name, sizeof node->name));
    TRY(read_text(loader, place, object, "address", node->address, sizeof node->address));
    TRY(read_integer(loader, place, object, "number", INT32_MAX, &number));
    TRY(read_integer(loader, place, object, "cache_level", TOPO_CACHE_LEVEL_MAX, &cache_level));
    TRY(read_integer(loader, place, object, "bytes", INT64_MAX, &bytes));
    node->number = (int)number;
    node->cache_level = (int)cache_level;
    node->bytes = (uint64_t)bytes;
    return read_amount(loader, place, object, "bytes_per_second", &node->bytes_per_second);
}

static enum tutti_status load_node(const struct loader *loader, const struct json_position *place,
                                   json_t *object, int parent, int depth)
{
    struct topo_node node = {.parent = parent};
    int index;
    if (depth > TOPO_DEPTH_MAX) return fail(loader, place, "nested too deeply");
    TRY(read_node(loader, place, object, &node));
    TRY(add_node(loader, place, &node, &index));
    TRY(read_id(loader, place, object, index));
    TRY(read_up(loader, place, object, index));
    TRY(read_ranks(loader, place, object, index));
    json_t *children = json_object_get(object, "children");
    const struct json_position member = {place, "children", 0};
    if (children != NULL && !json_is_array(children))
        return fail(loader, &member, "\"children\": a list is expected");
    for (size_t i = 0; i < json_array_size(children); i++) {
        const struct json_position element = {&member, NULL, i};
        TRY(load_node(loader, &element, json_array_get(children, i), index, depth + 1));
    }
    return TUTTI_OK;
}

static enum tutti_status load_link(const struct loader *loader, const struct json_position *place,
                                   json_t *object)
{
    static const char *const known[] = {"ends", "bytes_per_second", "latency_ns", "known", NULL};
    struct topo_link link = {0};
    TRY(check_members(loader, place, object, known));
    json_t *ends = json_object_get(object, "ends");
    const struct json_position member = {place, "ends", 0};
    if (!json_is_array(ends) || json_array_size(ends) != 2)
        return fail(loader, &member, "\"ends\": the ids of two nodes are expected");
    for (size_t i = 0; i < 2; i++) {
        const struct json_position element = {&member, NULL, i};
        const char *id = json_string_value(json_array_get(ends, i));
        json_t *index = id != NULL ? json_object_get(loader->ids, id) : NULL;
        char shown[40];
        topo_set_text(shown, sizeof shown, id != NULL ? id : "");
        if (index == NULL)
            return fail(loader, &element, "\"ends\": no node has the id \"%s\"", shown);
        link.ends[i] = (int)json_integer_value(index);
    }
    TRY(read_link(loader, place, object, &link));
    return add_link(loader, place, &link);
}

static enum tutti_status load_all(const struct loader *loader, json_t *json)
{
    static const char *const known[] = {"tutti_topology", "root", "links", NULL};
    const struct json_position whole = {0};
    const struct json_position version = {&whole, "tutti_topology", 0}, root = {&whole, "root", 0},
                               links = {&whole, "links", 0};
    TRY(check_members(loader, &whole, json, known));
    if (json_integer_value(json_object_get(json, "tutti_topology")) != VERSION)
        return fail(loader, &version, "\"tutti_topology\": %d is expected here", VERSION);
    if (json_object_get(json, "root") == NULL)
        return fail(loader, &root, "\"root\" is expected: what contains all other nodes");
    TRY(load_node(loader, &root, json_object_get(json, "root"), -1, 0));
    json_t *list = json_object_get(json, "links");
    if (list != NULL && !json_is_array(list))
        return fail(loader, &links, "\"links\": a list is expected");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const struct json_position element = {&links, NULL, i};
        TRY(load_link(loader, &element, json_array_get(list, i)));
    }
    return TUTTI_OK;
}

static enum tutti_status load_pass(struct loader *loader, json_t *json)
{
    topo_release(loader->topo);
    loader->ids = json_object();
    if (loader->ids == NULL) return no_memory();
    const enum tutti_status status = load_all(loader, json);
    json_decref(loader->ids);
    return status;
}

static enum tutti_status load_and_check(struct loader *loader, json_t *json)
{
    struct topo_fault fault;
    TRY(load_pass(loader, json));
    TRY(topo_find_fault(loader->topo, &fault));
    if (fault.why == NULL) return TUTTI_OK;
    loader->fault = &fault;
    TRY(load_pass(loader, json));
    return error_set(TUTTI_INTERNAL, "topology: a fault was found and lost: %s", fault.why);
}

enum tutti_status topo_json_load(const char *text, size_t text_bytes, struct topo *topo)
{
    *topo = (struct topo){0};
    json_t *json;
    TRY(json_text_load("topology", text, text_bytes, TOPO_JSON_BYTES_MAX, &json));
    struct loader loader = {.text = text, .text_bytes = text_bytes, .topo = topo};
    const enum tutti_status status = load_and_check(&loader, json);
    json_decref(json);
    if (status != TUTTI_OK) topo_release(topo);
    return status;
}

/* -------------------------------------------------------------------------------------- dumping */

struct dumper {
    const struct topo *topo;
    FILE *file;
    int *first, *next; /* children */
    int *ids;          /* of nodes with links: the place in the text, from 1; else 0 */
    int written;       /* nodes so far */
};

static void write_id(const struct dumper *dumper, int node, char id[ID_SIZE])
{
    snprintf(id, ID_SIZE, "%s%d", topo_kind_name(dumper->topo->nodes[node].kind),
             dumper->ids[node] - 1);
}

/* Whole numbers are written as such. */
static json_t *amount(double value)
{
    const json_int_t whole = value < 9e15 ? (json_int_t)value : -1;
    return (double)whole == value ? json_integer(whole) : json_real(value);
}

/* Adds a member that is worth saying; false: out of memory. */
static bool put(json_t *object, const char *key, bool wanted, json_t *value)
{
    if (wanted) return json_object_set_new(object, key, value) == 0;
    json_decref(value);
    return true;
}

static bool put_link(json_t *object, const struct topo_link *link)
{
    return put(object, "bytes_per_second", link->bytes_per_second > 0,
               amount(link->bytes_per_second)) &&
           put(object, "latency_ns", link->latency_ns > 0, amount(link->latency_ns)) &&
           put(object, "known", true, json_string(topo_known_name(link->known)));
}

static bool put_node(const struct dumper *dumper, json_t *object, int index)
{
    const struct topo_node *node = &dumper->topo->nodes[index];
    char id[ID_SIZE];
    write_id(dumper, index, id);
    return put(object, "kind", true, json_string(topo_kind_name(node->kind))) &&
           put(object, "id", dumper->ids[index] > 0, json_string(id)) &&
           put(object, "number", node->number >= 0, json_integer(node->number)) &&
           put(object, "name", node->name[0] != '\0', json_string(node->name)) &&
           put(object, "address", node->address[0] != '\0', json_string(node->address)) &&
           put(object, "cache_level", node->cache_level > 0, json_integer(node->cache_level)) &&
           put(object, "bytes", node->bytes > 0, json_integer((json_int_t)node->bytes)) &&
           put(object, "bytes_per_second", node->bytes_per_second > 0,
               amount(node->bytes_per_second));
}

/* Prints the object in one line and gives it up; without its last brace if it is to go on. */
static enum tutti_status print_object(const struct dumper *dumper, json_t *object, bool filled,
                                      bool goes_on)
{
    char *text = filled ? json_dumps(object, 0) : NULL;
    json_decref(object);
    if (text == NULL) return no_memory();
    const size_t size = strlen(text);
    fwrite(text, 1, size - goes_on, dumper->file);
    free(text);
    return TUTTI_OK;
}

static void indent(const struct dumper *dumper, int depth)
{
    fprintf(dumper->file, "\n%*s", 2 * depth, "");
}

static enum tutti_status dump_node(struct dumper *dumper, int index, int depth)
{
    json_t *object = json_object();
    const bool has_children = dumper->first[index] >= 0;
    dumper->written++;
    if (dumper->ids[index] != 0) dumper->ids[index] = dumper->written;
    TRY(print_object(dumper, object, object != NULL && put_node(dumper, object, index),
                     has_children));
    if (!has_children) return TUTTI_OK;
    fputs(", \"children\": [", dumper->file);
    for (int child = dumper->first[index]; child >= 0; child = dumper->next[child]) {
        indent(dumper, depth + 1);
        TRY(dump_node(dumper, child, depth + 1));
        if (dumper->next[child] >= 0) fputc(',', dumper->file);
    }
    fputs("]}", dumper->file);
    return TUTTI_OK;
}

static enum tutti_status dump_link(const struct dumper *dumper, const struct topo_link *link)
{
    char from[ID_SIZE], to[ID_SIZE];
    json_t *object = json_object(), *ends = json_array();
    write_id(dumper, link->ends[0], from);
    write_id(dumper, link->ends[1], to);
    const bool filled = object != NULL && ends != NULL &&
                        json_array_append_new(ends, json_string(from)) == 0 &&
                        json_array_append_new(ends, json_string(to)) == 0 &&
                        json_object_set(object, "ends", ends) == 0 && put_link(object, link);
    json_decref(ends);
    return print_object(dumper, object, filled, false);
}

static enum tutti_status dump_all(struct dumper *dumper)
{
    const struct topo *topo = dumper->topo;
    topo_children(topo, dumper->first, dumper->next);
    for (int i = 0; i < topo->link_count; i++)
        for (int k = 0; k < 2; k++) dumper->ids[topo->links[i].ends[k]] = 1;
    fprintf(dumper->file, "{\"tutti_topology\": %d,\n \"root\":\n  ", VERSION);
    TRY(dump_node(dumper, 0, 1));
    if (topo->link_count > 0) fputs(",\n \"links\": [", dumper->file);
    for (int i = 0; i < topo->link_count; i++) {
        indent(dumper, 1);
        TRY(dump_link(dumper, &topo->links[i]));
        fputc(i + 1 < topo->link_count ? ',' : ']', dumper->file);
    }
    fputs("}\n", dumper->file);
    return TUTTI_OK;
}

enum tutti_status topo_json_dump(const struct topo *topo, FILE *file)
{
    const size_t count = (size_t)topo->node_count;
    struct dumper dumper = {.topo = topo,
                            .file = file,
                            .first = calloc(count, sizeof *dumper.first),
                            .next = calloc(count, sizeof *dumper.next),
                            .ids = calloc(count, sizeof *dumper.ids)};
    const enum tutti_status status =
        dumper.first && dumper.next && dumper.ids ? dump_all(&dumper) : no_memory();
    free(dumper.first);
    free(dumper.next);
    free(dumper.ids);
    return status;
}

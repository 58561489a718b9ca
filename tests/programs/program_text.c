/* Text of programs: a line for each step, with its verb and then all values that are not 0, each as
 * a key and a value. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "base/encoding.h"
#include "tests/programs/program.h"

/* ------------------------------------------------------------------------------ names of values */

/* A name for each value from 0 on; NULL behind the last one. */
typedef const char *name_of(int value);

#define NAMES(function, ...)                                                      \
    static const char *function(int value)                                        \
    {                                                                             \
        static const char *const names[] = {__VA_ARGS__};                         \
        return value < (int)(sizeof names / sizeof *names) ? names[value] : NULL; \
    }

NAMES(verb_name, "call", "message", "again", "wait", "compute", "dup", "split", "group", "mesh",
      "free", "begin", "end", "parallel", "join", "kill", "shrink", "fork", "sparse")
NAMES(form_text, "blocking", "started", "prepared")
NAMES(shape_name, "plain", "list", "varying")
NAMES(memory_name, "heap", "mapped", "fenced-end", "fenced-begin")
NAMES(style_name, "even", "skewed", "zeros", "few")
NAMES(pattern_name, "ring", "any-rank", "truncated", "cancelled", "unawaited")
NAMES(way_name, "chosen", "gather", "owner", "dense", "push", "pull")
NAMES(links_name, "hosts", "racks", "everywhere")
NAMES(over_name, "memory", "threads", "tcp")
NAMES(integrity_name, "default", "off", "network", "on")

static const char *collective_name_of(int value)
{
    return value < COLLECTIVE_COUNT ? collective_name((enum collective)value) : NULL;
}

static const char *dtype_name_of(int value)
{
    return value < DTYPE_COUNT ? tutti_dtype_name((enum tutti_dtype)value) : NULL;
}

static const char *encoding_name_of(int value)
{
    return value < ENCODING_COUNT ? tutti_encoding_name((enum tutti_encoding)value) : NULL;
}

static const char *op_name_of(int value)
{
    if (value == PROGRAM_OP_COMMUTATIVE) return "commutative";
    return value < OP_COUNT ? op_kind_name((enum op)value) : NULL;
}

static const char *algorithm_name(int value)
{
    static char name[80];
    if (value == 0) return "chosen";
    if (value > algo_count) return NULL;
    const struct algorithm *const a = &algo_list[value - 1];
    snprintf(name, sizeof name, "%s:%s", collective_name(a->collective), a->name);
    return name;
}

/* --------------------------------------------------------------------------------------- fields */

/* An int of a step, or of a job. */
struct field {
    const char *key;
    size_t offset;
    name_of *name; /* NULL: a number */
};

#define STEP(member, name)                                  \
    {                                                       \
#member, offsetof(struct random_step, member), name \
    }
static const struct field step_fields[] = {
    STEP(comm, NULL),
    STEP(parent, NULL),
    STEP(collective, collective_name_of),
    STEP(pattern, pattern_name),
    STEP(shape, shape_name),
    STEP(form, form_text),
    STEP(dtype, dtype_name_of),
    STEP(op, op_name_of),
    STEP(count, NULL),
    STEP(style, style_name),
    STEP(rank, NULL),
    STEP(number, NULL),
    STEP(memory, memory_name),
    STEP(shift, NULL),
    STEP(in_place, NULL),
    STEP(algorithm, algorithm_name),
    STEP(radix, NULL),
    STEP(own, NULL),
    STEP(deterministic, NULL),
    STEP(priority, NULL),
    STEP(handle, NULL),
    STEP(starved, NULL),
    STEP(encoding, encoding_name_of),
    STEP(links, links_name),
    STEP(required, NULL),
    STEP(way, way_name),
    STEP(salt, NULL),
    {0},
};

#define JOB(key, member, name)                             \
    {                                                      \
        key, offsetof(struct random_program, member), name \
    }
static const struct field job_fields[] = {
    JOB("ranks", rank_count, NULL),
    JOB("over", over, over_name),
    JOB("hosts", hosts, NULL),
    JOB("integrity", integrity, integrity_name),
    JOB("encryption", encryption, NULL),
    JOB("stops", stops, NULL),
    {0},
};

static int *value_of(const struct field *field, const void *object)
{
    return (int *)((char *)object + field->offset);
}

/* Appends what is not 0. */
static void print_fields(const struct field *field, const void *object, char *line)
{
    for (; field->key != NULL; field++) {
        const int value = *value_of(field, object);
        const size_t length = strlen(line);
        const char *const name =
            value >= 0 && field->name != NULL && value != 0 ? field->name(value) : NULL;
        if (name != NULL)
            snprintf(line + length, PROGRAM_LINE_BYTES - length, " %s %s", field->key, name);
        else if (value != 0)
            snprintf(line + length, PROGRAM_LINE_BYTES - length, " %s %d", field->key, value);
    }
}

static bool parse_value(const struct field *field, const char *text, int *value)
{
    char *end;
    for (int i = 0; field->name != NULL && field->name(i) != NULL; i++)
        if (strcmp(field->name(i), text) == 0) {
            *value = i;
            return true;
        }
    *value = (int)strtol(text, &end, 10);
    return field->name == NULL && end != text && *end == '\0';
}

static bool parse_fields(const struct field *fields, void *object, char *words)
{
    for (char *key, *rest = words; (key = strtok_r(rest, " ", &rest)) != NULL;) {
        const struct field *field = fields;
        const char *const value = strtok_r(rest, " ", &rest);
        while (field->key != NULL && strcmp(field->key, key) != 0) field++;
        if (field->key == NULL || value == NULL ||
            !parse_value(field, value, value_of(field, object)))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------- lines */

void program_print_step(const struct random_step *step, char *line)
{
    const char *const verb = verb_name(step->verb);
    snprintf(line, PROGRAM_LINE_BYTES, "%s", verb != NULL ? verb : "?");
    print_fields(step_fields, step, line);
}

void program_print(const struct random_program *program, char *text)
{
    char line[PROGRAM_LINE_BYTES] = "job";
    print_fields(job_fields, program, line);
    size_t length =
        (size_t)snprintf(text, PROGRAM_TEXT_BYTES, "seed %" PRIu64 "\n%s\n", program->seed, line);
    for (int i = 0; i < program->step_count; i++) {
        program_print_step(&program->steps[i], line);
        length += (size_t)snprintf(text + length, PROGRAM_TEXT_BYTES - length, "%s\n", line);
    }
}

static bool parse_line(struct random_program *program, char *line)
{
    char *rest;
    const char *const verb = strtok_r(line, " ", &rest);
    if (verb == NULL || verb[0] == '#') return true;
    if (strcmp(verb, "seed") == 0) return sscanf(rest, "%" SCNu64, &program->seed) == 1;
    if (strcmp(verb, "job") == 0) return parse_fields(job_fields, program, rest);
    if (program->step_count == PROGRAM_STEPS_MAX) return false;
    struct random_step *const step = &program->steps[program->step_count++];
    while (verb_name(step->verb) != NULL && strcmp(verb_name(step->verb), verb) != 0) step->verb++;
    return verb_name(step->verb) != NULL && parse_fields(step_fields, step, rest);
}

bool program_parse(struct random_program *program, const char *text, int *line)
{
    *program = (struct random_program){.hosts = 1, .integrity = TUTTI_INTEGRITY_OFF};
    for (*line = 1; *text != '\0'; (*line)++) {
        char copy[PROGRAM_LINE_BYTES];
        const size_t length = strcspn(text, "\n");
        if (length >= sizeof copy) return false;
        memcpy(copy, text, length);
        copy[length] = '\0';
        if (!parse_line(program, copy)) return false;
        text += length + (text[length] == '\n');
    }
    *line = 0;
    return program_is_valid(program);
}

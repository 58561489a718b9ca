/* schedule_text.c - schedules as text, read and written.
 *
 *     schedule stages P micro_batches M chunks V
 *     stage S: F0 F1 B0 ...
 *
 * The text is foreign: memory grows with what is read, not with what the first line says, up to one
 * entry for each stage.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "schedule.h"
#include "text_out.h"

enum { FILE_BYTES_MAX = 64 << 20 };

/* A place in the text. */
struct reader {
    const char *at, *end;
    int line;
    struct tutti_schedule *schedule; /* NULL before its first line */
};

/* A word, or a piece of it, without a zero at its end. */
struct word {
    const char *text;
    size_t bytes;
};

__attribute__((format(printf, 2, 3))) static enum tutti_status fault(const struct reader *reader,
                                                                     const char *format, ...)
{
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return error_set(TUTTI_INVALID_OPTIONS, "line %d: %s", reader->line, what);
}

static bool is_inside(char c)
{
    return c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != '#';
}

/* The next word of this line; empty at its end, or where a comment begins. */
static struct word read_word(struct reader *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r'))
        reader->at++;
    struct word word = {reader->at, 0};
    if (reader->at < reader->end && *reader->at == '#')
        while (reader->at < reader->end && *reader->at != '\n') reader->at++;
    else
        while (reader->at < reader->end && is_inside(*reader->at)) {
            reader->at++;
            word.bytes++;
        }
    return word;
}

static bool is_word(struct word word, const char *text)
{
    return word.bytes == strlen(text) && memcmp(word.text, text, word.bytes) == 0;
}

/* For messages: at most 30 characters, and only those that can be shown. */
struct shown_word {
    char text[31];
};

static struct shown_word show(struct word word)
{
    struct shown_word shown;
    size_t i = 0;
    for (; i < word.bytes && i + 1 < sizeof shown.text; i++)
        shown.text[i] = isprint((unsigned char)word.text[i]) ? word.text[i] : '?';
    shown.text[i] = '\0';
    return shown;
}

/* Takes the digits at the beginning of *word: a number below 10^9. */
static bool take_number(struct word *word, int *number)
{
    size_t digits = 0;
    *number = 0;
    while (digits < word->bytes && digits < 9 && word->text[digits] >= '0' &&
           word->text[digits] <= '9')
        *number = *number * 10 + (word->text[digits++] - '0');
    word->text += digits;
    word->bytes -= digits;
    return digits > 0;
}

static bool take_letter(struct word *word, char letter)
{
    if (word->bytes == 0 || *word->text != letter) return false;
    word->text++;
    word->bytes--;
    return true;
}

static enum tutti_status read_count(struct reader *reader, const char *name, int *count)
{
    if (!is_word(read_word(reader), name))
        return fault(reader, "'%s' is missing: schedule stages P micro_batches M chunks V", name);
    struct word word = read_word(reader);
    const struct word whole = word;
    if (!take_number(&word, count) || word.bytes > 0)
        return fault(reader, "%s must be a number, is '%s'", name, show(whole).text);
    return TUTTI_OK;
}

static enum tutti_status read_shape(struct reader *reader)
{
    struct tutti_schedule_shape shape;
    char where[24];
    if (reader->schedule != NULL) return fault(reader, "a second schedule");
    TRY(read_count(reader, "stages", &shape.stage_count));
    TRY(read_count(reader, "micro_batches", &shape.micro_batch_count));
    TRY(read_count(reader, "chunks", &shape.chunk_count));
    snprintf(where, sizeof where, "line %d", reader->line);
    return schedule_create_empty(where, &shape, &reader->schedule);
}

static enum tutti_status read_action(const struct reader *reader, struct word word,
                                     struct tutti_schedule_action *action)
{
    const struct tutti_schedule_shape *const shape = &reader->schedule->shape;
    const struct word whole = word;
    *action = (struct tutti_schedule_action){TUTTI_PASS_FORWARD, 0, 0};
    bool is_read = take_letter(&word, 'F');
    if (!is_read) {
        action->pass = TUTTI_PASS_BACKWARD;
        is_read = take_letter(&word, 'B');
    }
    is_read = is_read && take_number(&word, &action->micro_batch);
    if (is_read && take_letter(&word, '.')) is_read = take_number(&word, &action->chunk);
    if (!is_read || word.bytes > 0)
        return fault(reader, "'%s' is no pass: F or B, a micro-batch, and perhaps .CHUNK",
                     show(whole).text);
    if (action->micro_batch >= shape->micro_batch_count)
        return fault(reader, "'%s': micro-batches are 0 to %d", show(whole).text,
                     shape->micro_batch_count - 1);
    if (action->chunk >= shape->chunk_count)
        return fault(reader, "'%s': chunks are 0 to %d", show(whole).text, shape->chunk_count - 1);
    return TUTTI_OK;
}

static enum tutti_status read_stage(struct reader *reader)
{
    if (reader->schedule == NULL)
        return fault(reader, "the first line must be: schedule stages P micro_batches M chunks V");
    const struct tutti_schedule_shape *const shape = &reader->schedule->shape;
    struct word word = read_word(reader);
    int stage;
    if (!take_number(&word, &stage) || !take_letter(&word, ':') || word.bytes > 0)
        return fault(reader, "a number and a colon must follow 'stage'");
    if (stage >= shape->stage_count)
        return fault(reader, "there is no stage %d; stages are 0 to %d", stage,
                     shape->stage_count - 1);
    while (word = read_word(reader), word.bytes > 0) {
        struct tutti_schedule_action action;
        TRY(read_action(reader, word, &action));
        if (reader->schedule->stages[stage].count == schedule_stage_passes(shape))
            return fault(reader, "stage %d has more than %zu passes", stage,
                         schedule_stage_passes(shape));
        TRY(schedule_add(reader->schedule, stage, action));
    }
    return TUTTI_OK;
}

static enum tutti_status read_line(struct reader *reader)
{
    const struct word word = read_word(reader);
    if (is_word(word, "schedule"))
        TRY(read_shape(reader));
    else if (is_word(word, "stage"))
        TRY(read_stage(reader));
    else if (word.bytes > 0)
        return fault(reader, "'%s' is neither 'schedule' nor 'stage'", show(word).text);
    const struct word more = read_word(reader);
    if (more.bytes > 0) return fault(reader, "what is '%s'?", show(more).text);
    return TUTTI_OK;
}

static enum tutti_status read_lines(struct reader *reader)
{
    for (; reader->at < reader->end; reader->line++) {
        TRY(read_line(reader));
        if (reader->at < reader->end) reader->at++; /* the end of the line */
    }
    if (reader->schedule != NULL) return TUTTI_OK;
    return fault(reader, "there is no 'schedule stages P micro_batches M chunks V'");
}

enum tutti_status tutti_schedule_parse(const char *text, size_t text_bytes,
                                       struct tutti_schedule **created)
{
    struct reader reader = {text, text + text_bytes, 1, NULL};
    *created = NULL;
    const enum tutti_status status = read_lines(&reader);
    if (status != TUTTI_OK) {
        tutti_schedule_free(reader.schedule);
        return status;
    }
    *created = reader.schedule;
    return TUTTI_OK;
}

/* All of a file, with malloc. */
static enum tutti_status read_file(const char *path, char **text, size_t *bytes)
{
    struct text_out copy;
    FILE *const file = fopen(path, "re");
    if (file == NULL) return error_set(TUTTI_INVALID_OPTIONS, "%s: %s", path, strerror(errno));
    enum tutti_status status = text_out_begin(&copy);
    if (status != TUTTI_OK) goto close_file;
    char part[4096];
    size_t got, sum = 0;
    while (sum <= FILE_BYTES_MAX && (got = fread(part, 1, sizeof part, file)) > 0)
        sum += fwrite(part, 1, got, copy.file);
    if (ferror(file))
        status = error_set(TUTTI_INVALID_OPTIONS, "%s: %s", path, strerror(errno));
    else if (sum > FILE_BYTES_MAX)
        status =
            error_set(TUTTI_INVALID_OPTIONS, "%s is larger than %d bytes", path, FILE_BYTES_MAX);
    const int is_bad = ferror(copy.file);
    if ((fclose(copy.file) != 0 || is_bad) && status == TUTTI_OK)
        status = error_set(TUTTI_NO_MEMORY, "%s: out of memory", path);
    if (status != TUTTI_OK) free(copy.memory);
    *text = copy.memory;
    *bytes = copy.size;
close_file:
    fclose(file);
    return status;
}

enum tutti_status tutti_schedule_load(const char *path, struct tutti_schedule **created)
{
    char *text = NULL;
    size_t bytes = 0;
    *created = NULL;
    TRY(read_file(path, &text, &bytes));
    const enum tutti_status status = tutti_schedule_parse(text, bytes, created);
    free(text);
    if (status != TUTTI_INVALID_OPTIONS) return status;
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    return error_set(status, "%s: %.300s", path, message);
}

enum tutti_status tutti_schedule_text(const struct tutti_schedule *schedule, char *text,
                                      size_t text_bytes, size_t *full_bytes)
{
    const struct tutti_schedule_shape *const shape = &schedule->shape;
    struct text_out out;
    TRY(text_out_begin(&out));
    fprintf(out.file, "schedule stages %d micro_batches %d chunks %d\n", shape->stage_count,
            shape->micro_batch_count, shape->chunk_count);
    for (int s = 0; s < shape->stage_count; s++) {
        fprintf(out.file, "stage %d:", s);
        for (size_t i = 0; i < schedule->stages[s].count; i++)
            fprintf(out.file, " %s",
                    schedule_action_name(shape, schedule->stages[s].actions[i]).text);
        fputc('\n', out.file);
    }
    return text_out_finish(&out, text, text_bytes, full_bytes);
}

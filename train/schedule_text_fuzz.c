/* For any bytes, tutti_schedule_parse ends. A schedule that it accepts survives printing and
 * reading once more, and is checked and drawn. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/train/pipeline.h"

static char *print(const struct tutti_schedule *schedule)
{
    size_t bytes;
    if (tutti_schedule_text(schedule, NULL, 0, &bytes) != TUTTI_OK) abort();
    char *const text = malloc(bytes);
    if (text == NULL || tutti_schedule_text(schedule, text, bytes, NULL) != TUTTI_OK) abort();
    return text;
}

static bool is_small(const struct tutti_schedule *schedule)
{
    struct tutti_schedule_shape shape;
    tutti_schedule_describe(schedule, &shape);
    return (size_t)shape.stage_count * (size_t)shape.micro_batch_count * (size_t)shape.chunk_count <
           10000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tutti_schedule *schedule, *again;
    if (tutti_schedule_parse((const char *)data, size, &schedule) != TUTTI_OK) {
        if (schedule != NULL || strncmp(tutti_error_message(), "line ", 5) != 0) abort();
        return 0;
    }
    char *const text = print(schedule);
    if (tutti_schedule_parse(text, strlen(text), &again) != TUTTI_OK) abort();
    char *const again_text = print(again);
    if (strcmp(text, again_text) != 0) abort();
    if (is_small(schedule)) {
        const enum tutti_status checked = tutti_schedule_check(schedule);
        if (checked != TUTTI_OK && checked != TUTTI_INVALID_OPTIONS) abort();
        for (int picture = 0; picture < 2; picture++)
            if (tutti_schedule_draw(schedule, NULL, (enum tutti_schedule_picture)picture, NULL, 0,
                                    NULL) != checked &&
                checked != TUTTI_OK)
                abort();
    }
    free(text);
    free(again_text);
    tutti_schedule_free(schedule);
    tutti_schedule_free(again);
    return 0;
}

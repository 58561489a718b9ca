#include "tests/train/schedules.h"

#include <stdio.h>
#include <stdlib.h>

struct tutti_schedule *schedules_make(const struct tutti_schedule_shape *shape,
                                      const struct tutti_schedule_action *actions)
{
    const int each = 2 * shape->micro_batch_count * shape->chunk_count;
    struct tutti_schedule *made = NULL;
    char *text = NULL;
    size_t size;
    FILE *const file = open_memstream(&text, &size);
    if (file == NULL) return NULL;
    fprintf(file, "schedule stages %d micro_batches %d chunks %d\n", shape->stage_count,
            shape->micro_batch_count, shape->chunk_count);
    for (int s = 0; s < shape->stage_count; s++) {
        fprintf(file, "stage %d:", s);
        for (int i = 0; i < each; i++, actions++)
            fprintf(file, " %c%d.%d", "FB"[actions->pass], actions -> micro_batch, actions -> chunk);
        fputc('\n', file);
    }
    if (fclose(file) == 0 && tutti_schedule_parse(text, size, &made) != TUTTI_OK) made = NULL;
    free(text);
    return made;
}

struct tutti_schedule *schedules_random(struct chance *chance,
                                        const struct tutti_schedule_shape *shape)
{
    const int parts = shape->stage_count * shape->chunk_count, batches = shape->micro_batch_count;
    const int each = 2 * batches * shape->chunk_count, passes = 2 * parts * batches;
    struct tutti_schedule_action *const actions = calloc((size_t)passes, sizeof *actions);
    int *const counts = calloc((size_t)shape->stage_count, sizeof *counts);
    unsigned char *const done = calloc((size_t)passes, 1); /* forward passes, then backward passes */
    struct tutti_schedule *made = NULL;
    if (actions == NULL || counts == NULL || done == NULL) goto free_all;
    for (int left = passes; left > 0;) {
        const int drawn = chance_below(chance, passes), one = drawn % (parts * batches);
        const int is_backward = drawn / (parts * batches), part = one / batches;
        if (done[drawn]) continue;
        const int before = is_backward ? part + 1 : part - 1;
        const int index = drawn + (is_backward ? batches : -batches); /* the same of that part */
        if (before >= 0 && before < parts && !done[index]) continue;
        if (is_backward && !done[one]) continue;
        done[drawn] = 1;
        left--;
        const int stage = part % shape->stage_count;
        actions[stage * each + counts[stage]++] = (struct tutti_schedule_action){
            (enum tutti_pass)is_backward, one % batches, part / shape->stage_count};
    }
    made = schedules_make(shape, actions);
free_all:
    free(actions);
    free(counts);
    free(done);
    return made;
}

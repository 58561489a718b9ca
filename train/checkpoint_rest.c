#include "checkpoint_rest.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static enum tutti_status make_room(struct rest *rest, size_t more)
{
    if (rest->room - rest->count >= more) return TUTTI_OK;
    const size_t room = 2 * rest->room + more;
    struct box *const grown = realloc(rest->boxes, room * sizeof *grown);
    if (grown == NULL) return error_set(TUTTI_NO_MEMORY, "checkpoint: out of memory");
    rest->boxes = grown;
    rest->room = room;
    return TUTTI_OK;
}

enum tutti_status rest_init(struct rest *rest, const struct box *wanted)
{
    *rest = (struct rest){0};
    TRY(make_room(rest, 4 * BOX_DIMS));
    rest->boxes[rest->count++] = *wanted;
    return TUTTI_OK;
}

enum tutti_status rest_take(struct rest *rest, const struct box *box, struct box *common,
                            bool *taken)
{
    *taken = false;
    for (size_t i = rest->count; i-- > 0;) {
        if (!box_intersect(&rest->boxes[i], box, common)) continue;
        TRY(make_room(rest, 2 * BOX_DIMS));
        const struct box from = rest->boxes[i];
        memmove(&rest->boxes[i], &rest->boxes[i + 1], (rest->count - i - 1) * sizeof from);
        rest->count--;
        rest->count += box_subtract(&from, common, &rest->boxes[rest->count]);
        *taken = true;
        return TUTTI_OK;
    }
    return TUTTI_OK;
}

void rest_release(struct rest *rest)
{
    free(rest->boxes);
    *rest = (struct rest){0};
}

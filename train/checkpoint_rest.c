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

enum tutti_status rest_init(struct rest *rest, const char *name, const struct box *wanted,
                            size_t comes)
{
    const uint64_t looks = REST_LOOKS_LEAST + (uint64_t)comes * REST_LOOKS_A_BOX;
    *rest = (struct rest){.name = name, .comes = comes, .looks_left = looks, .looks_max = looks};
    TRY(make_room(rest, 4 * BOX_DIMS));
    rest->boxes[rest->count++] = *wanted;
    return TUTTI_OK;
}

void rest_come(struct rest *rest)
{
    rest->next = rest->count;
}

static enum tutti_status refuse(const struct rest *rest)
{
    return error_set(
        TUTTI_UNSUPPORTED,
        "tensor '%s' is in %zu pieces, so many of which cross each other that more than "
        "%llu comparisons would find its elements",
        rest->name, rest->comes, (unsigned long long)rest->looks_max);
}

/* The rest of a box has nothing in common with the box that came, so each box is looked at once. */
enum tutti_status rest_take(struct rest *rest, const struct box *box, struct box *common,
                            bool *taken)
{
    *taken = false;
    while (rest->next > 0) {
        const struct box from = rest->boxes[--rest->next];
        if (rest->looks_left-- == 0) return refuse(rest);
        if (!box_intersect(&from, box, common)) continue;
        TRY(make_room(rest, 2 * BOX_DIMS));
        rest->boxes[rest->next] = rest->boxes[--rest->count];
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

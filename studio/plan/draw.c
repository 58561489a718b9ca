/* draw.c - the sheet is drawn row by row.  A row is the one above, used again, and the cells that
 * have changed; cells that look the same are one path, and colours are classes of a style sheet.
 * So pictures stay small, and there are two sets of colours: readers in dark mode get the second.
 * The ground is the picture's own, so that both can be read on any page.
 */
#include "studio/plan/draw.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "studio/plan/draw_state.h"
#include "studio/plan/rounds.h"

static void draw_heads(const struct draw_picture *picture)
{
    const struct plan_shape *shape = &picture->plan->shape;
    char title[96], text[96];
    snprintf(title, sizeof title, "%s of %d ranks", collective_name(shape->collective),
             shape->rank_count);
    draw_print_text(picture, 20, 32, "t",
                    picture->options->title != NULL ? picture->options->title : title);
    snprintf(text, sizeof text, "%u round%s, %u message%s", picture->rounds->round_count,
             picture->rounds->round_count == 1 ? "" : "s", picture->rounds->message_count,
             picture->rounds->message_count == 1 ? "" : "s");
    draw_print_text(picture, 20, 51, "u", text);
    for (int rank = 0; rank < shape->rank_count; rank++) {
        const bool root = collective_is_rooted(shape->collective) && rank == shape->root;
        snprintf(text, sizeof text, root ? "rank %d (root)" : "rank %d", rank);
        draw_print_text(picture, draw_box_left(picture, rank) + picture->box_width / 2,
                        draw_head(picture) - 10, "r", text);
    }
}

/* A frame around the columns of ranks that stand side by side on one host. */
static void draw_hosts(const struct draw_picture *picture)
{
    const int *const host_of = picture->options->host_of;
    const int rank_count = picture->plan->shape.rank_count, margin = DRAW_BOX_SPACE / 2 - 3;
    const int top = draw_head(picture) - DRAW_HOSTS - 22;
    const int bottom = picture->height - DRAW_FOOT + margin;
    if (host_of == NULL) return;
    for (int first = 0, end; first < rank_count; first = end) {
        end = first + 1;
        while (end < rank_count && host_of[end] == host_of[first]) end++;
        const int left = draw_box_left(picture, first) - margin;
        const int width = draw_box_left(picture, end - 1) + picture->box_width + margin - left;
        char text[32];
        fprintf(picture->file,
                "<rect class=\"y\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"12\"/>\n",
                left, top, width, bottom - top);
        snprintf(text, sizeof text, "host %d", host_of[first]);
        draw_print_text(picture, left + width / 2, top + 18, "r", text);
    }
}

static void draw_legend(const struct draw_picture *picture)
{
    const int y = picture->height - 30;
    const bool gathers = draw_reduces(picture) || draw_is_barrier(picture);
    const char *const names[] = {"nothing yet", "in part", gathers ? "complete" : "there"};
    static const char *const looks[] = {"e", "pg", "cg"};
    int x = DRAW_GUTTER;
    for (int i = 0; i < 3; i++) {
        if (i == (gathers ? 0 : 1)) continue;
        fprintf(picture->file,
                "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"16\" height=\"13\" rx=\"3\"/>\n",
                looks[i], x, y);
        draw_print_text(picture, x + 22, y + 11, "u", names[i]);
        x += 36 + 7 * (int)strlen(names[i]);
    }
}

static void draw_sheet(struct draw_picture *picture)
{
    fprintf(picture->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, "
            "'DejaVu Sans', sans-serif\">\n",
            picture->width, picture->height, picture->width, picture->height);
    draw_print_style(picture);
    draw_define_boxes(picture);
    fputs("<rect class=\"g\" width=\"100%\" height=\"100%\" rx=\"10\"/>\n", picture->file);
    draw_heads(picture);
    draw_hosts(picture);
    draw_row(picture, 0);
    contents_show_round(&picture->contents, 0);
    for (uint32_t round = 1; round <= picture->rounds->round_count; round++) {
        draw_messages(picture, round);
        contents_show_round(&picture->contents, round);
        draw_row(picture, round);
    }
    draw_legend(picture);
    fprintf(picture->file, "</svg>\n");
}

static enum tutti_status draw_rounds(const struct plan *plan, const struct rounds *rounds,
                                     const struct draw_options *options, FILE *file,
                                     const char **message)
{
    if (rounds->round_count > DRAW_ROUNDS_MAX) {
        *message = "too many rounds for a picture";
        return TUTTI_UNSUPPORTED;
    }
    const size_t rank_count = (size_t)plan->shape.rank_count;
    const uint32_t cell_count = contents_cell_count(&plan->shape);
    struct draw_picture picture = {.plan = plan,
                                   .rounds = rounds,
                                   .options = options,
                                   .file = file,
                                   .marks = calloc(rank_count * cell_count, sizeof *picture.marks),
                                   .arrows =
                                       calloc(rounds->message_count + 1, sizeof *picture.arrows),
                                   .leaving = calloc(rank_count, sizeof *picture.leaving),
                                   .arriving = calloc(rank_count, sizeof *picture.arriving)};
    const bool has_memory =
        picture.marks && picture.arrows && picture.leaving && picture.arriving &&
        contents_init(&picture.contents, plan, rounds, &options->rounds) == TUTTI_OK;
    if (has_memory) {
        draw_measure(&picture);
        draw_sheet(&picture);
    } else {
        *message = "out of memory";
    }
    contents_release(&picture.contents);
    free(picture.marks);
    free(picture.arrows);
    free(picture.leaving);
    free(picture.arriving);
    return has_memory ? TUTTI_OK : TUTTI_NO_MEMORY;
}

enum tutti_status plan_draw_svg(const struct plan *plan, const struct draw_options *options,
                                FILE *file, const char **message)
{
    static const struct draw_options plain = {.rounds = {.ports = 1}};
    if (plan->shape.rank_count > DRAW_RANKS_MAX ||
        contents_cell_count(&plan->shape) > DRAW_CELLS_MAX) {
        *message = "too many ranks or chunks for a picture";
        return TUTTI_UNSUPPORTED;
    }
    if (options == NULL) options = &plain;
    struct rounds rounds;
    TRY(rounds_init(&rounds, plan, &options->rounds, message));
    const enum tutti_status status = draw_rounds(plan, &rounds, options, file, message);
    rounds_release(&rounds);
    return status;
}

/* draw_arrows.c - messages between two rows of a picture: arrows, and chips that show what they
 * carry. */
#include <string.h>

#include "studio/plan/draw_state.h"

/* Pixels. */
enum {
    CHIP_WIDTH = 30,
    CHIP_HEIGHT = 17,
    FINGER = 12 /* the straight end of an arrow */
};

enum { GREY = UINT16_MAX }; /* the colour of an arrow that carries several chunks, or none */

/* Arrows leave and arrive side by side, in the order of their other ends, so that they cross
 * little. */
static uint32_t place_among(const struct draw_picture *picture, const struct round_message *message,
                            bool leaving)
{
    uint32_t place = 0;
    const struct round_message *messages = picture->rounds->messages;
    for (uint32_t i = 0; i < picture->rounds->message_count; i++) {
        const struct round_message *other = &messages[i];
        if (other->round != message->round || other == message) continue;
        const bool shares = leaving ? other->from == message->from : other->to == message->to;
        const int its_end = leaving ? other->to : other->from;
        const int end = leaving ? message->to : message->from;
        if (shares && (its_end < end || (its_end == end && other < message))) place++;
    }
    return place;
}

static struct draw_arrow make_arrow(const struct draw_picture *picture,
                                    const struct round_message *message)
{
    const uint32_t leaving = picture->leaving[message->from],
                   arriving = picture->arriving[message->to];
    const int tail = picture->box_width / ((int)leaving + 1);
    const int head = picture->box_width / ((int)arriving + 1);
    return (struct draw_arrow){.message = message,
                               .x1 = draw_box_left(picture, message->from) +
                                     tail * (1 + (int)place_among(picture, message, true)),
                               .y1 = draw_row_top(picture, message->round - 1) + picture->box_height,
                               .x2 = draw_box_left(picture, message->to) +
                                     head * (1 + (int)place_among(picture, message, false)),
                               .y2 = draw_row_top(picture, message->round) - 2,
                               .roomy = tail >= CHIP_WIDTH + 4};
}

static uint32_t message_colour(const struct draw_picture *picture,
                               const struct round_message *message)
{
    const struct round_value *values = picture->rounds->values + message->first_value;
    if (message->value_count != 1 || draw_is_barrier(picture)) return GREY;
    return draw_colour_of(picture, values->chunk_class);
}

/* Writes "c3", or "cg" for grey. */
static void write_class(char kind, uint32_t colour, char *text, size_t size)
{
    if (colour == GREY)
        snprintf(text, size, "%cg", kind);
    else
        snprintf(text, size, "%c%u", kind, colour);
}

static void draw_arrow(const struct draw_picture *picture, const struct draw_arrow *arrow)
{
    FILE *file = picture->file;
    const int end = arrow->y2 - 8, bend = FINGER + (end - arrow->y1) * 3 / 10;
    char path[160], look[16];
    const int across = arrow->x2 - arrow->x1, down = end - FINGER - arrow->y1;
    snprintf(path, sizeof path, "M%d %dv%dc0 %d %d %d %d %dv%d", arrow->x1, arrow->y1, FINGER,
             bend - FINGER, across, down - bend, across, down - FINGER, FINGER);
    write_class('l', message_colour(picture, arrow->message), look, sizeof look);
    fprintf(file, "<path class=\"h\" d=\"%s\"/>", path);
    fprintf(file, "<path class=\"l %s\" d=\"%s\"/>\n", look, path);
}

/* The left end of the chip beside an arrow's tail, and the height of the chip's middle. */
static int chip_left(const struct draw_arrow *arrow)
{
    return arrow->x1 - (CHIP_WIDTH - CHIP_HEIGHT) / 2;
}

static int chip_y(const struct draw_arrow *arrow)
{
    return arrow->y1 + 14;
}

static void draw_chip_edge(const struct draw_picture *picture, const struct draw_arrow *arrow)
{
    char look[16];
    write_class('l', message_colour(picture, arrow->message), look, sizeof look);
    fprintf(picture->file, "<path class=\"q %s\" d=\"M%d %dh%d\"/>\n", look, chip_left(arrow),
            chip_y(arrow), CHIP_WIDTH - CHIP_HEIGHT);
}

/* A chip shows the value of its message, or squares in the colours of several chunks. */
static void draw_chip_content(const struct draw_picture *picture, const struct draw_arrow *arrow)
{
    FILE *file = picture->file;
    const struct round_value *values = picture->rounds->values + arrow->message->first_value;
    const uint32_t count = arrow->message->value_count;
    char label[48];
    if (count > 1 && count <= 4 && picture->options->rounds.example_values == NULL) {
        for (uint32_t i = 0; i < count; i++)
            fprintf(file, "<path class=\"j l%u\" d=\"M%d %dh4\"/>",
                    draw_colour_of(picture, values[i].chunk_class),
                    arrow->x1 - (int)count * 3 + (int)i * 6 + 1, chip_y(arrow));
        fputc('\n', file);
        return;
    }
    if (count > 1)
        snprintf(label, sizeof label, "\xc3\x97%u", count);
    else
        draw_write_label(picture, values[0], label, sizeof label);
    draw_print_text(picture, arrow->x1, chip_y(arrow) + 4, strlen(label) > 4 ? "s z" : "s", label);
}

/* Chips in three layers; their inner sides are one path. */
static void draw_chips(const struct draw_picture *picture, const struct draw_arrow *arrows,
                       uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        if (arrows[i].roomy) draw_chip_edge(picture, &arrows[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (!arrows[i].roomy) continue;
        fprintf(picture->file, "%sM%d %dh%d", any ? "" : "<path class=\"i\" d=\"",
                chip_left(&arrows[i]), chip_y(&arrows[i]), CHIP_WIDTH - CHIP_HEIGHT);
        any = true;
    }
    if (any) fputs("\"/>\n", picture->file);
    for (uint32_t i = 0; i < count; i++)
        if (arrows[i].roomy) draw_chip_content(picture, &arrows[i]);
}

void draw_messages(const struct draw_picture *picture, uint32_t round)
{
    const size_t rank_count = (size_t)picture->plan->shape.rank_count;
    memset(picture->leaving, 0, rank_count * sizeof *picture->leaving);
    memset(picture->arriving, 0, rank_count * sizeof *picture->arriving);
    const struct round_message *messages = picture->rounds->messages;
    const uint32_t count = picture->rounds->message_count;
    for (uint32_t i = 0; i < count; i++) {
        if (messages[i].round != round) continue;
        picture->leaving[messages[i].from]++;
        picture->arriving[messages[i].to]++;
    }
    uint32_t arrow_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (messages[i].round != round) continue;
        picture->arrows[arrow_count] = make_arrow(picture, &messages[i]);
        draw_arrow(picture, &picture->arrows[arrow_count++]);
    }
    draw_chips(picture, picture->arrows, arrow_count);
}

/* draw_ink.c - colours, the style sheet, and texts of a picture. */
#include "studio/plan/draw_state.h"
#include "studio/xml_text.h"

static uint32_t colour_count(const struct draw_picture *picture)
{
    const struct plan_shape *shape = &picture->plan->shape;
    if (draw_is_barrier(picture)) return 1;
    return shape->collective == COLLECTIVE_ALLTOALL ? (uint32_t)shape->rank_count
                                                    : picture->contents.cell_count;
}

/* A chunk of an all-to-all has the colour of the rank from which it comes. */
uint32_t draw_colour_of(const struct draw_picture *picture, uint32_t chunk_class)
{
    const struct plan_shape *shape = &picture->plan->shape;
    if (shape->collective != COLLECTIVE_ALLTOALL) return chunk_class;
    return chunk_class / shape->parts / (uint32_t)shape->rank_count;
}

/* Hues that stay apart for people who see few colours, then as many as needed. */
static int hue_of(uint32_t colour, uint32_t count)
{
    static const int hues[] = {212, 28, 152, 330, 48, 265, 185, 0};
    return count <= 8 ? hues[colour] : (int)((uint64_t)colour * 360 / count);
}

/* Written as rgb: not every reader of SVG knows hsl. */
static void print_rgb(FILE *file, int hue, int lightness)
{
    const double saturation = 0.62, light = lightness / 100.0;
    const double spread = saturation * (light < 0.5 ? light : 1 - light);
    int rgb[3];
    for (int i = 0; i < 3; i++) {
        static const int offsets[] = {0, 8, 4};
        double k = offsets[i] + hue / 30.0;
        if (k >= 12) k -= 12;
        double t = k - 3 < 9 - k ? k - 3 : 9 - k;
        t = t > 1 ? 1 : t < -1 ? -1 : t;
        rgb[i] = (int)((light - spread * t) * 255 + 0.5);
    }
    fprintf(file, "#%02x%02x%02x", (unsigned)rgb[0], (unsigned)rgb[1], (unsigned)rgb[2]);
}

/* Lightness of a colour's looks: p in part, c complete (under white letters), f the edge of a fresh
 * cell. */
struct shades {
    int part, complete, fresh;
};

/* Prints the classes of every colour K: pK, cK, fK, and lK for the line of an arrow. */
static void print_colours(const struct draw_picture *picture, struct shades shades)
{
    FILE *file = picture->file;
    const uint32_t count = colour_count(picture);
    for (uint32_t i = 0; i < count; i++) {
        const int hue = hue_of(i, count);
        const bool luminous = hue > 40 && hue < 200; /* yellow to cyan look lighter than they are */
        fprintf(file, ".p%u{fill:", i);
        print_rgb(file, hue, shades.part);
        fputs(";stroke:", file);
        print_rgb(file, hue, shades.part);
        fprintf(file, "}.c%u{fill:", i);
        print_rgb(file, hue, shades.complete - (luminous ? 8 : 0));
        fprintf(file, "}.c%u,.l%u{stroke:", i, i);
        print_rgb(file, hue, shades.complete - (luminous ? 8 : 0));
        fprintf(file, "}.f%u{fill:", i);
        print_rgb(file, hue, shades.fresh);
        fputs(";stroke:", file);
        print_rgb(file, hue, shades.fresh);
        fputs("}\n", file);
    }
}

/* The classes. Texts: t title, u beside the boxes, r ranks, n and d in light and dark cells, s and
 * small z in chips. Grounds: g of the picture, b box, e empty cell, a veil over unwanted cells, h
 * halo of an arrow, i inside of a chip. Shapes: y frames of hosts, k cells, o their edges, l lines,
 * q chips; v strokes of the ranks that a chunk has gone through, w strokes of all ranks. */
void draw_print_style(const struct draw_picture *picture)
{
    FILE *file = picture->file;
    const int stroke = draw_is_small(picture) ? 2 : 3;
    fputs(
        "<style>text{text-anchor:middle;font-weight:600}.t{font-size:19px}.t,.u{text-anchor:start}"
        ".u,.x text{font-weight:400;font-size:12px}.x text{font-size:9px}.r{font-size:13px}"
        ".s{font-weight:400;font-size:10px}.z{font-size:8px}\n"
        ".k,.a{stroke-width:8}.o{stroke-width:11}.k,.o,.a{stroke-linejoin:round}"
        ".l,.h,.q,.i,.v,.w{fill:none}.l{stroke-width:1.8}.h{stroke-width:5}"
        ".q,.i{stroke-linecap:round;stroke-width:17}.i{stroke-width:15}.j{stroke-width:6}",
        file);
    fprintf(file, ".v,.w{stroke-width:%d}", stroke);
    if (draw_stroke_gap(picture) > 0)
        fprintf(file, ".w{stroke-dasharray:%.3g 1}\n", draw_stroke_width(picture) - 1);
    fputs(
        ".g,.i,.e{fill:#fff}.h,.i{stroke:#fff}.i{fill:none}.b{fill:#f8fafc;stroke:#e2e8f0}"
        ".e{stroke:#cbd5e1;stroke-dasharray:2.5}.t,.n,.s{fill:#0f172a}.u,.x{fill:#64748b}"
        ".r{fill:#334155}.d{fill:#fff}.v{stroke:#334155}.a{fill:#f8fafc;stroke:#f8fafc;opacity:.7}"
        ".w{stroke:#fff;stroke-opacity:.7}.w.c{stroke-opacity:1}.cg{fill:#64748b}.cg,.lg{stroke:#"
        "64748b}"
        ".lg{marker-end:url(#mg)}"
        ".pg{fill:#dbe4ef;stroke:#dbe4ef}\n",
        file);
    print_colours(picture, (struct shades){84, 43, 26});
    fputs("@media(prefers-color-scheme:dark){.g,.e{fill:#0d1117}.h,.i{stroke:#0d1117}"
          ".b{fill:#161b22;stroke:#30363d}.e{stroke:#3d444d}.t,.n,.s,.r{fill:#"
          "e6edf3}"
          ".u,.x{fill:#9198a1}.v{stroke:#e6edf3}.w{stroke-opacity:.25}.a{fill:#161b22;stroke:#"
          "161b22}.cg{fill:#9198a1}"
          ".cg,.lg{stroke:#9198a1}.pg{fill:#2b323b;stroke:#2b323b}\n",
          file);
    print_colours(picture, (struct shades){24, 48, 78});
    fputs("}\n", file);
    if (picture->options->host_of != NULL)
        fputs(".y{fill:none;stroke:#8b97a7;stroke-width:1.5}", file);
    for (uint32_t i = 0; i < colour_count(picture); i++)
        fprintf(file, ".l%u{marker-end:url(#m%u)}", i, i);
    fputs(".q,.j{marker-end:none}</style>\n", file);
}

/* There is a marker for each colour, since a marker does not take that of its line. */
void draw_print_markers(const struct draw_picture *picture)
{
    const uint32_t count = colour_count(picture);
    for (uint32_t i = 0; i <= count; i++) {
        char name[12] = "g";
        if (i < count) snprintf(name, sizeof name, "%u", i);
        fprintf(picture->file,
                "<marker id=\"m%s\" markerUnits=\"userSpaceOnUse\" markerWidth=\"11\" "
                "markerHeight=\"10\" refX=\"2\" refY=\"5\" orient=\"auto\">"
                "<path class=\"c%s\" stroke-width=\".5\" d=\"M1 .8v8.4l8-4.2z\"/></marker>\n",
                name, name);
    }
}

void draw_print_text(const struct draw_picture *picture, int x, int y, const char *look,
                     const char *text)
{
    fprintf(picture->file, "<text class=\"%s\" x=\"%d\" y=\"%d\">", look, x, y);
    xml_print_text(text, picture->file);
    fprintf(picture->file, "</text>\n");
}

/* Writes "0+2", or "4/8" where that would be long. */
static void write_ranks(uint64_t ranks, int rank_count, size_t length_max, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; rank < rank_count && used <= length_max && used < size; rank++)
        if (ranks >> rank & 1)
            used += (size_t)snprintf(text + used, size - used, used > 0 ? "+%d" : "%d", rank);
    if (used > length_max) snprintf(text, size, "%d/%d", __builtin_popcountll(ranks), rank_count);
}

void draw_write_label(const struct draw_picture *picture, struct round_value value, char *text,
                      size_t size)
{
    const struct plan_shape *shape = &picture->plan->shape;
    const uint32_t block = value.chunk_class / shape->parts,
                   part = value.chunk_class % shape->parts, all = (uint32_t)shape->rank_count;
    if (picture->options->rounds.example_values != NULL && !draw_is_barrier(picture))
        snprintf(text, size, "%.6g", value.number);
    else if ((draw_reduces(picture) || draw_is_barrier(picture)) &&
             value.ranks == contents_all_ranks(picture->plan))
        snprintf(text, size, "all");
    else if (draw_reduces(picture) || draw_is_barrier(picture))
        write_ranks(value.ranks, shape->rank_count, draw_is_small(picture) ? 3 : 5, text, size);
    else if (shape->collective == COLLECTIVE_ALLTOALL)
        snprintf(text, size, "%u\xe2\x80\xba%u", block / all, block % all);
    else if (shape->collective == COLLECTIVE_BROADCAST || shape->parts == 1)
        snprintf(text, size, "%u", value.chunk_class);
    else
        snprintf(text, size, "%u.%u", block, part);
}

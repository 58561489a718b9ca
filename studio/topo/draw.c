/* draw.c - sizes are found from the smallest boxes to the root and places from the root back, both
 * by walking the array of nodes, since parents come before children. In a box, children stand in
 * shelves, sort by sort: switches on top, tier by tier, and cards below them, so that lines between
 * machines are short; then processors, then accelerators.
 *
 * Lines pass over a box in which they end somewhere, and behind all others, so that no line crosses
 * a name in them. The names of the former lie on a patch of their box's colour.
 */
#include "studio/topo/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "studio/xml_text.h"

/* Pixels. */
enum {
    MARGIN = 20,
    HEAD = 70,
    PAD = 8,
    GAP = 8,
    LINE_ROOM = 40, /* between shelves that lines cross */
    ARC_ROOM = 46,  /* below accelerators that lines join */
    TITLE_LINE = 18,
    NOTE_LINE = 13,
    CHIP_WIDTH = 24,
    CHIP_HEIGHT = 20,
    LEGEND_LINE = 22,
    BULGE_MAX = 58,       /* of an arc, which goes down three quarters of it */
    ROW_WIDTH_MAX = 2400, /* where a row should stay one */
    WIDTH_MIN = 420
};

enum { STYLE_COUNT = 8 };
enum { TIER_COUNT = 4 }; /* of switches; higher ones stand with the highest */

struct box {
    int x, y, width, height;
    char title[TOPO_LABEL_SIZE];
    char note[TOPO_LABEL_SIZE]; /* below the title: the link to what contains it */
    bool crossed;               /* links join what is in it */
    bool arched;                /* links leave children of it downwards and come up to their like */
    bool is_open;               /* lines end in what it contains */
    int tier; /* of a switch: 0 where a link leaves the switches of its parent, 1 above those */
};

/* The point at which a link meets one of its ends. */
struct drawn_port {
    int node, x, y, other_x;
    bool below;
};

struct line {
    int link, style;
    struct drawn_port ports[2];
};

struct picture {
    const struct topo *topo;
    const char *heading;
    FILE *file;
    int *first, *next, *hues; /* of every node */
    struct box *boxes;
    char counts[200]; /* below the heading */
    struct line *lines;
    int line_count;
    const struct topo_link *styles[STYLE_COUNT]; /* one of each kind of link; the last one for all others */
    int style_count;
    int width, height;
};

/* ---------------------------------------------------------------------------------------- texts */

static int text_width(const char *text, int tenths)
{
    int count = 0;
    for (; *text != '\0'; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return (count * tenths + 9) / 10;
}

static bool is_chip(const struct topo_node *node)
{
    return node->kind == TOPO_RANK || node->kind == TOPO_PU;
}

/* Names of processors are long and the same all over: the number is enough. */
static void write_title(const struct topo_node *node, char title[TOPO_LABEL_SIZE])
{
    if (is_chip(node) && node->number >= 0) {
        snprintf(title, TOPO_LABEL_SIZE, "%d", node->number);
        return;
    }
    struct topo_node shown = *node;
    if (node->kind == TOPO_PACKAGE) shown.name[0] = '\0';
    topo_label(&shown, title);
    if (node->kind == TOPO_NIC) memcpy(title, "NIC", 3); /* in files it is "nic" */
}

static void write_titles(struct picture *picture)
{
    const struct topo *topo = picture->topo;
    int hue = -1;
    for (int i = 0; i < topo->node_count; i++) {
        const int parent = topo->nodes[i].parent;
        if (topo->nodes[i].kind == TOPO_MACHINE) hue++;
        picture->hues[i] = topo->nodes[i].kind == TOPO_MACHINE ? hue % STYLE_COUNT
                           : parent >= 0                       ? picture->hues[parent]
                                                               : 0;
        write_title(&topo->nodes[i], picture->boxes[i].title);
    }
}

/* "2 racks, 4 machines, 16 ranks" */
static void write_counts(const struct topo *topo, char *text, size_t size)
{
    static const char *const plurals[TOPO_KIND_COUNT] = {
        [TOPO_RACK] = "racks",       [TOPO_SWITCH] = "switches",
        [TOPO_MACHINE] = "machines", [TOPO_PACKAGE] = "packages",
        [TOPO_CORE] = "cores",       [TOPO_PU] = "processing units",
        [TOPO_NIC] = "NICs",         [TOPO_ACCELERATOR] = "accelerators",
        [TOPO_RANK] = "ranks"};
    static const char *const singulars[TOPO_KIND_COUNT] = {
        [TOPO_PU] = "processing unit", [TOPO_NIC] = "NIC"};
    int counts[TOPO_KIND_COUNT] = {0};
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < topo->node_count; i++) counts[topo->nodes[i].kind]++;
    for (int kind = 0; kind < TOPO_KIND_COUNT && used < size; kind++) {
        if (counts[kind] == 0 || plurals[kind] == NULL) continue;
        const char *singular =
            singulars[kind] != NULL ? singulars[kind] : topo_kind_name((enum topo_kind)kind);
        used += (size_t)snprintf(text + used, size - used, "%s%d %s", used > 0 ? ", " : "",
                                 counts[kind], counts[kind] == 1 ? singular : plurals[kind]);
    }
}

/* ---------------------------------------------------------------------------------------- links */

static bool same_style(const struct topo_link *a, const struct topo_link *b)
{
    return a->bytes_per_second == b->bytes_per_second && a->latency_ns == b->latency_ns &&
           a->known == b->known;
}

static int style_of(struct picture *picture, const struct topo_link *link)
{
    int style = 0;
    while (style < picture->style_count && !same_style(picture->styles[style], link)) style++;
    if (style == STYLE_COUNT) return STYLE_COUNT - 1;
    if (style == picture->style_count) picture->styles[picture->style_count++] = link;
    return style;
}

/* Links become lines, or a note where one end contains the other. */
static void sort_links(struct picture *picture)
{
    const struct topo *topo = picture->topo;
    for (int i = 0; i < topo->link_count; i++) {
        const struct topo_link *link = &topo->links[i];
        const int a = link->ends[0], b = link->ends[1], common = topo_common(topo, a, b);
        if (common == a || common == b) {
            const int inner = common == a ? b : a;
            topo_link_label(link, picture->boxes[inner].note);
            continue;
        }
        picture->boxes[common].crossed = true;
        if (topo->nodes[a].kind == topo->nodes[b].kind && topo->nodes[a].kind != TOPO_SWITCH)
            picture->boxes[topo->nodes[a].parent].arched =
                picture->boxes[topo->nodes[b].parent].arched = true;
        picture->lines[picture->line_count++] =
            (struct line){.link = i, .style = style_of(picture, link)};
    }
}

static bool are_sibling_switches(const struct topo *topo, int a, int b)
{
    return topo->nodes[a].kind == TOPO_SWITCH && topo->nodes[b].kind == TOPO_SWITCH &&
           topo->nodes[a].parent == topo->nodes[b].parent;
}

/* The tiers of switches: how many links lie between one and the nearest of its siblings that has a
 * link to something else. A switch that has no such sibling is at the bottom. */
static void find_tiers(struct picture *picture)
{
    enum { UNKNOWN = TIER_COUNT };
    const struct topo *topo = picture->topo;
    for (int i = 0; i < topo->node_count; i++) picture->boxes[i].tier = UNKNOWN;
    for (int i = 0; i < topo->link_count; i++)
        for (int k = 0; k < 2; k++)
            if (!are_sibling_switches(topo, topo->links[i].ends[0], topo->links[i].ends[1]))
                picture->boxes[topo->links[i].ends[k]].tier = 0;
    for (int tier = 1; tier < TIER_COUNT; tier++)
        for (int i = 0; i < topo->link_count; i++)
            for (int k = 0; k < 2; k++) {
                struct box *const box = &picture->boxes[topo->links[i].ends[k]];
                const struct box *const other = &picture->boxes[topo->links[i].ends[1 - k]];
                if (box->tier == UNKNOWN && other->tier == tier - 1) box->tier = tier;
            }
    for (int i = 0; i < topo->node_count; i++)
        if (picture->boxes[i].tier == UNKNOWN) picture->boxes[i].tier = 0;
}

static void find_open_boxes(struct picture *picture)
{
    const struct topo *topo = picture->topo;
    for (int i = 0; i < picture->line_count; i++)
        for (int k = 0; k < 2; k++) {
            int up = topo->nodes[topo->links[picture->lines[i].link].ends[k]].parent;
            for (; up >= 0; up = topo->nodes[up].parent) picture->boxes[up].is_open = true;
        }
}

/* ---------------------------------------------------------------------------------------- sizes */

/* The sorts of children, from top to bottom. */
enum shelf {
    SHELF_SWITCHES, /* the highest tier; then the others */
    SHELF_NICS = SHELF_SWITCHES + TIER_COUNT,
    SHELF_OTHERS,
    SHELF_ACCELERATORS,
    SHELF_RANKS,
    SHELF_COUNT
};

static int shelf_of(const struct picture *picture, int node)
{
    switch (picture->topo->nodes[node].kind) {
    case TOPO_SWITCH: return SHELF_SWITCHES + TIER_COUNT - 1 - picture->boxes[node].tier;
    case TOPO_NIC: return SHELF_NICS;
    case TOPO_ACCELERATOR: return SHELF_ACCELERATORS;
    case TOPO_RANK: return SHELF_RANKS;
    case TOPO_CLUSTER:
    case TOPO_RACK:
    case TOPO_MACHINE:
    case TOPO_PACKAGE:
    case TOPO_NUMA:
    case TOPO_CACHE:
    case TOPO_CORE:
    case TOPO_PU:
    case TOPO_KIND_COUNT: break;
    }
    return SHELF_OTHERS;
}

static int head_of(const struct box *box)
{
    return TITLE_LINE + (box->note[0] != '\0' ? NOTE_LINE : 0);
}

static int text_room(const struct box *box)
{
    const int title = text_width(box->title, 76), note = text_width(box->note, 60);
    return (title > note ? title : note) + 2 * PAD;
}

/* About half as wide again as high, and wide enough for every child. */
static int width_wanted(const struct picture *picture, int node)
{
    double area = 0;
    int widest = text_room(&picture->boxes[node]);
    for (int child = picture->first[node]; child >= 0; child = picture->next[child]) {
        const struct box *box = &picture->boxes[child];
        area += (double)(box->width + GAP) * (box->height + GAP);
        if (box->width > widest) widest = box->width;
    }
    const int square = (int)sqrt(area * 2.2);
    return square > widest ? square : widest;
}

/* How many children of a sort stand in a row of that width: as many as fit, but rows that are as
 * long as each other. */
static int row_length(const struct picture *picture, int node, int shelf, int width)
{
    int count = 0, fit = 0, x = 0;
    for (int child = picture->first[node]; child >= 0; child = picture->next[child]) {
        if (shelf_of(picture, child) != shelf) continue;
        x += picture->boxes[child].width + GAP;
        if (count == fit && x - GAP <= width) fit++;
        count++;
    }
    if (fit < 2) return 1;
    const int rows = (count + fit - 1) / fit;
    return (count + rows - 1) / rows;
}

/* Puts the children of one sort into rows that begin at y; returns where they end, and the longest
 * row's width. */
static int fill_shelf(struct picture *picture, int node, int shelf, int y, int width, int *widest)
{
    const int length = row_length(picture, node, shelf, width);
    int x = 0, row_height = 0, in_row = 0;
    for (int child = picture->first[node]; child >= 0; child = picture->next[child]) {
        struct box *box = &picture->boxes[child];
        if (shelf_of(picture, child) != shelf) continue;
        if (in_row == length) {
            x = in_row = 0;
            y += row_height + GAP;
            row_height = 0;
        }
        in_row++;
        box->x = PAD + x;
        box->y = y;
        x += box->width + GAP;
        if (x - GAP > *widest) *widest = x - GAP;
        if (box->height > row_height) row_height = box->height;
    }
    return row_height > 0 ? y + row_height + GAP : y;
}

/* Moves the children of one sort to the right. */
static void shift_shelf(struct picture *picture, int node, int shelf, int by)
{
    for (int child = picture->first[node]; child >= 0; child = picture->next[child])
        if (shelf_of(picture, child) == shelf) picture->boxes[child].x += by;
}

static void measure_container(struct picture *picture, int node)
{
    struct box *box = &picture->boxes[node];
    /* Boxes that are joined by lines stand in one row, so that the lines go around the row. */
    const int wanted = box->crossed ? ROW_WIDTH_MAX : width_wanted(picture, node);
    int rows[SHELF_COUNT] = {0}, widest = text_room(box) - 2 * PAD, y = head_of(box) + PAD;
    bool below_switches = false;
    for (int shelf = 0; shelf < SHELF_COUNT; shelf++) {
        const int room = box->crossed && below_switches ? LINE_ROOM : 0;
        const int end = fill_shelf(picture, node, shelf, y + room, wanted, &rows[shelf]);
        if (end == y + room) continue; /* nothing is there */
        below_switches = shelf < SHELF_NICS;
        y = end;
        if (rows[shelf] > widest) widest = rows[shelf];
    }
    for (int shelf = 0; shelf <= SHELF_NICS; shelf++) /* switches and cards stand in the middle */
        shift_shelf(picture, node, shelf, (widest - rows[shelf]) / 2);
    box->width = widest + 2 * PAD;
    box->height = y - GAP + PAD + (box->arched ? ARC_ROOM : 0);
}

static void measure(struct picture *picture)
{
    for (int i = picture->topo->node_count - 1; i >= 0; i--) {
        struct box *box = &picture->boxes[i];
        if (picture->first[i] >= 0) {
            measure_container(picture, i);
        } else if (is_chip(&picture->topo->nodes[i])) {
            const int width = text_width(box->title, 75) + 8;
            box->width = width > CHIP_WIDTH ? width : CHIP_WIDTH;
            box->height = CHIP_HEIGHT;
        } else {
            box->width = text_room(box);
            box->height = head_of(box) + 6;
        }
    }
    picture->boxes[0].x = MARGIN;
    picture->boxes[0].y = HEAD;
    for (int i = 1; i < picture->topo->node_count; i++) {
        const struct box *parent = &picture->boxes[picture->topo->nodes[i].parent];
        picture->boxes[i].x += parent->x;
        picture->boxes[i].y += parent->y;
    }
    picture->width = picture->boxes[0].width + 2 * MARGIN;
    const int text = text_width(picture->counts, 66) + 2 * MARGIN;
    if (picture->width < text) picture->width = text;
    if (picture->width < WIDTH_MIN) picture->width = WIDTH_MIN;
    picture->height = HEAD + picture->boxes[0].height + MARGIN +
                      (picture->style_count > 0 ? picture->style_count * LEGEND_LINE + 6 : 0);
}

/* ---------------------------------------------------------------------------------------- lines */

static int middle_of(const struct box *box)
{
    return box->x + box->width / 2;
}

/* Lines leave the upper box below and reach the lower one from above; boxes beside each other are
 * joined below. */
static void place_line(struct picture *picture, struct line *line)
{
    const int *ends = picture->topo->links[line->link].ends;
    for (int k = 0; k < 2; k++) {
        const struct box *own = &picture->boxes[ends[k]], *other = &picture->boxes[ends[1 - k]];
        const bool is_lower = other->y + other->height <= own->y;
        line->ports[k] = (struct drawn_port){.node = ends[k],
                                             .x = middle_of(own),
                                             .y = is_lower ? own->y : own->y + own->height,
                                             .other_x = middle_of(other),
                                             .below = !is_lower};
    }
}

static int compare_ports(const void *a, const void *b)
{
    const struct drawn_port *left = *(struct drawn_port *const *)a,
                            *right = *(struct drawn_port *const *)b;
    if (left->node != right->node) return left->node < right->node ? -1 : 1;
    if (left->below != right->below) return left->below < right->below ? -1 : 1;
    if (left->other_x != right->other_x) return left->other_x < right->other_x ? -1 : 1;
    return left < right ? -1 : left > right;
}

/* Ports of a side stand in the order of the other ends of their lines, so that few lines cross. */
static void spread_ports(struct picture *picture, struct drawn_port **ports)
{
    const int count = 2 * picture->line_count;
    for (int i = 0; i < count; i++) ports[i] = &picture->lines[i / 2].ports[i % 2];
    qsort(ports, (size_t)count, sizeof(struct drawn_port *), compare_ports);
    for (int begin = 0, end; begin < count; begin = end) {
        end = begin;
        while (end < count && ports[end]->node == ports[begin]->node &&
               ports[end]->below == ports[begin]->below)
            end++;
        const int side = end - begin, width = picture->boxes[ports[begin]->node].width - 2 * PAD;
        const int step = side > 1 && width / (side - 1) < 14 ? width / (side - 1) : 14;
        for (int i = begin; i < end; i++) ports[i]->x += step * (i - begin) - step * (side - 1) / 2;
    }
}

/* ------------------------------------------------------------------------------------------ ink */

static void print_text(const struct picture *picture, const char *look, int x, int y,
                       const char *text)
{
    fprintf(picture->file, "<text class=\"%s\" x=\"%d\" y=\"%d\">", look, x, y);
    xml_print_text(text, picture->file);
    fputs("</text>\n", picture->file);
}

/* t title, u what is written beside, n names, m notes, c names in chips, w in those of ranks; g
 * ground; b0 and b1 boxes, p a patch, bs switches, bn cards, ba accelerators, bp processors; rK
 * ranks, lK lines of a colour, h their halo. */
static void print_style(const struct picture *picture)
{
    /* The hues of studio/plan/draw_ink.c. */
    static const char *const bright[STYLE_COUNT] = {"#2a69b2", "#b2692a", "#22915d", "#b22a6e",
                                                    "#917a22", "#622ab2", "#228791", "#b22a2a"};
    static const char *const dark[STYLE_COUNT] = {"#2f75c6", "#c6752f", "#27a56a", "#c62f7a",
                                                  "#a58c27", "#6e2fc6", "#279ba5", "#c62f2f"};
    FILE *file = picture->file;
    fputs("<style>text{font-weight:600;font-size:12px}.t{font-size:19px}.u{font-weight:400}"
          ".m{font-weight:400;font-size:10px}.c,.w{text-anchor:middle;font-weight:400}"
          ".w{fill:#fff;font-weight:600}.l,.h{fill:none}.l{stroke-width:2}.h{stroke-width:5}"
          ".as{stroke-dasharray:5 4}rect.p{stroke:none}"
          ".n{paint-order:stroke;stroke-width:4;stroke-linejoin:round;stroke-opacity:.8}\n"
          ".g{fill:#fff}.h,.n{stroke:#f8fafc}.h{stroke-opacity:.75}.t,.n{fill:#0f172a}.u,.m{fill:#"
          "64748b}"
          ".c{fill:#334155}.b0{fill:#f8fafc;stroke:#e2e8f0}.b1{fill:#fff;stroke:#e2e8f0}"
          ".bs{fill:#eee7f8;stroke:#c0a8e4}.bn{fill:#e7f6f8;stroke:#a8dee4}"
          ".ba{fill:#e7f8f1;stroke:#a8e4c9}.bp{fill:#e2e8f0;stroke:#cbd5e1}\n",
          file);
    for (int i = 0; i < STYLE_COUNT; i++)
        fprintf(file, ".r%d{fill:%s}.l%d{stroke:%s}", i, bright[i], i, bright[i]);
    fputs("\n@media(prefers-color-scheme:dark){.g{fill:#0d1117}.h,.n{stroke:#0d1117}"
          ".t,.n{fill:#e6edf3}.u,.m{fill:#9198a1}.c{fill:#c9d1d9}"
          ".b0{fill:#161b22;stroke:#30363d}.b1{fill:#0d1117;stroke:#30363d}"
          ".bs{fill:#1e172b;stroke:#432e60}.bn{fill:#17292b;stroke:#2e5c60}"
          ".ba{fill:#172b22;stroke:#2e6049}.bp{fill:#21262d;stroke:#3d444d}\n",
          file);
    for (int i = 0; i < STYLE_COUNT; i++)
        fprintf(file, ".r%d{fill:%s}.l%d{stroke:%s}", i, dark[i], i, dark[i]);
    fputs("}</style>\n", file);
}

static const char *look_of(const struct topo_node *node, int depth)
{
    switch (node->kind) {
    case TOPO_SWITCH: return "bs";
    case TOPO_NIC: return "bn";
    case TOPO_ACCELERATOR: return "ba";
    case TOPO_PU: return "bp";
    case TOPO_CLUSTER:
    case TOPO_RACK:
    case TOPO_MACHINE:
    case TOPO_PACKAGE:
    case TOPO_NUMA:
    case TOPO_CACHE:
    case TOPO_CORE:
    case TOPO_RANK:
    case TOPO_KIND_COUNT: break;
    }
    return depth % 2 == 0 ? "b0" : "b1";
}

static int depth_of(const struct picture *picture, int node)
{
    int depth = 0;
    for (int up = picture->topo->nodes[node].parent; up >= 0; up = picture->topo->nodes[up].parent)
        depth++;
    return depth;
}

static void draw_box(const struct picture *picture, int node)
{
    const struct topo_node *what = &picture->topo->nodes[node];
    const struct box *box = &picture->boxes[node];
    FILE *file = picture->file;
    if (what->kind == TOPO_RANK)
        fprintf(file, "<rect class=\"r%d\"", picture->hues[node]);
    else
        fprintf(file, "<rect class=\"%s\"", look_of(what, depth_of(picture, node)));
    fprintf(file, " x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\"/>\n", box->x, box->y,
            box->width, box->height, is_chip(what) ? 4 : 7);
}

/* Above the lines, with a halo. */
static void draw_label(const struct picture *picture, int node)
{
    const struct topo_node *what = &picture->topo->nodes[node];
    const struct box *box = &picture->boxes[node];
    if (is_chip(what) && picture->first[node] < 0) {
        print_text(picture, what->kind == TOPO_RANK ? "w" : "c", middle_of(box), box->y + 14,
                   box->title);
        return;
    }
    if (box->is_open) {
        const int title = text_width(box->title, 76), note = text_width(box->note, 60);
        fprintf(picture->file,
                "<rect class=\"%s p\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
                look_of(what, depth_of(picture, node)), box->x + PAD - 2, box->y + 3,
                (title > note ? title : note) + 4, head_of(box));
    }
    print_text(picture, "n", box->x + PAD, box->y + 16, box->title);
    if (box->note[0] != '\0')
        print_text(picture, "m", box->x + PAD, box->y + 16 + NOTE_LINE, box->note);
}

static void draw_boxes(const struct picture *picture, bool open)
{
    for (int i = 0; i < picture->topo->node_count; i++)
        if (picture->boxes[i].is_open == open) draw_box(picture, i);
}

static void draw_line(const struct picture *picture, const struct line *line)
{
    const struct drawn_port *a = &line->ports[0], *b = &line->ports[1];
    if (a->y > b->y) {
        const struct drawn_port *swap = a;
        a = b;
        b = swap;
    }
    int first_y, second_y; /* of the points that the curve leans to */
    if (a->below == b->below) {
        int bulge = 14 + abs(a->x - b->x) / 8;
        if (bulge > BULGE_MAX) bulge = BULGE_MAX;
        first_y = second_y = b->y + bulge;
    } else {
        const int lean = (b->y - a->y) / 2;
        first_y = a->y + lean;
        second_y = b->y - lean;
    }
    char path[160];
    snprintf(path, sizeof path, "M%d %dC%d %d %d %d %d %d", a->x, a->y, a->x, first_y, b->x,
             second_y, b->x, b->y);
    const struct topo_link *link = &picture->topo->links[line->link];
    fprintf(picture->file, "<path class=\"h\" d=\"%s\"/><path class=\"l l%d%s\" d=\"%s\"/>\n", path,
            line->style, link->known == TOPO_ASSUMED ? " as" : "", path);
}

static void draw_legend(const struct picture *picture)
{
    const int top = picture->height - MARGIN - picture->style_count * LEGEND_LINE + 12;
    for (int i = 0; i < picture->style_count; i++) {
        char label[TOPO_LABEL_SIZE] = "other links";
        const struct topo_link *link = picture->styles[i];
        const int y = top + i * LEGEND_LINE;
        bool others = false;
        for (int k = 0; k < picture->line_count; k++)
            others |= picture->lines[k].style == i &&
                      !same_style(&picture->topo->links[picture->lines[k].link], link);
        if (!others) topo_link_label(link, label);
        fprintf(picture->file, "<path class=\"l l%d%s\" d=\"M%d %dh34\"/>\n", i,
                !others && link->known == TOPO_ASSUMED ? " as" : "", MARGIN, y);
        print_text(picture, "u", MARGIN + 44, y + 4, label);
    }
}

static void draw_sheet(const struct picture *picture)
{
    FILE *file = picture->file;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, "
            "'DejaVu Sans', sans-serif\">\n",
            picture->width, picture->height, picture->width, picture->height);
    print_style(picture);
    fputs("<rect class=\"g\" width=\"100%\" height=\"100%\" rx=\"10\"/>\n", file);
    print_text(picture, "t", MARGIN, 32, picture->heading);
    print_text(picture, "u", MARGIN, 52, picture->counts);
    draw_boxes(picture, true);
    for (int i = 0; i < picture->line_count; i++) draw_line(picture, &picture->lines[i]);
    draw_boxes(picture, false);
    for (int i = 0; i < picture->topo->node_count; i++) draw_label(picture, i);
    draw_legend(picture);
    fputs("</svg>\n", file);
}

enum tutti_status topo_draw_svg(const struct topo *topo, const char *title, FILE *file)
{
    if (topo->node_count > TOPO_DRAW_NODES_MAX || topo->link_count > TOPO_DRAW_LINKS_MAX)
        return error_set(TUTTI_UNSUPPORTED,
                         "topology: %d nodes and %d links are too many for a "
                         "picture (%d and %d at most)",
                         topo->node_count, topo->link_count, TOPO_DRAW_NODES_MAX,
                         TOPO_DRAW_LINKS_MAX);
    const size_t nodes = (size_t)topo->node_count, links = (size_t)topo->link_count;
    char label[TOPO_LABEL_SIZE];
    topo_label(&topo->nodes[0], label);
    struct picture picture = {.topo = topo,
                              .heading = title != NULL ? title : label,
                              .file = file,
                              .first = calloc(nodes, sizeof *picture.first),
                              .next = calloc(nodes, sizeof *picture.next),
                              .hues = calloc(nodes, sizeof *picture.hues),
                              .boxes = calloc(nodes, sizeof *picture.boxes),
                              .lines = calloc(links + 1, sizeof *picture.lines)};
    struct drawn_port **ports = calloc(2 * links + 1, sizeof *ports);
    enum tutti_status status = TUTTI_OK;
    if (!picture.first || !picture.next || !picture.hues || !picture.boxes || !picture.lines ||
        !ports) {
        status = error_set(TUTTI_NO_MEMORY, "topology: out of memory");
    } else {
        topo_children(topo, picture.first, picture.next);
        write_titles(&picture);
        write_counts(topo, picture.counts, sizeof picture.counts);
        sort_links(&picture);
        find_tiers(&picture);
        find_open_boxes(&picture);
        measure(&picture);
        for (int i = 0; i < picture.line_count; i++) place_line(&picture, &picture.lines[i]);
        spread_ports(&picture, ports);
        draw_sheet(&picture);
    }
    free(picture.first);
    free(picture.next);
    free(picture.hues);
    free(picture.boxes);
    free(picture.lines);
    free(ports);
    return status;
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/topo/draw.h"

static int add(struct topo *topo, enum topo_kind kind, int parent, int number, const char *name)
{
    struct topo_node node = {.kind = kind, .parent = parent, .number = number};
    int index;
    topo_set_text(node.name, sizeof node.name, name);
    assert_int_equal(topo_add_node(topo, &node, &index), TUTTI_OK);
    return index;
}

static void join(struct topo *topo, int a, int b, double gigabytes)
{
    const struct topo_link link = {.ends = {a, b}, .bytes_per_second = gigabytes * 1e9};
    assert_int_equal(topo_add_link(topo, &link), TUTTI_OK);
}

/* Machines with a nic and accelerators with ranks, on one switch; as many kinds of links as
 * machines. */
static struct topo sample(int machines, int accelerators)
{
    struct topo topo = {0};
    const int root = add(&topo, TOPO_RACK, -1, -1, "a <b> & c"),
              box = add(&topo, TOPO_SWITCH, root, -1, "");
    int rank = 0;
    for (int m = 0; m < machines; m++) {
        const int machine = add(&topo, TOPO_MACHINE, root, m, "");
        const int nic = add(&topo, TOPO_NIC, machine, -1, "");
        join(&topo, nic, box, 1 + m);
        join(&topo, nic, machine, 7);
        for (int a = 0; a < accelerators; a++) {
            const int card = add(&topo, TOPO_ACCELERATOR, machine, a, "");
            add(&topo, TOPO_RANK, card, rank++, "");
            if (a > 0) join(&topo, card, card - 2, 50);
        }
    }
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    return topo;
}

static char *drawn(const struct topo *topo, const char *title)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(topo_draw_svg(topo, title, file), TUTTI_OK);
    assert_int_equal(fclose(file), 0);
    return text;
}

static int count(const char *text, const char *words)
{
    int found = 0;
    for (; (text = strstr(text, words)) != NULL; text++) found++;
    return found;
}

struct rectangle {
    int x, y, width, height;
};

/* The rectangles in the order in which they are drawn. */
static int read_rectangles(const char *text, struct rectangle *rectangles)
{
    int found = 0;
    for (; (text = strstr(text, "<rect class=\"")) != NULL; text++) {
        struct rectangle one;
        if (sscanf(text, "<rect class=\"%*[a-z0-9]\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"",
                   &one.x, &one.y, &one.width, &one.height) == 4)
            rectangles[found++] = one;
    }
    return found;
}

static bool is_in(struct rectangle inner, struct rectangle outer)
{
    return inner.x >= outer.x && inner.y >= outer.y &&
           inner.x + inner.width <= outer.x + outer.width &&
           inner.y + inner.height <= outer.y + outer.height;
}

static bool are_apart(struct rectangle a, struct rectangle b)
{
    return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y ||
           b.y + b.height <= a.y;
}

static void boxes_contain_what_their_nodes_contain_and_nothing_else(void **state)
{
    (void)state;
    enum { MACHINES = 9, ACCELERATORS = 5, NODES = 2 + MACHINES * (2 + 2 * ACCELERATORS) };
    static struct rectangle drawn_boxes[NODES + 1], rectangles[NODES];
    struct topo topo = sample(MACHINES, ACCELERATORS);
    char *text = drawn(&topo, NULL);
    assert_int_equal(topo.node_count, NODES);
    assert_int_equal(read_rectangles(text, drawn_boxes), NODES);
    /* Lines end in racks and machines; all other boxes are drawn after the lines. */
    for (int pass = 0, next = 0; pass < 2; pass++)
        for (int i = 0; i < NODES; i++) {
            const enum topo_kind kind = topo.nodes[i].kind;
            if ((kind == TOPO_RACK || kind == TOPO_MACHINE) == (pass == 0))
                rectangles[i] = drawn_boxes[next++];
        }
    for (int i = 1; i < NODES; i++) {
        assert_true(is_in(rectangles[i], rectangles[topo.nodes[i].parent]));
        for (int k = 1; k < i; k++)
            if (topo_common(&topo, i, k) != k) assert_true(are_apart(rectangles[i], rectangles[k]));
    }
    free(text);
    topo_release(&topo);
}

static void each_link_is_a_line_or_a_note(void **state)
{
    (void)state;
    struct topo topo = sample(3, 2);
    char *text = drawn(&topo, NULL);
    assert_int_equal(count(text, "<path class=\"h\""), 3 + 3); /* to the switch, between cards */
    assert_int_equal(count(text, "7 GB/s, assumed"), 3);       /* from a nic to its machine */
    assert_int_equal(count(text, "50 GB/s, assumed"), 1);      /* in the legend */
    assert_int_equal(count(text, " as\" d=\"M"), 6 + 4);       /* with dashes */
    free(text);
    topo_release(&topo);
}

/* The height at which a text stands, and where it is in the file. */
static const char *find_label(const char *text, const char *label, int *y)
{
    const char *found = strstr(text, label), *start = found;
    assert_non_null(found);
    while (strncmp(start, "<text", 5) != 0) start--;
    assert_int_equal(sscanf(start, "<text class=\"%*[a-z]\" x=\"%*d\" y=\"%d\"", y), 1);
    return found;
}

static void switches_stand_in_tiers(void **state)
{
    (void)state;
    struct topo topo = sample(2, 1);
    const int low = 1; /* the switch of the sample, to which the machines are joined */
    const int high = add(&topo, TOPO_SWITCH, 0, -1, "high"),
              middle = add(&topo, TOPO_SWITCH, 0, -1, "middle");
    add(&topo, TOPO_SWITCH, 0, -1, "alone");
    join(&topo, middle, high, 1);
    join(&topo, low, middle, 1);
    char *text = drawn(&topo, NULL);
    int high_y, middle_y, alone_y, machine_y;
    find_label(text, ">switch high<", &high_y);
    find_label(text, ">switch middle<", &middle_y);
    find_label(text, ">switch alone<", &alone_y);
    find_label(text, ">machine 0<", &machine_y);
    assert_true(high_y + 40 < middle_y && middle_y + 40 < alone_y && alone_y < machine_y);
    free(text);
    topo_release(&topo);
}

static void names_stand_above_the_lines(void **state)
{
    (void)state;
    struct topo topo = sample(2, 2);
    char *text = drawn(&topo, NULL), *line = text, *last_line = NULL;
    int y;
    for (; (line = strstr(line, "<path class=\"h\"")) != NULL; line++) last_line = line;
    assert_non_null(last_line);
    assert_true(find_label(text, ">machine 0<", &y) > last_line);
    /* A patch lies below the name, and above the lines; the card's box hides lines by itself. */
    const char *patch = strstr(last_line, " p\" ");
    assert_true(patch != NULL && patch < find_label(text, ">machine 0<", &y));
    assert_int_equal(count(text, " p\" "), 1 + 2);
    assert_non_null(strstr(last_line, "<rect class=\"bn\""));
    free(text);
    topo_release(&topo);
}

static void links_of_many_kinds_share_a_colour(void **state)
{
    (void)state;
    struct topo topo = sample(12, 1);
    char *text = drawn(&topo, NULL);
    assert_int_equal(count(text, ">other links<"), 1);
    assert_int_equal(count(text, ">7 GB/s, assumed<"), 12 + 1);
    assert_int_equal(count(text, ">9 GB/s, assumed<"), 0);
    free(text);
    topo_release(&topo);
}

static void names_are_escaped_and_the_title_is_ours_to_say(void **state)
{
    (void)state;
    struct topo topo = sample(1, 1);
    char *text = drawn(&topo, NULL);
    assert_int_equal(count(text, ">rack a &lt;b&gt; &amp; c<"), 2);
    assert_int_equal(count(text, "<b>"), 0);
    free(text);
    text = drawn(&topo, "x < y");
    assert_int_equal(count(text, ">x &lt; y<"), 1);
    free(text);
    topo_release(&topo);
}

static void what_is_too_large_is_not_drawn(void **state)
{
    (void)state;
    struct topo topo = sample(1, TOPO_DRAW_NODES_MAX / 2);
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(topo_draw_svg(&topo, NULL, file), TUTTI_UNSUPPORTED);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(size, 0);
    free(text);
    topo_release(&topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_contain_what_their_nodes_contain_and_nothing_else),
        cmocka_unit_test(each_link_is_a_line_or_a_note),
        cmocka_unit_test(switches_stand_in_tiers),
        cmocka_unit_test(names_stand_above_the_lines),
        cmocka_unit_test(links_of_many_kinds_share_a_colour),
        cmocka_unit_test(names_are_escaped_and_the_title_is_ours_to_say),
        cmocka_unit_test(what_is_too_large_is_not_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

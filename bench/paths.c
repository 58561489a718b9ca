/* paths.c - what each way of the path tables (docs/explanation/paths.md) costs its sender and its
 * receiver: rank program, `tutti-run --pin -n 2 build/bench/paths [OPTIONS]`; TUTTI_TRANSPORT=tcp
 * measures connections, and TUTTI_FABRIC=PROVIDER besides measures network cards.
 *
 * For each row of the peer's table the program sends bursts of messages of several sizes (drive.h
 * says how, and what is timed). A size costs what its middle repeat took, of each time that it is
 * measured, in the mean, and the path costs the line through all its sizes (fit.h). The least one
 * is rare luck where a hypervisor moves processors: calls take longer than it says.
 *
 *   1. A message is what a link carries at once. Where bytes need a place that is a piece; what
 *      lies elsewhere goes whole.
 *   2. Source and destination stay in a second-level cache: costs are those of warm caches.
 *   3. A row that these ranks cannot measure prints why, so there is a line for every row.
 *   4. All sizes of all rows are measured several times, one after the other: where a hypervisor
 *      moves processors, some of them are seen in a better time than others for seconds.
 */
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domain/domain.h"
#include "drive.h"
#include "fit.h"
#include "path/path.h"
#include "rank_program.h"
#include "transport/transport.h"

enum {
    LEAST_BYTES = 8,
    GROWTH = 4,
    BURST_BYTES_MAX = 256 << 10, /* of several messages */
    BURST_MAX = 16,
    LINE_BYTES = 64,
    REPEATS_DEFAULT = 1000,
    REPEATS_MAX = 100000,
    PASSES_DEFAULT = 3,
    PASSES_MAX = 1000
};

static struct {
    int repeats, passes;
    bool each, rows, json;
} options = {.repeats = REPEATS_DEFAULT, .passes = PASSES_DEFAULT};

/* ------------------------------------------------------------------------------------- one size */

/* The clock cannot tell less, and a relative error needs something to be relative to. */
static double at_least_a_nanosecond(double ns)
{
    return ns > 1 ? ns : 1;
}

/* Of a message of one size, on this rank. */
struct cost {
    double least_ns, middles_ns; /* of all passes; the sum of the middle ones of each */
};

static double middle_ns(const struct cost *cost)
{
    return cost->middles_ns / options.passes;
}

static void measure_size(const struct burst *burst, int pass, struct cost *cost)
{
    static double took_ns[REPEATS_MAX];
    for (int repeat = -WARM_UP; repeat < options.repeats; repeat++) {
        const double this_ns = run_repeat(burst, repeat);
        if (repeat < 0) continue;
        took_ns[repeat] = this_ns;
        if ((pass == 0 && repeat == 0) || this_ns < cost->least_ns) cost->least_ns = this_ns;
    }
    cost->middles_ns += median(took_ns, options.repeats);
}

/* The middle repeat above the least one, of the end where that is more: 0.1 is 10 %. */
static double spread_of(const struct cost *cost)
{
    return largest_of_ranks(
        at_least_a_nanosecond(middle_ns(cost)) / at_least_a_nanosecond(cost->least_ns) - 1);
}

/* -------------------------------------------------------------------------------------- one way */

static bool goes_through_place(enum path_kind path)
{
    return (path_bit(path) &
            (PATH_PLACES | 1 << PATH_STAGE | 1 << PATH_SHARED_SLOT | 1 << PATH_FORWARD)) != 0;
}

/* The ends of the link that a path goes by, and its memory. */
static void choose_ends(struct burst *burst)
{
    const struct path_row *const row = burst->row;
    burst->from = row->path == PATH_FORWARD ? RECEIVER : SENDER;
    burst->tx = row->path == PATH_FORWARD      ? links.back_tx
                : row->path == PATH_GROUP_SLOT ? links.group_tx
                                               : links.tx;
    burst->rx = row->path == PATH_FORWARD      ? links.back_rx
                : row->path == PATH_GROUP_SLOT ? links.group_rx
                                               : links.rx;
    burst->source =
        (row->sender_memory & PATH_PRIVATE) != 0 ? memory.private_source : memory.mapped_source;
    burst->destination = (row->receiver_memory & PATH_PRIVATE) != 0 ? memory.private_destination
                                                                    : memory.mapped_destination;
}

/* Whether the links between these two ranks have it, as far as this rank can tell. */
static bool is_possible(const struct burst *burst)
{
    const bool sends = rank == burst->from;
    const unsigned capabilities = sends ? burst->tx->capabilities : burst->rx->capabilities;
    struct link_tx *const own_tx = rank == SENDER ? links.tx : links.back_tx;
    switch (burst->row->path) {
    case PATH_SHARED_SLOT:
    case PATH_FORWARD: return (capabilities & LINK_SHARES) != 0;
    case PATH_READ:
    case PATH_COPY:
        return !sends || own_tx->ops->reach(own_tx, burst->source, MOST_BYTES) ==
                             (burst->row->path == PATH_READ ? REACH_READ : REACH_COPY);
    case PATH_DIRECT: return sends || (capabilities & LINK_PLACES_DIRECTLY) != 0;
    case PATH_WRITE:
        return sends || ((capabilities & LINK_ADVERTISES) != 0 &&
                         own_tx->ops->reach(own_tx, burst->destination, MOST_BYTES) == REACH_READ);
    default: return true;
    }
}

static void choose_size(struct burst *burst, size_t bytes)
{
    size_t piece_bytes;
    unsigned piece_count;
    transport->ops->limits(transport, &piece_bytes, &piece_count);
    const enum path_kind path = burst->row->path;
    const size_t stride = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    unsigned count = burst->row->in_flight;
    if (goes_through_place(path) && path != PATH_INLINE && count > piece_count) count = piece_count;
    /* One offer, and what is placed directly lies one behind the other. */
    if (path == PATH_WRITE) count = 1;
    if (count > BURST_MAX) count = BURST_MAX;
    while (count > 1 && count * stride > BURST_BYTES_MAX) count--;
    burst->bytes = bytes;
    burst->stride = path == PATH_DIRECT ? bytes : stride;
    burst->count = count;
}

/* A sender's link takes memory where it lies from this size on. */
static size_t least_posted(const struct burst *burst)
{
    size_t least = 0;
    if (rank == burst->from && posts(burst))
        for (least = LEAST_BYTES;
             least < MOST_BYTES &&
             burst->tx->ops->reach(burst->tx, burst->source, least) == REACH_NONE;)
            least *= GROWTH;
    return (size_t)largest_of_ranks((double)least);
}

/* From what does not go inline, and is posted where the path wants that, to what is a message on a
 * link. Returns how many. */
static int sizes_of(const struct burst *burst, size_t *sizes)
{
    const size_t inline_bytes = path_inline_bytes(burst->table);
    const bool is_inline = burst->row->path == PATH_INLINE;
    size_t piece_bytes, least = is_inline ? LEAST_BYTES : inline_bytes + 1, most = MOST_BYTES;
    unsigned piece_count;
    transport->ops->limits(transport, &piece_bytes, &piece_count);
    if (goes_through_place(burst->row->path)) most = piece_bytes;
    if (goes_through_place(burst->row->path) && most > burst->table->sizes.piece_bytes_max)
        most = burst->table->sizes.piece_bytes_max;
    if (is_inline) most = inline_bytes;
    const size_t least_by_reference = least_posted(burst);
    if (least < least_by_reference) least = least_by_reference;
    int count = 0;
    size_t last = 0;
    for (size_t bytes = LEAST_BYTES; bytes <= most; bytes *= GROWTH)
        if (bytes >= least) last = sizes[count++] = bytes;
    if (last < most) sizes[count++] = most / sizeof(float) * sizeof(float);
    return count;
}

/* A row of a calibration (docs/how-to/calibration.md). */
static void print_json(enum path_kind path, const struct fit_line *sender,
                       const struct fit_line *receiver, double spread)
{
    static const char *comma = "";
    printf("%s\n  \"%s\": {\"sender_ps\": %.0f, \"receiver_ps\": %.0f, \"sender_byte_fs\": %.0f, "
           "\"receiver_byte_fs\": %.0f, \"spread_permille\": %.0f, \"known\": \"measured\"}",
           comma, path_kind_name(path), sender->first * 1e3, receiver->first * 1e3,
           sender->each * 1e6, receiver->each * 1e6, spread < 100 ? spread * 1e3 : 1e5);
    comma = ",";
}

static void print_cost(enum path_kind path, const struct fit_line *sender,
                       const struct fit_line *receiver, double spread)
{
    const double ps_a_ns = 1000;
    if (options.json)
        print_json(path, sender, receiver, spread);
    else if (options.rows)
        printf("     .cost = {%.0f, %.0f, %.0f, %.0f}, /* %s */\n", sender->first * ps_a_ns,
               receiver->first * ps_a_ns, sender->each * ps_a_ns, receiver->each * ps_a_ns,
               path_kind_name(path));
    else
        printf("%-12s %10.1f %12.1f %12.1f %14.1f\n", path_kind_name(path), sender->first,
               receiver->first, sender->each * ps_a_ns, receiver->each * ps_a_ns);
    fflush(stdout);
}

static void print_each(const struct burst *burst, double sender_ns, double receiver_ns)
{
    printf("  %8zu B  burst %2u  sender %9.1f ns  receiver %9.1f ns\n", burst->bytes, burst->count,
           sender_ns, receiver_ns);
}

struct path {
    struct burst burst;
    bool is_possible;
    int count;
    size_t sizes[FIT_POINTS_MAX];
    struct cost costs[FIT_POINTS_MAX];
};

static void begin_path(const struct path_table *table, const struct path_row *row, struct path *path)
{
    *path = (struct path){.burst = {.row = row, .table = table}};
    const bool has_ends = row->path != PATH_GROUP_SLOT || transport->group_count > 0;
    if (has_ends) choose_ends(&path->burst);
    path->is_possible = both(has_ends && is_possible(&path->burst));
    if (path->is_possible) path->count = sizes_of(&path->burst, path->sizes);
}

static void measure_path(struct path *path, int pass)
{
    for (int i = 0; i < path->count; i++) {
        choose_size(&path->burst, path->sizes[i]);
        measure_size(&path->burst, pass, &path->costs[i]);
    }
}

static void print_path(struct path *path)
{
    const bool sends = rank == path->burst.from;
    const enum path_kind name = path->burst.row->path;
    struct fit_point sender[FIT_POINTS_MAX], receiver[FIT_POINTS_MAX];
    double spreads[FIT_POINTS_MAX];
    if (!path->is_possible) {
        if (rank == 0 && !options.json)
            printf(options.rows ? "     /* %s: not between these ranks */\n"
                                : "%-12s not between these ranks\n",
                   path_kind_name(name));
        return;
    }
    for (int i = 0; i < path->count; i++) {
        const double own_ns = middle_ns(&path->costs[i]), bytes = (double)path->sizes[i];
        const double sender_ns = largest_of_ranks(sends ? own_ns : 0),
                     receiver_ns = largest_of_ranks(sends ? 0 : own_ns);
        sender[i] = (struct fit_point){bytes, at_least_a_nanosecond(sender_ns)};
        receiver[i] = (struct fit_point){bytes, at_least_a_nanosecond(receiver_ns)};
        spreads[i] = spread_of(&path->costs[i]);
        choose_size(&path->burst, path->sizes[i]);
        if (options.each && rank == 0) print_each(&path->burst, sender_ns, receiver_ns);
    }
    const struct fit_line sender_line = fit(sender, path->count),
                          receiver_line = fit(receiver, path->count);
    if (rank == 0) print_cost(name, &sender_line, &receiver_line, median(spreads, path->count));
}

static void measure_table(const struct path_table *table)
{
    struct path paths[PATH_KIND_COUNT];
    unsigned count = 0;
    for (unsigned i = 0; i < table->row_count; i++)
        if ((table->lacks & path_bit(table->rows[i].path)) == 0)
            begin_path(table, &table->rows[i], &paths[count++]);
    for (int pass = 0; pass < options.passes; pass++)
        for (unsigned w = 0; w < count; w++) measure_path(&paths[w], pass);
    for (unsigned w = 0; w < count; w++) print_path(&paths[w]);
}

static void print_heading(const struct path_table *table)
{
    cpu_set_t cpus;
    if (options.json) {
        printf("{\"tutti_calibration\": 1,\n \"%s\": {",
               strcmp(table->name, "local") == 0 ? "within" : "between");
        return;
    }
    const bool is_pinned = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
    printf("ways of \"%s\", the middle of %d times %d repeats%s\n", table->name, options.passes,
           options.repeats, is_pinned ? "" : ", NOT pinned");
    if (!options.rows) printf("way           sender ns  receiver ns  sender ps/B  receiver ps/B\n");
}

static void usage(FILE *file)
{
    fputs("paths - what each path of the path tables costs its sender and its receiver "
          "(docs/explanation/paths.md)\n"
          "\n"
          "    tutti-run --pin -n 2 build/bench/paths [OPTIONS]\n"
          "    TUTTI_TRANSPORT=tcp tutti-run --pin -n 2 build/bench/paths [OPTIONS]\n"
          "    TUTTI_TRANSPORT=tcp TUTTI_FABRIC=PROVIDER tutti-run --pin -n 2 build/bench/paths "
          "[OPTIONS]\n"
          "\n"
          "  --repeats N   of each size in each pass, 1 to 100000; default 1000\n"
          "  --passes N    over all sizes of all paths, 1 to 1000; default 3\n"
          "  --each        prints the figures of each size as well\n"
          "  --json        prints the costs as a calibration with nothing else in it "
          "(docs/how-to/calibration.md)\n"
          "  --rows        prints the costs as C text for a table's rows\n"
          "  --help\n"
          "\n"
          "A cost is that of a message and of each of its bytes: a line through middle repeats of "
          "all sizes.\n",
          file);
}

static void read_options(int argc, char **argv)
{
    static const struct option long_options[] = {{"repeats", required_argument, NULL, 'n'},
                                                 {"each", no_argument, NULL, 'e'},
                                                 {"rows", no_argument, NULL, 'r'},
                                                 {"json", no_argument, NULL, 'j'},
                                                 {"passes", required_argument, NULL, 'p'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {0}};
    for (int letter; (letter = getopt_long(argc, argv, "n:p:erh", long_options, NULL)) != -1;) {
        switch (letter) {
        case 'n': options.repeats = (int)number_of(optarg, REPEATS_MAX); break;
        case 'p': options.passes = (int)number_of(optarg, PASSES_MAX); break;
        case 'e': options.each = true; break;
        case 'r': options.rows = true; break;
        case 'j': options.json = true; break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (optind == argc && !(options.json && (options.each || options.rows))) return;
    usage(stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    create_communicators();
    if (tutti_comm_size(comm) != 2) {
        fprintf(stderr, "paths: needs two ranks: tutti-run --pin -n 2 build/bench/paths\n");
        return 2;
    }
    calibrate();
    get_memory();
    take_communicator();
    open_links();
    const struct path_table *const table = path_table_to(&transport->paths, 1 - rank);
    if (rank == 0) print_heading(table);
    measure_table(table);
    if (rank == 0 && options.json) puts("}}");
    handshake();
    domain_unlock(&measured->team.domain);
    check(tutti_comm_free(measured), "comm_free");
    leave();
    give_back_memory();
    return 0;
}

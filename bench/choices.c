/* choices.c - which algorithm a job takes for an allreduce, what it predicts, and what all others
 * take in its place, for bench/uncalibrated: rank program, `choices ROUNDS COUNTED_MS NAMES
 * BYTES...`.
 *
 * Rank 0 prints a line for each size and algorithm:
 *
 *     BYTES,ALGORITHM,CHOSEN,PREDICTED_US,US/US/...    the slowest rank's time of a call in each round
 *
 * ALGORITHM "-" is a call that names none, as users make it; CHOSEN is 1 beside the one that it
 * takes. A round takes all of a size once, in an order that changes from round to round: calls back
 * to back for COUNTED_MS, or a single one that takes longer. An algorithm that takes more than 1.5
 * times as long as the fastest in the first round is left out of the others, unless it is chosen or
 * among NAMES (joined by commas; "-": none). One that is predicted to take twice as long as the
 * fastest, and more than 100 ms, is never tried. With ROUNDS of 0, nothing is measured.
 */
#include <stdbool.h>
#include <string.h>

#include "rank_program.h"

enum {
    ROUNDS_MAX = 64,
    CALLS_MAX = 4000,
    ENTRIES_MAX = 64,
    NAME_BYTES = 64,
    TEXT_BYTES = 16 << 10,
    COUNTED_MS_MAX = 10000
};
static const double left_out_above = 1.5, untried_above = 2, untried_us = 1e5;

struct entry {
    char name[NAME_BYTES];
    double predicted_us, us[ROUNDS_MAX];
    int rounds;
    bool is_chosen, is_left_out;
};

struct cell {
    size_t bytes;
    struct entry entries[ENTRIES_MAX];
    int count;
};

static void *send_memory, *recv_memory;

static bool is_among(const char *name, const char *names)
{
    const size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += length)
        if ((at == names || at[-1] == ',') && (at[length] == '\0' || at[length] == ','))
            return true;
    return false;
}

/* What tutti_comm_explain says; plans that heed hosts alone have a name twice and cannot be asked
 * for. */
static void find_entries(struct cell *cell)
{
    static char text[TEXT_BYTES];
    char chosen[NAME_BYTES];
    check(tutti_comm_explain(comm, "allreduce", cell->bytes / sizeof(float), TUTTI_FLOAT32, text,
                             sizeof text),
          "explain");
    cell->entries[cell->count++] = (struct entry){.name = "-"};
    char *rest = text, *line = strsep(&rest, "\n");
    if (sscanf(line, "%*[^:]: %63[^,]", chosen) != 1) check(TUTTI_INTERNAL, "what explain says");
    while ((line = strsep(&rest, "\n")) != NULL && cell->count < ENTRIES_MAX) {
        struct entry entry = {0};
        if (sscanf(line, " %lf us %63[^ :\n]", &entry.predicted_us, entry.name) != 2) continue;
        entry.is_chosen = strcmp(entry.name, chosen) == 0;
        if (entry.is_chosen && cell->entries[0].predicted_us == 0)
            cell->entries[0].predicted_us = entry.predicted_us;
        if (strchr(line, ':') == NULL && strchr(line, '(') == NULL)
            cell->entries[cell->count++] = entry;
    }
}

static void make_call(const struct cell *cell, const struct entry *entry)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    if (strcmp(entry->name, "-") != 0) options.algorithm = entry->name;
    check(tutti_allreduce_with(send_memory, recv_memory, cell->bytes / sizeof(float), TUTTI_FLOAT32,
                               TUTTI_SUM, &options, comm),
          entry->name);
}

/* The same on all ranks: of calls back to back. The first ones use up what a link that has rested
 * passes at once. */
static double time_entry(const struct cell *cell, const struct entry *entry, double counted_us)
{
    double began = now_us();
    make_call(cell, entry);
    const double first = largest_of_ranks(now_us() - began), fit = counted_us / first;
    if (fit < 1) return first;
    const int calls = fit < CALLS_MAX ? (int)fit : CALLS_MAX;
    for (int i = 0; i < calls / 4; i++) make_call(cell, entry);
    check(tutti_barrier(comm), "barrier");
    began = now_us();
    for (int i = 0; i < calls; i++) make_call(cell, entry);
    return largest_of_ranks((now_us() - began) / calls);
}

/* The same on all ranks. */
static void shuffle(int *order, int count, unsigned seed)
{
    for (int i = 0; i < count; i++) {
        const int other = rand_r(&seed) % (i + 1);
        order[i] = order[other];
        order[other] = i;
    }
}

static void measure_round(struct cell *cell, int round, double counted_us, const char *names)
{
    int order[ENTRIES_MAX];
    double fastest = 0;
    shuffle(order, cell->count, (unsigned)round);
    for (int i = 0; i < cell->count; i++) {
        struct entry *const entry = &cell->entries[order[i]];
        if (entry->is_left_out) continue;
        entry->us[entry->rounds++] = time_entry(cell, entry, counted_us);
        if (fastest == 0 || entry->us[round] < fastest) fastest = entry->us[round];
    }
    for (int i = 1; i < cell->count && round == 0; i++) {
        struct entry *const entry = &cell->entries[i];
        if (entry->rounds > 0 && entry->us[0] > left_out_above * fastest && !entry->is_chosen &&
            !is_among(entry->name, names))
            entry->is_left_out = true;
    }
}

static void print(const struct cell *cell)
{
    for (int i = 0; i < cell->count; i++) {
        const struct entry *const entry = &cell->entries[i];
        printf("%zu,%s,%d,%.1f,", cell->bytes, entry->name, entry->is_chosen, entry->predicted_us);
        for (int round = 0; round < entry->rounds; round++)
            printf("%s%.1f", round > 0 ? "/" : "", entry->us[round]);
        puts("");
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: %s ROUNDS COUNTED_MS NAMES BYTES...\n",
                program_invocation_short_name);
        return 2;
    }
    const int rounds = strcmp(argv[1], "0") == 0 ? 0 : (int)number_of(argv[1], ROUNDS_MAX);
    const double counted_us = 1e3 * (double)number_of(argv[2], COUNTED_MS_MAX);
    const size_t bytes_max = 1 << 30;
    join();
    for (int argument = 4; argument < argc; argument++) {
        static struct cell cell;
        cell = (struct cell){.bytes = (size_t)number_of(argv[argument], bytes_max)};
        send_memory = calloc(1, cell.bytes);
        recv_memory = calloc(1, cell.bytes);
        if (send_memory == NULL || recv_memory == NULL) check(TUTTI_NO_MEMORY, "memory");
        find_entries(&cell);
        const double least_us = cell.entries[1].predicted_us;
        for (int i = 1; i < cell.count; i++) {
            struct entry *const entry = &cell.entries[i];
            entry->is_left_out = entry->predicted_us > untried_above * least_us &&
                                 entry->predicted_us > untried_us && !is_among(entry->name, argv[3]);
        }
        for (int round = 0; round < rounds; round++)
            measure_round(&cell, round, counted_us, argv[3]);
        if (rank == 0) print(&cell);
        free(send_memory);
        free(recv_memory);
    }
    leave();
    return 0;
}

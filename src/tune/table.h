/* table.h - measured choices: the algorithms that were the fastest for calls of some sizes on
 * machines of some shape, where the model had chosen another one.
 *
 *     allreduce, 8 ranks on 2 hosts, plain dtypes, private memory:
 *         model's choice   |  twoshot  |  model's choice  |  ring            |  model's choice
 *         bytes of a block 0          4k                 64k                16m
 *
 * 1. An entry holds for one key and a range of sizes. Ranges of one key never overlap: a new entry
 *    takes its range away from older ones.
 * 2. Entries are sorted, so tables with the same entries are the same, in whatever order the
 *    entries came, and have the same fingerprint.
 * 3. A key leaves out the kind of machine, links and cores. These are up to the user of the table,
 *    which belongs to the machines on which it was measured.
 *
 * Nothing here measures (tutti-tune does) or reads files (format/table_file.h).
 */
#ifndef TUTTI_TUNE_TABLE_H
#define TUTTI_TUNE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/algo.h"
#include "model/calibration.h"
#include "tutti/tutti.h"

/* The numbers of ranks, hosts and racks. */
struct tune_shape {
    int rank_count; /* 2 or more */
    int host_count, rack_count;
    bool is_loopback; /* one host, whose ranks reach each other over its network */
};

/* For collectives that do not reduce, all dtypes are alike: their class does not count. */
struct tune_key {
    struct tune_shape shape;
    enum collective collective;
    enum calibration_class dtypes;
    bool is_mapped; /* all memory is such that others can read and write it where it lies */
};

enum { TUNE_ENTRIES_MAX = 4096, TUNE_FASTER_PERMILLE_MAX = 1000000 };
#define TUNE_BYTES_MAX (UINT64_C(1) << 48)
#define TUNE_TIME_NS_MAX UINT64_C(1000000000000)

struct tune_entry {
    struct tune_key key;
    uint64_t bytes_from, bytes_to; /* of a block: from included, to not; 0 or powers of two */
    const struct algorithm *algorithm;
    bool only_hosts;  /* its plan is made with the level of hosts alone, though there are racks */
    uint64_t time_ns; /* that a call took; 0: not known */
    unsigned faster_permille; /* so much longer the model's choice took */
};

/* The caller's memory. Any thread may read it while none adds. */
struct tune_table {
    bool is_loaded; /* others used the machines meanwhile: the fastest then may not be the fastest otherwise */
    int count, room;
    struct tune_entry *entries; /* by key and size */
};

void tune_table_init(struct tune_table *table);
void tune_table_release(struct tune_table *table);

/* Adds an entry, which wins over older entries where their ranges overlap. INVALID_OPTIONS: a value
 * is out of bounds, and the message says which; UNSUPPORTED: there are TUNE_ENTRIES_MAX; NO_MEMORY.
 * On failure the table is as it was. */
enum tutti_status tune_table_add(struct tune_table *table, const struct tune_entry *entry);
/* Adds all entries of another table, and is loaded if that one is. On failure the table has some of
 * them. */
enum tutti_status tune_table_merge(struct tune_table *table, const struct tune_table *other);

/* The entry for calls with blocks of so many bytes; NULL: there is none. It belongs to the table,
 * and is valid until the table changes. */
const struct tune_entry *tune_table_find(const struct tune_table *table, const struct tune_key *key,
                                         uint64_t bytes);

/* The fingerprint of all that influences choices, so not of measured times. 0: the table is NULL or
 * empty. */
uint64_t tune_table_fingerprint(const struct tune_table *table);

#endif

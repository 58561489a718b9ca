/* calibration.h - the cost of work on a machine: the numbers that a model takes, how reliable each
 * number is, and the machine to which they belong.
 *
 *     shipped numbers ──┐
 *     tables of paths ──┼─► calibration ──► is it for this machine? ──► struct model_machine ──► a model
 *     a file ───────────┘   value, spread, how it is known     (machine.h)
 *
 * 1. A calibration always has all numbers. A number that was not measured has the shipped value,
 *    and is said to be assumed.
 * 2. Values are whole numbers within the bounds of the list below: ranks that have the same
 *    calibration compute the same, bit for bit.
 * 3. It belongs to one kind of machine, by its key: processor, caches, kernel, network cards.
 *    Numbers of another machine are worse than assumed ones, so a calibration whose key differs
 *    must not be used.
 * 4. Ranks must never disagree. They compare fingerprints, and if one differs, no rank uses a
 *    calibration (comm/knowledge.h): a plan that suits none of them best is better than ranks that
 *    choose different plans.
 *
 * Nothing here reads files (format/calibration_file.h) or measures (tutti-topo --calibrate). Pure
 * functions, on any thread; nothing allocates or blocks.
 */
#ifndef TUTTI_MODEL_CALIBRATION_H
#define TUTTI_MODEL_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/machine.h"
#include "os/hardware.h"
#include "path/path.h"
#include "tutti/tutti.h"

/* Dtypes that cost alike to reduce, by what a processor does with a byte. X(ENUMERATOR, name) */
#define CALIBRATION_CLASS_LIST(X)                               \
    X(PLAIN, plain)     /* integers, float32, float64 */        \
    X(FLOAT16, float16) /* and bfloat16: widened and rounded */ \
    X(FLOAT8, float8)   /* of both kinds */

enum calibration_class {
#define X(enumerator, name) CALIBRATION_CLASS_##enumerator,
    CALIBRATION_CLASS_LIST(X)
#undef X
        CALIBRATION_CLASSES
};
enum calibration_class calibration_class_of(enum tutti_dtype dtype);

/* Bounds: a millisecond; a microsecond for a byte; and a second for what takes long. */
enum { CALIBRATION_PS_MAX = 1000000000, CALIBRATION_BYTE_FS_MAX = 1000000000 };
#define CALIBRATION_LONG_PS_MAX UINT64_C(1000000000000)

/* The one list of parameters: X(name, unit, shipped value, least, most, what it is). Shipped values
 * within a host are what tutti-topo --calibrate measured on the machine of the tables of paths (2
 * cores of an AMD EPYC, Zen 3, virtual machine); latency_far_ps and all between hosts are assumed,
 * as for Ethernet of 10 Gbit/s.
 *
 * "Near" means in the second-level cache, "far" in memory, with the kernels that the library takes
 * there. A sum is one of two sources. */
#define CALIBRATION_PARAMETER_LIST(X)                                                             \
    X(copy_each_ps, "ps", 3000, 0, CALIBRATION_PS_MAX, "a copy of no bytes")                      \
    X(copy_near_byte_fs, "fs/byte", 19000, 1, CALIBRATION_BYTE_FS_MAX,                            \
      "a copied byte, in the cache")                                                              \
    X(copy_far_byte_fs, "fs/byte", 57000, 1, CALIBRATION_BYTE_FS_MAX,                             \
      "a copied byte, past the caches, by one core")                                              \
    X(reduce_plain_each_ps, "ps", 7000, 0, CALIBRATION_PS_MAX,                                    \
      "a sum of no elements, of integers, float32 or float64")                                    \
    X(reduce_plain_near_byte_fs, "fs/byte", 52000, 1, CALIBRATION_BYTE_FS_MAX,                    \
      "a byte of their sum, in the cache")                                                        \
    X(reduce_plain_far_byte_fs, "fs/byte", 88000, 1, CALIBRATION_BYTE_FS_MAX,                     \
      "a byte of their sum, past the caches, by one core")                                        \
    X(reduce_float16_each_ps, "ps", 9500, 0, CALIBRATION_PS_MAX,                                  \
      "a sum of no elements, of float16 or bfloat16")                                             \
    X(reduce_float16_near_byte_fs, "fs/byte", 66000, 1, CALIBRATION_BYTE_FS_MAX,                  \
      "a byte of their sum, in the cache")                                                        \
    X(reduce_float16_far_byte_fs, "fs/byte", 108000, 1, CALIBRATION_BYTE_FS_MAX,                  \
      "a byte of their sum, past the caches, by one core")                                        \
    X(reduce_float8_each_ps, "ps", 7400, 0, CALIBRATION_PS_MAX,                                   \
      "a sum of no elements, of 8-bit floats")                                                    \
    X(reduce_float8_near_byte_fs, "fs/byte", 478000, 1, CALIBRATION_BYTE_FS_MAX,                  \
      "a byte of their sum, in the cache")                                                        \
    X(reduce_float8_far_byte_fs, "fs/byte", 470000, 1, CALIBRATION_BYTE_FS_MAX,                   \
      "a byte of their sum, past the caches, by one core")                                        \
    X(memory_byte_fs, "fs/byte", 23000, 1, CALIBRATION_BYTE_FS_MAX,                               \
      "a byte that all cores of a host together read or write in memory")                         \
    X(turn_ps, "ps", 1700000, 0, CALIBRATION_LONG_PS_MAX, "a core goes from one rank to another") \
    X(latency_near_ps, "ps", 40000, 1, CALIBRATION_PS_MAX,                                        \
      "a line goes to a core that shares the last cache")                                         \
    X(latency_far_ps, "ps", 250000, 1, CALIBRATION_PS_MAX, "a line goes to a core that does not") \
    X(retake_near_byte_fs, "fs/byte", 104000, 0, CALIBRATION_BYTE_FS_MAX,                         \
      "a byte is stored where a core that shares the last cache has read, besides storing it")    \
    X(retake_far_byte_fs, "fs/byte", 651000, 0, CALIBRATION_BYTE_FS_MAX,                          \
      "a byte is stored where a core that does not has read, besides storing it")                 \
    X(latency_rack_ps, "ps", 20000000, 1, CALIBRATION_LONG_PS_MAX,                                \
      "a message goes to another host of the rack")                                               \
    X(latency_cluster_ps, "ps", 30000000, 1, CALIBRATION_LONG_PS_MAX,                             \
      "a message goes to another rack")                                                           \
    X(card_message_ps, "ps", 0, 0, CALIBRATION_PS_MAX,                                            \
      "a message occupies a network card, besides its bytes")                                     \
    X(card_byte_fs, "fs/byte", 800000, 1, CALIBRATION_BYTE_FS_MAX,                                \
      "a byte occupies a network card")                                                           \
    X(card_burst_bytes, "bytes", 0, 0, UINT32_MAX,                                                \
      "what a network card that has rested passes at once")                                       \
    X(card_queue_bytes, "bytes", 0, 0, UINT32_MAX,                                                \
      "more than that waits at a network card: some of it is lost; 0: nothing ever is")           \
    X(card_again_permille, "permille", 0, 0, 1000, "how much of it is lost then")                 \
    X(uplink_message_ps, "ps", 0, 0, CALIBRATION_PS_MAX,                                          \
      "a message occupies the uplink of a rack, besides its bytes")                               \
    X(uplink_byte_fs, "fs/byte", 800000, 1, CALIBRATION_BYTE_FS_MAX,                              \
      "a byte occupies the uplink of a rack")                                                     \
    X(uplink_burst_bytes, "bytes", 0, 0, UINT32_MAX,                                              \
      "what an uplink that has rested passes at once")                                            \
    X(uplink_queue_bytes, "bytes", 0, 0, UINT32_MAX,                                              \
      "more than that waits at an uplink: some of it is lost; 0: nothing ever is")                \
    X(uplink_again_permille, "permille", 0, 0, 1000, "how much of it is lost then")

enum calibration_parameter {
#define X(name, unit, shipped, least, most, what) CALIBRATION_##name,
    CALIBRATION_PARAMETER_LIST(X)
#undef X
        CALIBRATION_PARAMETERS
};

struct calibration_info {
    const char *name, *unit;
    uint64_t shipped, least, most;
    const char *what;
};
const struct calibration_info *calibration_info(enum calibration_parameter parameter);
/* CALIBRATION_PARAMETERS: there is none of that name. */
enum calibration_parameter calibration_find(const char *name);

/* The costs of a path to its two ranks: X(name, most), the least is 0. */
#define CALIBRATION_PATH_LIST(X)               \
    X(sender_ps, UINT32_MAX)                   \
    X(receiver_ps, UINT32_MAX)                 \
    X(sender_byte_fs, CALIBRATION_BYTE_FS_MAX) \
    X(receiver_byte_fs, CALIBRATION_BYTE_FS_MAX)

enum calibration_path_value {
#define X(name, most) CALIBRATION_PATH_##name,
    CALIBRATION_PATH_LIST(X)
#undef X
        CALIBRATION_PATH_VALUES
};
const char *calibration_path_value_name(enum calibration_path_value value);
uint64_t calibration_path_value_most(enum calibration_path_value value);

/* X(ENUMERATOR, name): how a number is known. */
#define CALIBRATION_KNOWN_LIST(X) \
    X(ASSUMED, "assumed")         \
    X(MEASURED, "measured")

enum calibration_known {
#define X(enumerator, name) CALIBRATION_##enumerator,
    CALIBRATION_KNOWN_LIST(X)
#undef X
        CALIBRATION_KNOWN_COUNT
};
const char *calibration_known_name(enum calibration_known known);
/* CALIBRATION_KNOWN_COUNT: there is none of that name. */
enum calibration_known calibration_known_from_name(const char *name);

enum { CALIBRATION_SPREAD_MAX = 100000 };

struct calibration_number {
    uint64_t value;           /* the least that was ever measured: the cost of undisturbed work */
    unsigned spread_permille; /* by how much the middle one of all repeats is above that */
    enum calibration_known known;
};

/* A row of a table of paths. */
struct calibration_path {
    bool is_there; /* the table has the path */
    uint64_t values[CALIBRATION_PATH_VALUES];
    unsigned spread_permille;
    enum calibration_known known;
};

/* The tables: for ranks of one host, and of several. */
enum calibration_table { CALIBRATION_WITHIN, CALIBRATION_BETWEEN, CALIBRATION_TABLES };
const char *calibration_table_name(enum calibration_table table);

/* The machine to which a calibration belongs. */
struct calibration_key {
    struct hardware hardware;
    int host_count, rank_count; /* of the job that measured between hosts; 0: none did */
};

struct calibration {
    struct calibration_key key;
    bool is_loaded; /* others used the machine while it was measured: values may be far too high */
    struct calibration_number numbers[CALIBRATION_PARAMETERS];
    struct calibration_path paths[CALIBRATION_TABLES][PATH_KIND_COUNT];
    const char *between; /* the table whose paths those between hosts are, by its name: what another transport costs they do not say; or NULL */
};

/* Sets shipped values, the costs of those tables (NULL: no paths), and an empty key. */
void calibration_init(struct calibration *calibration, const struct path_table *within,
                      const struct path_table *between);

/* Whether the calibration may be used here. If not, `why` names each part of the key that differs.
 * Hosts and ranks count if the calibration was measured between hosts. */
enum { CALIBRATION_WHY_SIZE = 1024 };
bool calibration_is_for(const struct calibration *calibration, const struct calibration_key *here,
                        char why[static CALIBRATION_WHY_SIZE]);

/* ---------------------------------------------------------------------------------- ranks agree */

/* The fingerprint of everything that influences a model. */
uint64_t calibration_fingerprint(const struct calibration *calibration);

/* -------------------------------------------------------------------------------------- its use */

/* Tables of paths with the costs of a calibration: the caller's memory, which stays where it is as
 * long as they are used. */
struct calibration_tables {
    struct path_table tables[CALIBRATION_TABLES];
    struct path_row rows[CALIBRATION_TABLES][PATH_KIND_COUNT];
};

struct calibration_use {
    enum tutti_dtype dtype; /* of what is reduced */
    bool is_far; /* buffers lie in memory; false: in caches, and no core ever waits for memory */
    const struct path_table *within, *between; /* as they ship; either may be NULL */
    struct calibration_tables *tables;         /* filled in */
};

/* Sets the numbers of a calibration: costs, latencies, ports, and both tables (if the table between
 * hosts has another name than the calibration's, it keeps the costs with which it ships). Memory
 * carries at least what one core alone copies. If copies were measured and are slower than shipped,
 * paths within the host that were not measured cost as much more. Also sets core_count, if the
 * calibration is of a machine. All else stays. Ranks, hosts and racks must be set already, since
 * ranks of a host that do not all fit around one cache count as far apart. */
void calibration_apply(const struct calibration *calibration, const struct calibration_use *use,
                       struct model_machine *machine);

#endif

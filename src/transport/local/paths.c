#include "transport/local/paths.h"

#include "transport/local/segment.h"
#include "transport/path_rules.h"

/* ----------------------------------------------------------------------------------------- rows */

/* The fields that all rows have in common. Messages are ordered by their headers, wherever their
 * bytes lie. */
#define HOST_ROW                                                                   \
    .alignment = 1, .is_ordered = true,                                            \
    .measured = "tutti-run --pin -n 2 build/bench/paths --repeats 300, "           \
                "2 cores of an AMD EPYC (Zen 3) virtual machine, minima; "         \
                "medians of 14 such runs while two cores share a cache; in three " \
                "others they did not, and all that crosses took three times as long"
#define ANY_MEMORY .sender_memory = PATH_HOST_MEMORY, .receiver_memory = PATH_HOST_MEMORY
/* A path through a place of the link, or of the sender. */
#define COPIED_TWICE                                                               \
    {                                                                              \
        .sender_loads = 1, .sender_stores = 1, .receiver_loads = 1, .crossings = 1 \
    }

enum { REFERENCES = 8 }; /* that one chunk is cut into at most */

/* First the paths that a message with a second copy may take, too. */
static const struct path_row rows[] = {
    {.path = PATH_INLINE,
     ANY_MEMORY,
     .completion = PATH_AT_ONCE,
     .in_flight = TRANSPORT_UNDER_WAY_MAX,
     .work = COPIED_TWICE,
     .cost = {9500, 18700, 0, 0},
     HOST_ROW},
    {.path = PATH_SLOT,
     ANY_MEMORY,
     .completion = PATH_AT_ONCE,
     .in_flight = DATA_SLOTS,
     .work = COPIED_TWICE,
     .cost = {4400, 33800, 35, 25},
     HOST_ROW},
    {.path = PATH_GROUP_SLOT,
     ANY_MEMORY,
     .completion = PATH_AT_ONCE,
     .is_agreed = true,
     .in_flight = DATA_SLOTS,
     .work = COPIED_TWICE,
     .cost = {5300, 33800, 34, 25},
     HOST_ROW},
    {.path = PATH_STAGE,
     ANY_MEMORY,
     .completion = PATH_AT_ONCE,
     .in_flight = DATA_SLOTS,
     .work = {.sender_loads = 2, .sender_stores = 2, .receiver_loads = 1, .crossings = 1},
     .cost = {4600, 34600, 53, 25},
     HOST_ROW},
    {.path = PATH_SHARED_SLOT,
     ANY_MEMORY,
     .completion = PATH_AT_ONCE,
     .in_flight = SHARED_SLOTS,
     .work = COPIED_TWICE,
     .cost = {13400, 62700, 32, 24},
     HOST_ROW},
    {.path = PATH_FORWARD,
     ANY_MEMORY,
     .completion = PATH_AT_ONCE,
     .in_flight = SHARED_SLOTS,
     .work = COPIED_TWICE,
     .cost = {63900, 66500, 21, 25},
     HOST_ROW},
    {.path = PATH_READ,
     .sender_memory = PATH_MAPPED | PATH_OTHER_MEMORY,
     .receiver_memory = PATH_HOST_MEMORY | PATH_OTHER_MEMORY,
     .completion = PATH_CONSUMED,
     .in_flight = REFERENCES,
     .work = {.receiver_loads = 1, .crossings = 1},
     .cost = {12900, 31500, 0, 26},
     HOST_ROW},
    {.path = PATH_COPY,
     .sender_memory = PATH_PRIVATE,
     .receiver_memory = PATH_HOST_MEMORY,
     .completion = PATH_CONSUMED,
     .in_flight = REFERENCES,
     .work = {.kernel_copies = 1, .crossings = 1},
     .cost = {40600, 1282000, 0, 88},
     HOST_ROW},
    {.path = PATH_WRITE,
     .sender_memory = PATH_HOST_MEMORY | PATH_OTHER_MEMORY,
     .receiver_memory = PATH_MAPPED | PATH_OTHER_MEMORY,
     .completion = PATH_AT_ONCE,
     .in_flight = 1,
     .work = {.sender_loads = 1, .sender_stores = 1, .crossings = 1},
     .cost = {33200, 44900, 31, 0},
     HOST_ROW},
};
enum { CHECKED_ROWS = 4 };

/* ---------------------------------------------------------------------------------------- rules */

#define RULE_FOR(to, least, most, of, by, in, on, from, because)                                   \
    {                                                                                              \
        .path = (to), .bytes_min = (least), .bytes_max = (most), .traffic = (of), .readers = (by), \
        .steps = (in), .cores = (on), .senders = (from), .why = (because)                          \
    }

enum {
    ONE = PATH_TO_ONE | PATH_TO_ONE_ON_A_CHAIN,
    MANY = PATH_TO_SEVERAL | PATH_TO_GROUP,
    ANY_READER = PATH_ANY_READERS,
    REDUCING = PATH_REDUCED | PATH_REDUCED_FOR_ALL,
    SENDS = PATH_SENDS,
    PASSES = PATH_PASSES,
    SENDER = PATH_ANY_SENDER,
    OWN = PATH_OWN_CORES,
    SHARED = PATH_SHARED_CORES,
    ANY_CORES = PATH_ANY_CORES,
    FEW = PATH_FEW_SENDERS,
    MANY_SENDERS = PATH_MANY_SENDERS,
    ANY_SENDERS = PATH_ANY_SENDERS
};

/* clang-format off */

/* Places of a link, for which a step can always wait. */
#define LAST_RULES \
    RULE(PATH_INLINE, 0, INLINE_BYTES, PATH_ANY_TRAFFIC, SENDER, \
         "the room that there is in the cache line of a header"), \
    RULE_FOR(PATH_GROUP_SLOT, INLINE_BYTES + 1, ANY_SIZE, PATH_ANY_TRAFFIC, PATH_TO_GROUP, SENDER, ANY_CORES, ANY_SENDERS, \
             "binding opens a link to a group only for what fits into its slots as a whole"), \
    RULE_FOR(PATH_SLOT, INLINE_BYTES + 1, ANY_SIZE, PATH_ANY_TRAFFIC, ONE | PATH_TO_SEVERAL, SENDER, ANY_CORES, ANY_SENDERS, \
             "one copy into a cache, and one out of it"), \
    RULE_TO_STAGE

static const struct path_rule rules[] = {
    RULE_FOR(PATH_WRITE, KIB(64), ANY_SIZE, REDUCING, ONE | PATH_TO_SEVERAL, PASSES | PATH_STORES, ANY_CORES, ANY_SENDERS,
             "below, the receiver copies from a cache what a look at its offer costs"),
    RULE(PATH_FORWARD, 1, ANY_SIZE, PATH_ANY_TRAFFIC, PASSES, "saves a copy"),
    RULE(PATH_READ, KIB(8), ANY_SIZE, PATH_ANY_TRAFFIC, SENDER,
         "below, a copy through a slot costs less than waiting until somebody has read"),

    /* This saves a copy, and costs a system call, work for each page, and the kernel's stores,
     * which go through the cache. */
    RULE_FOR(PATH_COPY, KIB(16), ANY_SIZE, PATH_EXCHANGE | PATH_MESSAGE_BOTH_WAYS, ANY_READER, SENDER, OWN, ANY_SENDERS,
             "everybody copies out as much as it sends"),
    RULE_FOR(PATH_COPY, KIB(16), MIB(1), PATH_FROM_ROOT | PATH_TO_ROOT, ANY_READER, SENDER, OWN, ANY_SENDERS,
             "above, two ranks copy what is in no cache faster through slots than one does alone"),
    RULE_FOR(PATH_COPY, KIB(16), MIB(1), PATH_SPREAD, ANY_READER, SENDER, OWN, MANY_SENDERS, "as above"),
    {.path = PATH_COPY, .bytes_min = KIB(16), .bytes_max = MIB(1), .traffic = PATH_SPREAD, .readers = ANY_READER, .readers_max = 4,
     .steps = SENDER, .cores = OWN, .senders = FEW,
     .why = "as above; and readers of the same pages hold each other up in the kernel: 15 of 512 KiB took 888 us, where one takes 46"},
    RULE_FOR(PATH_COPY, KIB(16), MIB(2), PATH_MESSAGE, ONE, SENDER, OWN, ANY_SENDERS,
             "as above, and nobody else waits for the receiver"),
    RULE_FOR(PATH_COPY, KIB(16), KIB(512), PATH_REDUCED, ANY_READER, SENDS, OWN, ANY_SENDERS,
             "copied out near the receiver, and then reduced"),
    RULE_FOR(PATH_COPY, KIB(16), ANY_SIZE, PATH_EXCHANGE | PATH_MESSAGE | PATH_MESSAGE_BOTH_WAYS, ONE, SENDER, SHARED, ANY_SENDERS,
             "a saved copy is somebody's time"),
    RULE_FOR(PATH_COPY, KIB(16), MIB(2), PATH_SPREAD, ONE, SENDER, SHARED, ANY_SENDERS,
             "a saved copy is somebody's time, while it comes from a cache"),
    RULE_FOR(PATH_COPY, KIB(16), KIB(512), PATH_TO_ROOT, ONE, SENDER, SHARED, ANY_SENDERS,
             "the root does all the copying"),
    RULE_FOR(PATH_COPY, KIB(128), ANY_SIZE, PATH_FROM_ROOT, ONE, SENDER, SHARED, ANY_SENDERS,
             "the root waits until all have had their turn"),
    RULE_FOR(PATH_COPY, KIB(64), MIB(2), PATH_SPREAD, MANY, SENDER, SHARED, MANY_SENDERS,
             "copied by several; where few ranks send to several, a shared slot serves all readers better"),
    {.path = PATH_COPY, .bytes_min = KIB(64), .bytes_max = ANY_SIZE, .all_bytes_max = MIB(1), .traffic = PATH_REDUCED,
     .readers = ANY_READER, .steps = SENDS, .cores = SHARED, .senders = ANY_SENDERS,
     .why = "until the messages of all ranks together leave the caches"},

    RULE_FOR(PATH_SHARED_SLOT, KIB(4), ANY_SIZE, PATH_ANY_COLLECTIVE, PATH_TO_SEVERAL, SENDER, ANY_CORES, FEW,
             "below, counting readers costs more than another copy"),
    RULE_FOR(PATH_SHARED_SLOT, KIB(4), ANY_SIZE, PATH_REDUCED_FOR_ALL, PATH_TO_ONE_ON_A_CHAIN, SENDER, ANY_CORES, ANY_SENDERS,
             "its receiver adds to it in that place and forwards it"),
    LAST_RULES,
};

static const struct path_rule checked_rules[] = {LAST_RULES};

/* clang-format on */

/* --------------------------------------------------------------------------------------- tables */

/* A shared slot saves more than a slot of a link does. */
#define BUDGETS                              \
    {                                        \
        .for_slot = 1, .for_shared_slot = 16 \
    }

const struct path_table *local_paths(bool checks)
{
    static const struct path_table plain = {.name = "local",
                                            .is_memory = true,
                                            .rows = rows,
                                            .row_count = COUNT_OF(rows),
                                            .rules = rules,
                                            .rule_count = COUNT_OF(rules),
                                            .sizes = PATH_SIZES,
                                            .budgets = BUDGETS},
                                   checked = {.name = "local, checked",
                                              .is_memory = true,
                                              .rows = rows,
                                              .row_count = CHECKED_ROWS,
                                              .rules = checked_rules,
                                              .rule_count = COUNT_OF(checked_rules),
                                              .sizes = PATH_SIZES,
                                              .budgets = BUDGETS};
    return checks ? &checked : &plain;
}

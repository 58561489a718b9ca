#include "transport/tcp/paths.h"

#include "transport/path_rules.h"
#include "transport/tcp/link.h"

/* ----------------------------------------------------------------------------------------- rows */

#define TCP_ROW                                                                                \
    .sender_memory = PATH_HOST_MEMORY, .receiver_memory = PATH_HOST_MEMORY, .alignment = 1,    \
    .is_ordered = true, .in_flight = TCP_WINDOW,                                               \
    .measured =                                                                                \
        "tutti-run --pin -n 2 build/bench/paths --repeats 100, over connections on loopback, " \
        "2 cores of an AMD EPYC (Zen 3) virtual machine, minima; medians of three such runs, " \
        "which differed by up to a quarter"

static const struct path_row rows[] = {
    {TCP_ROW, .path = PATH_INLINE, .completion = PATH_AT_ONCE, .work = {1, 1, 1, 1, 2, 1},
     .cost = {5467900, 1124700, 0, 0}},
    {TCP_ROW, .path = PATH_SLOT, .completion = PATH_AT_ONCE, .work = {1, 1, 1, 1, 2, 1},
     .cost = {6508100, 2781300, 232, 186}},
    {TCP_ROW, .path = PATH_READ, .completion = PATH_CONSUMED, .work = {0, 0, 1, 0, 2, 1},
     .cost = {5921200, 7234200, 209, 187}},
    {TCP_ROW, .path = PATH_WRITE, .completion = PATH_AT_ONCE, .work = {0, 0, 0, 0, 2, 1},
     .cost = {13288900, 11654700, 197, 123}},
    {TCP_ROW, .path = PATH_DIRECT, .completion = PATH_AT_ONCE, .work = {0, 0, 0, 0, 2, 1},
     .cost = {6072200, 6839300, 224, 130}},
    {TCP_ROW, .path = PATH_STAGE, .completion = PATH_AT_ONCE, .work = {2, 2, 1, 0, 2, 1},
     .cost = {7262700, 7201700, 267, 178}},
};

/* ---------------------------------------------------------------------------------------- rules */

/* clang-format off */
static const struct path_rule rules[] = {
    RULES_OF_RECEIVERS,
    RULE(PATH_READ, KIB(64), ANY_SIZE, PATH_ANY_TRAFFIC, PATH_ANY_SENDER,
         "below, a copy costs less than waiting until the receiver has consumed it"),
    RULE(PATH_INLINE, 0, TCP_SMALL_BYTES, PATH_ANY_TRAFFIC, PATH_ANY_SENDER,
         "room that each link has from the beginning"),
    RULE(PATH_SLOT, TCP_SMALL_BYTES + 1, ANY_SIZE, PATH_ANY_TRAFFIC, PATH_ANY_SENDER,
         "one copy, so that the sender's memory is free at once"),
    RULE_TO_STAGE,
};
/* clang-format on */

const struct path_table *tcp_paths(void)
{
    static const struct path_table table = {.name = "tcp",
                                            .rows = rows,
                                            .row_count = COUNT_OF(rows),
                                            .rules = rules,
                                            .rule_count = COUNT_OF(rules),
                                            /* each piece is a system call at both ends */
                                            .sizes = PATH_SIZES_FROM(TCP_FRAME_BYTES_MAX),
                                            .budgets = {.for_slot = 1, .for_shared_slot = 1}};
    return &table;
}

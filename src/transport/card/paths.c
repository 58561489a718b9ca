#include "transport/card/paths.h"

#define KIB(n) ((size_t)(n) << 10)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* --------------------------------------------------------------------------------------------------- rows */

#define CARD_ROW                                                                            \
    .sender_memory = PATH_HOST_MEMORY, .receiver_memory = PATH_HOST_MEMORY, .alignment = 1, \
    .is_ordered = true, .measured = "simulated: what a card does costs no core anything"

static const struct path_row rows[] = {
    {CARD_ROW, .way = PATH_SLOT, .completion = PATH_AT_ONCE, .in_flight = 8,
     .work = {1, 1, 1, 0, 0, 1}},
    {CARD_ROW, .way = PATH_READ, .completion = PATH_CONSUMED, .in_flight = 8,
     .needs_registration = true, .work = {0, 0, 1, 0, 0, 1}},
    {CARD_ROW, .way = PATH_WRITE, .completion = PATH_AT_ONCE, .in_flight = 1,
     .needs_registration = true, .work = {0, 0, 0, 0, 0, 0}},
    {CARD_ROW, .way = PATH_DIRECT, .completion = PATH_AT_ONCE, .in_flight = 1,
     .needs_registration = true, .work = {0, 0, 0, 0, 0, 0}},
    {CARD_ROW, .way = PATH_STAGE, .completion = PATH_AT_ONCE, .in_flight = 8,
     .work = {2, 2, 1, 0, 0, 1}},
};

/* -------------------------------------------------------------------------------------------------- rules */

#define RULE(to, least, of, in, because)                                           \
    {                                                                              \
        .way = (to), .bytes_min = (least), .bytes_max = SIZE_MAX, .traffic = (of), \
        .readers = PATH_ANY_READERS, .steps = (in), .cores = PATH_ANY_CORES,       \
        .senders = PATH_ANY_SENDERS, .why = (because)                              \
    }

static const struct path_rule rules[] = {
    RULE(PATH_WRITE, KIB(64), PATH_REDUCED | PATH_REDUCED_FOR_ALL, PATH_STORES,
         "the sender's card writes it where it was advertised"),
    RULE(PATH_DIRECT, KIB(128), PATH_ANY_TRAFFIC, PATH_STORES, "the same, advertised late"),
    RULE(PATH_READ, KIB(8), PATH_ANY_TRAFFIC, PATH_ANY_SENDER,
         "below, a copy costs less than registering memory"),
    RULE(PATH_SLOT, 0, PATH_ANY_TRAFFIC, PATH_ANY_SENDER, "one copy into registered memory"),
    RULE(PATH_STAGE, 0, PATH_ANY_TRAFFIC, PATH_PASSES,
         "ranks in a ring, each with a full link before and behind it, would wait for each other"),
};

const struct path_table *card_paths(void)
{
    static const struct path_table table = {.name = "card",
                                            .rows = rows,
                                            .row_count = COUNT_OF(rows),
                                            .rules = rules,
                                            .rule_count = COUNT_OF(rules),
                                            .sizes = PATH_SIZES,
                                            .budgets = {.for_slot = 1, .for_shared_slot = 1}};
    return &table;
}

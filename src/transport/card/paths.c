#include "transport/card/paths.h"

#include "transport/path_rules.h"

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

static const struct path_rule rules[] = {
    RULES_OF_RECEIVERS,
    RULE(PATH_READ, KIB(8), ANY_SIZE, PATH_ANY_TRAFFIC, PATH_ANY_SENDER,
         "below, a copy costs less than registering memory"),
    RULE(PATH_SLOT, 0, ANY_SIZE, PATH_ANY_TRAFFIC, PATH_ANY_SENDER,
         "one copy into registered memory"),
    RULE_TO_STAGE,
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

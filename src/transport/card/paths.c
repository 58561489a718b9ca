#include "transport/card/paths.h"

#include "transport/card/card.h"
#include "transport/path_rules.h"

/* ----------------------------------------------------------------------------------------- rows */

#define EACH_ROW                                                                            \
    .sender_memory = PATH_HOST_MEMORY, .receiver_memory = PATH_HOST_MEMORY, .alignment = 1, \
    .is_ordered = true

#define CARD_ROW                                                                                 \
    EACH_ROW, .measured = "assumed: what a core takes to tell a card, and to hear of it; bytes " \
                          "cost cores nothing but a copy into a slot"

#define SOFTWARE_ROW                                                                            \
    EACH_ROW, .measured = "assumed: as over TCP (tcp/paths.c), since the same system calls do " \
                          "the work"

/* clang-format off */
#define ROWS(ROW, SLOT_COST, READ_COST, WRITE_COST, DIRECT_COST, STAGE_COST) \
    {ROW, .path = PATH_SLOT, .completion = PATH_AT_ONCE, .in_flight = 8, \
     .work = {1, 1, 1, 0, 0, 1}, .cost = SLOT_COST}, \
    {ROW, .path = PATH_READ, .completion = PATH_CONSUMED, .in_flight = 8, \
     .needs_registration = true, .asked_bytes = CARD_ASKED_BYTES, .work = {0, 0, 1, 0, 0, 1}, \
     .cost = READ_COST}, \
    {ROW, .path = PATH_WRITE, .completion = PATH_AT_ONCE, .in_flight = 1, \
     .needs_registration = true, .work = {0, 0, 0, 0, 0, 0}, .cost = WRITE_COST}, \
    {ROW, .path = PATH_DIRECT, .completion = PATH_AT_ONCE, .in_flight = 1, \
     .needs_registration = true, .work = {0, 0, 0, 0, 0, 0}, .cost = DIRECT_COST}, \
    {ROW, .path = PATH_STAGE, .completion = PATH_AT_ONCE, .in_flight = 8, \
     .work = {2, 2, 1, 0, 0, 1}, .cost = STAGE_COST}
/* clang-format on */

#define COST(...)   \
    {               \
        __VA_ARGS__ \
    }

static const struct path_row rows[] = {
    ROWS(CARD_ROW, COST(500000, 500000, 60, 0), COST(1000000, 1000000, 0, 0),
         COST(1000000, 1000000, 0, 0), COST(1000000, 1000000, 0, 0), COST(500000, 500000, 120, 0))};
static const struct path_row software_rows[] = {
    ROWS(SOFTWARE_ROW, COST(6508100, 2781300, 232, 186), COST(5921200, 7234200, 209, 187),
         COST(13288900, 11654700, 197, 123), COST(6072200, 6839300, 224, 130),
         COST(7262700, 7201700, 267, 178))};

/* ---------------------------------------------------------------------------------------- rules */

static const struct path_rule rules[] = {
    RULES_OF_RECEIVERS,
    RULE(PATH_READ, KIB(8), ANY_SIZE, PATH_ANY_TRAFFIC, PATH_ANY_SENDER,
         "below, a copy costs less than registering memory"),
    RULE(PATH_SLOT, 0, ANY_SIZE, PATH_ANY_TRAFFIC, PATH_ANY_SENDER,
         "one copy into registered memory"),
    RULE_TO_STAGE,
};

/* A provider over sockets has done its part when bytes are in a buffer of the kernel's, and so are
 * those that an answer waits behind: 14.7 ms of them between hosts of 500 Mbit/s. */
enum { SOFTWARE_ANSWER_BYTES = MIB(1) };

#define TABLE(called, of, answer)                                                   \
    {                                                                               \
        .name = (called), .rows = (of), .row_count = COUNT_OF(of), .rules = rules,  \
        .rule_count = COUNT_OF(rules), .sizes = PATH_SIZES,                         \
        .budgets = {.for_slot = 1, .for_shared_slot = 1}, .answer_bytes = (answer), \
    }

const struct path_table *card_paths(void)
{
    static const struct path_table table = TABLE("card", rows, CARD_FLIGHT_BYTES_MIN);
    return &table;
}

const struct path_table *card_software_paths(void)
{
    static const struct path_table table =
        TABLE("card, in software", software_rows, SOFTWARE_ANSWER_BYTES);
    return &table;
}

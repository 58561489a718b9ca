/* orders.h - orders to the process that owns the ranks of a host, and a line of them for a host
 * that does not read at the moment.
 *
 * An order is one byte: the number of a signal that the user sent, or one of enum order. As a
 * signal that is pending, an order that waits counts once, in its last place; but signals that ask
 * to end count up to ORDERS_INSIST times, because more of them do nothing more. So no order is
 * lost, and the line is never full.
 */
#ifndef TUTTI_TOOLS_RUN_ORDERS_H
#define TUTTI_TOOLS_RUN_ORDERS_H

#include <stdbool.h>

enum order {
    ORDER_GRACE = 128, /* a rank of another host has failed: as if it were one of ours */
    ORDER_TERMINATE    /* SIGTERM now, and SIGKILL 2 s later */
};

enum { ORDERS_INSIST = 3, ORDERS_MAX = 256 + 4 * (ORDERS_INSIST - 1) };

/* Whether a signal asks to end. */
bool order_ends(int signal_number);

/* Zeroed at first. */
struct orders {
    unsigned char line[ORDERS_MAX];
    int count;
};

void orders_add(struct orders *orders, unsigned char order);
/* Removes the first orders, which have been sent. */
void orders_remove(struct orders *orders, int count);

#endif

/* orders.h - orders to the process that owns the ranks of a host, and a line of them for a host
 * that does not read at the moment.
 *
 * An order is one byte: the number of a signal that the user sent, or one of enum order. As a
 * signal that is pending, an order that waits counts once, in its last place; but signals that ask
 * to end count up to ORDERS_INSIST times, because more of them do nothing more. So no order is
 * lost, and the line is never full.
 *
 * ORDER_ADDRESS has the address of an elastic job's team behind it (elastic.h), each half of a byte
 * as a byte from ORDER_DIGIT on. No order is such a byte, so an order may stand between them, and
 * an address that is cut off does no harm.
 */
#ifndef TUTTI_TOOLS_RUN_ORDERS_H
#define TUTTI_TOOLS_RUN_ORDERS_H

#include <stdbool.h>

enum order {
    ORDER_GRACE = 128, /* a rank of another host has failed: as if it were one of ours */
    ORDER_TERMINATE,   /* SIGTERM now, and SIGKILL 2 s later */
    ORDER_TEAM,        /* of an elastic job: there is a team that ranks can join */
    ORDER_OVER,        /* a rank of another host has ended well: as if it were one of ours */
    ORDER_ADDRESS,
    ORDER_DIGIT = 192
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

enum { ADDRESS_BYTES = 128, ADDRESS_ORDER_BYTES = 1 + 2 * ADDRESS_BYTES };

/* The address as an order. */
void address_order_write(const unsigned char address[ADDRESS_BYTES],
                         unsigned char order[ADDRESS_ORDER_BYTES]);

/* An address that is being read; zeroed at first. */
struct address_reader {
    bool is_begun;
    int digits;
    unsigned char bytes[ADDRESS_BYTES];
};
/* Takes a byte that is ORDER_ADDRESS or a digit; true if the address is whole now. */
bool address_reader_take(struct address_reader *reader, unsigned char byte);

#endif

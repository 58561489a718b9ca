#include "orders.h"

#include <signal.h>
#include <string.h>

bool order_ends(int signal_number)
{
    return signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGHUP ||
           signal_number == SIGQUIT;
}

static void take_out(struct orders *orders, int from, int count)
{
    orders->count -= count;
    memmove(orders->line + from, orders->line + from + count, (size_t)(orders->count - from));
}

void orders_add(struct orders *orders, unsigned char order)
{
    int first = -1, same = 0;
    for (int i = 0; i < orders->count; ++i) {
        if (orders->line[i] != order) continue;
        if (same++ == 0) first = i;
    }
    if (same == (order_ends(order) ? ORDERS_INSIST : 1)) take_out(orders, first, 1);
    orders->line[orders->count++] = order;
}

void address_order_write(const unsigned char address[ADDRESS_BYTES],
                         unsigned char order[ADDRESS_ORDER_BYTES])
{
    order[0] = ORDER_ADDRESS;
    for (int i = 0; i < 2 * ADDRESS_BYTES; ++i)
        order[1 + i] = (unsigned char)(ORDER_DIGIT + (address[i / 2] >> 4 * (i % 2) & 15));
}

bool address_reader_take(struct address_reader *reader, unsigned char byte)
{
    if (byte == ORDER_ADDRESS) *reader = (struct address_reader){.is_begun = true};
    if (!reader->is_begun || byte < ORDER_DIGIT || byte >= ORDER_DIGIT + 16) return false;
    const int digit = byte - ORDER_DIGIT, at = reader->digits++;
    reader->bytes[at / 2] = (unsigned char)(reader->bytes[at / 2] | digit << 4 * (at % 2));
    reader->is_begun = reader->digits < 2 * ADDRESS_BYTES;
    return !reader->is_begun;
}

void orders_remove(struct orders *orders, int count)
{
    take_out(orders, 0, count);
}

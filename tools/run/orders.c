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

void orders_remove(struct orders *orders, int count)
{
    take_out(orders, 0, count);
}

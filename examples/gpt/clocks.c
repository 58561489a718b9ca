#include "clocks.h"

#include "mesh.h"
#include "timeline.h"

enum { QUESTIONS = 16, TAG = 1 << 20 };

static void send(struct tutti_comm *comm, const int64_t *number, int to)
{
    expect(tutti_send(number, 1, TUTTI_INT64, to, TAG, comm), "comparing clocks");
}

static int64_t receive(struct tutti_comm *comm, int from)
{
    int64_t number;
    expect(tutti_recv(&number, 1, TUTTI_INT64, from, TAG, NULL, comm), "comparing clocks");
    return number;
}

static struct clock_difference ask(struct tutti_comm *comm)
{
    struct clock_difference best = {.error_ns = INT64_MAX};
    for (int i = 0; i < QUESTIONS; i++) {
        const int64_t before = (int64_t)timeline_now_ns();
        send(comm, &before, 0);
        const int64_t there = receive(comm, 0), after = (int64_t)timeline_now_ns();
        const int64_t error = (after - before + 1) / 2;
        if (error < best.error_ns)
            best = (struct clock_difference){before + (after - before) / 2 - there, error};
    }
    if (best.ahead_ns >= -best.error_ns && best.ahead_ns <= best.error_ns) best.ahead_ns = 0;
    return best;
}

static void answer(struct tutti_comm *comm, int to)
{
    for (int i = 0; i < QUESTIONS; i++) {
        (void)receive(comm, to);
        const int64_t now = (int64_t)timeline_now_ns();
        send(comm, &now, to);
    }
}

struct clock_difference clocks_compare(struct tutti_comm *comm)
{
    const struct clock_difference none = {0, 0};
    if (tutti_comm_rank(comm) != 0) return ask(comm);
    for (int rank = 1; rank < tutti_comm_size(comm); rank++) answer(comm, rank);
    return none;
}

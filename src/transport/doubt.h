/* doubt.h - whether a rank whose network card seems to fail is to be taken for gone. Pure: time,
 * and what is seen, are arguments.
 *
 *     an operation for it fails ───────────────────────────────────┐
 *     a message of it does not come ──┐ 3 s, while it is heard     ├─► trouble ──3 s, and time for others──► gone
 *     it takes nothing ───────────────┘ beside the card ───────────┘      │
 *                                                                         └── this rank stops ──► nothing
 *
 * A card that fails while its rank seems to be there is a sign that the rank may have died. One
 * end alone cannot tell whose card it is. So a rank that cannot reach several others gives them
 * time to say that it is the one, and of two the higher one waits for the lower one: one of them
 * goes, and not both.
 *
 * When a communicator fails, all its ranks give up their cards' endpoints, one a little before the
 * other. Operations under way between them then fail at the later ranks. So trouble that has not
 * led to anything by the time that this rank stops means nothing. Otherwise survivors that take
 * longer than those 3 s to agree, because their machines are busy, would leave out the rank that
 * stopped first.
 */
#ifndef TUTTI_TRANSPORT_DOUBT_H
#define TUTTI_TRANSPORT_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

/* A doubt whether something ever moves again. Zeroed: it moves. */
struct doubt {
    uint64_t since_ns; /* 0: it moves */
    uint64_t heard_ns; /* when it was first seen that the peer is heard nevertheless; 0: not yet */
    unsigned looks;    /* since then */
};

/* One look at something that still does not move. heard_ns: when the peer was heard last beside the
 * card. True: it never will move. Time in which the peer was stopped does not count, nor does time
 * in which this rank was. */
bool doubt_look(struct doubt *doubt, uint64_t heard_ns, uint64_t now_ns);

/* The trouble that a rank has with a peer, over the card. */
struct trouble {
    int rank, peer;
    uint64_t since_ns; /* 0: there is none */
    int count;         /* of peers with which this rank is in trouble */
    bool has_stopped;  /* this rank has given up its links */
};

/* Whether the peer is gone. */
bool trouble_means_gone(const struct trouble *trouble, uint64_t now_ns);

#endif

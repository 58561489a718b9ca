/* launched_rank.h - a rank as launchers start it: who it is, and where all meet, lies in its
 * environment (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT). For the
 * one thread of a process. */
#ifndef TUTTI_TESTS_WORLDS_LAUNCHED_RANK_H
#define TUTTI_TESTS_WORLDS_LAUNCHED_RANK_H

struct launched_rank {
    int rank, size;
    int hosts; /* that the ranks take themselves to be on, in turns; 1: on the one where they are */
    int port;  /* of this machine's loopback: where they meet */
};

void launched_rank_become(const struct launched_rank *self);

enum { LAUNCHED_RANK_PORTS_MAX = 32 };
/* The first of that many ports in a row (at most LAUNCHED_RANK_PORTS_MAX) that nobody has; no other process gets
 * them here until this one ends. -1: there are none. They lie below those from which connections go out, or
 * somebody who connects may find itself. */
int launched_rank_find_ports(int count);

#endif

/* choose.h - which algorithm for which call: a pure function of values that all ranks share. */
#ifndef TUTTI_TUNE_CHOOSE_H
#define TUTTI_TUNE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"
#include "tune/network.h"
#include "tune/rules.h"

struct choose_call {
    enum collective collective;
    size_t bytes; /* of a block: count times element size */
    int rank_count;
    bool deterministic;  /* one association tree for all elements */
    bool in_rank_order;  /* operands: the operation does not commute */
    bool oversubscribed; /* more ranks than cores */
    bool mapped;         /* all memory is such that others can read and write it where it lies */
    bool over_sockets;   /* the ranks are on one host, and what they send goes through its kernel */
    bool counts_are_local; /* blocks go straight from end to end: nobody else knows their counts */
    /* The ranks are on several hosts, and the plan will be made with algo_params.levels; NULL: they are on one. */
    const struct network_shape *network;
    const struct algorithm *algorithm; /* asked for; or NULL */
    unsigned radix;                    /* of it; 0: its default */
    const struct rules *rules;         /* of the communicator; or NULL */
};

struct choice {
    const struct algorithm *algorithm;
    unsigned radix; /* 0: its default */
    bool only_hosts; /* the plan is to be made with the level of hosts alone: for this call, racks are no help */
};

/* INVALID_ALGORITHM: none of that name for this collective and rank count, or not one that can do the call. */
enum tutti_status choose_algorithm(const struct choose_call *call, struct choice *choice);

#endif

/* transports.h - over which transports the ranks of a job would exchange data, as far as one
 * process of it can tell. */
#ifndef TUTTI_TOOLS_INFO_TRANSPORTS_H
#define TUTTI_TOOLS_INFO_TRANSPORTS_H

#include <stdbool.h>

enum { PATHS_TEXT_SIZE = 256, PATHS_NAME_SIZE = 64 };

struct transports_found {
    bool is_tcp_within;              /* a host; else it is shared memory */
    bool has_card;                   /* which carries data between hosts; else TCP does */
    char provider[PATHS_NAME_SIZE];  /* of the card */
    char cards[PATHS_TEXT_SIZE];     /* their names, with commas between */
    char why_card[PATHS_TEXT_SIZE];  /* this card, or none */
    bool has_address;                /* other hosts can reach this one */
    char interface[PATHS_NAME_SIZE]; /* the one that TCP takes */
    char address[PATHS_NAME_SIZE];
    char why_address[PATHS_TEXT_SIZE]; /* there is none; "": there is */
    char rails[PATHS_TEXT_SIZE]; /* the interfaces that carry large data over TCP, with commas between */
    char protocol[PATHS_NAME_SIZE],
        protocol_name[PATHS_NAME_SIZE]; /* of the sockets for data: "tcp", "TCP" */
    char problem[2 * PATHS_TEXT_SIZE]; /* a job of several ranks could not be created; "": it could */
};

/* answer: a struct transports_found. Blocks as long as libfabric takes. */
void transports_ask(void *answer, int question);

#endif

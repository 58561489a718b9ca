/* fabric.h - libfabric, and what it offers here. */
#ifndef TUTTI_TOOLS_INFO_FABRIC_H
#define TUTTI_TOOLS_INFO_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

enum { FABRIC_PROVIDERS_MAX = 32, FABRIC_NAME_SIZE = 64, FABRIC_TEXT_SIZE = 256 };

/* Versions have 16 bits for each part. */
struct fabric_provider {
    char name[FABRIC_NAME_SIZE];
    uint32_t version;
    char cards[FABRIC_TEXT_SIZE]; /* their names, with commas between; "(down)" behind one whose port is */
    char lacks[FABRIC_TEXT_SIZE]; /* why Tutti cannot use it; "": it can */
    bool is_automatic;            /* it is used without being named */
};

struct fabric {
    bool is_there;
    uint32_t version;
    char why[FABRIC_TEXT_SIZE]; /* it is not, or its providers cannot be listed; "": all is well */
    int provider_count;
    struct fabric_provider providers[FABRIC_PROVIDERS_MAX];
};

/* answer: a struct fabric. Blocks as long as providers look for their devices. */
void fabric_ask(void *answer, int question);

#endif

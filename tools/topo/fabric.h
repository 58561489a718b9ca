/* fabric.h - finds what keeps this host from using its RDMA cards: one line per check,
 * with ok, WARN or FAIL and what to do. */
#ifndef TUTTI_TOOLS_TOPO_FABRIC_H
#define TUTTI_TOOLS_TOPO_FABRIC_H

#include <stdbool.h>
#include <stdio.h>

struct fabric_report {
    FILE *file;
    const char *root; /* of sys, dev and proc: "" for this host, or a folder with copies of another one's */
    int card_count;   /* cards that the operating system shows */
    int active_count; /* of them, with a port that is active */
    int failed_count; /* lines with FAIL */
};

enum fabric_verdict { FABRIC_OK, FABRIC_WARN, FABRIC_FAIL };

/* Adds one line, made printable, since files of other hosts are foreign bytes. */
void fabric_find(struct fabric_report *report, enum fabric_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks cards, ports and addresses, drivers, and device files. Counts the cards. */
void fabric_check_devices(struct fabric_report *report);
/* Checks the limits of this process, and what the kernel does with registered memory when a program
 * forks. */
void fabric_check_memory(struct fabric_report *report);

/* Makes all checks, and, if root is this host, prints what libfabric offers; false: a line has
 * FAIL. */
bool fabric_check(const char *root, FILE *file);

#endif

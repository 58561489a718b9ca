/* knowledge.h - what this process knows of the costs of its machine: the numbers by which
 * algorithms are chosen.
 *
 *     TUTTI_CALIBRATION=FILE, or the file of this host in the user's cache folder ──► is it for this machine? ──► they hold
 *     neither, or TUTTI_CALIBRATION=shipped                                       ──────────────────────────────► shipped numbers
 *
 * A file is read once in the life of a process. Ranks must have the same numbers: each tells the
 * others its fingerprint as they meet, and ranks that differ all take the shipped ones
 * (comm/site.h).
 */
#ifndef TUTTI_COMM_KNOWLEDGE_H
#define TUTTI_COMM_KNOWLEDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/between.h"
#include "model/calibration.h"
#include "tune/table.h"
#include "tutti/tutti.h"

struct knowledge {
    struct calibration calibration;
    uint32_t fingerprint;            /* 0: these are the shipped numbers */
    struct shared_knowledge *shared; /* that this is part of; NULL: it stays for good */
};

/* The table of measured choices that TUTTI_TABLE names, read once; NULL: none. INVALID_OPTIONS: it
 * cannot be read, or is wrong. */
enum tutti_status knowledge_read_table(const struct tune_table **table);
/* 0: there is none. */
uint32_t knowledge_table_fingerprint(const struct tune_table *table);

/* Stays for good, and is the same every time. INVALID_OPTIONS: the file that TUTTI_CALIBRATION
 * names cannot be read, or is wrong. A file of another machine is not used, and the log says so;
 * neither is one in the cache folder that is wrong, which is read once, too, and said once. */
enum tutti_status knowledge_read(const struct knowledge **knowledge);
const struct knowledge *knowledge_shipped(void);
/* Whether TUTTI_CALIBRATION wants the shipped numbers, and no others. */
bool knowledge_is_fixed(void);

/* The same numbers, with numbers that were measured between hosts in place of assumed numbers. The
 * caller has a share of them, and drops it. NO_MEMORY. */
enum tutti_status knowledge_with(const struct knowledge *base, const struct between *between,
                                 const struct knowledge **knowledge);
/* A further share. Any thread. */
const struct knowledge *knowledge_share(const struct knowledge *knowledge);
/* Gives a share back; nothing happens to numbers that stay for good, nor with NULL. Any thread. */
void knowledge_drop(const struct knowledge *knowledge);

#endif

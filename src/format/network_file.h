/* network_file.h - the measurements of the network by one start, kept for the next start on the
 * same hosts.
 *
 *     ~/.cache/tutti/network-3f.txt           of 64 files, the one of these hosts, until others need it
 *
 *         tutti-network 1
 *         hosts 89ab01c2f83b7d10 4
 *         starts 2
 *         latency_rack_ps 31457280 164
 *         card_byte_fs 8388608 9
 *         racks 0 0 1 1
 *
 * 1. Its key says which hosts they are, in which order they are counted, and how they reach each
 *    other; the caller makes it.
 * 2. The file must belong to this user or to root, and no other user may be able to write it. Still
 *    it is read as if a stranger had written it: numbers out of bounds, other keys and unknown
 *    lines make it no file.
 * 3. Without a folder, or with one that fails, nothing is kept: each start measures.
 */
#ifndef TUTTI_FORMAT_NETWORK_FILE_H
#define TUTTI_FORMAT_NETWORK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/between.h"

enum { NETWORK_STARTS_MAX = 1000 };
/* Numbers that are MEASURED, and the rack of each host, 0 to host_count - 1, in the caller's
 * memory; and in how many starts, one after the other, it was the same. */
struct network_found {
    struct between between;
    int start_count; /* 1 to NETWORK_STARTS_MAX */
    int host_count;
    int *rack_of;
};

/* Whether something is kept for that key and so many hosts; fills in numbers and racks then. This
 * thread's error stays as it was. Blocks as long as the file system does. */
bool network_file_find(uint64_t key, struct network_found *found);
/* Keeps it. Best effort; waits for the file system for a second at most. This thread's error stays
 * as it was. */
void network_file_keep(uint64_t key, const struct network_found *found);
/* Removes what is kept for that key. */
void network_file_forget(uint64_t key);

/* The text: whether it is one, of that key and so many hosts. *found is overwritten in any case,
 * racks as far as they were read. */
bool network_file_parse(const char *text, size_t size, uint64_t key, struct network_found *found);
void network_file_print(uint64_t key, const struct network_found *found, FILE *file);

#endif

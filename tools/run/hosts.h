/* hosts.h - the hosts of a job, and the ranks that each of them gets.
 *
 * A file has a line for each host, as Open MPI's hostfiles do; text behind a # is a comment:
 *
 *     node1 slots=4
 *     user@node2:4           the same
 *     [fd00::3] slots=2      brackets are needed only in front of a colon: fd00::3 is an address
 *
 * A host without a number has one slot, and a host that comes twice has the sum of its slots. The
 * command line has the same, without "slots=", separated by commas.
 */
#ifndef TUTTI_TOOLS_RUN_HOSTS_H
#define TUTTI_TOOLS_RUN_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

enum { HOSTS_MAX = 1 << 14, HOSTS_FILE_BYTES_MAX = 4 << 20, HOSTS_ERROR_BYTES = 300 };

enum hosts_map {
    MAP_BY_SLOT, /* the slots of the first host, then those of the next: 0 1 | 2 3 | 4 5 */
    MAP_BY_NODE  /* one to each host, round and round while it has slots: 0 3 | 1 4 | 2 5 */
};

struct host {
    char *name;     /* as the remote shell takes it */
    int slot_count; /* at least 1 */
    int rank_count;
    int *ranks; /* their numbers, ascending */
};

struct hosts {
    struct host *list;
    int count;
    int slot_count;
};

/* These add to *hosts, which begins as zeros. If they return false, error[HOSTS_ERROR_BYTES] says
 * what is wrong, and the caller still releases *hosts. The text may be any bytes. */
bool hosts_read(struct hosts *hosts, const char *text, size_t size, char *error);
bool hosts_read_list(struct hosts *hosts, const char *list, char *error);
/* Deals out the ranks 0..rank_count-1. */
bool hosts_place(struct hosts *hosts, int rank_count, enum hosts_map map, char *error);
/* Of the first hosts of a list, those that have a rank below `size`; at least 1. */
int hosts_used(const struct host *list, int count, int size);
/* Drops hosts that have got no rank. */
void hosts_drop_idle(struct hosts *hosts);
void hosts_release(struct hosts *hosts);

/* The name without "user@". */
const char *host_address(const struct host *host);

#endif

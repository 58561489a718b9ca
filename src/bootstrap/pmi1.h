/* pmi1.h - a client of PMI-1: lines of text to the process manager that started us, over the socket
 * in PMI_FD.
 *
 *     us ── cmd=init pmi_version=1 pmi_subversion=1 ──►  manager      (Hydra of MPICH and Intel MPI; Flux; Slurm with
 *     us ◄── cmd=response_to_init ... rc=0 ──            manager       --mpi=pmi2, which knows the older protocol too)
 *     then get_maxes, get_my_kvsname; put, barrier_in, get as often as wanted; finalize once
 *
 *  1. One question is under way at a time; the next line is its answer. Whatever breaks that (a
 *     deadline, an answer to something else, a line without end) breaks the connection for good:
 *     later calls fail at once. Then nothing says goodbye, and the manager takes this process for a
 *     failed one when it ends.
 *  2. The manager's bytes are foreign: lines are bounded, words have to be printable, numbers have
 *     to be numbers.
 *
 * A process has one such connection, and an MPI library in it counts on it: the one that finalizes
 * first ends it for both. Use this only when asked to, see exchange.h.
 *
 * It neither spawns nor publishes names, and it does not know the modes in which the manager is
 * connected to (PMI_PORT).
 */
#ifndef TUTTI_BOOTSTRAP_PMI1_H
#define TUTTI_BOOTSTRAP_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum { PMI1_LINE_BYTES_MAX = 1024, PMI1_NAME_BYTES_MAX = 256 };

/* ---------------------------------------------------------------------------------- lines, pure */

struct pmi1_word {
    const char *name, *value; /* into the line, not terminated */
    size_t name_bytes, value_bytes;
};

/* Takes the next word, name=value, from *line (*line_bytes of it, without the line's end) and moves
 * on. False at the end, or if the next bytes are no such word; *line_bytes is 0 only in the first
 * case. */
bool pmi1_next_word(const char **line, size_t *line_bytes, struct pmi1_word *word);
/* The value of a name in a line; false when it is not there, or the line up to it is not made of
 * words. */
bool pmi1_find(const char *line, size_t line_bytes, const char *name, struct pmi1_word *word);

/* ----------------------------------------------------------------------------------- connection */

struct pmi1 {
    int fd; /* the launcher's, not closed by us */
    bool is_broken;
    size_t name_bytes_max, key_bytes_max,
        value_bytes_max;             /* with their final zero, as the manager says */
    char space[PMI1_NAME_BYTES_MAX]; /* the name of the job's key space */
    size_t buffered;
    char buffer[PMI1_LINE_BYTES_MAX]; /* bytes that were received beyond the last line */
};

/* Says hello. UNSUPPORTED when the descriptor is no socket or the manager speaks no PMI-1;
 * INIT_TIMEOUT at the deadline; PROC_FAILED when the manager is gone. Nothing needs undoing after a
 * failure. */
enum tutti_status pmi1_open(struct pmi1 *client, int fd, uint64_t deadline_ns);
/* The longest value that fits a line together with a key of key_bytes. */
size_t pmi1_value_room(const struct pmi1 *client, size_t key_bytes);
/* Key and value are words without blanks, value at most pmi1_value_room() characters. */
enum tutti_status pmi1_put(struct pmi1 *client, const char *key, const char *value,
                           uint64_t deadline_ns);
/* Blocks until all processes of the job are here. */
enum tutti_status pmi1_fence(struct pmi1 *client, uint64_t deadline_ns);
/* The terminated value of a key that some rank put before the last fence. */
enum tutti_status pmi1_get(struct pmi1 *client, const char *key, char *value, size_t value_bytes,
                           uint64_t deadline_ns);
/* Says goodbye; the manager then takes it that this process may end. Not for a second time in a
 * process. */
enum tutti_status pmi1_close(struct pmi1 *client, uint64_t deadline_ns);

#endif

/* health_init.h - the beginning and the end of what a rank knows of its team (health.h).
 *
 *     health_init ──► health_be_alone ───────────────────────────────────────────────► health_release
 *                └──► processes_open ──► health_use_host ──► health_write_table, health_share_table ──►
 */
#ifndef TUTTI_HEALTH_HEALTH_INIT_H
#define TUTTI_HEALTH_HEALTH_INIT_H

#include <stddef.h>

#include "health/health.h"

/* *health is zeroed. All that fail do so with NO_MEMORY; then health_release gives back what there
 * is. */
enum tutti_status health_init(struct health *health, struct team *team);
/* A communicator of one rank has a board of its own. */
enum tutti_status health_be_alone(struct health *health);
/* Bytes that the ranks of a host share: the board, a control ring for each of them, and the table
 * of all ranks where there are other hosts. */
size_t health_shared_bytes(const struct team *team);
/* The ranks of this host have come together. shared: health_shared_bytes, zeroed by the first of
 * them; it stays the caller's, as `host` does, the transport between them, which tells of processes
 * that are not visible from here. */
void health_use_host(struct health *health, void *shared, struct transport *host);
/* The first rank of a host shows the others where all ranks are; and when all ranks of all hosts
 * have joined, each gives up its own table of that. Neither does anything where all ranks are on
 * one host. */
void health_write_table(struct health *health);
void health_share_table(struct health *health);
/* After the transports were closed. */
void health_release(struct health *health);
/* Calls of the application are numbered from 1: those before were the library's own. Domain held. */
void health_restart_numbers(struct health *health);
/* Adds what this holds, but for shared memory. */
void health_footprint(const struct health *health, struct tutti_footprint *sum);

#endif

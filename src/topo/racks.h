/* racks.h - which hosts stand in which rack, as text that people write by hand and the library
 * reads by itself:
 *
 *     # two racks of four
 *     r0: node0 node1 node2 node3
 *     r1: node4 node5 node6 node7
 *
 * A line names a rack, then its hosts; several lines may add to one. `hall/r0:` is a rack in a
 * hall, of which there may be several: hosts of one hall are nearer to each other than to the rest.
 * Behind # is a comment. Names have no blanks, colons, slashes or #.
 *
 * It tells nothing of links; JSON (format/topo_json.h) can, and can be written in this form.
 */
#ifndef TUTTI_TOPO_RACKS_H
#define TUTTI_TOPO_RACKS_H

#include <stdio.h>

#include "topo/topo.h"

/* Reads foreign text. *topo, which is overwritten, is then a valid topology: a cluster of racks, or
 * of clusters of racks, with a machine for each host. INVALID_OPTIONS: the message says in which
 * line what is wrong; UNSUPPORTED: too large; NO_MEMORY. On failure *topo is empty. Any thread. */
enum tutti_status topo_racks_load(const char *text, size_t text_bytes, struct topo *topo);
/* Writes the machines with what they stand in. UNSUPPORTED when one, or that, has a name that the
 * form cannot have. */
enum tutti_status topo_racks_dump(const struct topo *topo, FILE *file);

/* The node of one kind that a machine stands in: a rack, a switch, a cluster. A switch is the one
 * that contains it, or else the first one outside of machines that a link of the machine goes to.
 * -1: there is none. */
int topo_place_of_machine(const struct topo *topo, int machine, enum topo_kind kind);

#endif

/* topo_json.h - a topology as JSON: people who know their racks write it, and programs read it.
 *
 *     { "tutti_topology": 1,
 *       "root": { "kind": "rack", "name": "r1", "children": [
 *           { "kind": "switch", "id": "leaf" },
 *           { "kind": "machine", "name": "a", "children": [
 *               { "kind": "nic", "id": "a-eth0", "name": "eth0", "bytes_per_second": 12.5e9 },
 *               { "kind": "package", "number": 0, "ranks": [0, 1] } ] } ] },
 *       "links": [ { "ends": ["leaf", "a-eth0"], "bytes_per_second": 12.5e9, "latency_ns": 900,
 *                    "known": "nominal" } ] }
 *
 * docs/how-to/topology.md describes every member.
 */
#ifndef TUTTI_STUDIO_TOPO_TOPO_JSON_H
#define TUTTI_STUDIO_TOPO_TOPO_JSON_H

#include <stdio.h>

#include "topo/topo.h"

enum { TOPO_JSON_BYTES_MAX = 1 << 24 };

/* Reads foreign text; *topo, which is overwritten, is then a valid topology. INVALID_OPTIONS: the
 * message says in which line what is wrong and what is expected; UNSUPPORTED: it is too large;
 * NO_MEMORY. On failure *topo is empty. Any thread. */
enum tutti_status topo_json_load(const char *text, size_t text_bytes, struct topo *topo);
/* Writes what topo_json_load reads back: the same nodes, children after their parents and before
 * its next siblings, and the same links. A topology whose nodes are in that order comes back
 * equal. */
enum tutti_status topo_json_dump(const struct topo *topo, FILE *file);

#endif

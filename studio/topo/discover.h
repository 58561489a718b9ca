/* discover.h - the topology of a host, as hwloc tells it: packages, numa nodes, caches, cores, and
 * the network cards and accelerators with what they are near. It has nothing that hwloc did not
 * say, and no ranks.
 *
 * Left out, because they tell nothing apart, are first level caches, groups and dies without a numa
 * node of their own, and PCI bridges over which no two devices meet. Of several numa nodes in one
 * place (kinds of memory) the first one contains the cores.
 *
 * hwloc's own environment is heeded: HWLOC_XMLFILE and HWLOC_SYNTHETIC replace the host (man 7
 * hwloc). Each call loads the topology once, which may take a tenth of a second: callers keep what
 * they get.
 */
#ifndef TUTTI_STUDIO_TOPO_DISCOVER_H
#define TUTTI_STUDIO_TOPO_DISCOVER_H

#include "topo/topo.h"

/* This host, with the processors that its control group leaves to the process, wherever the process
 * is bound. *topo, which is overwritten, is a valid topology with the machine as its root; on
 * failure (SYSTEM: hwloc cannot say; NO_MEMORY; UNSUPPORTED: too large) it is empty. Any thread. */
enum tutti_status topo_discover(struct topo *topo);
/* A host as hwloc describes one in a line: "package:2 core:4 pu:2". INVALID_OPTIONS when it is
 * none. */
enum tutti_status topo_discover_synthetic(const char *description, struct topo *topo);
/* A host as hwloc writes one (lstopo FILE.xml), with a zero byte behind it that text_bytes does not
 * count. INVALID_OPTIONS when hwloc cannot read it. */
enum tutti_status topo_discover_xml(const char *text, size_t text_bytes, struct topo *topo);

#endif

/* nccl_xml.h - a host as NCCL sees it: the XML that NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE
 * reads.
 *
 *     <system> <cpu numaid affinity> <pci busid class link_speed link_width> <gpu sm gcn rank>
 *     <nvlink or xgmi target count>
 *                                                                            <nic> <net name speed>
 *
 * becomes machine, numa, processing units, switches (bridges), accelerators with their ranks, and
 * nics. The bandwidths of NVLinks and PCI links are nominal: from generation, width and count.
 * AMD's links between GPUs (xGMI) are read as NVLinks are. NVSwitches of a host become one switch,
 * as NCCL itself has it. Several values of host_hash become several machines of a cluster.
 *
 * It leaves out elements that it does not know, and says so.
 */
#ifndef TUTTI_STUDIO_FOREIGN_NCCL_XML_H
#define TUTTI_STUDIO_FOREIGN_NCCL_XML_H

#include "topo/topo.h"

enum { NCCL_XML_BYTES_MAX = 1 << 24 };

/* Told once for each sort of element that was left out: "line 7: <foo> is not known ...". */
typedef void nccl_xml_note(const char *note, void *context);

/* Reads foreign text; *topo, which is overwritten, is then a valid topology. INVALID_OPTIONS: the
 * message says in which line what is wrong; UNSUPPORTED: too large, or Tutti was built without
 * expat; NO_MEMORY. On failure *topo is empty. note may be NULL. Any thread. */
enum tutti_status nccl_xml_load(const char *text, size_t text_bytes, struct topo *topo,
                                nccl_xml_note *note, void *context);

#endif

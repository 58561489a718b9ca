/* program_links.h - the links of a program: opened in a slot when the program first runs there.
 *
 * Binding has decided by the tables of paths what steps require of their links; a link that cannot
 * do it is a bug of its transport.
 */
#ifndef TUTTI_ENGINE_PROGRAM_LINKS_H
#define TUTTI_ENGINE_PROGRAM_LINKS_H

#include "engine/bind.h"
#include "transport/transport.h"

/* Opens the links in a slot, if they are not open; of the same transport in all slots. The links
 * stay the transport's. May allocate and call the kernel. Failures: the transport's, NO_MEMORY, and
 * INTERNAL: links and tables disagree; then nothing is open there. */
enum tutti_status program_open_links(struct program *program, struct transport *transport, int slot);

#endif

/* program_links.h - the links of a program: opened in a slot when the program first runs there.
 *
 *     wish (bind.h)      what it takes of the links               else
 *     shares, forwards   all that the step sends on share         each link gets a copy
 *     places             all that it sends on advertise           through places of the links
 *     expects, lands     the one that it reads advertises, lands  copied from where it came
 *
 * Binding says what a step is better done by; only links know what they can do. So the first time that a program's links
 * are open its steps give up what these cannot do, and running asks no link again.
 */
#ifndef TUTTI_ENGINE_PROGRAM_LINKS_H
#define TUTTI_ENGINE_PROGRAM_LINKS_H

#include "engine/bind.h"
#include "transport/transport.h"

/* Opens the links in a slot, if they are not open; of the same transport in all slots. The links stay the transport's. May
 * allocate and call the kernel. Failures: the transport's, and NO_MEMORY; then nothing is open there. */
enum tutti_status program_open_links(struct program *program, struct transport *transport, int slot);

#endif

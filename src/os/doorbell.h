/* doorbell.h - a bell that wakes a thread that sleeps in poll(), rung by any process that knows its
 * number.
 *
 * An abstract Unix datagram socket named after a random number. Any process of the network
 * namespace can ring it if it learns the number (which the kernel shows to all of them). So a
 * thread that is woken looks at what it waits for, and believes nothing. Once a doorbell has rung
 * it stays readable until it is hushed; ringing it more adds nothing.
 */
#ifndef TUTTI_OS_DOORBELL_H
#define TUTTI_OS_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* Close it with close(). */
enum tutti_status doorbell_open(uint64_t *number, int *fd);
/* Rings the doorbell with that number, from a doorbell of the caller or (-1) from a socket that is
 * made for the call, which takes longer. If nobody has that number, nothing happens. False: as far
 * as is known it does not ring, since there was no descriptor for it. Any thread; never waits. */
bool doorbell_ring(int own_fd, uint64_t number);
/* Forgets what rang before. */
void doorbell_hush(int fd);
/* Until it has rung, at most timeout_ns; may end early. */
void doorbell_wait(int fd, uint64_t timeout_ns);

#endif

/* crc32c.h - a checksum that finds errors which the network's own checksums let through: CRC-32C.
 *
 * The polynomial is Castagnoli's ("Optimization of cyclic redundancy-check codes with 24 and 32
 * parity bits", IEEE Transactions on Communications 41, 1993), with the conventions of iSCSI (RFC
 * 3720, appendix B.4). Any burst of up to 32 bits is found, and any three flipped bits in what is
 * shorter than 256 MiB; of all else one in 2^32 is not. It finds accidents: an attacker computes
 * the new checksum.
 *
 * There is no form that copies as it checks: the kernel has already copied the bytes of a socket to
 * their place.
 */
#ifndef TUTTI_BASE_CRC32C_H
#define TUTTI_BASE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The checksum of the bytes that were checked so far (of none: 0) and of those behind them. By the
 * processor's own instructions where it has them: some 20 bytes per nanosecond with those of x86,
 * one with tables. Any thread. */
uint32_t crc32c(uint32_t so_far, const void *data, size_t bytes);

/* The two ways to do it, for their tests; the fast one where it is available. */
uint32_t crc32c_by_tables(uint32_t so_far, const void *data, size_t bytes);
bool crc32c_has_instructions(void);
uint32_t crc32c_by_instructions(uint32_t so_far, const void *data, size_t bytes);

#endif

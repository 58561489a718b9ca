/* mac.h - message authentication codes: HMAC-SHA256 (RFC 2104, FIPS 180-4), from OpenSSL.
 *
 * mac_openssl.c has it; mac_absent.c takes its place in builds without OpenSSL (cmake/library.cmake
 * decides), in which nothing can be authenticated, and therefore no rank of another host can be
 * met.
 */
#ifndef TUTTI_BOOTSTRAP_MAC_H
#define TUTTI_BOOTSTRAP_MAC_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

enum { MAC_BYTES = 32 };

/* UNSUPPORTED in a build without OpenSSL. */
enum tutti_status mac_compute(const void *key, size_t key_bytes, const void *data, size_t bytes,
                              unsigned char mac[MAC_BYTES]);
/* Takes the same time wherever they differ. */
bool mac_equal(const unsigned char a[MAC_BYTES], const unsigned char b[MAC_BYTES]);
/* Overwrites bytes that may not be read any more. */
void mac_wipe(void *memory, size_t bytes);

#endif

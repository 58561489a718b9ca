/* In place of mac_openssl.c in builds without OpenSSL. */
#include <string.h>

#include "base/status.h"
#include "bootstrap/mac.h"

enum tutti_status mac_compute(const void *key, size_t key_bytes, const void *data, size_t bytes,
                              unsigned char mac[MAC_BYTES])
{
    (void)key, (void)key_bytes, (void)data, (void)bytes;
    memset(mac, 0, MAC_BYTES);
    return error_set(TUTTI_UNSUPPORTED,
                     "this build of Tutti has no OpenSSL: ranks of several hosts cannot meet");
}

bool mac_equal(const unsigned char a[MAC_BYTES], const unsigned char b[MAC_BYTES])
{
    (void)a, (void)b;
    return false;
}

void mac_wipe(void *memory, size_t bytes)
{
    explicit_bzero(memory, bytes);
}

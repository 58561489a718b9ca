#include <limits.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/status.h"
#include "bootstrap/mac.h"

enum tutti_status mac_compute(const void *key, size_t key_bytes, const void *data, size_t bytes,
                              unsigned char mac[MAC_BYTES])
{
    unsigned written = 0;
    if (key_bytes > INT_MAX ||
        HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, mac, &written) == NULL ||
        written != MAC_BYTES)
        return error_set(TUTTI_UNSUPPORTED, "OpenSSL does not compute HMAC-SHA256 here");
    return TUTTI_OK;
}

bool mac_equal(const unsigned char a[MAC_BYTES], const unsigned char b[MAC_BYTES])
{
    return CRYPTO_memcmp(a, b, MAC_BYTES) == 0;
}

void mac_wipe(void *memory, size_t bytes)
{
    OPENSSL_cleanse(memory, bytes);
}

#include <limits.h>
#include <pthread.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/status.h"
#include "bootstrap/mac.h"
#include "os/at_exit.h"

static void prepare(void)
{
    /* HMAC would load the digests by itself. But without any option OpenSSL 3 returns at once and
     * registers no handler for exit(), so that our handler would run after OpenSSL's. A failure
     * here is found when HMAC is used. */
    (void)OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, NULL);
    at_exit_watch();
}

enum tutti_status mac_compute(const void *key, size_t key_bytes, const void *data, size_t bytes,
                              unsigned char mac[MAC_BYTES])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned written = 0;
    if (!at_exit_enter()) return error_set(TUTTI_UNSUPPORTED, "this process is ending");
    pthread_once(&once, prepare);
    const bool is_good =
        key_bytes <= INT_MAX &&
        HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, mac, &written) != NULL &&
        written == MAC_BYTES;
    at_exit_leave();
    if (!is_good) return error_set(TUTTI_UNSUPPORTED, "OpenSSL does not compute HMAC-SHA256 here");
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

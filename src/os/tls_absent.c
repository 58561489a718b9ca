/* In place of tls_openssl.c in builds without OpenSSL: there is never a struct tls. */
#include <errno.h>

#include "base/status.h"
#include "os/tls.h"

enum tutti_status tls_context_create(struct tls_context **context)
{
    *context = NULL;
    return error_set(TUTTI_UNSUPPORTED, "this build of Tutti has no OpenSSL: it does not encrypt");
}

void tls_context_free(struct tls_context *context)
{
    (void)context;
}

enum tutti_status tls_start(struct tls_context *context, const struct tls_options *options,
                            struct tls **tls)
{
    (void)context, (void)options;
    *tls = NULL;
    return error_set(TUTTI_UNSUPPORTED, "this build of Tutti does not encrypt");
}

enum tutti_status tls_handshake(struct tls *tls)
{
    (void)tls;
    return error_set(TUTTI_UNSUPPORTED, "this build of Tutti does not encrypt");
}

void tls_free(struct tls *tls)
{
    (void)tls;
}

ssize_t tls_readv(struct tls *tls, const struct iovec *parts, int count, bool looks)
{
    (void)tls, (void)parts, (void)count, (void)looks;
    errno = EOPNOTSUPP;
    return -1;
}

ssize_t tls_writev(struct tls *tls, const struct iovec *parts, int count)
{
    (void)tls, (void)parts, (void)count;
    errno = EOPNOTSUPP;
    return -1;
}

bool tls_has_input(const struct tls *tls)
{
    (void)tls;
    return false;
}

bool tls_has_output(const struct tls *tls)
{
    (void)tls;
    return false;
}

size_t tls_bytes(void)
{
    return 0;
}

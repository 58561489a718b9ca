/* pmix_service_absent.c - what stands for pmix_service.c where Tutti is built without pmix.h. */
#include "base/status.h"
#include "bootstrap/pmix_service.h"

static enum tutti_status absent(void)
{
    return error_set(TUTTI_UNSUPPORTED,
                     "this Tutti was built without PMIx (Debian: libpmix-dev brings the header)");
}

enum tutti_status pmix_service_open(int rank, int size, uint64_t deadline_ns,
                                    struct pmix_service **service)
{
    (void)rank, (void)size, (void)deadline_ns;
    *service = NULL;
    return absent();
}

enum tutti_status pmix_service_put(struct pmix_service *service, const char *key, const void *value,
                                   size_t value_bytes)
{
    (void)service, (void)key, (void)value, (void)value_bytes;
    return absent();
}

enum tutti_status pmix_service_fence(struct pmix_service *service, uint64_t deadline_ns)
{
    (void)service, (void)deadline_ns;
    return absent();
}

enum tutti_status pmix_service_get(struct pmix_service *service, int rank, const char *key,
                                   void *buffer, size_t buffer_bytes, size_t *value_bytes,
                                   uint64_t deadline_ns)
{
    (void)service, (void)rank, (void)key, (void)buffer, (void)buffer_bytes, (void)value_bytes;
    (void)deadline_ns;
    return absent();
}

enum tutti_status pmix_service_version(const char **version)
{
    *version = NULL;
    return absent();
}

void pmix_service_close(struct pmix_service *service)
{
    (void)service;
}

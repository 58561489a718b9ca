/* Whatever beats come: what a host believes of others stays something that a verdict and a log can
 * say.
 *
 * Host 1 of 4. The input is a sequence of beats: how many bytes, how much time passes before, and
 * these. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "membership/heartbeat.h"

enum { HOSTS = 4, OWN = 1 };

static void check(struct heartbeat *heartbeat)
{
    struct heartbeat_verdict verdict;
    enum heartbeat_state before, now;
    unsigned char bytes[HEARTBEAT_BYTES_MAX];
    int host;
    bool is_poke;
    while (heartbeat_next(heartbeat, &host, &is_poke))
        if (host < 0 || host >= HOSTS || host == OWN) abort();
    while (heartbeat_change(heartbeat, &host, &before, &now))
        if (host < 0 || host >= HOSTS || host == OWN || before == now) abort();
    if (heartbeat_judge(heartbeat, &verdict) &&
        (verdict.culprit < 0 || verdict.culprit >= HOSTS || verdict.culprit == OWN ||
         verdict.suspect_count < 1 || verdict.suspect_count >= HOSTS))
        abort();
    while (heartbeat_condemned(heartbeat, &host))
        if (host < 0 || host >= HOSTS || host == OWN || !heartbeat_judge(heartbeat, &verdict))
            abort();
    if (heartbeat_write(heartbeat, 0, bytes) != 4 + 4 * HOSTS) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int counts[HOSTS] = {1, 2, 1, 3};
    const struct heartbeat_options options = {.host = OWN,
                                              .host_count = HOSTS,
                                              .rank_counts = counts,
                                              .period_ns = 100,
                                              .now_ns = 1000,
                                              .first_ns = 1100};
    struct heartbeat *heartbeat;
    if (heartbeat_create(&options, &heartbeat) != TUTTI_OK) abort();
    uint64_t now_ns = options.now_ns;
    while (size >= 2) {
        const size_t bytes = data[0] < size - 2 ? data[0] : size - 2;
        uint8_t *message = malloc(bytes + 1);
        if (message == NULL) abort();
        memcpy(message, data + 2, bytes);
        for (unsigned steps = data[1]; steps > 0; steps--) { /* short steps: the host did run */
            now_ns += 50;
            (void)heartbeat_progress(heartbeat, now_ns);
        }
        heartbeat_hear(heartbeat, message, bytes, now_ns);
        if (heartbeat_wants_answer(heartbeat, 0)) heartbeat_answered(heartbeat, 0, now_ns);
        free(message);
        data += 2 + bytes;
        size -= 2 + bytes;
        check(heartbeat);
    }
    heartbeat_free(heartbeat);
    return 0;
}

/* Sealed control messages of any bytes, from any peer, while links take messages, fail and stop.
 *
 * Each step is an octet that says what happens, and what follows it. Whatever comes, only whole
 * messages are heard, none of them before data that was sent before it, unless links fail or too
 * many wait. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/data_order.h"
#include "transport/transport.h"

enum { SIZE = 3, AHEAD_MAX = 40 };

struct script {
    struct transport links;
    struct data_order *order;
    uint64_t taken[SIZE];
    struct link_report report[SIZE];
    size_t heard, come;
};

static struct script *script_of(const struct transport *links)
{
    return (struct script *)(uintptr_t)links;
}

static uint64_t sent(const struct transport *links, int peer)
{
    (void)links, (void)peer;
    return 0;
}

static uint64_t taken(const struct transport *links, int peer)
{
    return script_of(links)->taken[peer];
}

/* A peer that overstates loses its links. */
static bool told(struct transport *links, int peer, uint64_t sent)
{
    struct script *const script = script_of(links);
    const bool is_possible = sent <= script->taken[peer] + AHEAD_MAX;
    if (!is_possible) script->report[peer].is_up = false;
    return is_possible;
}

static bool greeted(struct transport *links, int peer, const void *greeting, size_t bytes)
{
    (void)peer, (void)greeting;
    if (bytes < sizeof(uint32_t) || bytes > CONTROL_MESSAGE_BYTES_MAX) abort();
    script_of(links)->heard++;
    return true;
}

/* Control says of the peer to links only things that they could believe. */
static void examine(struct transport *links, int peer, const struct link_evidence *evidence)
{
    if (evidence->told > script_of(links)->taken[peer] + AHEAD_MAX) abort();
}

static void report(const struct transport *links, int peer, struct link_report *of_peer)
{
    *of_peer = script_of(links)->report[peer];
}

static void forget(struct transport *links, int peer)
{
    (void)links, (void)peer;
}

static const struct data_order_ops ordered = {.sent = sent,
                                              .taken = taken,
                                              .greeted = greeted,
                                              .told = told,
                                              .examine = examine,
                                              .report = report,
                                              .check = ordered_is_sound,
                                              .forget = forget};

static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct script *script = context;
    char copy[CONTROL_MESSAGE_BYTES_MAX];
    if (peer < 0 || peer >= SIZE || bytes < sizeof(uint32_t) || bytes > sizeof copy) abort();
    memcpy(copy, message, bytes); /* all of it is there to be read */
    script->heard++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {.links = {.ordered = &ordered, .size = SIZE}};
    const struct data_order_options options = {.size = SIZE, .hears = hear, .context = &script};
    if (data_order_create(&options, &script.order) != TUTTI_OK) abort();
    data_order_join(script.order, &script.links, NULL);
    for (int r = 0; r < SIZE; r++) script.report[r].is_up = true;
    while (size >= 2) {
        const int peer = data[0] % SIZE;
        const unsigned what = data[0] / SIZE % 8;
        size_t bytes = data[1];
        data += 2;
        size -= 2;
        switch (what) {
        case 0: script.taken[peer] += bytes; break;
        case 1:
            data_order_progress(script.order);
            (void)data_order_look(script.order, peer, 0, bytes);
            break;
        case 2: script.report[peer].trouble_ns = bytes; break;
        case 3: script.report[peer].is_up = bytes % 2 != 0; break;
        case 4:
            if (bytes == 255) data_order_stop(script.order);
            break;
        default:
            if (bytes > size) bytes = size;
            data_order_hear(script.order, peer, data, bytes);
            script.come++;
            data += bytes;
            size -= bytes;
        }
        if (script.heard > script.come) abort();
    }
    data_order_stop(script.order);
    data_order_progress(script.order);
    data_order_free(script.order);
    return 0;
}

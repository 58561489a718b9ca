#include "transport/tcp/window.h"

enum {
    SAMPLES_FREE = 8,
    IDLE_NS = 10 * TCP_WINDOW_APART_NS, /* a sample over so long says nothing about the path */
    QUEUE_NS = 250000,
    FAR_NS = 1000000,
    ABSENT_NS_MAX = 1000000,
    SEGMENTS_MIN = 4 /* fewer may wait for an acknowledgement that is delayed */
};
static const uint64_t RATE_MAX = UINT64_C(1) << 40;

/* Bytes a second since the sample before. */
static uint64_t rate_of(const struct tcp_window *window, const struct tcp_window_sample *sample)
{
    const double bytes = (double)(sample->received_bytes - window->sampled_bytes),
                 rate = bytes * 1e9 / (double)(sample->now_ns - window->sampled_ns);
    return rate < (double)RATE_MAX ? (uint64_t)rate : RATE_MAX;
}

/* From one look to the next, since the sample before. */
static uint64_t absence_of(const struct tcp_window *window, const struct tcp_window_sample *sample)
{
    const uint64_t ns =
        (sample->now_ns - window->sampled_ns) / (sample->looks > 0 ? sample->looks : 1);
    return ns < ABSENT_NS_MAX ? ns : ABSENT_NS_MAX;
}

static uint64_t highest_rate(const struct tcp_window *window)
{
    uint64_t highest = 0;
    for (int i = 0; i < TCP_WINDOW_SAMPLES; i++)
        if (window->rates[i] > highest) highest = window->rates[i];
    return highest;
}

static void add_sample(struct tcp_window *window, const struct tcp_window_sample *sample)
{
    const bool is_first = window->sampled_ns == 0,
               was_idle = sample->now_ns - window->sampled_ns > IDLE_NS;
    if (!is_first && !was_idle)
        window->rates[window->count++ % TCP_WINDOW_SAMPLES] = rate_of(window, sample);
    window->absent_ns = was_idle ? 0 : absence_of(window, sample);
    window->sampled_ns = sample->now_ns;
    window->sampled_bytes = sample->received_bytes;
}

size_t tcp_window_update(struct tcp_window *window, const struct tcp_window_sample *sample)
{
    add_sample(window, sample);
    if (window->count < SAMPLES_FREE || sample->min_rtt_ns >= FAR_NS) return 0;
    const uint64_t ns = 2 * sample->min_rtt_ns + QUEUE_NS + window->absent_ns;
    const size_t limit = (size_t)((double)highest_rate(window) * (double)ns * 1e-9),
                 segments = SEGMENTS_MIN * sample->segment_bytes,
                 least = segments > TCP_WINDOW_BYTES_MIN ? segments : TCP_WINDOW_BYTES_MIN;
    return limit > least ? limit : least;
}

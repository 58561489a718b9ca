/* window.h - how many bytes a peer may have on their way to this host over a connection for large
 * pieces: as many as keep the path full and few more, because all of them lie in queues of hosts
 * and switches in front of urgent frames.
 *
 *     what may be on its way
 *        = highest rate lately  *  ( 2 * shortest round trip  +  0.25 milliseconds  +  time between looks )
 *          ^ 64 samples of 5 ms      ^ fills the path, and       ^ of queue: hides      ^ what comes while this process
 *                                      finds it grown              that hosts answer      does not look, at most 1
 *                                                                  unevenly               millisecond, as it naps no longer
 *
 * The rate is the highest of many, as in BBR (Cardwell, Cheng, Gunn, Yeganeh, Jacobson: BBR:
 * Congestion-Based Congestion Control. ACM Queue 14(5), 2016), so that times in which the peer had
 * little to send do not count. It needs no probing of its own: if this limit is what limits, the
 * path is not full, and the rate was limit / round trip; so the next limit is at least twice as
 * large. Congestion control is not replaced but bounded: alone it keeps queues as full as they get
 * (CUBIC), or adds a round trip's worth to each of several connections (BBR).
 *
 * The receiver decides. The rates that it sees are shares of the path, however many ranks send to
 * it, and so are the rates at the receivers of one sender: all limits together add up to that of
 * the path alone (or to their minimum). Only bytes on their way are bounded. Bytes that wait in the
 * sender's kernel fill gaps, and delay nothing that goes over another connection.
 *
 * There is no limit at the beginning, while the kernel's buffers grow to what the path needs, and
 * on paths with a round trip of a millisecond or more, where a queue of less than that does no harm
 * and growing takes long.
 *
 * Pure: numbers in, a number out. */
#ifndef TUTTI_TRANSPORT_TCP_WINDOW_H
#define TUTTI_TRANSPORT_TCP_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TCP_WINDOW_SAMPLES = 64, TCP_WINDOW_APART_NS = 5000000, TCP_WINDOW_BYTES_MIN = 32 << 10 };

/* All 0 at first. */
struct tcp_window {
    uint64_t sampled_ns, sampled_bytes;
    uint64_t rates[TCP_WINDOW_SAMPLES]; /* bytes a second */
    uint64_t count;                     /* of samples so far */
    uint64_t absent_ns;                 /* from one look to the next, lately */
};

struct tcp_window_sample {
    uint64_t now_ns, received_bytes, min_rtt_ns;
    size_t segment_bytes;
    uint64_t looks; /* of this process for what has come, since the sample before */
};

/* To be asked when something has come. */
static inline bool tcp_window_is_due(const struct tcp_window *window, uint64_t now_ns)
{
    return now_ns - window->sampled_ns >= TCP_WINDOW_APART_NS;
}

/* Returns how many bytes may be on their way; 0: any number. */
size_t tcp_window_update(struct tcp_window *window, const struct tcp_window_sample *sample);

#endif

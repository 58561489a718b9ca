/* window.h - how much a peer may have on its way to this host over a connection for large pieces: as much as keeps the path full
 * and little more, because all of it lies in queues of hosts and switches before whatever is urgent.
 *
 *     what may be on its way
 *        = highest rate lately  *  ( 2 * shortest round trip  +  0.25 milliseconds  +  time between looks )
 *          ^ 64 samples of 5 ms      ^ fills the path, and       ^ of queue: hides      ^ what comes while this process
 *                                      finds it grown              that hosts answer      does not look, at most 1
 *                                                                  unevenly               millisecond, as it naps no longer
 *
 * The rate is the highest of many, as in BBR (Cardwell, Cheng, Gunn, Yeganeh, Jacobson: BBR: Congestion-Based Congestion Control.
 * ACM Queue 14(5), 2016), so that times in which the peer had little to send do not count. It needs no probing of its own: where
 * the limit is what limits, the path is not full, and the rate was limit / round trip; the next limit is at least twice as large.
 * What congestion control does is not replaced but bounded: that keeps queues as full as they get (CUBIC), or adds a round trip's
 * worth to each of several connections (BBR).
 *
 * It is the receiver who decides. Its rates are shares of the path, however many send to it, and so are those of the receivers of
 * one sender: the limits of all add up to that of the path alone (or to their minimum). Only what is on its way is
 * bounded; what waits in the sender's kernel fills gaps, and delays nothing that goes over another connection.
 *
 * Not limited: a beginning, in which the kernel's buffers grow to what the path needs; paths with a round trip from
 * a millisecond on, where a queue of less than that hurts nobody and growing takes long.
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

/* output.h - copies lines from the ranks' pipes to our stdout and stderr.
 *
 *     rank 0 stdout ── stream ──┐
 *     rank 1 stdout ── stream ──┼── sink ── our stdout
 *     rank 2 stdout ── stream ──┘
 *
 * 1. A line is put into a sink whole or not at all, so lines of different ranks never mix. Only a
 *    line longer than STREAM_SIZE is cut (and goes on behind a prefix of its own); otherwise a rank
 *    that never ends its line could silence all others.
 * 2. Memory is bounded: a full sink stops its streams, full streams are not read, and then the rank
 *    waits in its own write(). Nothing is dropped, and this module never waits.
 * 3. Once the reader of a sink has gone, its streams are closed: the ranks get the same SIGPIPE as
 *    without tutti-run.
 */
#ifndef TUTTI_TOOLS_RUN_OUTPUT_H
#define TUTTI_TOOLS_RUN_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

struct sink;
struct stream;

/* Looks at a line before it is put into the sink; true: the line was for tutti-run, and is not
 * shown. */
typedef bool line_filter(void *context, const char *line, size_t size);

/* Writes to fd, which stays the caller's and must stay open. Prefixes are coloured if `colour`.
 * NULL: no memory. Does not change the flags of fd: they are shared with the process that started
 * us. */
struct sink *sink_create(int fd, bool colour);
void sink_free(struct sink *sink);
/* The descriptor to poll for POLLOUT; -1: there is nothing to write. */
int sink_wants(const struct sink *sink);
/* Writes as much as possible without waiting. */
void sink_flush(struct sink *sink);
bool sink_is_empty(const struct sink *sink);
/* Whether the reader has gone; then lines that are put into the sink are lost. */
bool sink_is_broken(const struct sink *sink);
/* Adds a line of our own, without a newline, at most 1000 bytes; there is always room for it. */
void sink_say(struct sink *sink, const char *text);

/* Takes over fd, a pipe, and puts its lines into sink, with "[rank] " in front if rank >= 0. NULL:
 * no memory; fd is closed then as well. */
struct stream *stream_create(int fd, struct sink *sink, int rank);
/* From now on every line is shown to filter first. */
void stream_set_filter(struct stream *stream, line_filter *filter, void *context);
void stream_free(struct stream *stream);
/* The descriptor to poll for POLLIN; -1: the stream is done or has no room. */
int stream_wants(const struct stream *stream);
/* Moves the bytes that are in the pipe to the sink, without waiting. False: the pipe had none. */
bool stream_pump(struct stream *stream);
/* Whether the stream has reached its end, and everything is in the sink. */
bool stream_is_done(const struct stream *stream);
/* Ends the stream, although the pipe may be open elsewhere: the bytes that are left count as a
 * line. */
void stream_end(struct stream *stream);
/* Called when all writers are dead, so that no more bytes can come. Moves the bytes in the pipe to
 * the sink as far as there is room; true once all are moved. */
bool stream_finish(struct stream *stream);

/* Our stdout and stderr. If they are the same file they have one sink, so that their lines do not
 * mix either. */
struct outlet {
    struct sink *sinks[2];
};

/* False: no memory; nothing to close then. */
bool outlet_open(struct outlet *outlet, const bool colours[2]);
void outlet_close(struct outlet *outlet);
/* The descriptors to poll, and the function that handles the result; true: there is room again. */
void outlet_poll(const struct outlet *outlet, struct pollfd polls[2]);
bool outlet_flush(struct outlet *outlet, const struct pollfd polls[2]);
bool outlet_is_empty(const struct outlet *outlet);
/* Writes "tutti-run: " and the text to stderr. */
__attribute__((format(printf, 2, 3))) void outlet_say(struct outlet *outlet, const char *format,
                                                      ...);

#endif

/* tutti-run_output.h - from the ranks' pipes to our stdout and stderr, a line at a time.
 *
 *     rank 0 stdout ── stream ──┐
 *     rank 1 stdout ── stream ──┼── sink ── our stdout
 *     rank 2 stdout ── stream ──┘
 *
 * 1. A line is put into a sink whole or not at all, so lines of different ranks never mix. Only a line longer
 *    than STREAM_SIZE is cut (and goes on behind a prefix of its own), or a rank that never ends its line
 *    could silence all others.
 * 2. Memory is bounded: a sink that is full stops its streams, full streams are not read, and then the rank
 *    waits in its own write(). Nothing is dropped and nothing here waits.
 * 3. Once the reader of a sink has gone, its streams are closed: the ranks get the same SIGPIPE as without us.
 */
#ifndef TUTTI_RUN_OUTPUT_H
#define TUTTI_RUN_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

struct sink;
struct stream;

/* Looks at a line before it is put into the sink; true: it was for us, and is not shown. */
typedef bool line_filter(void *context, const char *line, size_t size);

/* Writes to fd, which stays the caller's and must stay open. Prefixes are coloured if `colour`.
 * NULL: no memory. Does not change the flags of fd: they are shared with the process that started
 * us. */
struct sink *sink_create(int fd, bool colour);
void sink_free(struct sink *sink);
/* The descriptor to poll for POLLOUT; -1 when there is nothing to write. */
int sink_wants(const struct sink *sink);
/* Writes as much as goes without waiting. */
void sink_flush(struct sink *sink);
bool sink_is_empty(const struct sink *sink);
/* The reader has gone; what is put into the sink from now on is lost. */
bool sink_is_broken(const struct sink *sink);
/* A line of our own, without a newline, at most 1000 bytes; room for it is always left. */
void sink_say(struct sink *sink, const char *text);

/* Takes over fd, a pipe, and puts its lines into sink, with "[rank] " in front if rank >= 0. NULL: no memory;
 * fd is closed then as well. */
struct stream *stream_create(int fd, struct sink *sink, int rank);
/* From now on every line is shown to filter first. */
void stream_set_filter(struct stream *stream, line_filter *filter, void *context);
void stream_free(struct stream *stream);
/* The descriptor to poll for POLLIN; -1 when it is done or has no room. */
int stream_wants(const struct stream *stream);
/* Moves what there is from the pipe to the sink, without waiting. False: the pipe had nothing. */
bool stream_pump(struct stream *stream);
/* Reached the end, and everything is in the sink. */
bool stream_is_done(const struct stream *stream);
/* No more will come although the pipe may be open elsewhere: what is left counts as a line. */
void stream_end(struct stream *stream);
/* All writers are dead: what is in the pipe is all there will ever be. As far as there is room it goes into the sink;
 * true once that was all. */
bool stream_finish(struct stream *stream);

/* Our stdout and stderr; one sink where they are the same file, so that their lines do not mix either. */
struct outlet {
    struct sink *sinks[2];
};

/* False: no memory; nothing to close then. */
bool outlet_open(struct outlet *outlet, const bool colours[2]);
void outlet_close(struct outlet *outlet);
/* What to poll for, and what follows from it; true: there is room again. */
void outlet_poll(const struct outlet *outlet, struct pollfd polls[2]);
bool outlet_flush(struct outlet *outlet, const struct pollfd polls[2]);
bool outlet_is_empty(const struct outlet *outlet);
/* "tutti-run: ", and the text, to stderr. */
__attribute__((format(printf, 2, 3))) void outlet_say(struct outlet *outlet, const char *format,
                                                      ...);

#endif

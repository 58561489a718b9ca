#include "output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STREAM_SIZE = 64 << 10,
    SAY_RESERVE = 16 << 10, /* of a sink, for sink_say */
    SINK_SIZE = (256 << 10) + SAY_RESERVE,
    PREFIX_SIZE = 48,
    ADDED_SIZE = PREFIX_SIZE + 2, /* to a line that somebody else like us has passed on */
    WRITE_UNSURE = 4096           /* bytes that a pipe takes without blocking after POLLOUT */
};

struct sink {
    int fd;
    int own_fd; /* the same file with flags of our own, or -1 */
    bool is_socket;
    bool colour;
    bool broken;
    bool in_line;              /* the last byte put in was not a newline ... */
    const void *in_line_owner; /* ... and whose it was */
    size_t begin, end;         /* of what is not written yet */
    char data[SINK_SIZE];
};

struct stream {
    int fd;
    struct sink *sink;
    int rank;
    bool ended;        /* no more comes out of fd */
    bool blocked;      /* a line waits for room in the sink */
    size_t begin, end; /* of what is not in the sink yet */
    size_t searched;   /* no newline before this */
    char prefix[PREFIX_SIZE];
    size_t prefix_size;
    line_filter *filter; /* or NULL */
    void *filter_context;
    size_t size; /* of data: with a prefix, ours need not fit a second time */
    char data[STREAM_SIZE + ADDED_SIZE];
};

/* ----------------------------------------------------------------------------------------- sink */

/* Opening the file once more gives us flags that nobody shares, so that O_NONBLOCK harms no one. */
static int reopen_nonblocking(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !(S_ISFIFO(status.st_mode) || isatty(fd))) return -1;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

struct sink *sink_create(int fd, bool colour)
{
    struct sink *sink = malloc(sizeof *sink);
    if (sink == NULL) return NULL;
    struct stat status;
    *sink = (struct sink){.fd = fd, .own_fd = reopen_nonblocking(fd), .colour = colour};
    sink->is_socket = fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
    return sink;
}

void sink_free(struct sink *sink)
{
    if (sink == NULL) return;
    if (sink->own_fd >= 0) close(sink->own_fd);
    free(sink);
}

int sink_wants(const struct sink *sink)
{
    return sink_is_empty(sink) ? -1 : sink->fd;
}

bool sink_is_empty(const struct sink *sink)
{
    return sink->begin == sink->end;
}

bool sink_is_broken(const struct sink *sink)
{
    return sink->broken;
}

static ssize_t write_some(const struct sink *sink, const char *data, size_t size)
{
    if (sink->is_socket) return send(sink->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sink->own_fd >= 0) return write(sink->own_fd, data, size);
    return write(sink->fd, data, size < WRITE_UNSURE ? size : WRITE_UNSURE);
}

/* Called after POLLOUT only: see WRITE_UNSURE. */
void sink_flush(struct sink *sink)
{
    if (sink_is_empty(sink)) return;
    ssize_t written = write_some(sink, sink->data + sink->begin, sink->end - sink->begin);
    if (written >= 0)
        sink->begin += (size_t)written;
    else if (errno != EAGAIN && errno != EINTR)
        sink->broken = true;
    if (sink->broken || sink->begin == sink->end) sink->begin = sink->end = 0;
}

static size_t sink_room(const struct sink *sink)
{
    return SINK_SIZE - (sink->end - sink->begin);
}

static void sink_put(struct sink *sink, const char *data, size_t size)
{
    if (size == 0 || sink->broken) return;
    assert(size <= sink_room(sink));
    if (size > SINK_SIZE - sink->end) {
        memmove(sink->data, sink->data + sink->begin, sink->end - sink->begin);
        sink->end -= sink->begin;
        sink->begin = 0;
    }
    memcpy(sink->data + sink->end, data, size);
    sink->end += size;
    sink->in_line = data[size - 1] != '\n';
}

/* Somebody else's unfinished line is ended first. */
static void sink_claim(struct sink *sink, const void *owner)
{
    if (sink->in_line && sink->in_line_owner != owner) sink_put(sink, "\n", 1);
    sink->in_line_owner = owner;
}

void sink_say(struct sink *sink, const char *text)
{
    size_t size = strnlen(text, 1000);
    if (sink_room(sink) < size + 2)
        return; /* hundreds of messages that nobody read: no news to anybody */
    sink_claim(sink, sink);
    sink_put(sink, text, size);
    sink_put(sink, "\n", 1);
}

/* --------------------------------------------------------------------------------------- stream */

static void set_prefix(struct stream *stream)
{
    static const char *const colours[] = {"36", "32", "33", "35", "34", "31"};
    int size = 0;
    if (stream->rank >= 0 && stream->sink->colour)
        size = snprintf(stream->prefix, PREFIX_SIZE, "\033[%sm[%d]\033[0m ",
                        colours[stream->rank % 6], stream->rank);
    else if (stream->rank >= 0)
        size = snprintf(stream->prefix, PREFIX_SIZE, "[%d] ", stream->rank);
    assert(size < PREFIX_SIZE);
    stream->prefix_size = (size_t)size;
}

struct stream *stream_create(int fd, struct sink *sink, int rank)
{
    struct stream *stream = malloc(sizeof *stream);
    if (stream == NULL) {
        close(fd);
        return NULL;
    }
    *stream = (struct stream){.fd = fd, .sink = sink, .rank = rank};
    stream->size = rank >= 0 ? STREAM_SIZE : sizeof stream->data;
    set_prefix(stream);
    fcntl(fd, F_SETFL, O_NONBLOCK); /* our end of the pipe only */
    return stream;
}

void stream_set_filter(struct stream *stream, line_filter *filter, void *context)
{
    stream->filter = filter;
    stream->filter_context = context;
}

void stream_free(struct stream *stream)
{
    if (stream == NULL) return;
    if (stream->fd >= 0) close(stream->fd);
    free(stream);
}

int stream_wants(const struct stream *stream)
{
    return stream->ended || stream->blocked ? -1 : stream->fd;
}

bool stream_is_done(const struct stream *stream)
{
    return stream->ended && stream->begin == stream->end;
}

void stream_end(struct stream *stream)
{
    stream->ended = true;
    if (stream->fd >= 0) close(stream->fd);
    stream->fd = -1;
}

/* Bytes of the next line that can be passed on, 0 if there is none yet. */
static size_t next_line(struct stream *stream)
{
    size_t size = stream->end - stream->begin;
    const char *newline =
        memchr(stream->data + stream->searched, '\n', stream->end - stream->searched);
    if (newline != NULL) return (size_t)(newline + 1 - stream->data) - stream->begin;
    stream->searched = stream->end;
    return size == stream->size || stream->ended ? size : 0;
}

static void put_lines(struct stream *stream)
{
    struct sink *sink = stream->sink;
    for (size_t size; (size = next_line(stream)) > 0;) {
        stream->blocked = sink_room(sink) < SAY_RESERVE + PREFIX_SIZE + size + 2;
        if (stream->blocked) return;
        const char *line = stream->data + stream->begin;
        if (stream->filter == NULL || !stream->filter(stream->filter_context, line, size)) {
            sink_claim(sink, stream);
            sink_put(sink, stream->prefix, stream->prefix_size);
            sink_put(sink, line, size);
            if (stream->prefix_size > 0 && line[size - 1] != '\n') sink_put(sink, "\n", 1);
        }
        stream->begin += size;
        stream->searched = stream->begin;
    }
    stream->blocked = false;
    memmove(stream->data, stream->data + stream->begin, stream->end - stream->begin);
    stream->end -= stream->begin;
    stream->searched -= stream->begin;
    stream->begin = 0;
}

bool stream_pump(struct stream *stream)
{
    if (stream->sink->broken) {
        stream_end(stream);
        stream->begin = stream->end = stream->searched = 0;
        return false;
    }
    put_lines(stream);
    if (stream->ended || stream->blocked) return false;
    ssize_t got = read(stream->fd, stream->data + stream->end, stream->size - stream->end);
    if (got > 0)
        stream->end += (size_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        stream_end(stream);
    put_lines(stream);
    return got > 0;
}

bool stream_finish(struct stream *stream)
{
    if (stream_is_done(stream)) return true;
    while (stream_pump(stream))
        ;
    if (stream_wants(stream) >= 0) {
        stream_end(stream);
        stream_pump(stream);
    }
    return stream_is_done(stream);
}

/* --------------------------------------------------------------------------------------- outlet */

bool outlet_open(struct outlet *outlet, const bool colours[2])
{
    struct stat out, err;
    outlet->sinks[0] = outlet->sinks[1] = sink_create(1, colours[0]);
    bool same = fstat(1, &out) == 0 && fstat(2, &err) == 0 && out.st_dev == err.st_dev &&
                out.st_ino == err.st_ino;
    if (!same) outlet->sinks[1] = sink_create(2, colours[1]);
    if (outlet->sinks[0] != NULL && outlet->sinks[1] != NULL) return true;
    outlet_close(outlet);
    return false;
}

void outlet_close(struct outlet *outlet)
{
    if (outlet->sinks[1] != outlet->sinks[0]) sink_free(outlet->sinks[1]);
    sink_free(outlet->sinks[0]);
    *outlet = (struct outlet){{NULL, NULL}};
}

void outlet_poll(const struct outlet *outlet, struct pollfd polls[2])
{
    for (int i = 0; i < 2; ++i) {
        bool second_name = i == 1 && outlet->sinks[1] == outlet->sinks[0];
        int fd = second_name ? -1 : sink_wants(outlet->sinks[i]);
        polls[i] = (struct pollfd){.fd = fd, .events = POLLOUT};
    }
}

bool outlet_flush(struct outlet *outlet, const struct pollfd polls[2])
{
    bool room = false;
    for (int i = 0; i < 2; ++i) {
        if (polls[i].fd < 0 || polls[i].revents == 0) continue;
        sink_flush(outlet->sinks[i]);
        room = true;
    }
    return room;
}

bool outlet_is_empty(const struct outlet *outlet)
{
    return sink_is_empty(outlet->sinks[0]) && sink_is_empty(outlet->sinks[1]);
}

void outlet_say(struct outlet *outlet, const char *format, ...)
{
    char text[1000] = "tutti-run: ";
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    sink_say(outlet->sinks[1], text);
}

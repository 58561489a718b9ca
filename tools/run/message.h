/* message.h - the messages between the host of the user and another host of the job.
 *
 *     conductor ── one message, then orders (see orders.h) ──> stdin of tutti-run --agent
 *     conductor <────────── reports, as lines among the ranks' ───────── its stderr
 *
 *  1. The message has everything the other side needs, secrets too, and never shows on a command
 *     line. It is bounded, and its reader does not trust it: every length is checked before it is
 *     used, and nothing may be left over at its end.
 *  2. A report begins with a token from the message that ranks do not know, so no line of a rank is
 *     taken for a report.
 *
 *     head: "TUTTIRUN", version, bytes of the body; body: the fields in the order of message.c.
 *     Numbers have 4 or 8 bytes, little-endian; a text is its length, its bytes, and a zero.
 */
#ifndef TUTTI_TOOLS_RUN_MESSAGE_H
#define TUTTI_TOOLS_RUN_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keeper.h"
#include "orders.h"

enum {
    MESSAGE_VERSION = 2,
    MESSAGE_HEAD_BYTES = 16,
    MESSAGE_BYTES_MAX = 8 << 20,
    TOKEN_BYTES = 32
};

struct message {
    struct run_options
        options; /* all but stdin_fd and signals_before; program is NULL: arguments[0] is to be found */
    const char *folder; /* to work in: an absolute path */
    char **environment; /* NAME=VALUE to be set, NULL last */
    int *ranks;         /* owns options.ranks */
};

/* The bytes that go over the wire, in *bytes, which is the caller's to free. False: no memory, or
 * longer than MESSAGE_BYTES_MAX. */
bool message_write(const struct message *message, unsigned char **bytes, size_t *size);

/* The number of bytes that follow the head. *wrong becomes NULL, or says what is wrong with the
 * head. */
size_t message_body_size(const unsigned char head[MESSAGE_HEAD_BYTES], const char **wrong);
/* Reads a body. Returns NULL; or what is wrong with it, and then there is nothing to release. Texts
 * in *message lie in body, which has to stay. */
const char *message_read(unsigned char *body, size_t size, struct message *message);
void message_release(struct message *message);
/* Of the ranks of a host, the spares: their numbers are not below the size. */
int message_spare_count(const struct run_options *options);

enum report_kind {
    REPORT_READY,  /* the ranks run */
    REPORT_FAILED, /* the first of them has failed, with that exit code */
    REPORT_DONE,   /* all have ended, and this is the exit code of the host */
    /* Of an elastic job. */
    REPORT_DIED,     /* a rank has failed, with that exit code, and the job goes on */
    REPORT_ALIVE,    /* so many ranks run, or will; also sent each second, as a sign of life */
    REPORT_MEMBERS,  /* so many of them are ranks of the team */
    REPORT_FINISHED, /* so many have ended well */
    REPORT_KINDS
};

/* Writes a report as a line, without its newline. */
void report_write(const char *token, enum report_kind kind, int code, char *text, size_t size);
/* Whether the line, with or without a newline, is a report, and which one. */
bool report_read(const char *token, const char *line, size_t size, enum report_kind *kind,
                 int *code);

/* The same for the address of an elastic job's team (elastic.h). */
enum { ADDRESS_REPORT_BYTES = 400 };
void address_report_write(const char *token, const unsigned char address[ADDRESS_BYTES],
                          char text[ADDRESS_REPORT_BYTES]);
bool address_report_read(const char *token, const char *line, size_t size,
                         unsigned char address[ADDRESS_BYTES]);

#endif

/* discovery_message.h - the messages of rank discovery (discovery.h) as bytes: a head, and entries
 * behind it.
 *
 *     ENTRY    head, 1 entry        what a rank says of itself, and which run it was told of before, if it was
 *     HEARD    head                 which run this is: rank 0 has taken the rank in
 *     TABLE    head, size entries   what all ranks have said
 *     CONNECT  head                 the address to connect to for the table
 *     FAILURE  head                 why there is no table
 *
 * The reader is a pure function of the bytes and knows no sockets. It says where the next bytes
 * belong, and looks at them when they are there. The bytes are foreign: once they are through,
 * numbers are in their ranges and texts have an end. The caller knows who sent them.
 *
 * Hosts of another byte order have another magic. Its last character changes when messages do, so
 * an older build does not understand newer messages. A build that does not know of runs would
 * otherwise wait for connections under another name.
 */
#ifndef TUTTI_CONNECT_DISCOVERY_MESSAGE_H
#define TUTTI_CONNECT_DISCOVERY_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum { DISCOVERY_HOST_NAME_MAX = 64, DISCOVERY_TEXT_MAX = 256 };

/* A rank's description of itself. */
struct discovery_entry {
    uint64_t host;  /* equal for ranks that can share memory, see host_id_read */
    uint64_t cores; /* equal for ranks that may run on the same set of cores, see host_id_cores; 0: they are its host's own */
    struct net_address address; /* of its process's port; none: it has no port */
    int32_t pid;
    int32_t core_count; /* how many cores it may run on, or as many as their time is limited to */
    uint32_t knowledge; /* fingerprint of the numbers by which it chooses algorithms */
    uint32_t table;     /* and of its table of measured choices */
    uint32_t plans;     /* and of its plans from files: 0: none; 1: it cannot load them */
    uint32_t fabric;    /* and of the network card that it would use: 0: none */
    char host_name[DISCOVERY_HOST_NAME_MAX];
};

enum discovery_kind {
    DISCOVERY_ENTRY = 1,
    DISCOVERY_TABLE,
    DISCOVERY_CONNECT,
    DISCOVERY_FAILURE,
    DISCOVERY_HEARD
};

struct discovery_head {
    uint32_t magic, kind;
    int32_t rank, size; /* of the sender */
    int32_t status;     /* of a FAILURE: not OK and not IN_PROGRESS */
    uint32_t entry_count;
    struct net_address address; /* of a CONNECT */
    char text[DISCOVERY_TEXT_MAX];
    struct rendezvous_key run; /* random, made by rank 0; zero in the ENTRY of a rank that has not been told */
};

struct discovery_head discovery_head_make(enum discovery_kind kind, int rank, int size);

/* Reads one message into the caller's memory. */
struct discovery_reader {
    struct discovery_head *head;
    struct discovery_entry *entries; /* room for entry_max */
    uint32_t entry_max;
    int size;    /* how many ranks the job has */
    size_t done; /* 0 for a new message */
};

/* The number of bytes that the caller may write to *to next; 0: the message is complete. */
size_t discovery_reader_wants(const struct discovery_reader *reader, void **to);
/* The caller has written that many of them. AUTH_FAILED, with this thread's error: the message
 * makes no sense; read no more. */
enum tutti_status discovery_reader_took(struct discovery_reader *reader, size_t bytes);

/* Checks an entry that came some other way. */
bool discovery_entry_makes_sense(const struct discovery_entry *entry);
/* AUTH_FAILED: it makes no sense. */
enum tutti_status discovery_entry_check(const struct discovery_entry *entry);

#endif

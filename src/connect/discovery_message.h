/* discovery_message.h - what goes over a connection of the roll call, as bytes: a head, and entries behind it.
 *
 *     ENTRY    head, 1 entry        what a rank says of itself, and which run it was told of before, if it was
 *     HEARD    head                 which run this is: it has taken the rank in
 *     TABLE    head, size entries   what all have said
 *     VISIT    head                 whose door to visit for the table
 *     FAILURE  head                 why there is no table
 *
 * The reader is a pure function of the bytes: it says where the next ones belong and looks at them when they are there; it
 * knows no sockets. What comes is foreign: once it is through, numbers are in their ranges and texts have an end. Who it
 * comes from is not its business. Hosts of another byte order have another magic; its last character changes when messages do,
 * so that a build that does not know of runs is not understood, where it would wait for connections of another name than ours.
 */
#ifndef TUTTI_CONNECT_DISCOVERY_MESSAGE_H
#define TUTTI_CONNECT_DISCOVERY_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum { DISCOVERY_HOST_NAME_MAX = 64, DISCOVERY_TEXT_MAX = 256 };

/* What a rank says of itself. */
struct discovery_entry {
    uint64_t host;              /* equal for ranks that can share memory, see discovery_host */
    struct net_address address; /* of its process's door; none: it has none */
    int32_t pid;
    int32_t core_count; /* that it may run on */
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
    int32_t rank, size; /* the sender's */
    int32_t status;     /* of a FAILURE: one that is */
    uint32_t entry_count;
    struct net_address address; /* of a VISIT */
    char text[DISCOVERY_TEXT_MAX];
    struct rendezvous_key run; /* random, made by rank 0; of an ENTRY zero before its rank was told */
};

struct discovery_head discovery_head_make(enum discovery_kind kind, int rank, int size);

/* Of one message, into the caller's memory. */
struct discovery_reader {
    struct discovery_head *head;
    struct discovery_entry *entries; /* room for entry_max */
    uint32_t entry_max;
    int size;    /* the number of ranks of this roll call */
    size_t done; /* 0 for a new message */
};

/* How many of the next bytes may be written to *to; 0: the message is whole. */
size_t discovery_reader_wants(const struct discovery_reader *reader, void **to);
/* That many of them are there. AUTH_FAILED, with this thread's error: what came makes no sense, and no more is read. */
enum tutti_status discovery_reader_took(struct discovery_reader *reader, size_t bytes);

/* Whether an entry that came some other way is sound. */
enum tutti_status discovery_entry_check(const struct discovery_entry *entry);

#endif

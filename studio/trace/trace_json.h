/* trace_json.h - a flight recorder's dump as it is read: docs/reference/dumps.md describes its
 * members, health/trace.c writes it.
 *
 * Files and answers come from outside: all that is kept is within the bounds named here, and texts
 * have no control characters, so that they can be shown on a terminal. Members that this version
 * does not know are passed over.
 */
#ifndef TUTTI_STUDIO_TRACE_TRACE_JSON_H
#define TUTTI_STUDIO_TRACE_TRACE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/between.h"
#include "tutti/tutti.h"

enum {
    TRACE_JSON_BYTES_MAX = 1 << 22,
    TRACE_ENTRIES_MAX = 4096,
    TRACE_RANKS_MAX = 1 << 16,
    TRACE_CORES_MAX = 1 << 12,
    TRACE_HOST_SIZE = 256,
    TRACE_ALGORITHM_SIZE = 128, /* a name may be the path of a plan, or its end */
    TRACE_CHOICES_MAX = 256,
    TRACE_UNUSED_MAX = 16
};

struct trace_place {
    int rank, pid; /* pid 0: not known */
    char host[TRACE_HOST_SIZE];
};

/* A call, or a message. */
struct trace_entry {
    uint64_t number; /* the call's sequence number, or the message's own, from 1 */
    char call[24], dtype[16], op[16], algorithm[TRACE_ALGORITHM_SIZE];
    char paths[128]; /* of a call that is over: "read, slot"; "" where it is not known */
    char state[24];  /* running, done, or the name of a status */
    bool started;
    bool is_gated; /* waits for its gate, or did until it failed */
    bool has_signature;
    uint64_t signature, count;
    int root, peer, tag; /* -1: none */
    uint64_t begin_ns, end_ns;
    uint64_t expected_ns; /* 0: not known */
    int waits_for;        /* index into places; -1: nobody */
    uint64_t since_ns;
    bool is_stopped; /* that rank did not run, as far as this one noticed */
};

/* An algorithm that was not chosen, or a plan that cannot be. */
struct trace_rival {
    char call[24]; /* of a plan that cannot be chosen for any call */
    char algorithm[TRACE_ALGORITHM_SIZE];
    char reason[400];     /* ""; else why not */
    uint64_t expected_ns; /* 0: not known */
    bool only_hosts;
};

/* Why calls got their algorithm. */
struct trace_choice {
    char call[24], dtype[16], algorithm[TRACE_ALGORITHM_SIZE], reason[128];
    bool has_count; /* not of the v forms */
    bool bytes_are_assumed, is_mapped, only_hosts;
    uint64_t count, bytes;
    int radix;                       /* 0: the algorithm's default */
    uint64_t expected_ns, median_ns; /* 0: not known */
    uint64_t calls;                  /* of the last calls */
    struct trace_rival next;         /* algorithm "": none */
    struct trace_rival *unused;      /* plans of the user */
    size_t unused_count;
    uint64_t unused_left_out; /* more of them, which the dump does not have */
};

struct trace_failure {
    char status[24]; /* "": none */
    char message[1024];
    int reporter; /* -1: not known */
    uint64_t sequence;
    int culprit; /* index into places; -1: none */
};

struct trace_json {
    char communicator[24], reason[16];
    int size;
    int core_count; /* of each host, the least of all, as the ranks took it; 0: an older dump */
    int rack;       /* of its host; -1: none is known */
    int cores_of;   /* the first rank on the same cores, where hosts share them; -1: they do not */
    struct between measured; /* between hosts, as the job reckoned with it */
    struct trace_place own;
    uint64_t wall_ns, monotonic_ns, calls, messages_begun;
    struct trace_failure failure;
    struct trace_place *places; /* of ranks that are named */
    int place_count;
    struct trace_entry *operations, *messages; /* oldest first */
    size_t operation_count, message_count;
    struct trace_choice *choices; /* oldest first; none in older dumps */
    struct trace_rival *unused_plans;
    size_t choice_count, unused_plan_count;
    uint64_t unused_plans_left_out; /* more of them, which the dump does not have */
};

/* Reads a dump; to be released. INVALID_OPTIONS: the message says what is wrong with it and what is
 * expected; NO_MEMORY. On failure *trace is empty. Any thread. */
enum tutti_status trace_json_load(const char *text, size_t text_bytes, struct trace_json *trace);
void trace_json_release(struct trace_json *trace);
/* Sorts dumps by their communicators, then by ranks; of one rank the newest comes first. */
void trace_json_sort(struct trace_json *all, size_t count);
/* Of dumps that are sorted: how many of the first ones are of one communicator. */
size_t trace_json_group(const struct trace_json *all, size_t count);
/* Of the sorted dumps of one communicator, one at least: moves those that do not count behind the
 * others, which stay sorted. They are older ones of a rank, and those of another number of ranks
 * than the first, which are of another job. Returns how many count. */
size_t trace_json_keep_newest(struct trace_json *all, size_t count);
/* The operation of that number; NULL: the dump does not have it. */
const struct trace_entry *trace_json_operation(const struct trace_json *trace, uint64_t number);
/* Whether an entry has ended; those that failed have. */
bool trace_entry_is_over(const struct trace_entry *entry);
/* Whether it is a message, by its call: "send" or "recv". */
bool trace_entry_is_message(const struct trace_entry *entry);
/* Whether it has ended well. */
bool trace_entry_is_done(const struct trace_entry *entry);

#endif

#include "process/roll_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/rank_list.h"
#include "base/status.h"
#include "bootstrap/exchange.h"
#include "os/clock.h"
#include "process/network.h"

enum { NAP_NS = 200000, REVISIT_NS = 10000000, REVISIT_NS_MAX = 320000000 };
/* Who is there hears from rank 0 who is missing: it may come a moment after the deadline. */
static const uint64_t PATIENCE_NS = 1000000000;

/* One connection, and how far a message has got on it. */
struct line {
    struct channel channel;
    size_t done;
    bool has_reported; /* rank 0's: a sound report came over it */
    bool is_told;      /* rank 0's: and was answered with the run */
    bool is_answering; /* what is sent is the answer */
    bool is_over;      /* all that was to be sent has gone */
    bool is_unfit;     /* its rank was refused, and has heard so */
    bool is_claimed;   /* somebody else came as the same rank, and it was said */
};

/* As a rank sent it to rank 0. */
struct report {
    struct roll_head head;
    struct roll_entry entry;
};

struct roll {
    const struct roll_options *options;
    const struct launcher_place *place;
    struct roll_entry *entries;
    unsigned *message_count;
    struct rendezvous_key report_identity; /* of the way up, before the run is known */
    struct rendezvous_key run;             /* zero: not known yet */
    struct network_client client; /* whom the others visit; and visits the parent, in this run alone */
    struct network_client calls[NETWORK_MASTER_PORTS]; /* for rank 0: each at another port */
    unsigned called;    /* a bit for each port that is being visited */
    unsigned port;      /* the number of that which let this rank in */
    unsigned others;    /* a bit for each that did and had no use for it */
    uint64_t forget_ns; /* when those are visited again */
    uint64_t revisit_ns;
    bool is_entered;
    struct line *guests;    /* of each rank */
    struct report *reports; /* rank 0's: of each rank */
    bool *is_known;         /* rank 0's: has reported, or was refused */
    int known_count;
    bool is_complete;          /* rank 0's: entries stay as they are */
    char unfit[ROLL_TEXT_MAX]; /* why one was refused */
};

static void nap(void)
{
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
}

static void hang_up(struct line *line)
{
    channel_close(&line->channel);
    *line = (struct line){.channel = channel_none()};
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    return hash; /* FNV-1a */
}

/* Who cannot read it for want of a descriptor would take itself for another machine. */
static enum tutti_status read_boot(char *boot, size_t bytes)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return error_system("looking which machine this is");
    const ssize_t got = fd >= 0 ? read(fd, boot, bytes - 1) : 0;
    boot[got > 0 ? got : 0] = '\0';
    if (fd >= 0) close(fd);
    return TUTTI_OK;
}

enum tutti_status roll_machine(uint64_t *machine)
{
    char boot[64];
    struct stat space = {0};
    TRY(read_boot(boot, sizeof boot));
    if (stat("/proc/self/ns/net", &space) != 0) space.st_ino = 0;
    const uint64_t space_hash =
        ((0xcbf29ce484222325u ^ space.st_ino) * 0x100000001b3u ^ space.st_dev) * 0x100000001b3u;
    *machine = hash_text(space_hash, boot);
    return TUTTI_OK;
}

static const char *host_id(void)
{
    const char *said = option_text(OPTION_HOSTID);
    return said != NULL ? said : "";
}

enum tutti_status roll_host(uint64_t *host)
{
    TRY(roll_machine(host));
    *host = hash_text(*host, host_id());
    return TUTTI_OK;
}

uint64_t roll_host_id(void)
{
    const char *said = host_id();
    return *said == '\0' ? 0 : hash_text(0xcbf29ce484222325u, said);
}

/* -------------------------------------------------------------------------------------------- messages */

/* How many entries may follow: as many as there is room for. */
static enum tutti_status receive(const struct roll *roll, struct line *line,
                                 struct roll_head *message, struct roll_entry *entries,
                                 uint32_t entry_max)
{
    struct roll_reader reader = {.head = message,
                                 .entries = entries,
                                 .entry_max = entry_max,
                                 .size = roll->place->size,
                                 .done = line->done};
    void *to;
    for (size_t left; (left = roll_reader_wants(&reader, &to)) > 0; line->done = reader.done) {
        size_t bytes;
        TRY(channel_read(&line->channel, to, left, &bytes));
        if (bytes == 0) return TUTTI_IN_PROGRESS;
        TRY(roll_reader_took(&reader, bytes));
    }
    line->done = 0;
    ++*roll->message_count;
    return TUTTI_OK;
}

static enum tutti_status transmit(const struct roll *roll, struct line *line,
                                  const struct roll_head *message, const struct roll_entry *entries)
{
    const size_t total = sizeof *message + message->entry_count * sizeof *entries;
    while (line->done < total) {
        const bool in_head = line->done < sizeof *message;
        const char *from = in_head ? (const char *)message + line->done
                                   : (const char *)entries + (line->done - sizeof *message);
        size_t bytes;
        TRY(channel_write(&line->channel, from, (in_head ? sizeof *message : total) - line->done,
                          &bytes));
        if (bytes == 0) return TUTTI_IN_PROGRESS;
        line->done += bytes;
    }
    TRY(channel_flush(&line->channel));
    line->done = 0;
    ++*roll->message_count;
    return TUTTI_OK;
}

static struct roll_head make_message(const struct roll *roll, enum roll_kind kind)
{
    struct roll_head message = roll_head_make(kind, roll->place->rank, roll->place->size);
    message.run = roll->run;
    return message;
}

/* ------------------------------------------------------------------------------------------------- run */

static bool is_same(const struct rendezvous_key *a, const struct rendezvous_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool is_none(const struct rendezvous_key *run)
{
    return is_same(run, &(struct rendezvous_key){.bytes = {0}});
}

/* From now on others of the same run are let in, and nobody else. */
static void enter_run(struct roll *roll, const struct rendezvous_key *run)
{
    roll->run = *run;
    rendezvous_key_derive(&roll->report_identity, run, sizeof *run, &roll->client.identity);
    network_enter(&roll->client);
}

/* ---------------------------------------------------------------------------------------------- guests */

/* Whether the other side still has it. A guest whose report was read says nothing more. */
static bool stands(const struct line *line)
{
    char byte;
    const ssize_t got = recv(line->channel.fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

/* Whoever comes again has lost the first connection; only who has reported, and is still there, has not. */
static void seat(struct roll *roll, int peer, struct channel channel)
{
    struct line *line = &roll->guests[peer];
    if (channel.fd == NETWORK_UNFIT) {
        error_copy(roll->unfit, sizeof roll->unfit);
        line->is_unfit = true;
    }
    if (channel.fd < 0) return; /* or a knock: nobody goes to anybody here */
    if (line->channel.fd >= 0 && line->has_reported && stands(line)) {
        if (!line->is_claimed)
            log_write(LOG_WARN,
                      "start-up: somebody else came as rank %d, which is here: is an earlier run "
                      "of this job still starting, or another job of the same name? "
                      "(TUTTI_JOB_ID tells jobs apart)",
                      peer);
        line->is_claimed = true;
        channel_close(&channel);
        return;
    }
    hang_up(line);
    line->channel = channel;
}

static void take_guests(struct roll *roll)
{
    int peer;
    unsigned stream;
    struct channel channel;
    network_progress(clock_now_ns());
    while (network_take(&roll->client, &peer, &stream, &channel)) seat(roll, peer, channel);
}

/* The children of a rank lie below its lowest bit. */
static bool is_child(int rank, int of)
{
    return rank > of && (rank & (rank - 1)) == of;
}

static int parent_of(int rank)
{
    return rank & (rank - 1);
}

/* What a rank is to be told, or how it failed. */
static struct roll_head answer_for(const struct roll *roll, int rank, enum tutti_status status)
{
    struct roll_head message;
    if (status != TUTTI_OK) {
        message = make_message(roll, ROLL_FAILURE);
        message.status = (int32_t)status;
        error_copy(message.text, sizeof message.text);
    } else if (is_child(rank, roll->place->rank)) {
        message = make_message(roll, ROLL_TABLE);
    } else {
        message = make_message(roll, ROLL_VISIT);
        message.address = roll->entries[parent_of(rank)].address;
    }
    return message;
}

/* ------------------------------------------------------------------------------------- rank 0's guests */

/* A rank that was told of another run stays out of this one, and ends: its rank 0 is gone. */
static void turn_away(struct roll *roll, struct line *line, int rank)
{
    struct roll_head message = make_message(roll, ROLL_FAILURE);
    message.status = TUTTI_PROC_FAILED;
    snprintf(message.text, sizeof message.text,
             "start-up: rank 0 is gone, and another run of this job has its place");
    log_write(LOG_INFO, "start-up: rank %d of an earlier run is not let in", rank);
    (void)transmit(roll, line, &message, NULL); /* who misses that comes again */
    hang_up(line);
}

/* Whether a rank that has lost its connection and comes again is the one that the others are being told of. */
static bool is_as_told(const struct roll *roll, int rank, const struct roll_entry *entry)
{
    const struct roll_entry *told = &roll->entries[rank];
    return !roll->is_complete || (entry->host == told->host && entry->pid == told->pid &&
                                  net_address_equal(&entry->address, &told->address));
}

/* A rank's report as far as it has come, and then that it is in. */
static void hear_report(struct roll *roll, int r)
{
    struct line *line = &roll->guests[r];
    struct report *report = &roll->reports[r];
    if (line->channel.fd >= 0 && !line->has_reported) {
        const enum tutti_status got = receive(roll, line, &report->head, &report->entry, 1);
        if (got == TUTTI_IN_PROGRESS) return;
        if (got != TUTTI_OK || report->head.kind != ROLL_ENTRY || report->head.rank != r ||
            report->entry.address.family == AF_UNSPEC || !is_as_told(roll, r, &report->entry)) {
            log_write(LOG_INFO, "start-up: who came as rank %d said what makes no sense", r);
            hang_up(line);
            return;
        }
        if (!is_none(&report->head.run) && !is_same(&report->head.run, &roll->run)) {
            turn_away(roll, line, r);
            return;
        }
        if (!roll->is_complete) roll->entries[r] = report->entry;
        line->has_reported = true;
        roll->known_count += !roll->is_known[r];
        roll->is_known[r] = true;
    }
    if (!line->has_reported || line->is_told) return;
    const struct roll_head message = make_message(roll, ROLL_HEARD);
    const enum tutti_status sent = transmit(roll, line, &message, NULL);
    line->is_told = sent == TUTTI_OK;
    if (sent != TUTTI_OK && sent != TUTTI_IN_PROGRESS) hang_up(line);
}

/* Whether an answer may follow. Of a failure everybody hears who is there, but in the middle of a message. */
static bool is_ready(const struct line *line, enum tutti_status status)
{
    return line->is_told || (status != TUTTI_OK && !line->has_reported);
}

/* ---------------------------------------------------------------------------------------------- answers */

/* Tells all ranks, or only those below this one; those who have not come are waited for, unless something failed. */
static enum tutti_status answer(struct roll *roll, bool all, enum tutti_status status,
                                uint64_t deadline_ns)
{
    const int own = roll->place->rank;
    char why[ROLL_TEXT_MAX] = "";
    if (status != TUTTI_OK) error_copy(why, sizeof why);
    for (int missing = 0;;) {
        take_guests(roll);
        missing = -1;
        for (int r = own + 1; r < roll->place->size; r++) {
            struct line *line = &roll->guests[r];
            if (line->is_over || line->is_unfit || (!all && !is_child(r, own))) continue;
            if (own == 0 && !line->is_answering) hear_report(roll, r);
            if (line->channel.fd < 0 || (own == 0 && !is_ready(line, status))) {
                if (status == TUTTI_OK || line->has_reported) missing = r;
                continue;
            }
            if (!line->is_answering) line->done = 0; /* what came of a report does not count now */
            line->is_answering = true;
            if (status != TUTTI_OK) error_set(status, "%s", why);
            const struct roll_head message = answer_for(roll, r, status);
            const enum tutti_status sent = transmit(roll, line, &message, roll->entries);
            line->is_over = sent == TUTTI_OK;
            if (sent == TUTTI_IN_PROGRESS) missing = r;
            if (sent != TUTTI_OK && sent != TUTTI_IN_PROGRESS) hang_up(line);
        }
        if (missing < 0) break;
        if (clock_now_ns() > deadline_ns)
            return error_set(TUTTI_INIT_TIMEOUT,
                             "start-up: rank %d did not come for the list of ranks", missing);
        nap();
    }
    return status != TUTTI_OK ? error_set(status, "%s", why) : TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------------- rank 0 */

/* Rank 0 goes to nobody, so nothing failed for it. But where it does not even get to itself, others do not come. */
static void look_at_own_door(const struct net_address *own, char *text, size_t text_bytes)
{
    int fd = -1;
    char why[ROLL_TEXT_MAX];
    text[0] = '\0';
    enum tutti_status status = tcp_connect_start(own, NULL, &fd);
    if (status == TUTTI_OK) status = tcp_connect_test(fd, own);
    if (status == TUTTI_PROC_FAILED) {
        error_copy(why, sizeof why);
        snprintf(text, text_bytes, "; nor does rank 0 get to its own door: %.150s", why);
    }
    if (fd >= 0) close(fd);
}

static enum tutti_status say_who_is_missing(const struct roll *roll, double seconds)
{
    struct rank_list missing = RANK_LIST_EMPTY;
    const int size = roll->place->size;
    char own[208];
    for (int r = 0; r < size; r++)
        if (!roll->is_known[r]) rank_list_add(&missing, r);
    look_at_own_door(&roll->options->self.address, own, sizeof own);
    return error_set(TUTTI_INIT_TIMEOUT,
                     "start-up: %d of %d ranks did not report to rank 0 within %.1f s: rank%s %s%s",
                     missing.count, size, seconds, missing.count > 1 ? "s" : "", missing.text, own);
}

/* Until all have reported. */
static enum tutti_status collect(struct roll *roll)
{
    const uint64_t begin_ns = clock_now_ns();
    const int size = roll->place->size;
    roll->known_count = 1;
    roll->is_known[0] = true;
    while (roll->known_count < size) {
        take_guests(roll);
        for (int r = 1; r < size; r++) {
            if (roll->guests[r].is_unfit && !roll->is_known[r]) {
                roll->is_known[r] = true;
                roll->known_count++;
            }
            hear_report(roll, r);
        }
        if (roll->known_count < size && clock_now_ns() > roll->options->deadline_ns)
            return say_who_is_missing(roll, (double)(clock_now_ns() - begin_ns) * 1e-9);
        nap();
    }
    return roll->unfit[0] == '\0' ? TUTTI_OK
                                  : error_set(TUTTI_INVALID_OPTIONS, "start-up: %s", roll->unfit);
}

static enum tutti_status lead(struct roll *roll)
{
    const size_t size = (size_t)roll->place->size;
    roll->reports = calloc(size, sizeof *roll->reports);
    roll->is_known = calloc(size, sizeof *roll->is_known);
    if (roll->reports == NULL || roll->is_known == NULL)
        return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    const enum tutti_status status = collect(roll);
    roll->is_complete = true;
    return answer(roll, true, status, clock_now_ns() + PATIENCE_NS * 10);
}

/* ------------------------------------------------------------------------------------------- the others */

/* At how many ports rank 0 may be. */
static unsigned port_count(const struct roll *roll)
{
    return roll->options->meeting != NULL ? 1 : NETWORK_MASTER_PORTS;
}

static enum tutti_status resolve_master(const struct roll *roll, struct net_address *address)
{
    const struct launcher_place *place = roll->place;
    if (roll->options->meeting != NULL) {
        *address = *roll->options->meeting;
        return TUTTI_OK;
    }
    const uint16_t port = (uint16_t)place->master_port;
    size_t count;
    if (net_address_resolve(place->master_address, port, roll->options->self.address.family,
                            address, 1, &count) == TUTTI_OK)
        return TUTTI_OK;
    return net_address_resolve(place->master_address, port, AF_UNSPEC, address, 1, &count);
}

/* At all ports but those where it just was not. */
static enum tutti_status call_rank_0(struct roll *roll, const struct net_address *master)
{
    if (clock_now_ns() >= roll->forget_ns) roll->others = 0;
    for (unsigned i = 0; i < port_count(roll); i++) {
        struct net_address address = *master;
        address.port = (uint16_t)(master->port + i);
        if (address.port == 0 || ((roll->called | roll->others) & 1u << i) != 0) continue;
        roll->called |= 1u << i;
        atomic_store_explicit(&roll->calls[i].status, TUTTI_OK, memory_order_relaxed);
        TRY(network_visit(&roll->calls[i], 0, 0, &address, roll->options->deadline_ns));
    }
    return TUTTI_OK;
}

/* Whoever let this rank in and closed before it was heard is not rank 0, or not yet: first the others are asked, for a moment that
 * grows. */
static void leave_port(struct roll *roll, struct line *line)
{
    hang_up(line);
    if (!is_none(&roll->run)) return;
    if (roll->others == 0) {
        roll->revisit_ns = roll->revisit_ns == 0 ? REVISIT_NS : roll->revisit_ns * 2;
        if (roll->revisit_ns > REVISIT_NS_MAX) roll->revisit_ns = REVISIT_NS_MAX;
        roll->forget_ns = clock_now_ns() + roll->revisit_ns;
    }
    roll->others |= 1u << roll->port;
}

/* Whether rank 0's door has let this rank in; what failed at all ports is the reason why not. */
static enum tutti_status look_for_rank_0(struct roll *roll, struct line *line)
{
    int peer;
    unsigned stream, failed = 0, visited = 0, reason = 0;
    network_progress(clock_now_ns());
    for (unsigned i = 0; i < port_count(roll); i++) {
        struct network_client *call = &roll->calls[i];
        if ((roll->called & 1u << i) == 0) continue;
        if (network_take(call, &peer, &stream, &line->channel)) {
            roll->port = i;
            roll->called = 0;
            for (unsigned j = 0; j < port_count(roll); j++) network_give_up(&roll->calls[j], 0);
            return TUTTI_OK;
        }
        const int status = atomic_load_explicit(&call->status, memory_order_acquire);
        if (visited++ == 0 || status == TUTTI_AUTH_FAILED)
            reason = i; /* more than nobody's answer */
        failed += status != TUTTI_OK;
        if (status == TUTTI_INVALID_OPTIONS) /* it was rank 0, and no other port will be */
            return error_set(TUTTI_INVALID_OPTIONS,
                             "start-up: rank 0 does not let this rank in: %s", call->why);
    }
    if (failed < visited || roll->others != 0) return TUTTI_IN_PROGRESS;
    return error_set((enum tutti_status)roll->calls[reason].status,
                     "start-up: rank 0 cannot be reached: %s", roll->calls[reason].why);
}

/* Why connecting to a rank comes to nothing, behind a "; "; "": it does not. */
static void find_trouble(const struct roll *roll, int rank, char text[NETWORK_TROUBLE_MAX + 2])
{
    char why[NETWORK_TROUBLE_MAX] = "";
    bool is_known = network_trouble(&roll->client, rank, why);
    for (unsigned i = 0; rank == 0 && !is_known && i < port_count(roll); i++)
        is_known = network_trouble(&roll->calls[i], rank, why);
    snprintf(text, NETWORK_TROUBLE_MAX + 2, "%s%s", is_known ? "; " : "", why);
}

static enum tutti_status is_too_late(const struct roll *roll, int awaited, const char *what)
{
    if (clock_now_ns() <= roll->options->deadline_ns + PATIENCE_NS) return TUTTI_OK;
    char address[NET_ADDRESS_TEXT_MAX + 256], trouble[NETWORK_TROUBLE_MAX + 2];
    find_trouble(roll, awaited, trouble);
    if (roll->options->meeting != NULL)
        net_address_print(roll->options->meeting, address);
    else
        snprintf(address, sizeof address, "%s, port %d", roll->place->master_address,
                 roll->place->master_port);
    return error_set(TUTTI_INIT_TIMEOUT, "start-up: rank 0 (%s) %s%s", address, what, trouble);
}

/* Whether the answer is over: rank 0 first says which run this is. */
static enum tutti_status read_answer(struct roll *roll, const struct roll_head *answered)
{
    if (answered->kind == ROLL_FAILURE) return TUTTI_OK;
    if (answered->kind == ROLL_HEARD && is_none(&roll->run) && !is_none(&answered->run)) {
        enter_run(roll, &answered->run);
        return TUTTI_IN_PROGRESS;
    }
    if (is_none(&roll->run) || !is_same(&answered->run, &roll->run))
        return error_set(TUTTI_AUTH_FAILED, "start-up: rank 0 answers for another run");
    return answered->kind == ROLL_HEARD ? TUTTI_IN_PROGRESS : TUTTI_OK;
}

/* Reports to rank 0 and reads what it answers. */
static enum tutti_status report(struct roll *roll, struct line *line, struct roll_head *answered)
{
    struct net_address master;
    TRY(resolve_master(roll, &master));
    while (true) {
        enum tutti_status status = TUTTI_OK;
        if (line->channel.fd < 0) {
            TRY(call_rank_0(roll, &master));
            TRY(is_too_late(roll, 0, "was not to be found until the deadline"));
            status = look_for_rank_0(roll, line);
            if (status != TUTTI_OK && status != TUTTI_IN_PROGRESS) return status;
        } else if (!line->is_over) {
            const struct roll_head mine = make_message(roll, ROLL_ENTRY);
            status = transmit(roll, line, &mine, &roll->options->self);
            line->is_over = status == TUTTI_OK; /* now the answer */
        } else {
            status = receive(roll, line, answered, roll->entries, (uint32_t)roll->place->size);
            if (status == TUTTI_OK) {
                status = read_answer(roll, answered);
                if (status != TUTTI_IN_PROGRESS) return status;
            }
            TRY(is_too_late(roll, 0, "has not said who is there"));
        }
        if (status == TUTTI_OK) continue;
        if (status != TUTTI_IN_PROGRESS) { /* it did not know yet what for: once more */
            leave_port(roll, line);
            nanosleep(&(struct timespec){0, REVISIT_NS}, NULL);
        }
        nap();
    }
}

/* Fetches the table from the rank that rank 0 has named. */
static enum tutti_status fetch(struct roll *roll, struct line *line,
                               const struct net_address *address, struct roll_head *answered)
{
    const int parent = parent_of(roll->place->rank);
    bool visits = false;
    while (true) {
        enum tutti_status status = TUTTI_IN_PROGRESS;
        if (line->channel.fd < 0) {
            int peer;
            unsigned stream;
            if (!visits)
                TRY(network_visit(&roll->client, parent, 0, address, roll->options->deadline_ns));
            visits = true;
            network_progress(clock_now_ns());
            const int failed = atomic_load_explicit(&roll->client.status, memory_order_acquire);
            if (failed != TUTTI_OK)
                return error_set((enum tutti_status)failed, "start-up: rank %d: %s", parent,
                                 roll->client.why);
            if (network_take(&roll->client, &peer, &stream, &line->channel) && peer != parent) {
                seat(roll, peer, line->channel); /* a child that was quick */
                line->channel = channel_none();
            }
        } else {
            status = receive(roll, line, answered, roll->entries, (uint32_t)roll->place->size);
            if (status == TUTTI_OK) break;
            if (status != TUTTI_IN_PROGRESS) {
                hang_up(line);
                visits = false;
                nanosleep(&(struct timespec){0, REVISIT_NS}, NULL);
            }
        }
        TRY(is_too_late(roll, parent, "said who is there, but the list did not come"));
        nap();
    }
    return TUTTI_OK;
}

/* Whether the table says of this rank what it has said itself: another one may have come under its number. */
static bool has_own(const struct roll *roll)
{
    const struct roll_entry *own = &roll->entries[roll->place->rank];
    return own->host == roll->options->self.host && own->pid == roll->options->self.pid &&
           net_address_equal(&own->address, &roll->options->self.address);
}

static enum tutti_status follow(struct roll *roll)
{
    struct roll_head answered;
    struct line line = {.channel = channel_none()};
    enum tutti_status status = report(roll, &line, &answered);
    hang_up(&line);
    TRY(status);
    if (answered.kind == ROLL_VISIT) {
        const struct net_address parent = answered.address;
        status = fetch(roll, &line, &parent, &answered);
        hang_up(&line);
    }
    if (status == TUTTI_OK && answered.kind == ROLL_FAILURE)
        status = error_set((enum tutti_status)answered.status, "%s", answered.text);
    else if (status == TUTTI_OK &&
             !(answered.kind == ROLL_TABLE && is_same(&answered.run, &roll->run) && has_own(roll)))
        status = error_set(TUTTI_AUTH_FAILED, "start-up: an answer that makes no sense");
    return answer(roll, false, status, roll->options->deadline_ns + PATIENCE_NS);
}

/* --------------------------------------------------------------------------------------------- the whole */

static enum tutti_status begin(struct roll *roll)
{
    const struct launcher_place *place = roll->place;
    static const char what[] = "roll call";
    rendezvous_key_derive(&place->key, what, sizeof what, &roll->report_identity);
    roll->client.rank = place->rank;
    roll->client.size = place->size;
    roll->client.is_encrypted = roll->options->is_encrypted;
    roll->guests = calloc((size_t)place->size, sizeof *roll->guests);
    if (roll->guests == NULL) return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    for (int r = 0; r < place->size; r++) roll->guests[r].channel = channel_none();
    if (place->rank == 0) {
        TRY(rendezvous_key_create(&roll->run));
        roll->client.identity = roll->report_identity; /* those below it have come up already */
        network_enter(&roll->client);
    }
    for (unsigned i = 0; i < NETWORK_MASTER_PORTS; i++) {
        roll->calls[i].identity = roll->report_identity;
        roll->calls[i].is_encrypted = roll->options->is_encrypted;
        roll->calls[i].rank = place->rank; /* of size 0: nobody visits these */
        network_enter(&roll->calls[i]);
    }
    roll->is_entered = true;
    return TUTTI_OK;
}

static void end(struct roll *roll)
{
    for (unsigned i = 0; roll->is_entered && i < NETWORK_MASTER_PORTS; i++)
        network_leave(&roll->calls[i]);
    if (!is_none(&roll->run)) network_leave(&roll->client);
    for (int r = 0; roll->guests != NULL && r < roll->place->size; r++) hang_up(&roll->guests[r]);
    free(roll->guests);
    free(roll->reports);
    free(roll->is_known);
}

static enum tutti_status over_doors(struct roll *roll, struct rendezvous_key *run)
{
    enum tutti_status status = begin(roll);
    if (status == TUTTI_OK) status = roll->place->rank == 0 ? lead(roll) : follow(roll);
    *run = roll->run;
    end(roll);
    return status;
}

static enum tutti_status through(struct exchange *exchange, const struct roll_options *options,
                                 struct roll_entry *entries, struct rendezvous_key *run)
{
    static const char key[] = "roll", run_key[] = "run";
    const uint64_t deadline_ns = options->deadline_ns;
    size_t run_bytes;
    TRY(exchange_put(exchange, key, &options->self, sizeof options->self, deadline_ns));
    if (options->place->rank == 0) {
        TRY(rendezvous_key_create(run));
        TRY(exchange_put(exchange, run_key, run, sizeof *run, deadline_ns));
    }
    TRY(exchange_fence(exchange, deadline_ns));
    TRY(exchange_get(exchange, 0, run_key, run, sizeof *run, &run_bytes, deadline_ns));
    if (run_bytes != sizeof *run || is_none(run))
        return error_set(TUTTI_AUTH_FAILED, "start-up: rank 0 does not say which run this is");
    for (int r = 0; r < options->place->size; r++) {
        size_t bytes;
        TRY(exchange_get(exchange, r, key, &entries[r], sizeof entries[r], &bytes, deadline_ns));
        if (bytes != sizeof entries[r] || roll_entry_check(&entries[r]) != TUTTI_OK)
            return error_set(TUTTI_AUTH_FAILED,
                             "start-up: what rank %d says of itself makes no sense", r);
    }
    return exchange_fence(exchange, deadline_ns);
}

/* Over what there is. */
static enum tutti_status call(const struct roll_options *options, struct roll_entry *entries,
                              struct rendezvous_key *run, unsigned *message_count)
{
    const struct launcher_place *place = options->place;
    struct exchange *exchange = NULL;
    if (options->exchange_means != 0 && options->meeting == NULL) {
        enum tutti_status status =
            exchange_open(place, options->exchange_means, options->deadline_ns, &exchange);
        if (status == TUTTI_OK) {
            status = through(exchange, options, entries, run);
            exchange_close(exchange);
            return status;
        }
        if (status != TUTTI_UNSUPPORTED || place->master_address[0] == '\0') return status;
    }
    if (place->master_address[0] == '\0' && options->meeting == NULL)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "start-up: the ranks are on several hosts, and nothing says where they can meet: "
            "MASTER_ADDR and MASTER_PORT, or TUTTI_RENDEZVOUS_DIR");
    struct roll roll = {
        .options = options, .place = place, .entries = entries, .message_count = message_count};
    return over_doors(&roll, run);
}

enum tutti_status roll_call(const struct roll_options *options, struct roll_entry *entries,
                            struct rendezvous_key *meeting, unsigned *message_count)
{
    struct rendezvous_key run;
    *message_count = 0;
    entries[options->place->rank] = options->self;
    TRY(call(options, entries, &run, message_count));
    rendezvous_key_derive(&options->place->key, &run, sizeof run, meeting);
    return TUTTI_OK;
}

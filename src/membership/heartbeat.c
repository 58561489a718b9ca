#include "membership/heartbeat.h"

#include <assert.h>
#include <stdlib.h>

#include "base/held.h"
#include "base/status.h"

/* In periods. */
enum {
    UNCLEAR = 10,   /* so long a verdict waits for suspicions that are younger */
    FOLLOW = 4,     /* so long those wait who do not decide first */
    STALLED = 5,    /* of a stalled host one hears less often: evidence comes once a second */
    POKE = 4,       /* silent for so long, and once more after: */
    POKE_AGAIN = 7, /* a kernel may acknowledge something */
    MARGIN =
        3, /* an acknowledgement says something of its own when it is so much younger than the heartbeat */
    PAUSE = 3,       /* between two calls: this process did not run */
    EXTRA_HOSTS = 4, /* to be told besides neighbours while somebody is suspected */
    FLAG_END = 1
};

struct host {
    uint16_t number, vouch; /* the newest that is known */
    bool is_heard, is_stalled;
    bool is_condemned, is_told; /* there was a verdict on it; heartbeat_condemned said so */
    unsigned pokes;             /* since the last heartbeat */
    uint64_t number_ns;         /* when the first number moved here */
    uint64_t life_ns;           /* or any sign of life came */
    uint64_t answered_ns;       /* the evidence that was counted last */
    enum heartbeat_state reported;
};

struct heartbeat {
    struct heartbeat_options options;
    uint64_t now_ns, round_ns; /* the last call; when the next round of heartbeats is due */
    uint64_t due_ns, ready_ns; /* since when a suspicion is old enough; and none too young */
    int turn;                  /* of hosts that are told out of the order */
    bool hurries, has_ended, is_judged;
    struct heartbeat_verdict verdict; /* the first */
    int *rank_counts;
    /* to send to in this round */
    int queue_next, queue_count;
    struct {
        int host;
        bool is_poke;
    } * queue;
    bool *is_queued;
    struct host *hosts;
};

/* ----------------------------------------------------------------------------------- life cycle */

enum tutti_status heartbeat_create(const struct heartbeat_options *options,
                                   struct heartbeat **heartbeat)
{
    const size_t count = (size_t)options->host_count;
    assert(options->host_count > 1 && options->host_count <= HEARTBEAT_HOSTS_MAX);
    assert(options->host >= 0 && options->host < options->host_count);
    struct heartbeat *made = calloc(1, sizeof *made);
    *heartbeat = NULL;
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "heartbeats: out of memory");
    made->options = *options;
    made->now_ns = options->now_ns;
    made->round_ns = options->first_ns;
    made->rank_counts = calloc(count, sizeof *made->rank_counts);
    made->queue = calloc(count, sizeof *made->queue);
    made->is_queued = calloc(count, sizeof *made->is_queued);
    made->hosts = calloc(count, sizeof *made->hosts);
    if (made->rank_counts == NULL || made->queue == NULL || made->is_queued == NULL ||
        made->hosts == NULL) {
        heartbeat_free(made);
        return error_set(TUTTI_NO_MEMORY, "heartbeats: out of memory");
    }
    for (size_t h = 0; h < count; h++) made->rank_counts[h] = options->rank_counts[h];
    made->options.rank_counts = made->rank_counts;
    made->hosts[options->host].is_heard = true;
    *heartbeat = made;
    return TUTTI_OK;
}

void heartbeat_free(struct heartbeat *heartbeat)
{
    if (heartbeat == NULL) return;
    free(heartbeat->rank_counts);
    free(heartbeat->queue);
    free(heartbeat->is_queued);
    free(heartbeat->hosts);
    free(heartbeat);
}

size_t heartbeat_bytes(const struct heartbeat *heartbeat)
{
    return held(heartbeat) + held(heartbeat->rank_counts) + held(heartbeat->queue) +
           held(heartbeat->is_queued) + held(heartbeat->hosts);
}

void heartbeat_end(struct heartbeat *heartbeat)
{
    if (!heartbeat->has_ended) heartbeat->hurries = true;
    heartbeat->has_ended = true;
}

/* --------------------------------------------------------------------------------------- states */

static uint64_t periods(const struct heartbeat *heartbeat, unsigned count)
{
    return heartbeat->options.period_ns * count;
}

/* How long a host is suspected; 0: it is not. */
static uint64_t suspected_ns(const struct heartbeat *heartbeat, int h)
{
    const struct host *host = &heartbeat->hosts[h];
    const uint64_t limit_ns =
        periods(heartbeat, HEARTBEAT_SUSPECT + (host->is_stalled ? STALLED : 0));
    if (h == heartbeat->options.host || !host->is_heard || heartbeat->has_ended ||
        heartbeat->now_ns <= host->life_ns + limit_ns)
        return 0;
    return heartbeat->now_ns - host->life_ns - limit_ns;
}

static bool is_suspected(const struct heartbeat *heartbeat, int h)
{
    return suspected_ns(heartbeat, h) > 0;
}

enum heartbeat_state heartbeat_state(const struct heartbeat *heartbeat, int host)
{
    if (!heartbeat->hosts[host].is_heard) return HEARTBEAT_UNHEARD;
    if (is_suspected(heartbeat, host)) return HEARTBEAT_SUSPECTED;
    return heartbeat->hosts[host].is_stalled ? HEARTBEAT_STALLED : HEARTBEAT_ALIVE;
}

uint64_t heartbeat_silence_ns(const struct heartbeat *heartbeat, int host)
{
    const uint64_t life_ns = heartbeat->hosts[host].life_ns;
    return heartbeat->now_ns > life_ns ? heartbeat->now_ns - life_ns : 0;
}

bool heartbeat_change(struct heartbeat *heartbeat, int *host, enum heartbeat_state *before,
                      enum heartbeat_state *now)
{
    for (int h = 0; h < heartbeat->options.host_count; h++) {
        const enum heartbeat_state state = heartbeat_state(heartbeat, h);
        if (h == heartbeat->options.host || state == heartbeat->hosts[h].reported) continue;
        *host = h;
        *before = heartbeat->hosts[h].reported;
        *now = heartbeat->hosts[h].reported = state;
        return true;
    }
    return false;
}

bool heartbeat_condemned(struct heartbeat *heartbeat, int *host)
{
    for (int h = 0; h < heartbeat->options.host_count; h++) {
        if (!heartbeat->hosts[h].is_condemned || heartbeat->hosts[h].is_told) continue;
        heartbeat->hosts[h].is_told = true;
        *host = h;
        return true;
    }
    return false;
}

bool heartbeat_has_open_suspects(const struct heartbeat *heartbeat)
{
    for (int h = 0; h < heartbeat->options.host_count; h++)
        if (is_suspected(heartbeat, h) && !heartbeat->hosts[h].is_condemned) return true;
    return false;
}

/* -------------------------------------------------------------------------------------- verdict */

/* Whether the hosts that are heard and not suspected may go on alone. */
static bool is_majority(const struct heartbeat *heartbeat)
{
    long all = 0, own = 0;
    for (int h = 0; h < heartbeat->options.host_count; h++) {
        all += heartbeat->rank_counts[h];
        if (heartbeat->hosts[h].is_heard && !is_suspected(heartbeat, h))
            own += heartbeat->rank_counts[h];
    }
    const bool has_lowest = heartbeat->hosts[0].is_heard && !is_suspected(heartbeat, 0);
    return own * 2 > all || (own * 2 == all && has_lowest);
}

static bool any_suspected(const struct heartbeat *heartbeat)
{
    for (int h = 0; h < heartbeat->options.host_count; h++)
        if (is_suspected(heartbeat, h)) return true;
    return false;
}

bool heartbeat_is_minority(const struct heartbeat *heartbeat)
{
    if (heartbeat->is_judged) return heartbeat->verdict.is_minority;
    return any_suspected(heartbeat) && !is_majority(heartbeat);
}

bool heartbeat_judge(const struct heartbeat *heartbeat, struct heartbeat_verdict *verdict)
{
    if (heartbeat->is_judged) *verdict = heartbeat->verdict;
    return heartbeat->is_judged;
}

/* Whether a suspicion is as old as a verdict wants it, and none is so young that others might not
 * share it. */
static bool is_ripe(struct heartbeat *heartbeat)
{
    const uint64_t old_ns = periods(heartbeat, HEARTBEAT_VERDICT - HEARTBEAT_SUSPECT);
    bool any_old = false, any_young = false;
    for (int h = 0; h < heartbeat->options.host_count; h++) {
        const uint64_t ns = heartbeat->hosts[h].is_condemned ? 0 : suspected_ns(heartbeat, h);
        any_old |= ns >= old_ns;
        any_young |= ns > 0 && ns < old_ns;
    }
    if (!any_old)
        heartbeat->due_ns = 0;
    else if (heartbeat->due_ns == 0)
        heartbeat->due_ns = heartbeat->now_ns;
    return any_old &&
           (!any_young || heartbeat->now_ns - heartbeat->due_ns >= periods(heartbeat, UNCLEAR));
}

/* The lowest host of this side decides first. */
static bool decides_first(const struct heartbeat *heartbeat)
{
    for (int h = 0; h < heartbeat->options.host; h++)
        if (heartbeat_state(heartbeat, h) == HEARTBEAT_ALIVE) return false;
    return true;
}

/* Declares the suspects of one verdict gone. The culprit is the lowest of them. */
static struct heartbeat_verdict condemn(struct heartbeat *heartbeat)
{
    struct heartbeat_verdict verdict = {.is_minority = !is_majority(heartbeat), .culprit = -1};
    for (int h = 0; h < heartbeat->options.host_count; h++) {
        if (!is_suspected(heartbeat, h) || heartbeat->hosts[h].is_condemned) continue;
        heartbeat->hosts[h].is_condemned = true;
        verdict.suspect_count++;
        if (verdict.culprit < 0) verdict.culprit = h;
    }
    verdict.silent_ns = heartbeat_silence_ns(heartbeat, verdict.culprit);
    return verdict;
}

/* Hosts on which there was a verdict are no suspects any more; others may become suspects later. */
static void judge(struct heartbeat *heartbeat)
{
    if (!is_ripe(heartbeat)) {
        heartbeat->ready_ns = 0;
        return;
    }
    if (heartbeat->ready_ns == 0) heartbeat->ready_ns = heartbeat->now_ns;
    const uint64_t patience_ns = decides_first(heartbeat) ? 0 : periods(heartbeat, FOLLOW);
    if (heartbeat->now_ns - heartbeat->ready_ns < patience_ns) return;
    const struct heartbeat_verdict verdict = condemn(heartbeat);
    if (!heartbeat->is_judged)
        heartbeat->verdict = verdict;
    else
        heartbeat->verdict.is_minority |= verdict.is_minority;
    heartbeat->is_judged = true;
    heartbeat->due_ns = heartbeat->ready_ns = 0;
}

/* -------------------------------------------------------------------------------------- sending */

static void queue(struct heartbeat *heartbeat, int host, bool is_poke)
{
    if (host == heartbeat->options.host || heartbeat->is_queued[host]) return;
    heartbeat->is_queued[host] = true;
    heartbeat->queue[heartbeat->queue_count].host = host;
    heartbeat->queue[heartbeat->queue_count++].is_poke = is_poke;
}

/* Whether a host tells this one its heartbeats. */
static bool is_told_by(const struct heartbeat *heartbeat, int host)
{
    const int count = heartbeat->options.host_count;
    const int distance = (heartbeat->options.host - host + count) % count;
    return distance > 0 && (distance & (distance - 1)) == 0;
}

static void queue_pokes(struct heartbeat *heartbeat)
{
    for (int h = 0; h < heartbeat->options.host_count; h++) {
        struct host *host = &heartbeat->hosts[h];
        if (!host->is_heard || !is_told_by(heartbeat, h)) continue;
        const unsigned wanted =
            (heartbeat->now_ns > host->number_ns + periods(heartbeat, POKE) ? 1u : 0u) +
            (heartbeat->now_ns > host->number_ns + periods(heartbeat, POKE_AGAIN) ? 1u : 0u);
        if (host->pokes >= wanted) continue;
        host->pokes = wanted;
        queue(heartbeat, h, true);
    }
}

/* The neighbours may be gone, and the rest of the graph in pieces. So others are told in turns,
 * until all were told. */
static void queue_others(struct heartbeat *heartbeat)
{
    if (!any_suspected(heartbeat)) return;
    for (int i = 0; i < EXTRA_HOSTS; i++) {
        heartbeat->turn = (heartbeat->turn + 1) % heartbeat->options.host_count;
        queue(heartbeat, heartbeat->turn, false);
    }
}

static void begin_round(struct heartbeat *heartbeat)
{
    const int count = heartbeat->options.host_count;
    heartbeat->hosts[heartbeat->options.host].number++;
    heartbeat->round_ns = heartbeat->now_ns + heartbeat->options.period_ns;
    heartbeat->hurries = false;
    heartbeat->queue_next = heartbeat->queue_count = 0;
    for (int h = 0; h < count; h++) heartbeat->is_queued[h] = false;
    queue_pokes(heartbeat);
    for (int distance = 1; distance < count; distance *= 2)
        queue(heartbeat, (heartbeat->options.host + distance) % count, false);
    queue_others(heartbeat);
}

static uint64_t later(uint64_t time_ns, uint64_t by_ns, uint64_t limit_ns)
{
    return time_ns + by_ns < limit_ns ? time_ns + by_ns : limit_ns;
}

/* This process did not run: for so long it could hear nobody. */
static void forgive_pause(struct heartbeat *heartbeat, uint64_t pause_ns)
{
    for (int h = 0; h < heartbeat->options.host_count; h++) {
        struct host *host = &heartbeat->hosts[h];
        host->number_ns = later(host->number_ns, pause_ns, heartbeat->now_ns);
        host->life_ns = later(host->life_ns, pause_ns, heartbeat->now_ns);
    }
    heartbeat->due_ns = heartbeat->ready_ns = 0;
}

bool heartbeat_progress(struct heartbeat *heartbeat, uint64_t now_ns)
{
    if (now_ns <= heartbeat->now_ns) return false;
    const uint64_t since_ns = now_ns - heartbeat->now_ns;
    heartbeat->now_ns = now_ns;
    if (since_ns > periods(heartbeat, PAUSE)) forgive_pause(heartbeat, since_ns);
    judge(heartbeat);
    if (now_ns < heartbeat->options.first_ns ||
        (now_ns < heartbeat->round_ns && !heartbeat->hurries))
        return false;
    begin_round(heartbeat);
    return true;
}

bool heartbeat_next(struct heartbeat *heartbeat, int *host, bool *is_poke)
{
    if (heartbeat->queue_next == heartbeat->queue_count) return false;
    *host = heartbeat->queue[heartbeat->queue_next].host;
    *is_poke = heartbeat->queue[heartbeat->queue_next++].is_poke;
    return true;
}

/* ----------------------------------------------------------------------------------- heartbeats */

/*  0       flags        4 + 4i      number of host i of this part, low byte first
 *  1       part         6 + 4i      evidence of it
 *  2, 3    host count   */

static void put(unsigned char *bytes, unsigned value)
{
    bytes[0] = (unsigned char)(value & 255);
    bytes[1] = (unsigned char)(value >> 8 & 255);
}

static uint16_t get(const unsigned char *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

int heartbeat_part_count(const struct heartbeat *heartbeat)
{
    return (heartbeat->options.host_count + HEARTBEAT_PART_HOSTS - 1) / HEARTBEAT_PART_HOSTS;
}

static int hosts_of_part(const struct heartbeat *heartbeat, int part)
{
    const int left = heartbeat->options.host_count - part * HEARTBEAT_PART_HOSTS;
    return left < HEARTBEAT_PART_HOSTS ? left : HEARTBEAT_PART_HOSTS;
}

/* Nobody knows a host by number 0 who has not heard of it. */
size_t heartbeat_write(const struct heartbeat *heartbeat, int part,
                       unsigned char bytes[HEARTBEAT_BYTES_MAX])
{
    const int count = hosts_of_part(heartbeat, part);
    const struct host *hosts = &heartbeat->hosts[part * HEARTBEAT_PART_HOSTS];
    bytes[0] = heartbeat->has_ended ? FLAG_END : 0;
    bytes[1] = (unsigned char)part;
    put(bytes + 2, (unsigned)heartbeat->options.host_count);
    for (int i = 0; i < count; i++) {
        put(bytes + 4 + 4 * i, hosts[i].number);
        put(bytes + 6 + 4 * i, hosts[i].vouch);
    }
    return (size_t)(4 + 4 * count);
}

/* Whether a number is newer than another. Numbers rise and wrap around. */
static bool is_newer(uint16_t one, uint16_t other)
{
    return (uint16_t)(one - other - 1) < UINT16_MAX / 2;
}

static void hear_number(struct heartbeat *heartbeat, struct host *host, uint16_t number,
                        uint64_t now_ns)
{
    const bool is_first = !host->is_heard && number != 0;
    if (!is_first && (!host->is_heard || !is_newer(number, host->number))) return;
    if (host->is_stalled) heartbeat->hurries = true;
    host->number = number;
    host->is_heard = true;
    host->is_stalled = false;
    host->pokes = 0;
    host->number_ns = host->life_ns = now_ns;
}

/* Evidence that came with a newer number, or before it, is of the past. */
static void hear_evidence(struct heartbeat *heartbeat, struct host *host, uint16_t vouch,
                          uint64_t now_ns)
{
    if (!host->is_heard || !is_newer(vouch, host->vouch)) return;
    host->vouch = vouch;
    if (now_ns < host->number_ns + periods(heartbeat, MARGIN)) return;
    if (!host->is_stalled) heartbeat->hurries = true;
    host->is_stalled = true;
    host->life_ns = now_ns;
}

void heartbeat_hear(struct heartbeat *heartbeat, const void *data, size_t byte_count,
                    uint64_t now_ns)
{
    const unsigned char *bytes = data;
    if (byte_count < 4 || bytes[1] >= heartbeat_part_count(heartbeat)) return;
    const int part = bytes[1], count = hosts_of_part(heartbeat, part);
    if (get(bytes + 2) != heartbeat->options.host_count || byte_count != (size_t)(4 + 4 * count))
        return;
    if ((bytes[0] & FLAG_END) != 0) heartbeat_end(heartbeat);
    for (int i = 0; i < count; i++) {
        const int h = part * HEARTBEAT_PART_HOSTS + i;
        if (h == heartbeat->options.host) continue;
        hear_number(heartbeat, &heartbeat->hosts[h], get(bytes + 4 + 4 * i), now_ns);
        hear_evidence(heartbeat, &heartbeat->hosts[h], get(bytes + 6 + 4 * i), now_ns);
    }
}

/* ------------------------------------------------------------------------------------- evidence */

bool heartbeat_wants_answer(const struct heartbeat *heartbeat, int host)
{
    const struct host *of = &heartbeat->hosts[host];
    return host != heartbeat->options.host && of->is_heard &&
           heartbeat->now_ns > of->number_ns + periods(heartbeat, POKE);
}

void heartbeat_answered(struct heartbeat *heartbeat, int host, uint64_t at_ns)
{
    struct host *of = &heartbeat->hosts[host];
    const uint64_t margin_ns = periods(heartbeat, MARGIN);
    if (at_ns <= of->number_ns + margin_ns || at_ns <= of->answered_ns + margin_ns) return;
    if (!of->is_stalled) heartbeat->hurries = true;
    of->answered_ns = at_ns;
    of->vouch++;
    of->is_stalled = true;
    if (at_ns > of->life_ns) of->life_ns = at_ns;
}

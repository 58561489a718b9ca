#include "comm/measured.h"

#include "call/program.h"
#include "health/failure.h"
#include "health/health_init.h"
#include "health/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "call/own_call.h"
#include "comm/knowledge.h"
#include "comm/site.h"
#include "comm/tournament.h"
#include "format/network_file.h"
#include "model/between.h"
#include "model/work.h"
#include "team/options.h"
#include "topo/probe.h"

enum {
    RACKS_HOSTS_MIN = 4, /* fewer are no racks of several */
    RACK_HOSTS_MAX = 32, /* of one rack: half of those that take part */
    HOSTS_MAX = 64,      /* that take part */
    TOURNAMENTS_MAX = 2,
    ROUNDS_MAX = 24, /* of several tournaments for racks; one is always played to its end */
    ROUNDS_FEW = 6,  /* are enough for numbers */
    ROUNDS_CHECK = 2
};

/* The words by which rank 0 tells all what it knows of the network: whole numbers, in the order of
 * `words`. */
enum word {
    WORD_FINDS_RACKS,
    WORD_TAKES_NUMBERS,
    WORD_IS_KEPT,
    WORD_NUMBERS, /* value, spread and how it is known of each */
    WORD_VALUE = 0,
    WORD_SPREAD,
    WORD_KNOWN,
    WORDS_A_NUMBER,
    WORD_RACKS = WORD_NUMBERS + BETWEEN_NUMBERS * WORDS_A_NUMBER /* of each host */
};

struct survey {
    struct tutti_comm *comm;
    int host_count;
    bool finds_racks, takes_numbers;
    bool is_kept; /* racks and numbers come from an earlier start */
    struct between between;
    int rack_count;
    int *rack_of;                /* of each host */
    uint64_t key;                /* of the hosts; rank 0 alone has it */
    int *sorted;                 /* the hosts in an order that does not depend on ranks */
    struct network_found before; /* what earlier starts found, racks in that order; rank 0's */
    int *players;                /* the hosts that take part */
    struct tournament tournament;
    double *figures; /* a matrix of latencies, and one of rates for each tournament */
    int64_t *words;
};

static double value_of(const struct survey *survey, enum between_number number)
{
    return (double)survey->between.numbers[number].value;
}

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "measuring between hosts: out of memory");
}

/* ------------------------------------------------------------------------------- rank 0's words */

static size_t word_count(const struct survey *survey)
{
    return (size_t)WORD_RACKS + (size_t)survey->host_count;
}

static void write_words(const struct survey *survey, int64_t *words)
{
    words[WORD_FINDS_RACKS] = survey->finds_racks;
    words[WORD_TAKES_NUMBERS] = survey->takes_numbers;
    words[WORD_IS_KEPT] = survey->is_kept;
    for (int i = 0; i < BETWEEN_NUMBERS; i++) {
        int64_t *const word = words + WORD_NUMBERS + i * WORDS_A_NUMBER;
        word[WORD_VALUE] = (int64_t)survey->between.numbers[i].value;
        word[WORD_SPREAD] = survey->between.numbers[i].spread_permille;
        word[WORD_KNOWN] = survey->between.numbers[i].known;
    }
    for (int h = 0; h < survey->host_count; h++) words[WORD_RACKS + h] = survey->rack_of[h];
}

static void read_words(struct survey *survey, const int64_t *words)
{
    survey->finds_racks = words[WORD_FINDS_RACKS] != 0;
    survey->takes_numbers = words[WORD_TAKES_NUMBERS] != 0;
    survey->is_kept = words[WORD_IS_KEPT] != 0;
    for (int i = 0; i < BETWEEN_NUMBERS; i++) {
        const int64_t *const word = words + WORD_NUMBERS + i * WORDS_A_NUMBER;
        survey->between.numbers[i] =
            (struct calibration_number){.value = (uint64_t)word[WORD_VALUE],
                                        .spread_permille = (unsigned)word[WORD_SPREAD],
                                        .known = (enum calibration_known)word[WORD_KNOWN]};
    }
    survey->rack_count = 1;
    for (int h = 0; h < survey->host_count; h++) {
        survey->rack_of[h] = (int)words[WORD_RACKS + h];
        if (survey->rack_of[h] >= survey->rack_count) survey->rack_count = survey->rack_of[h] + 1;
    }
}

/* All ranks have what rank 0 has. */
static enum tutti_status share(struct survey *survey)
{
    write_words(survey, survey->words);
    TRY(own_broadcast(survey->comm, survey->words, word_count(survey), TUTTI_INT64, 0));
    read_words(survey, survey->words);
    return TUTTI_OK;
}

/* Racks get the numbers 0, 1, .. as hosts come, in that order; NULL: in the order of the hosts'
 * numbers. */
static enum tutti_status number_racks(struct survey *survey, const int *order)
{
    int *const racks = calloc((size_t)survey->host_count, sizeof *racks), count = 0;
    if (racks == NULL) return no_memory();
    for (int i = 0; i < survey->host_count; i++) {
        int *const rack = &survey->rack_of[order != NULL ? order[i] : i], number = 0;
        while (number < count && racks[number] != *rack) number++;
        if (number == count) racks[count++] = *rack;
        *rack = number;
    }
    free(racks);
    survey->rack_count = count;
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------- an earlier start */

struct identity {
    uint64_t hash;
    int host;
};

static int by_hash(const void *a, const void *b)
{
    const struct identity *one = a, *other = b;
    if (one->hash != other->hash) return one->hash < other->hash ? -1 : 1;
    return one->host - other->host;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) hash = hash_take(hash, ((const unsigned char *)bytes)[i]);
    return hash;
}

/* Identifies a host until it boots again, or gets another network namespace or address. */
static uint64_t identify(const struct team_hosts *hosts, int host)
{
    struct discovery_entry entry;
    team_hosts_entry(hosts, hosts->firsts[host], &entry);
    const uint64_t hash = hash_bytes(entry.host, entry.host_name, strlen(entry.host_name));
    return hash_bytes(hash, entry.address.bytes, sizeof entry.address.bytes);
}

/* Sorts the hosts, and makes their key: with how they reach each other, and the racks of a file,
 * among which numbers are measured. */
static enum tutti_status make_key(struct survey *survey)
{
    const struct members *members = &survey->comm->team.members;
    const char *const transport = members->site.between->name;
    const size_t count = (size_t)survey->host_count;
    struct identity *const identities = calloc(count, sizeof *identities);
    if (identities == NULL) return no_memory();
    for (int h = 0; h < survey->host_count; h++)
        identities[h] = (struct identity){identify(members->hosts, h), h};
    qsort(identities, count, sizeof *identities, by_hash);
    survey->key = hash_bytes(count, transport, strlen(transport));
    for (size_t i = 0; i < count; i++) {
        survey->sorted[i] = identities[i].host;
        survey->key = hash_take(survey->key, identities[i].hash);
    }
    free(identities);
    TRY(number_racks(survey, survey->sorted));
    for (size_t i = 0; i < count; i++)
        survey->key = hash_take(survey->key, (uint64_t)survey->rack_of[survey->sorted[i]]);
    return number_racks(survey, NULL);
}

/* Rank 0: takes what earlier starts have found, if two of them found the same. */
static enum tutti_status look_for_kept(struct survey *survey)
{
    struct network_found *const before = &survey->before;
    TRY(make_key(survey));
    before->host_count = survey->host_count;
    before->rack_of = calloc((size_t)survey->host_count, sizeof *before->rack_of);
    if (before->rack_of == NULL) return no_memory();
    if (!network_file_find(survey->key, before)) before->start_count = 0;
    survey->is_kept = before->start_count > 1;
    if (!survey->is_kept) return TUTTI_OK;
    survey->between = before->between;
    for (int i = 0; i < survey->host_count; i++)
        survey->rack_of[survey->sorted[i]] = before->rack_of[i];
    return number_racks(survey, NULL);
}

/* Rank 0: keeps what was found now, or nothing. */
static enum tutti_status keep(struct survey *survey)
{
    struct network_found *const before = &survey->before, now = {.between = survey->between,
                                                                 .start_count = 1,
                                                                 .host_count = survey->host_count,
                                                                 .rack_of = before->rack_of};
    bool is_same = before->start_count > 0 && between_agree(&before->between, &survey->between);
    if (!between_is_steady(&survey->between)) {
        network_file_forget(survey->key);
        return TUTTI_OK;
    }
    TRY(number_racks(survey, survey->sorted));
    for (int i = 0; i < survey->host_count; i++) {
        const int rack = survey->rack_of[survey->sorted[i]];
        is_same = is_same && before->rack_of[i] == rack;
        now.rack_of[i] = rack;
    }
    if (is_same && before->start_count < NETWORK_STARTS_MAX)
        now.start_count = before->start_count + 1;
    network_file_keep(survey->key, &now);
    return number_racks(survey, NULL);
}

/* ---------------------------------------------------------------------------- who measures what */

static enum tutti_status decide(struct survey *survey)
{
    const struct members *members = &survey->comm->team.members;
    const bool has_file = option_text(OPTION_TOPO_FILE) != NULL;
    bool probes;
    TRY(options_probe(&probes));
    survey->finds_racks = probes && !has_file && survey->host_count >= RACKS_HOSTS_MIN &&
                          survey->host_count <= HOSTS_MAX;
    survey->takes_numbers =
        probes && !knowledge_is_fixed() &&
        between_is_wanted(&members->knowledge->calibration,
                          survey->finds_racks || members->levels->levels.level_count > 1);
    return survey->finds_racks || survey->takes_numbers ? look_for_kept(survey) : TUTTI_OK;
}

/* The racks of a file; one where there is none. */
static enum tutti_status use_known_racks(struct survey *survey)
{
    const struct members *members = &survey->comm->team.members;
    const struct algo_levels *levels = &members->levels->levels;
    for (int h = 0; h < survey->host_count; h++)
        survey->rack_of[h] =
            levels->level_count == 1 ? 0 : levels->group_of[1][members->hosts->firsts[h]];
    return number_racks(survey, NULL);
}

/* All hosts, or of many some: of racks that are known the first ones, as whole as they fit;
 * otherwise they are spread over all. */
static void pick_players(struct survey *survey)
{
    const int hosts = survey->host_count;
    int count = 0;
    for (int rack = 0; rack < survey->rack_count && survey->rack_count > 1 && hosts > HOSTS_MAX;
         rack++) {
        int of_rack = 0;
        for (int h = 0; h < hosts && count < HOSTS_MAX && of_rack < RACK_HOSTS_MAX; h++) {
            if (survey->rack_of[h] != rack) continue;
            survey->players[count++] = h;
            of_rack++;
        }
    }
    const int wanted = hosts < HOSTS_MAX ? hosts : HOSTS_MAX;
    for (int i = 0; count == 0 && i < wanted; i++)
        survey->players[i] = (int)((int64_t)i * hosts / wanted);
    survey->tournament.host_count = count > 0 ? count : wanted;
}

static void plan_rounds(struct survey *survey)
{
    struct tournament *const tournament = &survey->tournament;
    const int hosts = tournament->host_count, rounds = probe_round_count(hosts);
    const bool finds = survey->finds_racks;
    tournament->bytes_per_second = 0;
    tournament->round_count = finds || rounds < ROUNDS_FEW ? rounds : ROUNDS_FEW;
    tournament->tournament_count = probe_tournament_count(
        hosts, finds ? TOURNAMENTS_MAX : ROUNDS_FEW, finds ? ROUNDS_MAX : ROUNDS_FEW);
}

/* In the first round hosts often meet only hosts of other racks, in the second round hosts of their
 * own rack, too. */
static void plan_check(struct survey *survey)
{
    const double byte_fs = value_of(survey, BETWEEN_CARD_BYTE);
    const int rounds = probe_round_count(survey->tournament.host_count);
    survey->tournament.tournament_count = 1;
    survey->tournament.round_count = rounds < ROUNDS_CHECK ? rounds : ROUNDS_CHECK;
    survey->tournament.bytes_per_second = byte_fs > 0 ? 1e15 / byte_fs : 0;
}

/* This rank's number among the ranks that measure: the first rank of each host that takes part; -1:
 * it does not. */
static int own_number(const struct survey *survey)
{
    const struct team *team = &survey->comm->team;
    const int host = team->members.hosts->host_of[team->rank];
    if (team->members.hosts->firsts[host] != team->rank) return -1;
    for (int i = 0; i < survey->tournament.host_count; i++)
        if (survey->players[i] == host) return i;
    return -1;
}

/* -------------------------------------------------------------------------------------- figures */

static size_t cell_count(const struct survey *survey)
{
    return (size_t)survey->tournament.host_count * (size_t)survey->tournament.host_count;
}

static size_t figure_count(const struct survey *survey)
{
    return cell_count(survey) * (1 + (size_t)survey->tournament.tournament_count);
}

/* Two hosts have timed the same exchange, and the same trips: the figure of either counts half. */
static void make_even(double *matrix, int count)
{
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++) {
            double *const here = &matrix[a * count + b], *const there = &matrix[b * count + a];
            *here = *there = (*here + *there) / 2;
        }
}

/* Each cell has one rank that knows it, and is 0 elsewhere. */
static enum tutti_status measure(struct survey *survey)
{
    survey->figures = calloc(figure_count(survey), sizeof *survey->figures);
    if (survey->figures == NULL) return no_memory();
    TRY(tournament_play(survey->comm, own_number(survey), &survey->tournament,
                        survey->figures + cell_count(survey), survey->figures));
    TRY(own_sum(survey->comm, survey->figures, figure_count(survey), TUTTI_FLOAT64));
    for (int i = 0; i <= survey->tournament.tournament_count; i++)
        make_even(survey->figures + (size_t)i * cell_count(survey), survey->tournament.host_count);
    return TUTTI_OK;
}

/* The cost of a small message's path to its two ranks in the model, which adds it to the latency. Hosts that share cores
 * measure on them all at once. */
static uint64_t path_ps(const struct tutti_comm *comm)
{
    const struct path_row *row = path_row_of(comm->team.members.site.between, PATH_INLINE);
    return row != NULL ? model_path_ps(row, comm->team.members.shares_cores) : 0;
}

/* Racks, and numbers, from the figures. */
static enum tutti_status conclude(struct survey *survey)
{
    const int hosts = survey->tournament.host_count;
    struct probe probe = {.host_count = hosts,
                          .tournament_count = survey->tournament.tournament_count,
                          .bytes_per_second = survey->figures + cell_count(survey)};
    struct probe_links links;
    int racks[HOSTS_MAX];
    if (survey->finds_racks) {
        survey->rack_count = probe_racks(&probe, survey->rack_of); /* all hosts take part */
        if (survey->rack_count < 0) return no_memory();
    }
    for (int i = 0; i < hosts; i++) racks[i] = survey->rack_of[survey->players[i]];
    probe.latency_ns = survey->figures;
    TRY(probe_links_find(&probe, racks, survey->rack_count, &links));
    between_set(&survey->between, &links, path_ps(survey->comm));
    between_make_coarse(&survey->between);
    return TUTTI_OK;
}

/* Whether the rates of a round are as they should be. `rates` has room for the rates of all
 * pairs. */
static bool round_holds(const struct survey *survey, int round, const int *racks, double *rates)
{
    const int hosts = survey->tournament.host_count;
    const double *const measured = survey->figures + cell_count(survey);
    const struct probe probe = {
        .host_count = hosts, .tournament_count = 1, .bytes_per_second = rates};
    int order[HOSTS_MAX];
    probe_order(hosts, 0, order);
    memset(rates, 0, cell_count(survey) * sizeof *rates);
    for (int host = 0; host < hosts; host++) {
        const int other = probe_partner(order, hosts, round, host);
        if (other >= 0) rates[host * hosts + other] = measured[host * hosts + other];
    }
    return between_holds(&survey->between, &probe, racks);
}

/* Whether what is kept still holds; otherwise it is as if nothing was. */
static enum tutti_status judge(struct survey *survey)
{
    double *const rates = calloc(cell_count(survey), sizeof *rates);
    int racks[HOSTS_MAX];
    if (rates == NULL) return no_memory();
    for (int i = 0; i < survey->tournament.host_count; i++)
        racks[i] = survey->rack_of[survey->players[i]];
    for (int round = 0; round < survey->tournament.round_count && survey->is_kept; round++)
        survey->is_kept = round_holds(survey, round, racks, rates);
    free(rates);
    if (survey->is_kept) return TUTTI_OK;
    survey->before.start_count = 0;
    return use_known_racks(survey);
}

static enum tutti_status conclude_and_keep(struct survey *survey)
{
    TRY(conclude(survey));
    return keep(survey);
}

static enum tutti_status measure_and_share(struct survey *survey,
                                           enum tutti_status (*take)(struct survey *survey))
{
    TRY(measure(survey));
    if (survey->comm->team.rank == 0) TRY(take(survey));
    return share(survey);
}

/* Plays the rounds; then rank 0 takes what they tell, and tells it to all. */
static enum tutti_status play(struct survey *survey,
                              enum tutti_status (*take)(struct survey *survey))
{
    const enum tutti_status status = measure_and_share(survey, take);
    free(survey->figures);
    return status;
}

static enum tutti_status find_out(struct survey *survey)
{
    if (survey->is_kept) {
        pick_players(survey);
        plan_check(survey);
        TRY(play(survey, judge));
    }
    if (survey->is_kept) return TUTTI_OK;
    pick_players(survey);
    plan_rounds(survey);
    return play(survey, conclude_and_keep);
}

/* ------------------------------------------------------------------------------------------ use */

static void say_number(const struct survey *survey, enum between_number number, const char *what,
                       const char *unit, double value)
{
    const struct calibration_number *const here = &survey->between.numbers[number];
    if (here->known == CALIBRATION_MEASURED)
        log_write(LOG_INFO, "measured between hosts: %s %.1f %s, spread %.1f %%", what, value, unit,
                  here->spread_permille / 10.0);
}

static void tell(const struct survey *survey)
{
    char text[4 * HOSTS_MAX] = "", *end = text;
    if (survey->is_kept)
        log_write(LOG_INFO, "what an earlier start measured between these %d hosts still holds",
                  survey->host_count);
    if (survey->finds_racks) {
        for (int i = 0; i < survey->host_count; i++)
            end += snprintf(end, (size_t)(text + sizeof text - end), " %d", survey->rack_of[i]);
        log_write(LOG_INFO, "%d hosts measured, racks of theirs:%s", survey->host_count, text);
    }
    if (!survey->takes_numbers) return;
    say_number(survey, BETWEEN_CARD_BYTE, "a network card carries", "MB/s",
               1e9 / value_of(survey, BETWEEN_CARD_BYTE));
    say_number(survey, BETWEEN_UPLINK_BYTE, "an uplink carries", "MB/s",
               1e9 / value_of(survey, BETWEEN_UPLINK_BYTE));
    say_number(survey, BETWEEN_LATENCY_RACK, "a message takes within a rack", "us",
               value_of(survey, BETWEEN_LATENCY_RACK) / 1e6);
    say_number(survey, BETWEEN_LATENCY_CLUSTER, "a message takes to another rack", "us",
               value_of(survey, BETWEEN_LATENCY_CLUSTER) / 1e6);
}

static enum tutti_status take_racks(struct tutti_comm *comm, const int *rack_of)
{
    struct host_levels levels;
    TRY(host_levels_init_racks(&levels, comm->team.size, comm->team.members.hosts->host_of, rack_of));
    host_levels_release(comm->team.members.levels);
    *comm->team.members.levels = levels;
    return TUTTI_OK;
}

static enum tutti_status take_numbers(struct tutti_comm *comm, const struct between *between)
{
    const struct knowledge *const before = comm->team.members.knowledge, *after;
    TRY(knowledge_with(before, between, &after));
    comm->team.members.knowledge = after;
    knowledge_drop(before);
    return TUTTI_OK;
}

static enum tutti_status take_all(const struct survey *survey)
{
    struct tutti_comm *const comm = survey->comm;
    if (survey->finds_racks && survey->rack_count > 1) TRY(take_racks(comm, survey->rack_of));
    if (survey->takes_numbers) TRY(take_numbers(comm, &survey->between));
    return comm_find_site(comm);
}

/* Programs that were made with other numbers go. */
static enum tutti_status use(const struct survey *survey)
{
    struct tutti_comm *const comm = survey->comm;
    TRY(health_lock(&comm->health, comm->team.settings.timeout_ns));
    call_programs_free(comm);
    const enum tutti_status status = take_all(survey);
    health_unlock(&comm->health);
    if (status == TUTTI_OK && comm->team.rank == 0) tell(survey);
    return status;
}

static enum tutti_status survey_init(struct survey *survey, struct tutti_comm *comm)
{
    *survey = (struct survey){.comm = comm, .host_count = comm->team.members.hosts->host_count};
    survey->rack_of = calloc((size_t)survey->host_count, sizeof *survey->rack_of);
    survey->sorted = calloc((size_t)survey->host_count, sizeof *survey->sorted);
    survey->players = calloc(HOSTS_MAX, sizeof *survey->players);
    survey->words = calloc(word_count(survey), sizeof *survey->words);
    if (survey->rack_of == NULL || survey->sorted == NULL || survey->players == NULL ||
        survey->words == NULL)
        return no_memory();
    return use_known_racks(survey);
}

static void survey_release(struct survey *survey)
{
    free(survey->rack_of);
    free(survey->sorted);
    free(survey->before.rack_of);
    free(survey->players);
    free(survey->words);
}

/* Rank 0 decides what is worth measuring; then all ranks measure it. */
static enum tutti_status measure_for(struct tutti_comm *comm, struct survey *survey)
{
    TRY(survey_init(survey, comm));
    if (comm->team.rank == 0) TRY(decide(survey));
    TRY(share(survey));
    if (!survey->finds_racks && !survey->takes_numbers) return TUTTI_OK;
    TRY(find_out(survey));
    return use(survey);
}

enum tutti_status comm_measure(struct tutti_comm *comm)
{
    const struct team_hosts *const hosts = comm->team.members.hosts;
    struct survey survey;
    if (hosts == NULL || hosts->host_count == 1) return TUTTI_OK;
    const enum tutti_status status = measure_for(comm, &survey);
    survey_release(&survey);
    /* Calls of the application's count from 1. The progress thread may be telling another rank this
     * one's numbers. */
    TRY(health_lock_failed(&comm->health, comm->team.settings.timeout_ns));
    health_restart_numbers(&comm->health);
    health_unlock(&comm->health);
    /* A rank that is done here may have made a call since, which failed. The next call on the
     * communicator says so, whichever rank makes it. */
    return status != TUTTI_OK && health_check(&comm->health) != TUTTI_OK ? TUTTI_OK : status;
}

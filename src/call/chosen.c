#include "call/chosen.h"

#include <stdio.h>

#include "base/dtype.h"
#include "base/log.h"
#include "base/status.h"

/* ------------------------------------------------------------------- plans that were not chosen */

/* Gets the ranking of the model if the model decided, else an empty ranking. */
static bool rank_all(const struct choose_call *wanted, const struct choice *choice,
                     struct ranking *ranking)
{
    ranking->count = 0;
    return choice->reason != CHOICE_MODEL || choose_ranking(wanted, ranking) == TUTTI_OK;
}

static struct choice_rival unused_plan(const struct choose_call *wanted, const struct choice *choice,
                                       const struct ranking *ranking, const struct algorithm *loaded)
{
    struct choice_rival unused = {.algorithm = loaded->name};
    if (choice->reason != CHOICE_MODEL) {
        unused.why = choose_why_not(wanted, loaded);
        if (unused.why == NULL) unused.why = "the model was not asked";
        return unused;
    }
    unused.why = choose_why_not_unasked(wanted, loaded);
    for (int i = 0; unused.why == NULL && i < ranking->count; i++)
        if (ranking->ranked[i].algorithm == loaded) {
            unused.expected_ps = ranking->ranked[i].time_ps;
            return unused;
        }
    if (unused.why == NULL) unused.why = "cannot be predicted";
    return unused;
}

/* -------------------------------------------------------------------------------------- the log */

/* NULL: elements go as they are. */
static const char *encoding_name_of(const struct choose_call *wanted)
{
    return wanted->is_encoded ? tutti_encoding_name(wanted->question.encoding) : NULL;
}

static void say_choice(const struct tutti_comm *comm, const struct call *call,
                       const struct choose_call *wanted, const struct choice *choice)
{
    const struct call_description *what = &call->what;
    struct ranked next;
    const char *const encoding = encoding_name_of(wanted);
    char encoded[32] = "";
    if (encoding != NULL) snprintf(encoded, sizeof encoded, " in %s", encoding);
    if (choose_next(wanted, choice, &next) != TUTTI_OK || next.algorithm == NULL)
        log_write(LOG_INFO, "%s of %zu %s%s on %d ranks: %s, because %s",
                  collective_name(what->collective), what->count, tutti_dtype_name(what->dtype),
                  encoded, comm->team.size, choice->algorithm->name,
                  choice_reason_text(choice->reason));
    else
        log_write(LOG_INFO, "%s of %zu %s%s on %d ranks: %s, about %.1f us; next best %s, %.1f us",
                  collective_name(what->collective), what->count, tutti_dtype_name(what->dtype),
                  encoded, comm->team.size, choice->algorithm->name, (double)choice->time_ps * 1e-6,
                  next.algorithm->name, (double)next.time_ps * 1e-6);
}

static void say_unused(const struct choose_call *wanted, const struct choice *choice,
                       const struct choice_rival *unused, bool is_able)
{
    const size_t bytes = wanted->question.bytes;
    if (choice->reason != CHOICE_MODEL && is_able)
        log_write(LOG_INFO, "%s is not used for %zu bytes: %s is, because %s", unused->algorithm,
                  bytes, choice->algorithm->name, choice_reason_text(choice->reason));
    else if (unused->why != NULL)
        log_write(LOG_INFO, "%s is not used for %zu bytes: %s", unused->algorithm, bytes,
                  unused->why);
    else
        log_write(LOG_INFO, "%s is not used: about %.1f us for %zu bytes, and %s %.1f us",
                  unused->algorithm, (double)unused->expected_ps * 1e-6, bytes,
                  choice->algorithm->name, (double)choice->time_ps * 1e-6);
}

static bool competes(const struct algorithm *loaded, const struct choice *choice)
{
    return loaded != choice->algorithm && loaded->collective == choice->algorithm->collective;
}

void chosen_say(struct tutti_comm *comm, const struct call *call, const struct choose_call *wanted,
                const struct choice *choice)
{
    const struct tune_site *const site = wanted->site;
    struct ranking ranking = {.count = -1}; /* asked for only where there is a plan to speak of */
    say_choice(comm, call, wanted, choice);
    for (int i = 0; i < site->loaded_count && i < PROGRAM_TOLD_MAX; i++) {
        const struct algorithm *const loaded = site->loaded[i];
        const uint64_t bit = UINT64_C(1) << i;
        if (!competes(loaded, choice) || (comm->programs.told & bit) != 0) continue;
        comm->programs.told |= bit;
        if (ranking.count < 0 && !rank_all(wanted, choice, &ranking)) return;
        const struct choice_rival unused = unused_plan(wanted, choice, &ranking, loaded);
        say_unused(wanted, choice, &unused, choose_why_not(wanted, loaded) == NULL);
    }
}

/* ----------------------------------------------------------------------------- who asks the job */

static void list_unused(const struct choose_call *wanted, const struct choice *choice,
                        struct choice_note *note)
{
    const struct tune_site *const site = wanted->site;
    struct ranking ranking = {.count = -1};
    int count = 0;
    for (int i = 0; i < site->loaded_count; i++) {
        const struct algorithm *const loaded = site->loaded[i];
        if (!competes(loaded, choice)) continue;
        if (count == CHOICE_UNUSED_MAX) {
            note->unused_left_out++;
            continue;
        }
        if (ranking.count < 0 && !rank_all(wanted, choice, &ranking)) return;
        note->unused[count++] = unused_plan(wanted, choice, &ranking, loaded);
    }
}

void chosen_keep(struct tutti_comm *comm, const struct call *call, const struct choose_call *wanted,
                 const struct choice *choice, uint64_t signature)
{
    const struct call_description *const what = &call->what;
    struct choice_note note = {.collective = what->collective,
                               .dtype = what->dtype,
                               .count = what->varies ? 0 : what->count,
                               .bytes = wanted->question.bytes,
                               .signature = signature,
                               .algorithm = choice->algorithm->name,
                               .reason = choice_reason_text(choice->reason),
                               .expected_ps = choice->time_ps,
                               .radix = choice->radix,
                               .only_hosts = choice->only_hosts,
                               .varies = what->varies,
                               .bytes_are_assumed = wanted->counts_are_local,
                               .is_mapped = wanted->question.is_mapped,
                               .encoding = encoding_name_of(wanted)};
    if (note.bytes_are_assumed) note.bytes = CHOOSE_ASSUMED_BLOCK_BYTES;
    if (choice->next.algorithm != NULL)
        note.next =
            (struct choice_rival){.algorithm = choice->next.algorithm->name,
                                  .expected_ps = choice->next.is_least ? 0 : choice->next.time_ps,
                                  .only_hosts = choice->next.only_hosts};
    list_unused(wanted, choice, &note);
    choices_note(&comm->health.choices, &note);
}

/* --------------------------------------------------------------------------------- who measures */

void chosen_name_latest(const struct tutti_comm *comm, char name[static CHOSEN_NAME_SIZE])
{
    const struct recorder *const recorder = &comm->health.recorder;
    struct record call;
    struct choice_note choice;
    name[0] = '\0';
    if (!recorder_read(recorder, recorder_latest(recorder), &call) || call.algorithm == NULL)
        return;
    const bool is_known = choices_find(&comm->health.choices, &call, &choice) != 0;
    if (is_known && choice.radix != 0)
        snprintf(name, CHOSEN_NAME_SIZE, "%.100s/%u", call.algorithm, choice.radix);
    else
        snprintf(name, CHOSEN_NAME_SIZE, "%.100s", call.algorithm);
}

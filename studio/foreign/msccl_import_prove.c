/* msccl_import_prove.c - proves the plan, and says the verifier's words about steps of the file. */
#include <stdio.h>
#include <string.h>

#include "plan/verify.h"
#include "studio/foreign/msccl_import_state.h"

/* The step of the file that became that step of the plan; -1: there is none. */
static int step_of(const struct msccl_importer *importer, const struct plan *plan, int rank,
                   int lane, int step)
{
    if (rank < 0 || lane < 0 || step < 0) return -1;
    const int at = (int)plan->ranks[rank]->lanes[lane].first_step + step;
    const int first = msccl_import_first_step_of(importer, rank);
    int count = 0;
    for (int i = 0; i < msccl_import_step_count_of(importer, rank); i++)
        count += msccl_import_steps_in_plan(importer, first + i);
    return at < count ? importer->emitted[2 * (size_t)first + (size_t)at] : -1;
}

/* Writes the verifier's words, with the file's name for the other step of a race. */
static void name_other(const struct msccl_importer *importer, const struct verify_report *found,
                       int other, char *why, size_t why_bytes)
{
    char words[48];
    const char *begin = strstr(found->message, ": ");
    begin = begin != NULL ? begin + 2 : found->message;
    snprintf(words, sizeof words, "lane %d step %d", found->other_lane, found->other_step);
    const char *at = other >= 0 ? strstr(begin, words) : NULL;
    if (at == NULL)
        snprintf(why, why_bytes, "%s", begin);
    else
        snprintf(why, why_bytes, "%.*s%s%s", (int)(at - begin), begin,
                 msccl_import_name_of(importer, other, found->rank).text, at + strlen(words));
}

static bool was_told(const struct msccl_importer *importer, int step, int other)
{
    for (int i = 0; i < importer->told_count; i++)
        if (importer->told[i].step == step && importer->told[i].other == other) return true;
    return false;
}

/* A send of MSCCL copies its data. A send of a plan reads its memory until the message has come,
 * and the engine stores some results straight in their receivers' memory. If only that is at fault,
 * the file may be right. */
static bool is_about_copies(const char *message)
{
    return strstr(message, "may still be sending") != NULL ||
           strstr(message, "may place its result") != NULL ||
           strstr(message, "may have placed its result") != NULL;
}

/* Replicas whose bits may differ are right for MSCCL, and a plan promises that they do not. */
static bool is_about_bits(const char *message)
{
    return strstr(message, "is added up in another order") != NULL;
}

bool msccl_import_prove(struct msccl_importer *importer, const struct plan *plan)
{
    struct verify_report found;
    struct verify_options how = {.in_place = importer->algo->in_place};
    const enum verify_verdict verdict = plan_verify(plan, &how, &found);
    if (verdict == VERIFY_NO_MEMORY || verdict == VERIFY_TOO_COSTLY)
        return msccl_import_refuse_all(importer, MSCCL_NOT_KNOWN, -1, found.message);
    if (verdict == VERIFY_PROVEN) {
        how.in_place = !how.in_place;
        if (importer->told_count == 0)
            importer->report->proven_otherwise = plan_verify(plan, &how, &found) == VERIFY_PROVEN;
        return true;
    }
    importer->needs_copies = is_about_copies(found.message);
    const enum msccl_verdict what =
        importer->needs_copies || is_about_bits(found.message) ? MSCCL_NOT_EXPRESSIBLE : MSCCL_WRONG;
    const int step = step_of(importer, plan, found.rank, found.lane, found.step);
    const int other = step_of(importer, plan, found.other_rank, found.other_lane, found.other_step);
    char why[sizeof found.message];
    name_other(importer, &found, other, why, sizeof why);
    if (other >= 0 && what == MSCCL_WRONG && !was_told(importer, step, other))
        importer->race = (struct msccl_race){step, other};
    else if (importer->told_count > 0)
        return false; /* it may come of what was taken for granted */
    if (step >= 0) return msccl_import_refuse_step(importer, importer->report, what, step, why);
    return msccl_import_refuse_all(importer, what, found.rank, why);
}

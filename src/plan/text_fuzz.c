/* Whatever bytes come: plan_parse_within ends within its budget, and so does a proof of what it
 * accepts, which survives printing and reading once more. */
#include <stdlib.h>
#include <string.h>

#include "plan/text.h"
#include "plan/verify.h"

/* Small, so that a run is short whatever it meets: the ends of a budget are met, too. */
static struct plan_budget budget_of(uint64_t work_max)
{
    struct plan_budget budget = plan_budget_default();
    budget.work_max = work_max;
    budget.bytes_max = UINT64_C(32) << 20;
    return budget;
}

static char *print(const struct plan *plan, size_t *size)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    if (file == NULL) abort();
    plan_print(plan, file);
    if (fclose(file) != 0) abort();
    return text;
}

static void read_again(const struct plan *plan)
{
    struct plan *again;
    char message[200];
    size_t text_size, again_size;
    char *text = print(plan, &text_size);
    if (plan_parse(text, text_size, &again, message, sizeof message) != TUTTI_OK) abort();
    char *again_text = print(again, &again_size);
    if (text_size != again_size || memcmp(text, again_text, text_size) != 0) abort();
    free(text);
    free(again_text);
    plan_free(again);
}

static void prove(const struct plan *plan, bool in_place)
{
    struct verify_report report;
    struct plan_budget budget = budget_of(1 << 20);
    const struct verify_cost cost = verify_cost_of(plan);
    const struct verify_options options = {.in_place = in_place, .budget = &budget};
    const enum verify_verdict verdict = plan_verify(plan, &options, &report);
    if ((verdict == VERIFY_PROVEN) != (report.message[0] == '\0')) abort();
    if ((verdict == VERIFY_TOO_COSTLY) != (budget.end != PLAN_BUDGET_LASTS)) abort();
    if (verdict != VERIFY_TOO_COSTLY && budget.bytes != 0) abort();
    if (verdict == VERIFY_PROVEN && (cost.work > budget.work || cost.bytes > budget.bytes_max))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan *plan;
    char message[200];
    struct plan_budget budget = budget_of(1 << 18);
    if (plan_parse_within((const char *)data, size, &budget, &plan, message, sizeof message) !=
        TUTTI_OK) {
        if (plan != NULL || strncmp(message, "line ", 5) != 0) abort();
        return 0;
    }
    if (budget.end != PLAN_BUDGET_LASTS || budget.work > budget.work_max) abort();
    read_again(plan);
    prove(plan, false);
    prove(plan, true);
    plan_free(plan);
    return 0;
}

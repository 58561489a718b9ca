#include "elastic_table.h"

#include <stdbool.h>

enum { CAUSES = TUTTI_CAUSE_DEVICE + 1 };

static enum tutti_cause verdict_of(const uint8_t *verdicts, int size, int by, int on)
{
    const uint8_t verdict = verdicts[(size_t)by * (size_t)size + (size_t)on];
    return by != on && verdict < CAUSES ? (enum tutti_cause)verdict : TUTTI_CAUSE_NONE;
}

static bool accuses_any(const uint8_t *verdicts, int size, int by)
{
    for (int on = 0; on < size; on++)
        if (verdict_of(verdicts, size, by, on) != TUTTI_CAUSE_NONE) return true;
    return false;
}

static int count_witnesses(const uint8_t *verdicts, int size, int on)
{
    int count = 0;
    for (int by = 0; by < size; by++)
        count += verdict_of(verdicts, size, by, on) != TUTTI_CAUSE_NONE;
    return count;
}

/* More than half of the other ranks that accuse any rank accuse this one. */
static bool has_most_accusers(const uint8_t *verdicts, int size, int on, int witnesses)
{
    int accusers = 0;
    for (int by = 0; by < size; by++) accusers += by != on && accuses_any(verdicts, size, by);
    return 2 * witnesses > accusers;
}

static enum tutti_cause cause_of_most(const uint8_t *verdicts, int size, int on)
{
    int counts[CAUSES] = {0};
    enum tutti_cause cause = TUTTI_CAUSE_LATE;
    for (int by = 0; by < size; by++) counts[verdict_of(verdicts, size, by, on)]++;
    for (int c = TUTTI_CAUSE_LATE; c < CAUSES; c++)
        if (counts[c] > counts[cause]) cause = (enum tutti_cause)c;
    return cause;
}

static bool has_late_verdict(const uint8_t *verdicts, int size, int on)
{
    for (int by = 0; by < size; by++)
        if (verdict_of(verdicts, size, by, on) == TUTTI_CAUSE_LATE) return true;
    return false;
}

void elastic_table_add_witnesses(uint8_t *verdicts, const uint8_t *shares, int size, int share_min)
{
    for (int by = 0; by < size; by++) {
        int late = -1;
        if (accuses_any(verdicts, size, by)) continue; /* it has seen for itself */
        for (int on = 0; on < size; on++)
            if (on != by && shares[by] >= shares[on] + share_min &&
                has_late_verdict(verdicts, size, on) && (late < 0 || shares[on] < shares[late]))
                late = on;
        if (late >= 0)
            verdicts[(size_t)by * (size_t)size + (size_t)late] = (uint8_t)TUTTI_CAUSE_LATE;
    }
}

int elastic_table_find(const uint8_t *verdicts, int size, enum tutti_cause *cause)
{
    int found = -1, most = size > 2 ? ELASTIC_WITNESSES_MIN - 1 : 0;
    *cause = TUTTI_CAUSE_NONE;
    for (int on = 0; on < size; on++) {
        const int witnesses = count_witnesses(verdicts, size, on);
        if (witnesses < most || witnesses == 0) continue;
        found = witnesses > most ? on : -1; /* equally many: which of them is it? */
        most = witnesses;
    }
    if (found < 0 || !has_most_accusers(verdicts, size, found, most)) return -1;
    *cause = cause_of_most(verdicts, size, found);
    return found;
}

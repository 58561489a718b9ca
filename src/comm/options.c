#include "comm/options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/status.h"
#include "process/monitor.h"
#include "process/progress.h"

enum { PRIORITY_MAX = 100 };
static const uint64_t TIMEOUT_NS = 1800000000000u, INIT_TIMEOUT_NS = 300000000000u;

/* "90", "90s", "500ms", "10m", "2h": seconds where no unit is said. */
static enum tutti_status read_duration(const char *variable, uint64_t *duration_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"m", 60e9}, {"h", 3600e9}};
    const char *text = getenv(variable);
    if (*duration_ns != 0 || text == NULL || *text == '\0') return TUTTI_OK;
    char *end;
    const double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0 || !(value > 0) || !(value * units[i].ns < 1e18))
            continue;
        *duration_ns = (uint64_t)(value * units[i].ns);
        if (*duration_ns == 0) *duration_ns = 1;
        return TUTTI_OK;
    }
    return error_set(TUTTI_INVALID_OPTIONS,
                     "%s=%.40s: a duration such as 30s, 500ms or 10m is needed", variable, text);
}

/* *on stays what it is where the variable says nothing. */
static enum tutti_status read_switch(const char *variable, bool *on)
{
    const char *text = getenv(variable);
    if (text == NULL || *text == '\0') return TUTTI_OK;
    const bool is_switch = (*text == '0' || *text == '1') && text[1] == '\0';
    if (!is_switch)
        return error_set(TUTTI_INVALID_OPTIONS, "%s=%.40s: 0 or 1 is needed", variable, text);
    *on = *text == '1';
    return TUTTI_OK;
}

enum tutti_status options_probe(bool *probes)
{
    *probes = true;
    return read_switch("TUTTI_PROBE", probes);
}

enum tutti_status options_unexpected(size_t *bytes)
{
    *bytes = (size_t)16 << 20;
    const char *text = getenv("TUTTI_UNEXPECTED");
    if (text == NULL || *text == '\0') return TUTTI_OK;
    static const char units[] = "kmg";
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    const unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    if (unit != NULL) end++;
    if (*text < '0' || *text > '9' || *end != '\0' || value > SIZE_MAX >> shift >> 1)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "TUTTI_UNEXPECTED=%.40s: a size such as 16m is needed", text);
    *bytes = (size_t)value << shift;
    return TUTTI_OK;
}

enum tutti_status options_transport(bool *over_tcp)
{
    const char *text = getenv("TUTTI_TRANSPORT");
    *over_tcp = text != NULL && strcmp(text, "tcp") == 0;
    if (text == NULL || *text == '\0' || *over_tcp || strcmp(text, "auto") == 0) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "TUTTI_TRANSPORT=%.40s: auto or tcp is needed", text);
}

enum tutti_status options_heartbeat(uint64_t *period_ns)
{
    enum { PERIOD_MS = 100, PERIOD_MS_MIN = 10, PERIOD_MS_MAX = 10000 };
    *period_ns = PERIOD_MS * UINT64_C(1000000);
    const char *text = getenv("TUTTI_HEARTBEAT");
    if (text == NULL || *text == '\0') return TUTTI_OK;
    char *end;
    const unsigned long ms = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || (*end != '\0' && strcmp(end, "ms") != 0) ||
        (ms != 0 && ms < PERIOD_MS_MIN) || ms > PERIOD_MS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "TUTTI_HEARTBEAT=%.40s: 0, or milliseconds from %d to %d are needed", text,
                         PERIOD_MS_MIN, PERIOD_MS_MAX);
    *period_ns = ms * UINT64_C(1000000);
    return TUTTI_OK;
}

static enum tutti_status check_store(const struct tutti_store *given)
{
    if (given == NULL) return TUTTI_OK;
    struct tutti_store store;
    TRY(SIZED_READ("store", tutti_store, given, &store));
    if (store.set == NULL || store.get == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "store.%s must be a function, is NULL",
                         store.set == NULL ? "set" : "get");
    return TUTTI_OK;
}

/* The caller's options, which are those of another version perhaps; nothing said is as TUTTI_COMM_OPTIONS_INIT has it. */
static enum tutti_status read_comm(const struct tutti_comm_options *user,
                                   struct tutti_comm_options *own)
{
    *own = (struct tutti_comm_options)TUTTI_COMM_OPTIONS_INIT;
    if (user == NULL) return TUTTI_OK;
    TRY(SIZED_READ("options", tutti_comm_options, user, own));
    if ((unsigned)own->integrity > TUTTI_INTEGRITY_ON)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "options.integrity must be a value of enum tutti_integrity, 0 to %d, is %d",
            TUTTI_INTEGRITY_ON, (int)own->integrity);
    if ((unsigned)own->encryption > TUTTI_ENCRYPTION_ON)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "options.encryption must be a value of enum tutti_encryption, 0 to %d, is %d",
            TUTTI_ENCRYPTION_ON, (int)own->encryption);
    return TUTTI_OK;
}

enum tutti_status options_check_comm(const struct tutti_comm_options *user)
{
    struct tutti_comm_options own;
    return read_comm(user, &own);
}

static enum tutti_status read_integrity(enum tutti_integrity *integrity)
{
    const char *text = getenv("TUTTI_INTEGRITY");
    if (*integrity != TUTTI_INTEGRITY_DEFAULT) return TUTTI_OK;
    *integrity = TUTTI_INTEGRITY_OFF;
    if (text == NULL || *text == '\0' || strcmp(text, "off") == 0) return TUTTI_OK;
    *integrity = TUTTI_INTEGRITY_NETWORK;
    if (strcmp(text, "network") == 0) return TUTTI_OK;
    *integrity = TUTTI_INTEGRITY_ON;
    if (strcmp(text, "on") == 0) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "TUTTI_INTEGRITY=%.40s: off, network or on is needed",
                     text);
}

static enum tutti_status read_encryption(enum tutti_encryption *encryption)
{
    const char *text = getenv("TUTTI_ENCRYPTION");
    if (*encryption != TUTTI_ENCRYPTION_DEFAULT) return TUTTI_OK;
    *encryption = TUTTI_ENCRYPTION_OFF;
    if (text == NULL || *text == '\0' || strcmp(text, "off") == 0) return TUTTI_OK;
    *encryption = TUTTI_ENCRYPTION_ON;
    if (strcmp(text, "on") == 0) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "TUTTI_ENCRYPTION=%.40s: on or off is needed", text);
}

enum tutti_status options_for_derived(const struct tutti_comm_options *user,
                                      const struct tutti_comm_options *from,
                                      struct tutti_comm_options *options)
{
    struct tutti_comm_options own;
    TRY(read_comm(user, &own));
    *options = *from;
    if (own.timeout_ns != 0) options->timeout_ns = own.timeout_ns;
    if (own.init_timeout_ns != 0) options->init_timeout_ns = own.init_timeout_ns;
    if (own.deterministic != 0) options->deterministic = own.deterministic;
    if (own.algorithms != NULL) options->algorithms = own.algorithms;
    if (own.integrity != TUTTI_INTEGRITY_DEFAULT) options->integrity = own.integrity;
    if (own.encryption != TUTTI_ENCRYPTION_DEFAULT) options->encryption = own.encryption;
    return TUTTI_OK;
}

enum tutti_status options_for_comm(const struct tutti_comm_options *user,
                                   struct tutti_comm_options *options)
{
    TRY(read_comm(user, options));
    TRY(check_store(options->store));
    if (options->id != NULL && options->store != NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "one of options.id and options.store must be NULL, both are set");
    TRY(read_duration("TUTTI_TIMEOUT", &options->timeout_ns));
    TRY(read_duration("TUTTI_INIT_TIMEOUT", &options->init_timeout_ns));
    if (options->timeout_ns == 0) options->timeout_ns = TIMEOUT_NS;
    if (options->init_timeout_ns == 0) options->init_timeout_ns = INIT_TIMEOUT_NS;
    if (options->algorithms == NULL) options->algorithms = getenv("TUTTI_ALGORITHMS");
    TRY(read_integrity(&options->integrity));
    TRY(read_encryption(&options->encryption));
    bool deterministic = false, probes;
    TRY(read_switch("TUTTI_DETERMINISTIC", &deterministic));
    if (deterministic) options->deterministic = 1;
    uint64_t period_ns;
    TRY(options_probe(&probes)); /* a wrong word is found before anybody meets */
    TRY(options_heartbeat(&period_ns));
    TRY(progress_check_options());
    return monitor_check_options();
}

enum tutti_status options_for_call(const struct tutti_call_options *user,
                                   struct tutti_call_options *options)
{
    TRY(SIZED_READ("options", tutti_call_options, user, options));
    if (options->priority < -PRIORITY_MAX || options->priority > PRIORITY_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "options.priority must be -%d to %d, is %d",
                         PRIORITY_MAX, PRIORITY_MAX, options->priority);
    return TUTTI_OK;
}

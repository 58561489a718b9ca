#include "team/options.h"

#include <stdint.h>

#include "base/option.h"
#include "base/sized.h"
#include "base/status.h"
#include "process/monitor.h"
#include "process/progress.h"

enum { PRIORITY_MAX = 100 };

enum tutti_status options_probe(bool *probes)
{
    return option_boolean(OPTION_PROBE, probes);
}

enum tutti_status options_unexpected(size_t *bytes)
{
    return option_bytes(OPTION_UNEXPECTED, bytes);
}

enum tutti_status options_transport(bool *over_tcp)
{
    int choice;
    TRY(option_choice(OPTION_TRANSPORT, &choice));
    *over_tcp = choice == 1;
    return TUTTI_OK;
}

enum tutti_status options_heartbeat(uint64_t *period_ns)
{
    return option_duration(OPTION_HEARTBEAT, period_ns);
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

/* A caller who wants to wait for ever gives the largest number. Added to the clock it would be a time
 * that is over. */
static void limit(uint64_t *timeout_ns)
{
    if (*timeout_ns > OPTIONS_TIMEOUT_MAX_NS) *timeout_ns = OPTIONS_TIMEOUT_MAX_NS;
}

/* The caller's options, which may be of another version. Members that it does not have are as
 * TUTTI_COMM_OPTIONS_INIT has them. */
static enum tutti_status read_comm(const struct tutti_comm_options *user,
                                   struct tutti_comm_options *own)
{
    *own = (struct tutti_comm_options)TUTTI_COMM_OPTIONS_INIT;
    if (user == NULL) return TUTTI_OK;
    TRY(SIZED_READ("options", tutti_comm_options, user, own));
    limit(&own->timeout_ns);
    limit(&own->init_timeout_ns);
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
    static const enum tutti_integrity choices[] = {TUTTI_INTEGRITY_OFF, TUTTI_INTEGRITY_NETWORK,
                                                   TUTTI_INTEGRITY_ON};
    int choice;
    if (*integrity != TUTTI_INTEGRITY_DEFAULT) return TUTTI_OK;
    TRY(option_choice(OPTION_INTEGRITY, &choice));
    *integrity = choices[choice];
    return TUTTI_OK;
}

static enum tutti_status read_encryption(enum tutti_encryption *encryption)
{
    int choice;
    if (*encryption != TUTTI_ENCRYPTION_DEFAULT) return TUTTI_OK;
    TRY(option_choice(OPTION_ENCRYPTION, &choice));
    *encryption = choice == 1 ? TUTTI_ENCRYPTION_ON : TUTTI_ENCRYPTION_OFF;
    return TUTTI_OK;
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
    if (own.encodings != NULL) options->encodings = own.encodings;
    if (own.integrity != TUTTI_INTEGRITY_DEFAULT) options->integrity = own.integrity;
    if (own.encryption != TUTTI_ENCRYPTION_DEFAULT) options->encryption = own.encryption;
    return TUTTI_OK;
}

/* If several variables make no sense, the error names any of them. */
static void note(enum tutti_status *environment, enum tutti_status status)
{
    if (status != TUTTI_OK) *environment = status;
}

static enum tutti_status read_deterministic(int *is_deterministic)
{
    bool is_set;
    TRY(option_boolean(OPTION_DETERMINISTIC, &is_set));
    if (is_set) *is_deterministic = 1;
    return TUTTI_OK;
}

/* Checks variables that are read where they are needed, or that nothing reads in this job: so a
 * wrong word is found before ranks meet. */
static enum tutti_status check_others(void)
{
    TRY(option_check_job());
    TRY(progress_check_options());
    return monitor_check_options();
}

enum tutti_status options_for_comm(const struct tutti_comm_options *user,
                                   struct tutti_comm_options *options,
                                   enum tutti_status *environment)
{
    *environment = TUTTI_OK;
    TRY(read_comm(user, options));
    TRY(check_store(options->store));
    if (options->id != NULL && options->store != NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "one of options.id and options.store must be NULL, both are set");
    if (options->timeout_ns == 0)
        note(environment, option_duration(OPTION_TIMEOUT, &options->timeout_ns));
    if (options->init_timeout_ns == 0)
        note(environment, option_duration(OPTION_INIT_TIMEOUT, &options->init_timeout_ns));
    if (options->algorithms == NULL) options->algorithms = option_text(OPTION_ALGORITHMS);
    if (options->encodings == NULL) options->encodings = option_text(OPTION_ENCODINGS);
    note(environment, read_integrity(&options->integrity));
    note(environment, read_encryption(&options->encryption));
    note(environment, read_deterministic(&options->deterministic));
    note(environment, check_others());
    return TUTTI_OK;
}

enum tutti_status options_for_call(const struct tutti_call_options *user,
                                   struct tutti_call_options *options)
{
    TRY(SIZED_READ("options", tutti_call_options, user, options));
    limit(&options->timeout_ns);
    if (options->priority < -PRIORITY_MAX || options->priority > PRIORITY_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "options.priority must be -%d to %d, is %d",
                         PRIORITY_MAX, PRIORITY_MAX, options->priority);
    if (options->on_stream != 0 && options->on_stream != 1)
        return error_set(TUTTI_INVALID_OPTIONS, "options.on_stream must be 0 or 1, is %d",
                         options->on_stream);
    return TUTTI_OK;
}

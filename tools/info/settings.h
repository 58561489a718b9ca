/* settings.h - the variables TUTTI_... that are set, and whether the library can do what they say.
 *
 * The table of options knows what fits a kind (base/option.h). Only the reader of a text knows what
 * it means, so the reader is asked, in a child process for each: it may look at files that hang.
 */
#ifndef TUTTI_TOOLS_INFO_SETTINGS_H
#define TUTTI_TOOLS_INFO_SETTINGS_H

#include <stdbool.h>

#include "base/option.h"
#include "base/status.h"
#include "probe.h"

enum {
    SETTINGS_UNKNOWN_MAX = 64,
    SETTINGS_NAME_SIZE = 96,
    SETTINGS_PROBLEM_SIZE = ERROR_TEXT_MAX + 64
};

struct setting {
    enum option_id option;
    char *value;                         /* printable, of malloc; NULL: a secret */
    int probe;                           /* among the probes; -1: nobody is asked */
    char problem[SETTINGS_PROBLEM_SIZE]; /* "": it works */
};

struct unknown_setting {
    char name[SETTINGS_NAME_SIZE];
    const char *meant; /* an option of a similar name, or NULL */
};

struct settings {
    int count, unknown_count;
    struct setting list[OPTION_COUNT];
    struct unknown_setting unknown[SETTINGS_UNKNOWN_MAX];
};

/* Lists them, and fills in a probe for each that has to be asked: *probe_count more of them, at
 * most OPTION_COUNT. */
void settings_read(struct settings *settings, struct probe *probes, int *probe_count);
/* Takes what the probes have found, when they are over. */
void settings_finish(struct settings *settings, const struct probe *probes);
void settings_release(struct settings *settings);

#endif

/* settings_check.h - asks the readers of options whether they can do what a variable says. */
#ifndef TUTTI_TOOLS_INFO_SETTINGS_CHECK_H
#define TUTTI_TOOLS_INFO_SETTINGS_CHECK_H

#include "base/option.h"
#include "base/status.h"
#include "probe.h"

struct check_answer {
    char problem[ERROR_TEXT_MAX]; /* "": none */
};

/* The function of a probe, whose question is an enum option_id and whose answer a struct
 * check_answer; NULL: nobody has to be asked. */
probe_function *settings_checker(enum option_id option);

#endif

#include "launch.h"

#include <stdio.h>

#include "base/printable.h"
#include "bootstrap/launcher.h"
#include "bootstrap/pmix_service.h"

void launch_look(struct launch *launch)
{
    struct launcher_facts facts;
    *launch = (struct launch){0};
    if (launcher_look(&facts) != TUTTI_OK) return;
    *launch = (struct launch){facts.launcher, facts.rank, facts.size};
}

void launch_ask_pmix(void *answer, int question)
{
    struct pmix *const pmix = answer;
    const char *version;
    (void)question;
    pmix->is_there = pmix_service_version(&version) == TUTTI_OK;
    snprintf(pmix->version, sizeof pmix->version, "%s", version != NULL ? version : "");
    if (!pmix->is_there) snprintf(pmix->why, sizeof pmix->why, "%.255s", tutti_error_message());
    printable_make(pmix->version);
}

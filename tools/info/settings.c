#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option_mistake.h"
#include "base/printable.h"
#include "settings_check.h"

/* An error of a reader mostly names the variable itself. */
static void set_problem(struct setting *setting, const char *text)
{
    const char *const name = option_name(setting->option);
    if (strncmp(text, name, strlen(name)) == 0)
        snprintf(setting->problem, sizeof setting->problem, "%s", text);
    else
        snprintf(setting->problem, sizeof setting->problem, "%s: %s", name, text);
    printable_make(setting->problem);
}

static void add(struct settings *settings, enum option_id option, struct probe *probes,
                int *probe_count)
{
    struct setting *const setting = &settings->list[settings->count++];
    *setting = (struct setting){.option = option, .probe = -1};
    if (!option_is_secret(option)) setting->value = strdup(option_text(option));
    if (setting->value != NULL) printable_make(setting->value);
    if (option_check(option) != TUTTI_OK) {
        set_problem(setting, tutti_error_message());
        return;
    }
    probe_function *const checker = settings_checker(option);
    if (checker == NULL) return;
    setting->probe = (*probe_count)++;
    probes[setting->probe] = (struct probe){.ask = checker,
                                            .question = (int)option,
                                            .answer = probe_memory(sizeof(struct check_answer))};
}

static void add_unknown(struct settings *settings, const char *variable)
{
    if (settings->unknown_count == SETTINGS_UNKNOWN_MAX) return;
    struct unknown_setting *const unknown = &settings->unknown[settings->unknown_count++];
    snprintf(unknown->name, sizeof unknown->name, "%.*s", (int)strcspn(variable, "="), variable);
    printable_make(unknown->name);
    unknown->meant = option_mistake_nearest(variable);
}

static bool is_set(enum option_id option)
{
    const char *const value = getenv(option_name(option));
    return value != NULL && *value != '\0';
}

void settings_read(struct settings *settings, struct probe *probes, int *probe_count)
{
    *settings = (struct settings){0};
    for (int i = 0; i < OPTION_COUNT; i++)
        if (option_is_for_users((enum option_id)i) && is_set((enum option_id)i))
            add(settings, (enum option_id)i, probes, probe_count);
    for (char **variable = environ; *variable != NULL; variable++)
        if (option_mistake_is_unknown(*variable)) add_unknown(settings, *variable);
}

void settings_finish(struct settings *settings, const struct probe *probes)
{
    for (int i = 0; i < settings->count; i++) {
        struct setting *const setting = &settings->list[i];
        if (setting->probe < 0) continue;
        const struct probe *const probe = &probes[setting->probe];
        const struct check_answer *const answer = probe->answer;
        if (probe->trouble[0] != '\0')
            set_problem(setting, probe->trouble);
        else if (answer->problem[0] != '\0')
            set_problem(setting, answer->problem);
        else if (probe->said[0] != '\0') /* a warning */
            set_problem(setting, probe->said);
    }
}

void settings_release(struct settings *settings)
{
    for (int i = 0; i < settings->count; i++) free(settings->list[i].value);
    settings->count = 0;
}

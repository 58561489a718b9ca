#include "format/plan_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "format/trusted_file.h"
#include "plan/text.h"

/* ---------------------------------------------------------------------------------------- forms */

static enum tutti_status read_text(const char *text, size_t text_bytes, struct plan_budget *budget,
                                   struct plan **plan)
{
    char message[256];
    const enum tutti_status status =
        plan_parse_within(text, text_bytes, budget, plan, message, sizeof message);
    return status == TUTTI_OK ? TUTTI_OK : error_set(status, "%s", message);
}

/* A form, and what its first character that is no white space says. */
static const struct {
    char first; /* 0: any */
    enum tutti_status (*read)(const char *text, size_t text_bytes, struct plan_budget *budget,
                              struct plan **plan);
} forms[] = {
    {0, read_text}, /* the last one */
};

enum tutti_status plan_file_parse(const char *text, size_t text_bytes, struct plan_budget *budget,
                                  struct plan **plan)
{
    size_t at = 0, form = 0;
    *plan = NULL;
    while (at < text_bytes && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0') at++;
    while (forms[form].first != '\0' && (at == text_bytes || forms[form].first != text[at])) form++;
    return forms[form].read(text, text_bytes, budget, plan);
}

/* ---------------------------------------------------------------------------------------- files */

enum tutti_status plan_file_load(const char *path, struct plan_budget *budget, struct plan **plan)
{
    char *text;
    size_t size;
    *plan = NULL;
    TRY(trusted_file_read(path, PLAN_FILE_BYTES_MAX, &text, &size));
    const enum tutti_status status = plan_file_parse(text, size, budget, plan);
    free(text);
    return status == TUTTI_OK ? TUTTI_OK : trusted_file_blame(path, status);
}

#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

static _Thread_local char message[ERROR_TEXT_MAX];

static const struct {
    const char *name, *text;
} statuses[] = {
#define X(enumerator, text) [TUTTI_##enumerator] = {#enumerator, text},
    STATUS_LIST(X)
#undef X
};

const char *tutti_status_name(enum tutti_status status)
{
    if ((size_t)status >= sizeof statuses / sizeof *statuses) return "UNKNOWN";
    return statuses[status].name;
}

const char *tutti_status_text(enum tutti_status status)
{
    if ((size_t)status >= sizeof statuses / sizeof *statuses) return "not a status of Tutti";
    return statuses[status].text;
}

const char *tutti_error_message(void)
{
    return message;
}

enum tutti_status error_set(enum tutti_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    printable_make(message);
    return status;
}

void error_copy(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", message);
}

enum tutti_status error_unless_ok(enum tutti_status status, const char *before)
{
    if (status == TUTTI_OK) snprintf(message, sizeof message, "%s", before);
    return status;
}

enum tutti_status error_system(const char *format, ...)
{
    const int error = errno;
    va_list arguments;
    va_start(arguments, format);
    const int used = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof message)
        snprintf(message + used, sizeof message - (size_t)used, ": %s", strerror(error));
    printable_make(message);
    switch (error) {
    case ENOMEM: return TUTTI_NO_MEMORY;
    case ENOSPC: return TUTTI_NO_SPACE;
    case EMFILE:
    case ENFILE: return TUTTI_NO_DESCRIPTORS;
    default: return TUTTI_SYSTEM;
    }
}

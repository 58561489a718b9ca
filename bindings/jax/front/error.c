#include "front/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    int class;
    char text[FRONT_ERROR_BYTES];
} last;

int front_fail(enum front_class class, const char *function, const char *format, ...)
{
    char detail[FRONT_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof(detail), format, arguments);
    va_end(arguments);
    last.class = class;
    snprintf(last.text, sizeof(last.text), "%.64s: %.900s", function, detail);
    return class;
}

int front_repeat(enum front_class class, const char *message)
{
    last.class = class;
    snprintf(last.text, sizeof(last.text), "%s", message);
    return class;
}

static enum front_class class_of(enum tutti_status status)
{
    switch (status) {
    case TUTTI_INVALID_COMM: return FRONT_ERR_COMM;
    case TUTTI_INVALID_BUFFER: return FRONT_ERR_BUFFER;
    case TUTTI_INVALID_COUNT: return FRONT_ERR_COUNT;
    case TUTTI_INVALID_DTYPE: return FRONT_ERR_TYPE;
    case TUTTI_INVALID_OP: return FRONT_ERR_OP;
    case TUTTI_INVALID_ROOT: return FRONT_ERR_ROOT;
    case TUTTI_INVALID_RANK: return FRONT_ERR_RANK;
    case TUTTI_INVALID_OPTIONS: return FRONT_ERR_ARG;
    case TUTTI_INVALID_REQUEST: return FRONT_ERR_REQUEST;
    case TUTTI_INVALID_TAG: return FRONT_ERR_TAG;
    case TUTTI_TRUNCATED: return FRONT_ERR_TRUNCATE;
    case TUTTI_NO_MEMORY: return FRONT_ERR_NO_MEM;
    case TUTTI_INTERNAL: return FRONT_ERR_INTERN;
    case TUTTI_OK:
    case TUTTI_IN_PROGRESS:
    case TUTTI_INVALID_ALGORITHM:
    case TUTTI_TIMEOUT:
    case TUTTI_INIT_TIMEOUT:
    case TUTTI_PROC_FAILED:
    case TUTTI_MISMATCH:
    case TUTTI_DESYNC:
    case TUTTI_ABORTED:
    case TUTTI_AUTH_FAILED:
    case TUTTI_VERSION:
    case TUTTI_NO_SPACE:
    case TUTTI_NO_DESCRIPTORS:
    case TUTTI_SYSTEM:
    case TUTTI_UNSUPPORTED:
    case TUTTI_UNEXPECTED_FULL:
    case TUTTI_MINORITY:
    case TUTTI_CORRUPT:
    case TUTTI_REVOKED:
    case TUTTI_EXCLUDED: break;
    }
    return FRONT_ERR_OTHER;
}

int front_result(const char *function, enum tutti_status status)
{
    if (status == TUTTI_OK) return FRONT_SUCCESS;
    const char *message = tutti_error_message();
    return front_fail(class_of(status), function, "%s: %s", tutti_status_name(status),
                      message[0] != '\0' ? message : tutti_status_text(status));
}

void front_log(const char *format, ...)
{
    char line[FRONT_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(stderr, "tutti_jax: %s\n", line);
}

const char *tutti_jax_error(void)
{
    return last.text;
}

/* clang-format off */
static const char *class_name(int class)
{
    switch (class) {
    case FRONT_SUCCESS: return "MPI_SUCCESS: no error";
#define FRONT_NAME(name) case FRONT_##name: return "MPI_" #name;
    FRONT_ERRORS(FRONT_NAME)
#undef FRONT_NAME
    default: return NULL;
    }
}
/* clang-format on */

int MPIABI_Error_string(int code, char *text, int *length)
{
    const char *name = class_name(code);
    if (name == NULL)
        return front_fail(FRONT_ERR_ARG, "MPI_Error_string", "%d is no code of an error", code);
    if (code != FRONT_SUCCESS && code == last.class) name = last.text;
    const size_t size = strlen(name);
    memcpy(text, name, size + 1);
    *length = (int)size;
    return FRONT_SUCCESS;
}

int MPIABI_Error_class(int code, int *class)
{
    if (class_name(code) == NULL)
        return front_fail(FRONT_ERR_ARG, "MPI_Error_class", "%d is no code of an error", code);
    *class = code;
    return FRONT_SUCCESS;
}

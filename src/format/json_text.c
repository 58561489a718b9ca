#include "format/json_text.h"

#include "base/status.h"
#include "format/jansson.h"

enum tutti_status json_text_load(const char *what, const char *text, size_t text_bytes,
                                 size_t bytes_max, json_t **json)
{
    json_error_t error;
    *json = NULL;
    if (text_bytes > bytes_max)
        return error_set(TUTTI_UNSUPPORTED, "%s: more than %zu bytes of JSON", what, bytes_max);
    TRY(jansson_load());
    *json = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &error);
    if (*json != NULL) return TUTTI_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return error_set(TUTTI_NO_MEMORY, "%s: out of memory", what);
    return error_set(TUTTI_INVALID_OPTIONS, "line %d: %s", error.line > 0 ? error.line : 1,
                     error.text);
}

#include "health/json_write.h"

#include <string.h>

#include "base/printable.h"

void json_write_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (const char *c = text; *c != '\0';) {
        const int bytes = printable_character_bytes(c);
        if (bytes == 0)
            fputs("\\ufffd", file);
        else if (bytes == 1 && (*c == '"' || *c == '\\'))
            fprintf(file, "\\%c", *c);
        else if (bytes == 1 && ((unsigned char)*c < ' ' || *c == 0x7f))
            fprintf(file, "\\u%04x", (unsigned)*c);
        else
            fwrite(c, 1, (size_t)bytes, file);
        c += bytes > 0 ? bytes : 1;
    }
    fputc('"', file);
}

void json_write_name(FILE *file, const char *name)
{
    static const char dots[] = "...";
    char text[JSON_NAME_BYTES_MAX + 1];
    const size_t length = strlen(name);
    if (length <= JSON_NAME_BYTES_MAX)
        memcpy(text, name, length + 1);
    else
        snprintf(text, sizeof text, "%s%s", dots,
                 name + length - (JSON_NAME_BYTES_MAX - (sizeof dots - 1)));
    printable_make(text); /* which does not make it longer, as json_write_text might */
    json_write_text(file, text);
}

#include "studio/page/page.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "base/printable.h"
#include "studio/xml_text.h"

enum { TEXT_SIZE = 4096 };

static const struct page_part *find_part(const struct page_part *parts, const char *name,
                                         size_t length)
{
    while (strlen(parts->name) != length || memcmp(parts->name, name, length) != 0) {
        parts++;
        assert(parts->name != NULL);
    }
    return parts;
}

void page_write(const char *frame, const struct page_part *parts, FILE *file)
{
    for (const char *mark, *end; (mark = strstr(frame, "{{")) != NULL; frame = end + 2) {
        end = strstr(mark, "}}");
        assert(end != NULL);
        fwrite(frame, 1, (size_t)(mark - frame), file);
        fputs(find_part(parts, mark + 2, (size_t)(end - mark) - 2)->text, file);
    }
    fputs(frame, file);
}

void page_print(FILE *file, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printable_make(text); /* it may have been cut within a character */
    xml_print_text(text, file);
}

void page_print_json(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

#include "studio/xml_text.h"

void xml_print_text(const char *text, FILE *file)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        case '"': fputs("&quot;", file); break;
        default:
            if ((unsigned char)*text >= ' ') fputc(*text, file);
        }
    }
}

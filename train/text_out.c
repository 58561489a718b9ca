#include "text_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum tutti_status text_out_begin(struct text_out *out)
{
    *out = (struct text_out){NULL, NULL, 0};
    out->file = open_memstream(&out->memory, &out->size);
    return out->file != NULL ? TUTTI_OK : error_set(TUTTI_NO_MEMORY, "out of memory");
}

enum tutti_status text_out_finish(struct text_out *out, char *text, size_t text_bytes,
                                  size_t *full_bytes)
{
    const int is_bad = ferror(out->file);
    if (fclose(out->file) != 0 || is_bad) {
        free(out->memory);
        return error_set(TUTTI_NO_MEMORY, "out of memory");
    }
    if (text_bytes > 0) {
        const size_t bytes = out->size < text_bytes ? out->size : text_bytes - 1;
        memcpy(text, out->memory, bytes);
        text[bytes] = '\0';
    }
    if (full_bytes != NULL) *full_bytes = out->size + 1;
    free(out->memory);
    return TUTTI_OK;
}

void text_print_number(FILE *file, double number)
{
    double whole;
    int thousandths = (int)(modf(number, &whole) * 1000 + 0.5), digits = 3;
    if (thousandths == 1000) {
        whole++;
        thousandths = 0;
    }
    fprintf(file, "%.0f", whole);
    if (thousandths == 0) return;
    for (; thousandths % 10 == 0; digits--) thousandths /= 10;
    fprintf(file, ".%0*d", digits, thousandths);
}

void text_out_abandon(struct text_out *out)
{
    fclose(out->file);
    free(out->memory);
}

/* page.h - a page of HTML that a program writes, from a frame: a text with marks "{{name}}", in
 * whose places other texts are written.
 *
 * Text from outside goes through page_print or page_print_json, and so stays text: neither a tag
 * nor the end of a script.
 */
#ifndef TUTTI_STUDIO_PAGE_PAGE_H
#define TUTTI_STUDIO_PAGE_PAGE_H

#include <stdio.h>

/* The text in the place of a mark, as it is. */
struct page_part {
    const char *name, *text;
};

/* Writes the frame with its parts, whose last one has no name. Each mark of the frame names one of
 * them; marks in parts stay as they are. */
void page_write(const char *frame, const struct page_part *parts, FILE *file);

/* Text between tags, or in an attribute between quotation marks; 4095 bytes at most. */
__attribute__((format(printf, 2, 3))) void page_print(FILE *file, const char *format, ...);
/* A text of valid UTF-8 as a string of JSON, in quotation marks; within a script it does not end
 * that script. */
void page_print_json(FILE *file, const char *text);

#endif

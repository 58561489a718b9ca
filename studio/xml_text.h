/* xml_text.h - text within XML and SVG. */
#ifndef TUTTI_STUDIO_XML_TEXT_H
#define TUTTI_STUDIO_XML_TEXT_H

#include <stdio.h>

/* Writes it so that it stands for itself between tags and between quotation marks; control
 * characters are left out. */
void xml_print_text(const char *text, FILE *file);

#endif

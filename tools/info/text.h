/* text.h - the report for people: one thing a line, what matters most first. */
#ifndef TUTTI_TOOLS_INFO_TEXT_H
#define TUTTI_TOOLS_INFO_TEXT_H

#include "report.h"

void text_print(const struct report *report);

#endif

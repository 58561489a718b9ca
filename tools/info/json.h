/* json.h - the report for programs. Its keys stay: man/tutti-info.1 lists them, and new ones may
 * come. */
#ifndef TUTTI_TOOLS_INFO_JSON_H
#define TUTTI_TOOLS_INFO_JSON_H

#include "report.h"

void json_print(const struct report *report);

#endif

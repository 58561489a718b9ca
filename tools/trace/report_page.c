/* report_page.c - see report_page.h. */
#include "report_page.h"

#include "base/embedded.h"

EMBEDDED_FILE(report_html, EMBEDDED_FOLDER "report.html");
EMBEDDED_FILE(report_css, EMBEDDED_FOLDER "report.css");
EMBEDDED_FILE(report_data_js, EMBEDDED_FOLDER "report_data.js");
EMBEDDED_FILE(report_timeline_js, EMBEDDED_FOLDER "report_timeline.js");
EMBEDDED_FILE(report_js, EMBEDDED_FOLDER "report.js");

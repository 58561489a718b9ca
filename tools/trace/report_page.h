/* report_page.h - the files of which the page of a report is made, as the program has them; each
 * ends in a 0. */
#ifndef TUTTI_TOOLS_TRACE_REPORT_PAGE_H
#define TUTTI_TOOLS_TRACE_REPORT_PAGE_H

extern const char report_html[], report_css[], report_data_js[], report_timeline_js[], report_js[];

#endif

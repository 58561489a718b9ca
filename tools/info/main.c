/* tutti-info - says what this Tutti is, what it finds on this host, and which options are set. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "options.h"
#include "report.h"
#include "text.h"

static void count_only(const char *problem, void *context)
{
    (void)problem, (void)context;
}

int main(int argc, char **argv)
{
    static struct report report;
    struct options options;
    enum exit_code code = options_parse(argc, argv, &options);
    if (code == EXIT_FINE && !options.is_done) {
        signal(SIGCHLD,
               SIG_DFL); /* a careless parent may have had it ignored, and then children cannot be waited for */
        report_make(&report, options.seconds);
        if (options.is_json)
            json_print(&report);
        else
            text_print(&report);
        code = report_problems(&report, count_only, NULL) > 0 ? EXIT_WRONG : EXIT_FINE;
        report_release(&report);
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "tutti-info: standard output: %s\n", strerror(errno));
    return EXIT_WRONG;
}

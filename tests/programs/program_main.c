/* The command line of the tester of random programs. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tests/programs/program_rank.h"
#include "tests/programs/program_run.h"

enum { TIMEOUT_S = 30, HURRIED_TIMEOUT_S = 10, MINIMISE_MINUTES = 10 };

static const char usage[] =
    "usage: tests_programs_random_test [OPTION...]\n"
    "  runs random programs of calls and messages on several ranks, and compares all that they "
    "bring;\n"
    "  without options it tests itself and runs a few seeds\n"
    "  --seed S        of the first program; the others follow (one that nobody used before)\n"
    "  --runs N        so many programs at least (1)\n"
    "  --minutes M     so long at least (0)\n"
    "  --job NAME      memory, threads, tcp, hosts, encrypted, encrypted-hosts, checked, "
    "checked-tcp or\n"
    "                  checked-hosts (each in turn)\n"
    "  --ranks R       1 to 8 (each program its own)\n"
    "  --timeout S     seconds that a call may take (30)\n"
    "  --seeds N       the first N programs, in a hurry; the first one that fails ends it\n"
    "  --minimise      makes smaller what fails\n"
    "  --print         prints the program, and does not run it\n"
    "  --replay FILE   runs the program of a file, as it is printed for what fails; with --runs so "
    "often\n"
    "  --rank          is one rank of a job that something else has started, over what it finds "
    "there\n"
    "  --help          this text\n"
    "exit status: 0 all was as it has to be, 1 something was not, 2 wrong usage\n";

static char text[PROGRAM_TEXT_BYTES];

static uint64_t fresh_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) exit(EXIT_FAILURE);
    return seed >> 24; /* so that people can write it down */
}

static int find_job(const char *name)
{
    for (int i = 0; program_job_name(i) != NULL; i++)
        if (strcmp(program_job_name(i), name) == 0) return i;
    return -2;
}

static bool read_program(const char *path, struct random_program *program)
{
    int line;
    FILE *const file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return false;
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    if (program_parse(program, text, &line)) return true;
    fprintf(stderr, "%s:%d: no program that can be\n", path, line);
    return false;
}

static int replay(const char *path, const struct program_campaign *campaign)
{
    struct random_program program;
    int failures = 0;
    if (!read_program(path, &program)) return 2;
    for (int i = 0; i < campaign->runs; i++)
        failures += !program_run(&program, campaign->timeout_s, stderr);
    printf("%d of %d runs failed\n", failures, campaign->runs);
    if (failures > 0 && campaign->minimise)
        program_explain(&program, campaign->timeout_s, MINIMISE_MINUTES);
    return failures > 0;
}

/* Programs of as many ranks as there are; nobody is killed, as whoever started them would not like
 * that. */
static int be_rank(const struct program_campaign *campaign)
{
    static struct random_program program;
    static struct program_place place;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *world;
    int bad = 1;
    options.timeout_ns = (uint64_t)campaign->timeout_s * 1000000000u;
    if (tutti_comm_create(&options, &world) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_error_message());
        return 1;
    }
    const int rank = tutti_comm_rank(world);
    if (tutti_comm_size(world) <= PROGRAM_RANKS_MAX) bad = 0;
    for (int i = 0; i < campaign->runs && bad == 0; i++) {
        program_draw(&program, campaign->seed + (uint64_t)i, find_job("threads"),
                     tutti_comm_size(world));
        bad = program_rank_run(&program, world, &place);
        if (bad != 0) fprintf(stderr, "rank %d: seed %d\n", rank, (int)program.seed);
    }
    (void)tutti_comm_free(world);
    if (bad == 0) printf("rank %d: %d programs, all right\n", rank, campaign->runs);
    return bad;
}

static int print_program(const struct program_campaign *campaign)
{
    static struct random_program program;
    program_draw(&program, campaign->seed, campaign->job < 0 ? 0 : campaign->job,
                 campaign->rank_count);
    program_print(&program, text);
    fputs(text, stdout);
    return 0;
}

int program_main(int argument_count, char **arguments)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"runs", required_argument, NULL, 'n'},
        {"minutes", required_argument, NULL, 'm'},
        {"job", required_argument, NULL, 'j'},
        {"ranks", required_argument, NULL, 'r'},
        {"timeout", required_argument, NULL, 't'},
        {"seeds", required_argument, NULL, 'e'},
        {"replay", required_argument, NULL, 'p'},
        {"minimise", no_argument, NULL, 'x'},
        {"print", no_argument, NULL, 'o'},
        {"rank", no_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct program_campaign campaign = {.seed = fresh_seed(),
                                        .runs = 1,
                                        .job = PROGRAM_ALL,
                                        .timeout_s = TIMEOUT_S,
                                        .program = arguments[0]};
    const char *file = NULL;
    int (*special)(const struct program_campaign *) = NULL;
    FILE *out = stdout;
    for (int option; (option = getopt_long(argument_count, arguments, "", options, NULL)) != -1;) {
        switch (option) {
        case 's': campaign.seed = strtoull(optarg, NULL, 0); break;
        case 'n': campaign.runs = atoi(optarg); break;
        case 'm': campaign.minutes = atof(optarg); break;
        case 'j': campaign.job = find_job(optarg); break;
        case 'r': campaign.rank_count = atoi(optarg); break;
        case 't': campaign.timeout_s = atoi(optarg); break;
        case 'e':
            campaign.seed = 1;
            campaign.runs = atoi(optarg);
            campaign.timeout_s = HURRIED_TIMEOUT_S;
            campaign.ends_at_failure = true;
            break;
        case 'p': file = optarg; break;
        case 'x': campaign.minimise = true; break;
        case 'o': special = print_program; break;
        case 'k': special = be_rank; break;
        case 'h': fputs(usage, stdout); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (optind != argument_count || campaign.job < PROGRAM_ALL || campaign.rank_count < 0 ||
        campaign.rank_count > PROGRAM_RANKS_MAX || campaign.timeout_s < 1) {
        fputs(usage, stderr);
        return 2;
    }
    if (file != NULL) return replay(file, &campaign);
    return special != NULL ? special(&campaign) : program_campaign_run(&campaign, out) > 0;
}

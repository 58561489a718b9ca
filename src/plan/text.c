#include "plan/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "plan/build.h"

/* Bounds on foreign text, far above what anybody runs; the budget bounds the rest. */
enum {
    TEXT_BYTES_MAX = 1 << 28,
    LISTED_MAX =
        1 << 24, /* group members and scratch chunks of all ranks: ranges name many with few bytes */
    GROUPS_MAX = 1024, /* of a rank */
    AFTERS_MAX = 4096, /* of a step */
    COMMENT_COLUMN = 48,
    MEMORY_PER_BYTE = 32 /* at most, of a plan with many steps */
};

static const char *const buffer_names[PLAN_BUFFER_COUNT] = {"in", "out", "scratch"};

/* ------------------------------------------------------------------------------------- printing */

/* Prints return how many columns they took, so that comments line up. */
static int print_place(struct plan_location place, uint32_t chunk_count, FILE *file)
{
    const char *name = buffer_names[place.buffer];
    if (chunk_count == 0) return fprintf(file, "%s[]", name);
    if (chunk_count == 1) return fprintf(file, "%s[%u]", name, place.first);
    return fprintf(file, "%s[%u..%u]", name, place.first, place.first + chunk_count - 1);
}

static int print_channel(int channel, FILE *file)
{
    return channel == 0 ? 0 : fprintf(file, " channel %d", channel);
}

static int print_source(const struct plan_source *source, uint32_t chunk_count, FILE *file)
{
    if (!source->is_link) return print_place(source->location, chunk_count, file);
    int width = fprintf(file, "from %d", source->peer);
    if (source->group != PLAN_NO_GROUP) width += fprintf(file, " group %d", source->group);
    return width + print_channel(source->channel, file);
}

static int print_sinks(const struct rank_plan *plan, const struct plan_step *step, FILE *file)
{
    const char *separator = "";
    int width = 0;
    if (step->has_destination) {
        width += print_place(step->destination, step->chunk_count, file);
        separator = ", ";
    }
    for (uint32_t i = 0; i < step->target_count; i++) {
        width += fprintf(file, "%sto %d", separator, plan->targets[step->first_target + i]);
        width += print_channel(step->target_channel, file);
        separator = ", ";
    }
    if (step->target_group != PLAN_NO_GROUP) {
        width += fprintf(file, "%sto group %d", separator, step->target_group);
        width += print_channel(step->target_channel, file);
    }
    return width;
}

static uint32_t default_chunk_count(const struct plan_shape *shape)
{
    return shape->collective == COLLECTIVE_BARRIER ? 0 : 1;
}

static bool names_chunks(const struct rank_plan *plan, const struct plan_step *step)
{
    if (step->has_destination) return true;
    for (uint32_t i = 0; i < step->source_count; i++)
        if (!plan->sources[step->first_source + i].is_link) return true;
    return false;
}

int plan_print_step(const struct rank_plan *plan, const struct plan_step *step, FILE *file)
{
    int width = 0;
    for (uint32_t i = 0; i < step->source_count; i++) {
        if (i > 0) width += fprintf(file, " + ");
        width += print_source(&plan->sources[step->first_source + i], step->chunk_count, file);
    }
    width += fprintf(file, " -> ");
    width += print_sinks(plan, step, file);
    if (step->final) width += fprintf(file, "  final");
    if (!names_chunks(plan, step) && step->chunk_count != default_chunk_count(&plan->shape))
        width += fprintf(file, "  chunks %u", step->chunk_count);
    for (uint32_t i = 0; i < step->after_count; i++) {
        const uint32_t index = plan->afters[step->first_after + i];
        const uint32_t lane = plan->steps[index].lane;
        width += fprintf(file, i == 0 ? "  after %u.%u" : " %u.%u", lane,
                         index - plan->lanes[lane].first_step);
    }
    return width;
}

static void print_step_line(const struct rank_plan *plan, const struct plan_step *step, FILE *file)
{
    const uint32_t number = (uint32_t)(step - plan->steps) - plan->lanes[step->lane].first_step;
    const int width = fprintf(file, "    %u: ", number) + plan_print_step(plan, step, file);
    const int padding = width < COMMENT_COLUMN ? COMMENT_COLUMN - width : 0;
    fprintf(file, "%*s  # %s\n", padding, "", plan_step_kind(plan, step));
}

/* "3 5..8 11" */
static void print_list(const uint32_t *items, uint32_t count, FILE *file)
{
    for (uint32_t i = 0; i < count;) {
        uint32_t run = 1;
        while (i + run < count && items[i + run - 1] != UINT32_MAX &&
               items[i + run] == items[i + run - 1] + 1)
            run++;
        fprintf(file, run > 1 ? " %u..%u" : " %u", items[i], items[i + run - 1]);
        i += run;
    }
    fprintf(file, "\n");
}

static void print_rank(const struct rank_plan *plan, FILE *file)
{
    fprintf(file, "rank %d\n", plan->rank);
    for (uint32_t i = 0; i < plan->group_count; i++) {
        const struct plan_group *group = &plan->groups[i];
        fprintf(file, "  group %u:", i);
        static_assert(sizeof(int) == sizeof(uint32_t), "members are never negative");
        print_list((const uint32_t *)plan->members + group->first_member, group->member_count, file);
    }
    if (plan->scratch_count > 0) {
        fprintf(file, "  scratch like");
        print_list(plan->scratch_like, plan->scratch_count, file);
    }
    for (uint32_t lane = 0; lane < plan->lane_count; lane++) {
        fprintf(file, "  lane %u\n", lane);
        for (uint32_t i = 0; i < plan->lanes[lane].step_count; i++)
            print_step_line(plan, &plan->steps[plan->lanes[lane].first_step + i], file);
    }
}

void plan_print(const struct plan *plan, FILE *file)
{
    const struct plan_shape *shape = &plan->shape;
    fprintf(file, "plan %s ranks %d", collective_name(shape->collective), shape->rank_count);
    if (collective_is_rooted(shape->collective)) fprintf(file, " root %d", shape->root);
    fprintf(file, " parts %u\n", shape->parts);
    for (int rank = 0; rank < shape->rank_count; rank++) print_rank(plan->ranks[rank], file);
}

/* -------------------------------------------------------------------------------------- reading */

struct parser {
    const char *at, *end; /* of the text */
    unsigned line;
    bool failed;
    enum tutti_status status;
    char *message;
    size_t message_bytes;
    struct plan_budget *budget;

    struct plan *plan;            /* ranks read so far */
    struct plan_builder *builder; /* of the rank being read; NULL before the first */
    int rank;
    uint32_t lane_sizes[PLAN_LANES_MAX]; /* steps in each lane of this rank, counted ahead of reading */
    uint32_t lane_count, lane_count_ahead, step_number;
    uint32_t group_count;
    uint32_t listed; /* of LISTED_MAX */
};

__attribute__((format(printf, 2, 3))) static void fail(struct parser *parser, const char *format,
                                                       ...)
{
    if (parser->failed) return;
    parser->failed = true;
    parser->status = TUTTI_INVALID_ALGORITHM;
    char cause[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cause, sizeof cause, format, arguments);
    va_end(arguments);
    if (parser->budget->end != PLAN_BUDGET_LASTS)
        parser->status = plan_budget_explain(parser->budget, cause, sizeof cause);
    snprintf(parser->message, parser->message_bytes, "line %u: %s", parser->line, cause);
}

static void fail_memory(struct parser *parser)
{
    fail(parser, "out of memory");
    parser->status = TUTTI_NO_MEMORY;
}

/* False: the budget has ended. */
static bool work(struct parser *parser, uint64_t looks)
{
    if (plan_budget_work(parser->budget, looks)) return true;
    fail(parser, "the budget has ended");
    return false;
}

static void skip_blanks(struct parser *parser)
{
    while (parser->at < parser->end &&
           (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\r'))
        parser->at++;
}

static bool at_line_end(struct parser *parser)
{
    skip_blanks(parser);
    return parser->at == parser->end || *parser->at == '\n' || *parser->at == '#';
}

/* To the first character of the next line; false at the end of the text, or of the budget. */
static bool next_line(struct parser *parser)
{
    const char *newline = memchr(parser->at, '\n', (size_t)(parser->end - parser->at));
    if (newline == NULL || !work(parser, 1 + (uint64_t)(newline - parser->at) / 16)) return false;
    parser->at = newline + 1;
    parser->line++;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

/* Takes that punctuation if it comes next. */
static bool take(struct parser *parser, const char *mark)
{
    skip_blanks(parser);
    const size_t length = strlen(mark);
    if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, mark, length) != 0)
        return false;
    parser->at += length;
    return true;
}

static void expect(struct parser *parser, const char *mark)
{
    if (!take(parser, mark)) fail(parser, "expected `%s`", mark);
}

/* Takes that word, and not the beginning of a longer one, if it comes next. */
static bool take_word(struct parser *parser, const char *word)
{
    const char *start = parser->at;
    if (take(parser, word) && (parser->at == parser->end || !is_letter(*parser->at))) return true;
    parser->at = start;
    return false;
}

static bool take_scratch_like(struct parser *parser)
{
    const char *start = parser->at;
    if (take_word(parser, "scratch") && take_word(parser, "like")) return true;
    parser->at = start;
    return false;
}

static bool number_is_next(struct parser *parser)
{
    skip_blanks(parser);
    return parser->at < parser->end && is_digit(*parser->at);
}

/* A number of at most `max`; 0 after a failure. */
static uint32_t number(struct parser *parser, const char *what, uint32_t max)
{
    uint64_t value = 0;
    if (!number_is_next(parser)) {
        fail(parser, "expected a number: %s", what);
        return 0;
    }
    while (parser->at < parser->end && is_digit(*parser->at)) {
        value = value * 10 + (uint64_t)(*parser->at++ - '0');
        if (value > max) {
            fail(parser, "%s is above %u", what, max);
            return 0;
        }
    }
    return (uint32_t)value;
}

static void expect_line_end(struct parser *parser)
{
    if (at_line_end(parser)) return;
    const unsigned char c = (unsigned char)*parser->at;
    if (c > ' ' && c < 127)
        fail(parser, "unexpected `%c`", c);
    else
        fail(parser, "unexpected byte %u", c);
}

/* Builder errors belong to the line that caused them. */
static void check_builder(struct parser *parser)
{
    const char *error = plan_builder_error(parser->builder);
    if (error != NULL) fail(parser, "%s", error);
}

/* "3" or "3..8": the last one comes back, *first is the first one. */
static uint32_t range(struct parser *parser, const char *what, uint32_t max, uint32_t *first)
{
    *first = number(parser, what, max);
    if (!take(parser, "..")) return *first;
    const uint32_t last = number(parser, what, max);
    if (last < *first) fail(parser, "a range that ends before it begins");
    return last;
}

/* A range in a list of which everything is stored. */
static uint32_t listed_range(struct parser *parser, const char *what, uint32_t max, uint32_t *first)
{
    const uint32_t last = range(parser, what, max, first);
    if (parser->failed) return 0;
    if (last - *first >= LISTED_MAX - parser->listed)
        fail(parser, "more group members and scratch chunks than %d", LISTED_MAX);
    else if (work(parser, last - *first + 1))
        parser->listed += last - *first + 1;
    return last;
}

/* -------------------------------------------------------------------------------- head and rank */

static void parse_head(struct parser *parser)
{
    struct plan_shape *shape = &parser->plan->shape;
    if (!take_word(parser, "plan")) fail(parser, "expected `plan COLLECTIVE ranks N parts P`");
    shape->collective = COLLECTIVE_COUNT;
    for (int i = 0; i < COLLECTIVE_COUNT; i++) {
        if (!take_word(parser, collective_name((enum collective)i))) continue;
        shape->collective = (enum collective)i;
        break;
    }
    if (shape->collective == COLLECTIVE_COUNT) fail(parser, "expected a collective's name");
    if (!take_word(parser, "ranks")) fail(parser, "expected `ranks N`");
    shape->rank_count = (int)number(parser, "number of ranks", PLAN_RANKS_MAX);
    if (!parser->failed && shape->rank_count == 0) fail(parser, "no ranks");
    if (!parser->failed && collective_is_rooted(shape->collective)) {
        if (!take_word(parser, "root")) fail(parser, "expected `root R`");
        shape->root = (int)number(parser, "root", (uint32_t)shape->rank_count - 1);
    }
    if (!take_word(parser, "parts")) fail(parser, "expected `parts P`");
    shape->parts = number(parser, "number of parts", UINT32_MAX);
    expect_line_end(parser);
    if (parser->failed) return;
    parser->plan->ranks = calloc((size_t)shape->rank_count, sizeof(struct rank_plan *));
    if (parser->plan->ranks == NULL) fail_memory(parser);
}

/* Steps may come after steps of lanes further down, so the lanes' sizes are counted ahead. */
static void count_lanes_ahead(struct parser *parser)
{
    struct parser ahead = *parser;
    parser->lane_count_ahead = 0;
    memset(parser->lane_sizes, 0, sizeof parser->lane_sizes);
    while (next_line(&ahead) && !take_word(&ahead, "rank")) {
        if (at_line_end(&ahead) || take_word(&ahead, "group") || take_scratch_like(&ahead))
            continue;
        if (take_word(&ahead, "lane"))
            parser->lane_count_ahead++;
        else if (parser->lane_count_ahead > 0 && parser->lane_count_ahead <= PLAN_LANES_MAX)
            parser->lane_sizes[parser->lane_count_ahead - 1]++;
    }
}

static void finish_rank(struct parser *parser)
{
    const char *error;
    struct rank_plan **rank_plan = &parser->plan->ranks[parser->rank];
    const enum tutti_status status = plan_builder_finish(parser->builder, rank_plan, &error);
    plan_builder_free(parser->builder);
    parser->builder = NULL;
    if (status == TUTTI_OK) return;
    fail(parser, "rank %d: %s", parser->rank, error);
    if (status == TUTTI_NO_MEMORY) parser->status = status;
}

static void parse_rank(struct parser *parser)
{
    const struct plan_shape *shape = &parser->plan->shape;
    if (parser->builder != NULL) {
        finish_rank(parser);
        parser->rank++;
    }
    const uint32_t rank = number(parser, "rank", (uint32_t)shape->rank_count - 1);
    expect_line_end(parser);
    if (!parser->failed && rank != (uint32_t)parser->rank)
        fail(parser, "rank %u where rank %d was expected", rank, parser->rank);
    if (parser->failed) return;
    parser->builder =
        plan_builder_create(shape->collective, shape->rank_count, shape->root, parser->rank);
    if (parser->builder == NULL) {
        fail_memory(parser);
        return;
    }
    plan_builder_charge(parser->builder, parser->budget);
    plan_parts(parser->builder, shape->parts);
    check_builder(parser);
    parser->lane_count = parser->step_number = parser->group_count = 0;
    count_lanes_ahead(parser);
}

static void parse_group(struct parser *parser)
{
    const int rank_count = parser->plan->shape.rank_count;
    if (number(parser, "group", GROUPS_MAX - 1) != parser->group_count)
        fail(parser, "expected group %u", parser->group_count);
    expect(parser, ":");
    int *members = malloc(sizeof *members * (size_t)rank_count);
    if (members == NULL) fail_memory(parser);
    int member_count = 0;
    while (!parser->failed && number_is_next(parser)) {
        uint32_t first;
        const uint32_t last =
            listed_range(parser, "member of a group", (uint32_t)rank_count - 1, &first);
        if (member_count > 0 && (int)first <= members[member_count - 1])
            fail(parser, "the members of a group do not ascend");
        for (uint32_t i = first; !parser->failed && i <= last; i++)
            members[member_count++] = (int)i;
    }
    expect_line_end(parser);
    if (!parser->failed) {
        const int group = plan_group(parser->builder, members, member_count);
        check_builder(parser);
        if (group != (int)parser->group_count) fail(parser, "the same group twice");
        parser->group_count++;
    }
    free(members);
}

static void parse_scratch(struct parser *parser)
{
    while (!parser->failed && number_is_next(parser)) {
        uint32_t first;
        const uint32_t last = listed_range(parser, "class", UINT32_MAX, &first);
        for (uint64_t i = first; !parser->failed && i <= last; i++) {
            plan_scratch(parser->builder, (uint32_t)i);
            check_builder(parser);
        }
    }
    expect_line_end(parser);
}

static void parse_lane(struct parser *parser)
{
    if (number(parser, "lane", PLAN_LANES_MAX - 1) != parser->lane_count)
        fail(parser, "expected lane %u", parser->lane_count);
    expect_line_end(parser);
    plan_lane(parser->builder);
    parser->lane_count++;
    parser->step_number = 0;
}

/* ---------------------------------------------------------------------------------------- steps */

/* "in[3..5]": false when no place comes next. *chunk_count is 0 for "in[]". */
static bool parse_place(struct parser *parser, struct plan_location *place, uint32_t *chunk_count)
{
    int buffer = 0;
    while (buffer < PLAN_BUFFER_COUNT && !take_word(parser, buffer_names[buffer])) buffer++;
    if (buffer == PLAN_BUFFER_COUNT) return false;
    *place = (struct plan_location){(enum plan_buffer)buffer, 0};
    *chunk_count = 0;
    expect(parser, "[");
    if (take(parser, "]")) return true;
    const uint32_t last = range(parser, "chunk", UINT32_MAX - 1, &place->first);
    *chunk_count = last - place->first + 1;
    expect(parser, "]");
    return true;
}

/* The chunk count that the first range of the line, or the word `chunks`, gives the step. */
static uint32_t find_chunk_count(const struct parser *parser)
{
    struct parser ahead = *parser;
    ahead.message_bytes = 0; /* mistakes are reported when the text is read */
    while (!at_line_end(&ahead)) {
        struct plan_location place;
        uint32_t chunk_count;
        if (take_word(&ahead, "chunks")) return number(&ahead, "chunks", UINT32_MAX);
        if (parse_place(&ahead, &place, &chunk_count)) return chunk_count;
        if (is_letter(*ahead.at))
            while (ahead.at < ahead.end && is_letter(*ahead.at)) ahead.at++;
        else
            ahead.at++;
    }
    return default_chunk_count(&parser->plan->shape);
}

static void check_chunk_count(struct parser *parser, uint32_t chunk_count, uint32_t wanted)
{
    if (chunk_count != wanted) fail(parser, "%u and %u chunks in one step", wanted, chunk_count);
}

static void parse_channel(struct parser *parser)
{
    const bool said = take_word(parser, "channel");
    plan_channel(parser->builder, said ? (int)number(parser, "channel", PLAN_CHANNELS_MAX - 1) : 0);
}

static uint32_t parse_peer(struct parser *parser)
{
    return number(parser, "peer", (uint32_t)parser->plan->shape.rank_count - 1);
}

static void parse_source(struct parser *parser, uint32_t chunk_count)
{
    struct plan_location place;
    uint32_t place_chunks;
    if (take_word(parser, "from")) {
        const int peer = (int)parse_peer(parser);
        const bool to_group = take_word(parser, "group");
        const int group = to_group ? (int)number(parser, "group", GROUPS_MAX - 1) : PLAN_NO_GROUP;
        parse_channel(parser);
        if (to_group)
            plan_receive_group(parser->builder, peer, group);
        else
            plan_receive(parser->builder, peer);
    } else if (parse_place(parser, &place, &place_chunks)) {
        check_chunk_count(parser, place_chunks, chunk_count);
        plan_read(parser->builder, place.buffer, place.first);
    } else {
        fail(parser, "expected a source: in[], out[], scratch[] or from");
    }
}

static void parse_sink(struct parser *parser, uint32_t chunk_count)
{
    struct plan_location place;
    uint32_t place_chunks;
    if (take_word(parser, "to")) {
        const bool to_group = take_word(parser, "group");
        const int receiver =
            (int)(to_group ? number(parser, "group", GROUPS_MAX - 1) : parse_peer(parser));
        parse_channel(parser);
        if (to_group)
            plan_send_group(parser->builder, receiver);
        else
            plan_send(parser->builder, receiver);
    } else if (parse_place(parser, &place, &place_chunks)) {
        check_chunk_count(parser, place_chunks, chunk_count);
        plan_write(parser->builder, place.buffer, place.first);
    } else {
        fail(parser, "expected a sink: out[], scratch[] or to");
    }
}

static void parse_afters(struct parser *parser)
{
    int count = 0;
    do {
        const uint32_t lane = number(parser, "lane", PLAN_LANES_MAX - 1);
        expect(parser, ".");
        const uint32_t step = number(parser, "step", UINT32_MAX);
        if (parser->failed) return;
        if (++count > AFTERS_MAX) fail(parser, "a step after more than %d others", AFTERS_MAX);
        if (lane >= parser->lane_count_ahead || step >= parser->lane_sizes[lane])
            fail(parser, "there is no step %u.%u", lane, step);
        uint32_t handle = step;
        for (uint32_t i = 0; i < lane; i++) handle += parser->lane_sizes[i];
        if (!parser->failed) plan_after(parser->builder, handle);
    } while (!parser->failed && number_is_next(parser));
}

static void parse_step(struct parser *parser)
{
    if (number_is_next(parser)) {
        if (number(parser, "step", UINT32_MAX) != parser->step_number)
            fail(parser, "expected step %u", parser->step_number);
        expect(parser, ":");
    }
    const uint32_t chunk_count = find_chunk_count(parser);
    plan_begin(parser->builder, chunk_count);
    check_builder(parser); /* before the first lane: nothing more can be said */
    do parse_source(parser, chunk_count);
    while (!parser->failed && take(parser, "+"));
    expect(parser, "->");
    do parse_sink(parser, chunk_count);
    while (!parser->failed && take(parser, ","));
    while (!parser->failed && !at_line_end(parser)) {
        if (take_word(parser, "final"))
            plan_final(parser->builder);
        else if (take_word(parser, "chunks"))
            check_chunk_count(parser, number(parser, "chunks", UINT32_MAX), chunk_count);
        else if (take_word(parser, "after"))
            parse_afters(parser);
        else
            expect_line_end(parser);
    }
    plan_end(parser->builder);
    parser->step_number++;
}

/* ---------------------------------------------------------------------------------------- lines */

static void parse_line(struct parser *parser)
{
    if (parser->plan->ranks == NULL) {
        parse_head(parser);
    } else if (take_word(parser, "rank")) {
        parse_rank(parser);
        return; /* a builder may not be there */
    } else if (parser->builder == NULL) {
        fail(parser, "expected `rank 0`");
    } else if (take_word(parser, "group")) {
        parse_group(parser);
    } else if (take_scratch_like(parser)) {
        parse_scratch(parser);
    } else if (take_word(parser, "lane")) {
        parse_lane(parser);
    } else {
        parse_step(parser);
    }
    if (!parser->failed && parser->builder != NULL) check_builder(parser);
}

static void parse_lines(struct parser *parser)
{
    do
        if (!at_line_end(parser)) parse_line(parser);
    while (!parser->failed && next_line(parser));
    if (parser->failed) return;
    if (parser->plan->ranks == NULL)
        fail(parser, "there is no plan in it");
    else if (parser->builder == NULL || parser->rank != parser->plan->shape.rank_count - 1)
        fail(parser, "the text ends before rank %d", parser->builder == NULL ? 0 : parser->rank + 1);
    else
        finish_rank(parser);
}

enum tutti_status plan_parse_within(const char *text, size_t text_bytes, struct plan_budget *budget,
                                    struct plan **plan, char *message, size_t message_bytes)
{
    *plan = NULL;
    if (message_bytes > 0) message[0] = '\0';
    if (text_bytes == 0) text = "";
    struct parser parser = {.at = text,
                            .end = text + text_bytes,
                            .line = 1,
                            .message = message,
                            .message_bytes = message_bytes,
                            .budget = budget};
    if (text_bytes > TEXT_BYTES_MAX)
        fail(&parser, "a text of more than %d bytes", TEXT_BYTES_MAX);
    else if ((parser.plan = calloc(1, sizeof *parser.plan)) == NULL)
        fail_memory(&parser);
    else
        parse_lines(&parser);
    plan_builder_free(parser.builder);
    if (!parser.failed) {
        *plan = parser.plan;
        return TUTTI_OK;
    }
    plan_free(parser.plan);
    return parser.status;
}

enum tutti_status plan_parse(const char *text, size_t text_bytes, struct plan **plan, char *message,
                             size_t message_bytes)
{
    const struct plan_budget limits = plan_budget_default();
    struct plan_budget budget = plan_budget_to_read(&limits);
    budget.bytes_max += (uint64_t)text_bytes * MEMORY_PER_BYTE;
    return plan_parse_within(text, text_bytes, &budget, plan, message, message_bytes);
}

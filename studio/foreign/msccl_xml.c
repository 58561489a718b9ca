/* msccl_xml.c - expat calls for every element that begins or ends.
 *
 * Four elements stand in each other, so what is open is one number. Attributes that are not known
 * are left alone, as MSCCL's own readers do; elements that are not known are refused. Foreign: the
 * size and the number of everything are bounded, and documents that declare a type, which is what
 * entities would need, are refused.
 */
#include "studio/foreign/msccl_xml.h"

#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "studio/foreign/msccl_algo.h"
#include "studio/foreign/msccl_import.h"

enum { BLOCKS_OF_GPU_MAX = 1024, CHANNELS_MAX = 1 << 10 };

enum element { ELEMENT_ALGO, ELEMENT_GPU, ELEMENT_BLOCK, ELEMENT_STEP, ELEMENT_COUNT };

static const char *const element_names[ELEMENT_COUNT] = {"algo", "gpu", "tb", "step"};

struct reader {
    XML_Parser parser;
    struct msccl_algo algo;
    struct msccl_report *report;
    int depth; /* elements that are open */
    int gpu;   /* the one that is open */
    int gpus_seen;
    int block_room, step_room;
};

/* --------------------------------------------------------------------------------------- errors */

static int line_of(const struct reader *reader)
{
    return (int)XML_GetCurrentLineNumber(reader->parser);
}

static bool has_failed(const struct reader *reader)
{
    return reader->report->verdict != MSCCL_PROVEN;
}

/* The first failure ends reading. The place is what is open. */
__attribute__((format(printf, 3, 4))) static void
fail(struct reader *reader, enum msccl_verdict verdict, const char *format, ...)
{
    char why[200];
    const struct msccl_algo *algo = &reader->algo;
    int gpu = -1, block = -1, step = -1;
    if (has_failed(reader)) return;
    if (reader->depth > 1) gpu = reader->gpu;
    if (reader->depth > 2) block = algo->gpus[gpu].block_count - 1;
    if (reader->depth > 2 && algo->blocks[algo->block_count - 1].step_count > 0)
        step = algo->blocks[algo->block_count - 1].step_count - 1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    msccl_refuse(reader->report, verdict, line_of(reader), gpu, block, step, "%s", why);
    XML_StopParser(reader->parser, XML_FALSE);
}

/* ----------------------------------------------------------------------------------- attributes */

static const char *find(const char **attributes, const char *name)
{
    for (; attributes[0] != NULL; attributes += 2)
        if (strcmp(attributes[0], name) == 0) return attributes[1];
    return NULL;
}

/* -1, or a whole number up to max: at least `min`. */
static int read_number(struct reader *reader, const char **attributes, const char *name, int min,
                       int max)
{
    const char *text = find(attributes, name);
    int64_t value = 0;
    if (text == NULL) {
        fail(reader, MSCCL_WRONG, "%s=\"...\" is missing", name);
        return min;
    }
    const char *c = text;
    if (strcmp(text, "-1") == 0) {
        value = -1;
    } else {
        for (; *c >= '0' && *c <= '9' && value <= max; c++) value = value * 10 + (*c - '0');
        if (c == text || *c != '\0') value = INT64_MAX;
    }
    if (value >= min && value <= max) return (int)value;
    fail(reader, MSCCL_WRONG, "%s=\"%.30s\": a number from %d to %d is expected", name, text, min,
         max);
    return min;
}

static int read_number_or(struct reader *reader, const char **attributes, const char *name, int min,
                          int max, int absent)
{
    return find(attributes, name) == NULL ? absent : read_number(reader, attributes, name, min, max);
}

static enum collective read_collective(struct reader *reader, const char **attributes)
{
    const char *name = find(attributes, "coll");
    if (name == NULL) {
        fail(reader, MSCCL_WRONG, "coll=\"...\" is missing");
        return COLLECTIVE_COUNT;
    }
    const enum collective collective =
        strcmp(name, "reducescatter") == 0 ? COLLECTIVE_REDUCE_SCATTER : collective_from_name(name);
    if (collective == COLLECTIVE_COUNT || collective == COLLECTIVE_BARRIER)
        fail(reader, MSCCL_NOT_EXPRESSIBLE, "coll=\"%.30s\" is no collective that a plan computes",
             name);
    return collective;
}

static enum msccl_buffer read_buffer(struct reader *reader, const char **attributes,
                                     const char *name)
{
    const char *text = find(attributes, name);
    if (text != NULL && strcmp(text, "i") == 0) return MSCCL_INPUT;
    if (text != NULL && strcmp(text, "o") == 0) return MSCCL_OUTPUT;
    if (text != NULL && strcmp(text, "s") == 0) return MSCCL_SCRATCH;
    fail(reader, MSCCL_WRONG, "%s=\"%.30s\": i, o or s is expected", name, text != NULL ? text : "");
    return MSCCL_INPUT;
}

static enum msccl_type read_type(struct reader *reader, const char **attributes)
{
    const char *text = find(attributes, "type");
    for (int i = 0; text != NULL && i < MSCCL_TYPE_COUNT; i++)
        if (strcmp(msccl_types[i].name, text) == 0) return (enum msccl_type)i;
    fail(reader, MSCCL_WRONG, "type=\"%.30s\" is no type of step", text != NULL ? text : "");
    return MSCCL_NOP;
}

/* ------------------------------------------------------------------------------------- elements */

static void *grow(struct reader *reader, void *items, size_t item_bytes, int count, int *room)
{
    if (count < *room) return items;
    const int wanted = 2 * *room + 64;
    void *grown = reallocarray(items, (size_t)wanted, item_bytes);
    if (grown == NULL) {
        fail(reader, MSCCL_NOT_KNOWN, "out of memory");
        return items;
    }
    *room = wanted;
    return grown;
}

static void begin_algo(struct reader *reader, const char **attributes)
{
    struct msccl_algo *algo = &reader->algo;
    algo->gpu_count = read_number(reader, attributes, "ngpus", 1, MSCCL_GPUS_MAX);
    algo->channel_count = read_number(reader, attributes, "nchannels", 0, CHANNELS_MAX);
    algo->chunk_count = read_number(reader, attributes, "nchunksperloop", 1, MSCCL_CHUNKS_MAX);
    algo->in_place = read_number_or(reader, attributes, "inplace", 0, 1, 0) == 1;
    algo->root = read_number_or(reader, attributes, "root", 0, algo->gpu_count - 1, 0);
    algo->collective = read_collective(reader, attributes);
    if (has_failed(reader)) return;
    if (!collective_is_rooted(algo->collective)) algo->root = 0;
    algo->gpus = calloc((size_t)algo->gpu_count, sizeof *algo->gpus);
    if (algo->gpus == NULL) fail(reader, MSCCL_NOT_KNOWN, "out of memory");
}

static void begin_gpu(struct reader *reader, const char **attributes)
{
    struct msccl_algo *algo = &reader->algo;
    const int id = read_number(reader, attributes, "id", 0, algo->gpu_count - 1);
    const int chunks[] = {
        read_number(reader, attributes, "i_chunks", 0, MSCCL_CHUNKS_MAX),
        read_number(reader, attributes, "o_chunks", 0, MSCCL_CHUNKS_MAX),
        read_number(reader, attributes, "s_chunks", 0, MSCCL_CHUNKS_MAX),
    };
    if (!has_failed(reader) && algo->gpus[id].line > 0)
        fail(reader, MSCCL_WRONG, "gpu %d comes twice", id);
    if (has_failed(reader)) return;
    struct msccl_gpu *gpu = &algo->gpus[id];
    gpu->line = line_of(reader);
    memcpy(gpu->chunks, chunks, sizeof chunks);
    gpu->first_block = algo->block_count;
    reader->gpu = id;
    reader->gpus_seen++;
}

static void begin_block(struct reader *reader, const char **attributes)
{
    struct msccl_algo *algo = &reader->algo;
    struct msccl_gpu *gpu = &algo->gpus[reader->gpu];
    const int id = read_number(reader, attributes, "id", 0, BLOCKS_OF_GPU_MAX - 1);
    struct msccl_block block = {
        .line = line_of(reader),
        .gpu = reader->gpu,
        .send = read_number(reader, attributes, "send", -1, algo->gpu_count - 1),
        .receive = read_number(reader, attributes, "recv", -1, algo->gpu_count - 1),
        .channel = read_number(reader, attributes, "chan", -1, CHANNELS_MAX - 1),
        .first_step = algo->step_count};
    if (id != gpu->block_count)
        fail(reader, MSCCL_WRONG, "tb %d where tb %d is expected", id, gpu->block_count);
    if (block.send == reader->gpu || block.receive == reader->gpu)
        fail(reader, MSCCL_WRONG, "tb %d: the gpu is its own peer", id);
    if ((block.channel < 0 || block.channel >= algo->channel_count) &&
        (block.send >= 0 || block.receive >= 0))
        fail(reader, MSCCL_WRONG, "tb %d: channel %d of %d", id, block.channel, algo->channel_count);
    algo->blocks =
        grow(reader, algo->blocks, sizeof *algo->blocks, algo->block_count, &reader->block_room);
    if (has_failed(reader)) return;
    algo->blocks[algo->block_count++] = block;
    gpu->block_count++;
}

static void begin_step(struct reader *reader, const char **attributes)
{
    struct msccl_algo *algo = &reader->algo;
    if (algo->step_count == MSCCL_STEPS_MAX)
        fail(reader, MSCCL_NOT_EXPRESSIBLE, "more than %d steps", MSCCL_STEPS_MAX);
    algo->steps =
        grow(reader, algo->steps, sizeof *algo->steps, algo->step_count, &reader->step_room);
    if (has_failed(reader)) return;
    struct msccl_block *block = &algo->blocks[algo->block_count - 1];
    const int number = block->step_count++; /* messages from here on are about this step */
    struct msccl_step *step = &algo->steps[algo->step_count++];
    *step = (struct msccl_step){.line = line_of(reader), .type = read_type(reader, attributes)};
    const struct msccl_traits *traits = &msccl_types[step->type];
    if (read_number(reader, attributes, "s", 0, MSCCL_STEPS_MAX) != number)
        fail(reader, MSCCL_WRONG, "s=\"%.30s\" where step %d is expected", find(attributes, "s"),
             number);
    if (traits->reads) {
        step->source_buffer = read_buffer(reader, attributes, "srcbuf");
        step->source = read_number(reader, attributes, "srcoff", 0, MSCCL_CHUNKS_MAX);
    }
    if (traits->stores) {
        step->destination_buffer = read_buffer(reader, attributes, "dstbuf");
        step->destination = read_number(reader, attributes, "dstoff", 0, MSCCL_CHUNKS_MAX);
    }
    if (step->type != MSCCL_NOP)
        step->count = read_number(reader, attributes, "cnt", 1, MSCCL_CHUNKS_MAX);
    step->after_block = read_number_or(reader, attributes, "depid", -1, BLOCKS_OF_GPU_MAX - 1, -1);
    step->after_step = read_number_or(reader, attributes, "deps", -1, MSCCL_STEPS_MAX, -1);
    step->is_awaited = read_number_or(reader, attributes, "hasdep", 0, 1, 0) == 1;
    if ((step->after_block < 0) != (step->after_step < 0))
        fail(reader, MSCCL_WRONG, "one of depid and deps is -1, the other one is not");
    if (traits->sends && block->send < 0)
        fail(reader, MSCCL_WRONG, "sends, and its thread block has nobody to send to");
    if (traits->receives && block->receive < 0)
        fail(reader, MSCCL_WRONG, "receives, and its thread block has nobody to receive from");
}

static void XMLCALL begin_element(void *context, const char *name, const char **attributes)
{
    struct reader *reader = context;
    if (has_failed(reader)) return;
    if (reader->depth == ELEMENT_COUNT || strcmp(element_names[reader->depth], name) != 0) {
        fail(reader, MSCCL_WRONG, "<%.30s> is not expected here", name);
        return;
    }
    switch ((enum element)reader->depth) {
    case ELEMENT_ALGO: begin_algo(reader, attributes); break;
    case ELEMENT_GPU: begin_gpu(reader, attributes); break;
    case ELEMENT_BLOCK: begin_block(reader, attributes); break;
    case ELEMENT_STEP: begin_step(reader, attributes); break;
    case ELEMENT_COUNT: break;
    }
    reader->depth++;
}

static void XMLCALL end_element(void *context, const char *name)
{
    struct reader *reader = context;
    (void)name;
    if (!has_failed(reader)) reader->depth--;
}

/* Entities need a document type, and no schedule needs entities. */
static void XMLCALL refuse_doctype(void *context, const char *name, const char *system_id,
                                   const char *public_id, int has_internal_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    fail(context, MSCCL_WRONG, "a document type is not expected here");
}

/* ------------------------------------------------------------------------------------------ all */

static void read_all(struct reader *reader, const char *text, size_t text_bytes)
{
    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, begin_element, end_element);
    XML_SetStartDoctypeDeclHandler(reader->parser, refuse_doctype);
    if (XML_Parse(reader->parser, text, (int)text_bytes, 1) != XML_STATUS_OK) {
        const enum XML_Error error = XML_GetErrorCode(reader->parser);
        fail(reader, error == XML_ERROR_NO_MEMORY ? MSCCL_NOT_KNOWN : MSCCL_WRONG, "%s",
             XML_ErrorString(error));
    }
    for (int i = 0; !has_failed(reader) && i < reader->algo.gpu_count; i++)
        if (reader->algo.gpus[i].line == 0)
            fail(reader, MSCCL_WRONG, "gpu %d of %d is missing", i, reader->algo.gpu_count);
}

void msccl_xml_load(const char *text, size_t text_bytes, struct plan **plan,
                    struct msccl_report *report)
{
    *plan = NULL;
    *report = (struct msccl_report){.gpu = -1, .block = -1, .step = -1};
    if (text_bytes > MSCCL_XML_BYTES_MAX) {
        msccl_refuse(report, MSCCL_NOT_EXPRESSIBLE, 0, -1, -1, -1, "more than %d bytes of XML",
                     MSCCL_XML_BYTES_MAX);
        return;
    }
    struct reader reader = {.parser = XML_ParserCreate(NULL), .report = report};
    if (reader.parser == NULL) {
        msccl_refuse(report, MSCCL_NOT_KNOWN, 0, -1, -1, -1, "out of memory");
        return;
    }
    read_all(&reader, text, text_bytes);
    XML_ParserFree(reader.parser);
    if (report->verdict == MSCCL_PROVEN) msccl_import(&reader.algo, plan, report);
    msccl_algo_release(&reader.algo);
}

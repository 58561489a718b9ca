#include "server/server_message.h"

#include <inttypes.h>
#include <string.h>

#include "base/encoding.h"
#include "base/printable.h"
#include "base/status.h"
#include "membership/rank_set.h"
#include "membership/step_leader.h"

static bool is_known(unsigned kind)
{
    return kind >= SERVER_PUSH && kind < SERVER_KIND_END;
}

static bool is_between_servers(unsigned kind)
{
    return kind >= SERVER_HAS;
}

static bool has_parts(unsigned kind)
{
    return kind == SERVER_PUSH || kind == SERVER_SET || kind == SERVER_PULL;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* Elements of a part; false: more than any message has. */
static bool elements_of(const struct server_division *division,
                        const struct server_request_part *part, uint64_t *elements)
{
    const uint64_t width = part->is_rows ? division->tables[part->table].width : 1;
    const uint64_t elements_max = division->payload_max / sizeof(float);
    if (part->count > elements_max / width) return false;
    *elements = part->count * width;
    return true;
}

bool server_part_bytes(const struct server_division *division, const struct server_request *request,
                       const struct server_request_part *part, size_t *row_bytes,
                       size_t *value_bytes)
{
    uint64_t elements;
    if (!elements_of(division, part, &elements)) return false;
    size_t bytes = elements * sizeof(float);
    if (request->encoding != TUTTI_ENCODING_NONE &&
        tutti_encoded_size((enum tutti_encoding)request->encoding, TUTTI_FLOAT32, elements,
                           &bytes) != TUTTI_OK)
        return false;
    *row_bytes = part->is_rows ? part->count * sizeof(int64_t) : 0;
    *value_bytes = request->kind == SERVER_PULL ? 0 : padded(bytes);
    return true;
}

size_t server_reply_bytes(const struct server_division *division,
                          const struct server_request *request,
                          const struct server_request_part *parts)
{
    size_t bytes = 0;
    for (size_t i = 0; i < request->part_count; i++) {
        uint64_t elements = 0;
        if (elements_of(division, &parts[i], &elements)) bytes += elements * sizeof(float);
    }
    return bytes;
}

size_t server_alone_bytes(const struct server_division *division,
                          const struct server_request *request,
                          const struct server_request_part *part)
{
    uint64_t elements;
    if (!has_parts(request->kind) || request->encoding != TUTTI_ENCODING_NONE ||
        !elements_of(division, part, &elements))
        return 0;
    const bool has_rows = part->is_rows && request->kind != SERVER_PULL;
    const size_t bytes = elements * sizeof(float) + (has_rows ? part->count * sizeof(int64_t) : 0);
    return bytes >= SERVER_ALONE_BYTES ? bytes : 0;
}

size_t server_rest_bytes(const struct server_division *division,
                         const struct server_request *request,
                         const struct server_request_part *parts)
{
    const bool is_pull = request->kind == SERVER_PULL;
    size_t bytes = is_pull ? server_reply_bytes(division, request, parts) : request->payload_bytes;
    for (size_t i = 0; i < request->part_count; i++) {
        const size_t alone = server_alone_bytes(division, request, &parts[i]);
        if (alone > 0) bytes -= is_pull ? alone : padded(alone);
    }
    return bytes;
}

/* ------------------------------------------------------------------------------------- requests */

static enum tutti_status check_head(const struct server_ends *ends,
                                    const struct server_request *request)
{
    if (request->magic != SERVER_MAGIC)
        return error_set(TUTTI_MISMATCH, "it is no request to a parameter server");
    if (request->version != SERVER_VERSION)
        return error_set(TUTTI_VERSION,
                         "it is of version %u of the parameter server's messages, this library has "
                         "version %d; install the same Tutti on all hosts",
                         request->version, SERVER_VERSION);
    if (!is_known(request->kind) || is_between_servers(request->kind) != ends->is_from_server)
        return error_set(TUTTI_MISMATCH, "its kind is %u, which nobody sends there", request->kind);
    if (!ends->is_from_server && (request->sequence == 0 || request->slot >= SERVER_SLOTS))
        return error_set(TUTTI_MISMATCH, "its number is %" PRIu64 ", in slot %u", request->sequence,
                         request->slot);
    if (request->encoding != TUTTI_ENCODING_NONE &&
        (!encoding_is_valid((enum tutti_encoding)request->encoding) ||
         (request->kind != SERVER_PUSH && request->kind != SERVER_SET)))
        return error_set(TUTTI_MISMATCH, "its encoding is %u, which is unknown here",
                         request->encoding);
    return TUTTI_OK;
}

static enum tutti_status check_part(const struct server_ends *ends,
                                    const struct server_request_part *part)
{
    const struct server_division *const division = ends->division;
    if (part->table >= division->table_count)
        return error_set(TUTTI_MISMATCH, "there is no table %u", part->table);
    const struct division_table *const table = &division->tables[part->table];
    if (part->is_rows != table->is_rows)
        return error_set(TUTTI_MISMATCH, "table '%s' is %s", table->name,
                         table->is_rows ? "one of rows" : "a dense tensor");
    if (ends->share < 0) return error_set(TUTTI_MISMATCH, "this server has no part of the tables");
    if (part->is_rows) return TUTTI_OK;
    uint64_t first, share;
    division_dense(division, part->table, ends->share, &first, &share);
    if (part->count != share)
        return error_set(TUTTI_MISMATCH,
                         "it has %" PRIu64 " elements of '%s', of which this server has %" PRIu64,
                         part->count, table->name, share);
    return TUTTI_OK;
}

static enum tutti_status check_parts(const struct server_ends *ends,
                                     const struct server_request *request,
                                     const struct server_request_part *parts)
{
    const uint64_t payload_max = ends->division->payload_max;
    uint64_t payload = 0, reply = 0;
    for (uint32_t i = 0; i < request->part_count; i++) {
        size_t row_bytes, value_bytes;
        uint64_t elements;
        TRY(check_part(ends, &parts[i]));
        if (!server_part_bytes(ends->division, request, &parts[i], &row_bytes, &value_bytes) ||
            !elements_of(ends->division, &parts[i], &elements))
            return error_set(TUTTI_MISMATCH, "it is too large");
        payload += (uint64_t)row_bytes + value_bytes;
        reply += elements * sizeof(float);
        if (payload > payload_max || reply > payload_max)
            return error_set(TUTTI_MISMATCH, "it is too large");
    }
    if (payload != request->payload_bytes)
        return error_set(TUTTI_MISMATCH, "its payload has %" PRIu64 " bytes, not %" PRIu64,
                         request->payload_bytes, payload);
    return TUTTI_OK;
}

size_t server_base_bytes(const struct server_division *division)
{
    const int workers = division->worker_count;
    const size_t record = SERVER_BASE_HEAD + rank_set_words(workers);
    return (step_base_words(workers, division_seats(division)) + (size_t)workers * record) *
           sizeof(uint64_t);
}

static bool is_about_worker(unsigned kind)
{
    return kind == SERVER_HAS || kind == SERVER_LOST || kind == SERVER_LEFT ||
           kind == SERVER_LINKED || kind == SERVER_CAME || kind == SERVER_KEPT ||
           kind == SERVER_BEGUN;
}

static bool is_entry_of_seat(unsigned kind)
{
    return kind == SERVER_INVITED || kind == SERVER_JOINED || kind == SERVER_FULL ||
           kind == SERVER_OUT;
}

static bool is_about_seat(unsigned kind)
{
    return is_entry_of_seat(kind) || kind == SERVER_GONE || kind == SERVER_RESUME;
}

/* Between seats. */
static enum tutti_status check_seats(const struct server_ends *ends,
                                     const struct server_request *request)
{
    const struct server_division *const division = ends->division;
    const uint64_t workers = (uint64_t)division->worker_count;
    const unsigned kind = request->kind;
    if (is_about_worker(kind) && request->number >= workers)
        return error_set(TUTTI_MISMATCH, "it is about worker %" PRIu64, request->number);
    if (is_about_seat(kind) && request->number >= (uint64_t)division_seats(division))
        return error_set(TUTTI_MISMATCH, "it is about seat %" PRIu64, request->number);
    if (is_entry_of_seat(kind) && request->left_count >= (uint64_t)division->server_count)
        return error_set(TUTTI_MISMATCH, "it is about share %" PRIu64, request->left_count);
    if ((kind == SERVER_OVER || kind == SERVER_PIECE) && request->number > 1)
        return error_set(TUTTI_MISMATCH, "its number is %" PRIu64, request->number);
    const bool ends_round = kind == SERVER_CHANGED || kind == SERVER_KEPT;
    if (ends_round && request->left_count > workers - (kind == SERVER_KEPT))
        return error_set(TUTTI_MISMATCH, "it is about %" PRIu64 " workers", request->left_count);
    if (kind == SERVER_DECIDED && (request->left_count == 0 || request->left_count > workers))
        return error_set(TUTTI_MISMATCH, "it decides with %" PRIu64 " workers", request->left_count);
    if ((kind == SERVER_DECIDED || kind == SERVER_LEFT || kind == SERVER_CAME ||
         is_entry_of_seat(kind)) &&
        request->sequence == 0)
        return error_set(TUTTI_MISMATCH, "it is an entry without an index");
    return TUTTI_OK;
}

/* Whether a request without parts may have a payload of so many bytes. */
static bool has_payload(const struct server_division *division, const struct server_request *request)
{
    const uint64_t bytes = request->payload_bytes;
    switch (request->kind) {
    case SERVER_DECIDED: return bytes == rank_set_words(division->worker_count) * sizeof(uint64_t);
    case SERVER_BASE: return bytes == server_base_bytes(division);
    case SERVER_PIECE: return bytes <= SERVER_PIECE_BYTES_MAX;
    default: return bytes == 0;
    }
}

static enum tutti_status check_rest(const struct server_ends *ends,
                                    const struct server_request *request)
{
    if (request->part_count != 0 || !has_payload(ends->division, request))
        return error_set(TUTTI_MISMATCH, "its payload has %" PRIu64 " bytes, and kind %u",
                         request->payload_bytes, request->kind);
    if (request->kind == SERVER_CHANGE &&
        request->left_count > (uint64_t)ends->division->worker_count)
        return error_set(TUTTI_MISMATCH, "it asks seat %d for a quorum of %" PRIu64, ends->seat,
                         request->left_count);
    return ends->is_from_server ? check_seats(ends, request) : TUTTI_OK;
}

enum tutti_status server_request_read(const struct server_ends *ends, const void *bytes,
                                      size_t size, struct server_request *request,
                                      struct server_request_part *parts)
{
    if (size < sizeof *request)
        return error_set(TUTTI_MISMATCH, "it has %zu bytes, too few for a request", size);
    memcpy(request, bytes, sizeof *request);
    TRY(check_head(ends, request));
    const size_t whole = sizeof *request + (size_t)request->part_count * sizeof *parts;
    const bool fits = size == whole || (request->payload_bytes <= SERVER_INLINE_BYTES &&
                                        size == whole + request->payload_bytes);
    if (request->part_count > TUTTI_SERVER_PARTS || !fits)
        return error_set(TUTTI_MISMATCH, "it has %zu bytes, and %u parts", size,
                         request->part_count);
    if (!has_parts(request->kind)) return check_rest(ends, request);
    memcpy(parts, (const char *)bytes + sizeof *request, request->part_count * sizeof *parts);
    return check_parts(ends, request, parts);
}

enum tutti_status server_rows_check(const struct server_ends *ends, size_t table, size_t count,
                                    const int64_t *rows)
{
    const struct division_table *const of = &ends->division->tables[table];
    for (size_t i = 0; i < count; i++) {
        if (rows[i] < 0 || (uint64_t)rows[i] >= of->row_count)
            return error_set(TUTTI_INVALID_COUNT,
                             "row %" PRId64 " of table '%s' is out of range: it has %" PRIu64
                             " rows",
                             rows[i], of->name, of->row_count);
        if (division_of_row(ends->division, (uint64_t)rows[i]) != ends->share)
            return error_set(TUTTI_INVALID_COUNT,
                             "row %" PRId64 " of table '%s' is not on this server", rows[i],
                             of->name);
    }
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- replies */

enum tutti_status server_reply_read(struct server_reply *reply, size_t size, size_t payload_max)
{
    if (size < sizeof *reply || reply->magic != SERVER_MAGIC || reply->version != SERVER_VERSION ||
        reply->status >= STATUS_COUNT || reply->status == TUTTI_IN_PROGRESS ||
        reply->payload_bytes > payload_max)
        return error_set(TUTTI_INTERNAL, "the server's answer makes no sense");
    const bool is_inline = reply->status == TUTTI_OK && reply->payload_bytes <= SERVER_INLINE_BYTES;
    if (size != sizeof *reply + (is_inline ? reply->payload_bytes : 0))
        return error_set(TUTTI_INTERNAL, "the server's answer makes no sense");
    if (reply->status == TUTTI_OK) return TUTTI_OK;
    reply->text[sizeof reply->text - 1] = 0;
    printable_make(reply->text);
    return error_set((enum tutti_status)reply->status, "%s", reply->text);
}

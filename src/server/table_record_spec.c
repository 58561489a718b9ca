/* A table's spec in a record. */
#include "server/table_record.h"

/* X(type of the number in a record, member of the spec) */
#define NUMBERS(X)                     \
    X(uint64_t, count)                 \
    X(uint64_t, first)                 \
    X(uint64_t, share)                 \
    X(uint64_t, width)                 \
    X(uint64_t, seed)                  \
    X(double, optimizer.rate)          \
    X(double, optimizer.weight_decay)  \
    X(double, optimizer.momentum)      \
    X(double, optimizer.rate_decay)    \
    X(double, optimizer.first_beta)    \
    X(double, optimizer.second_beta)   \
    X(double, optimizer.epsilon)       \
    X(double, optimizer.initial_state) \
    X(float, initial.value)            \
    X(float, initial.scale)            \
    X(uint32_t, kind)                  \
    X(uint32_t, initial.kind)          \
    X(uint32_t, optimizer.kind)        \
    X(uint32_t, optimizer.state_count) \
    X(uint32_t, optimizer.decoupled)   \
    X(uint32_t, optimizer.nesterov)    \
    X(uint32_t, refuses_nan)

enum { NAME_SIZE_BYTES = 4, STEPS_BYTES = 8 };
#define NUMBER_BYTES(type, member) +sizeof(type)
_Static_assert(0 NUMBERS(NUMBER_BYTES) + NAME_SIZE_BYTES + STEPS_BYTES == RECORD_SPEC_BYTES,
               "the bytes of a spec");
#undef NUMBER_BYTES

/* No table ever takes so many steps. */
#define STEPS_MAX (UINT64_C(1) << 62)

size_t table_record_spec_bytes(const struct table_spec *spec)
{
    return RECORD_SPEC_BYTES + (strlen(spec->name) + 3) / 4 * 4;
}

void table_record_spec_print(const struct table_spec *spec, uint64_t steps, unsigned char *body)
{
    const size_t name_bytes = strlen(spec->name), bytes = table_record_spec_bytes(spec);
#define PRINT(type, member)                           \
    {                                                 \
        const type number = (type)spec->member;       \
        record_swap(body, &number, sizeof number, 1); \
        body += sizeof number;                        \
    }
    NUMBERS(PRINT)
#undef PRINT
    record_put(body, NAME_SIZE_BYTES, name_bytes);
    record_put(body + NAME_SIZE_BYTES, STEPS_BYTES, steps);
    memset(body + NAME_SIZE_BYTES + STEPS_BYTES, 0, bytes - RECORD_SPEC_BYTES);
    memcpy(body + NAME_SIZE_BYTES + STEPS_BYTES, spec->name, name_bytes);
}

static void parse(const unsigned char *body, struct table_spec *spec)
{
    memset(spec, 0, sizeof *spec);
#define PARSE(type, member)                              \
    {                                                    \
        type number;                                     \
        record_swap(&number, body, sizeof number, 1);    \
        spec->member = (__typeof__(spec->member))number; \
        body += sizeof number;                           \
    }
    NUMBERS(PARSE)
#undef PARSE
}

bool table_record_spec_parse(const unsigned char *body, size_t bytes, struct table_spec *spec,
                             char *name, uint64_t *steps)
{
    unsigned char again[RECORD_SPEC_BYTES_MAX];
    if (bytes <= RECORD_SPEC_BYTES || bytes > RECORD_SPEC_BYTES_MAX) return false;
    const unsigned char *const tail = body + RECORD_SPEC_BYTES - NAME_SIZE_BYTES - STEPS_BYTES;
    const uint64_t name_bytes = record_get(tail, NAME_SIZE_BYTES);
    if (name_bytes > TABLE_NAME_BYTES_MAX || name_bytes > bytes - RECORD_SPEC_BYTES) return false;
    parse(body, spec);
    *steps = record_get(tail + NAME_SIZE_BYTES, STEPS_BYTES);
    memcpy(name, body + RECORD_SPEC_BYTES, name_bytes);
    name[name_bytes] = '\0';
    spec->name = name;
    if (*steps > STEPS_MAX || table_record_spec_bytes(spec) != bytes) return false;
    table_record_spec_print(spec, *steps, again); /* there is one form alone */
    return memcmp(again, body, bytes) == 0;
}

bool table_record_spec_differs(const struct table_spec *a, const struct table_spec *b)
{
    unsigned char bytes[2][RECORD_SPEC_BYTES_MAX];
    struct table_spec same_rate = *b;
    same_rate.optimizer.rate = a->optimizer.rate;
    table_record_spec_print(a, 0, bytes[0]);
    table_record_spec_print(&same_rate, 0, bytes[1]);
    const size_t size = table_record_spec_bytes(a);
    return size != table_record_spec_bytes(b) || memcmp(bytes[0], bytes[1], size) != 0;
}

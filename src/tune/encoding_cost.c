#include "tune/encoding_cost.h"

#include <string.h>

#include "base/dtype.h"

/* The time that a core takes to encode and to decode a byte of float32, in picoseconds: what a
 * virtual machine with AVX-512 took for 1 MiB in its caches, rounded up. Of the encodings in a byte
 * or less, the slowest. */
struct codec_cost {
    uint32_t encode_ps, decode_ps;
};

/* 16-bit floats become float32 on the way, at the time of a codec of 16 bits, and a byte of them is
 * two of float32. */
static struct codec_cost codec_cost_of(enum tutti_encoding encoding, enum tutti_dtype dtype)
{
    const bool is_half = encoding_unit_elements(encoding) == 1 && encoding_unit_bytes(encoding) == 2;
    if (dtype != TUTTI_FLOAT32) return (struct codec_cost){2 * (160 + 50), 2 * (75 + 50)};
    return is_half ? (struct codec_cost){50, 50} : (struct codec_cost){160, 75};
}

static uint64_t part_of(uint64_t whole, uint64_t permille)
{
    return whole * permille / 1000;
}

static void carry_fewer(struct model_port *port, uint64_t permille)
{
    port->message.byte_fs = part_of(port->message.byte_fs, permille);
    port->burst_bytes = port->burst_bytes * 1000 / permille;
    port->queue_bytes = port->queue_bytes * 1000 / permille;
}

void encoding_cost_apply(enum tutti_encoding encoding, enum tutti_dtype dtype,
                         enum encoded_links links, struct model_machine *machine,
                         struct calibration_tables *tables)
{
    const uint64_t permille = (uint64_t)encoding_unit_bytes(encoding) * 1000 /
                              ((uint64_t)encoding_unit_elements(encoding) * dtype_size(dtype));
    const struct codec_cost codec = codec_cost_of(encoding, dtype);
    carry_fewer(&machine->uplink, permille);
    if (links != ENCODED_RACKS) carry_fewer(&machine->card, permille);
    if (machine->between == NULL) return;
    struct path_table *const table = &tables->tables[CALIBRATION_BETWEEN];
    struct path_row *const rows = tables->rows[CALIBRATION_BETWEEN];
    const unsigned count = machine->between->row_count;
    if (machine->between->rows != rows) memcpy(rows, machine->between->rows, count * sizeof *rows);
    if (machine->between != table) *table = *machine->between;
    table->rows = rows;
    machine->between = table;
    const uint64_t left = links == ENCODED_RACKS ? 1000 : permille;
    for (unsigned i = 0; i < count; i++) {
        struct path_cost *const cost = &rows[i].cost;
        cost->sender_ps_a_byte = (uint32_t)part_of(cost->sender_ps_a_byte, left) + codec.encode_ps;
        cost->receiver_ps_a_byte =
            (uint32_t)part_of(cost->receiver_ps_a_byte, left) + codec.decode_ps;
    }
}

/* snapshot.h - a server's part of the tables in a file of a folder, "server-0-of-2.tables".
 *
 *     head    magic, format, number of the server, of servers and of tables, step    32 bytes
 *     records of table_copy.h, of one pass
 *     tail    bytes of the records, CRC-32C of head and records, magic               16 bytes
 *
 * Numbers are little-endian. A file is written beside the old one and then takes its place, so one of
 * both is there whole, whatever happens. A file is foreign until its tail says that it is
 * whole; each record is checked once more as it is loaded.
 */
#ifndef TUTTI_SERVER_SNAPSHOT_H
#define TUTTI_SERVER_SNAPSHOT_H

#include <stdint.h>

#include "server/table.h"

struct snapshot_part {
    int server, server_count;
    uint64_t step; /* after which the tables were like this */
};

/* Writes the tables. Nobody changes them meanwhile. Blocks as long as the file system does. SYSTEM (the
 * folder is not there), NO_SPACE: then the old file is there. INVALID_OPTIONS: its name is empty. NO_MEMORY. */
enum tutti_status snapshot_write(const struct tables *tables, const char *folder,
                                 const struct snapshot_part *part);
/* Sets the tables, which have their initial values, and part->step. SYSTEM: there is no such file, or
 * it cannot be read. CORRUPT: it is not whole. INVALID_OPTIONS: it has other tables, or the folder those of another number of servers. NO_MEMORY. After a
 * failure the tables are of no use. */
enum tutti_status snapshot_read(struct tables *tables, const char *folder,
                                struct snapshot_part *part);

#endif

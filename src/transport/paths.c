#include "transport/paths.h"

#include <string.h>

#include "transport/card/card.h"
#include "transport/card/card_device.h"
#include "transport/card/message.h"
#include "transport/card/paths.h"
#include "transport/local/local.h"
#include "transport/local/paths.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/paths.h"
#include "transport/tcp/tcp.h"

const struct path_table *transport_paths(const char *name)
{
    if (strcmp(name, "local") == 0) return local_paths(false);
    if (strcmp(name, "tcp") == 0) return tcp_paths();
    if (strcmp(name, "card") == 0) return card_paths();
    return NULL;
}

bool transport_path_of(const char *name, int rank_count, struct transport_path *path)
{
    const struct path_table *table = transport_paths(name);
    if (table == NULL) return false;
    *path = (struct transport_path){.map.tables = {table}};
    if (table == tcp_paths()) {
        path->piece_bytes_max = TCP_FRAME_BYTES_MAX;
        path->piece_count_max = TCP_PIECE_COUNT_DEFAULT;
    } else if (table == card_paths()) {
        path->piece_bytes_max = CARD_MESSAGE_BYTES_USUAL - CARD_MESSAGE_HEAD_BYTES;
        path->piece_count_max = CARD_PIECE_COUNT_DEFAULT;
    } else {
        local_limits(rank_count, false, &path->piece_bytes_max, &path->piece_count_max);
        path->has_group = rank_count > 1;
    }
    return true;
}

const char *const *transport_path_names(void)
{
    static const char *const names[] = {"local", "tcp", "card", NULL};
    return names;
}

/* Whatever an environment says, NAME=value a line: the launcher that is found, if any, gives a place that makes sense. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/environment_fuzz.h"
#include "bootstrap/launcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_text(const char *text, size_t bytes)
{
    return memchr(text, '\0', bytes) != NULL;
}

static void check_place(const struct launcher_place *place)
{
    const bool is_whole = place->size >= 1 && place->rank >= 0 && place->rank < place->size;
    const bool is_local =
        (place->local_rank == -1 || place->local_rank >= 0) &&
        (place->local_size == -1 || place->local_size >= 1) &&
        (place->local_rank < 0 || place->local_size < 0 || place->local_rank < place->local_size);
    if (!is_whole || !is_local || place->launcher == NULL) abort();
    if (!is_text(place->master_address, sizeof place->master_address) ||
        !is_text(place->run_id, sizeof place->run_id))
        abort();
    if (place->master_port < 0 || place->master_port > 65535) abort();
    if ((place->master_port == 0) != (place->master_address[0] == '\0')) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct environment environment;
    environment_replace(&environment, data, size);
    struct launcher_place place;
    const bool is_found = launcher_look(&place) == TUTTI_OK;
    if (is_found) check_place(&place);
    (void)launcher_may_span_hosts(is_found ? &place : NULL);
    int rank, of_size;
    const char *const name = tutti_launcher(&rank, &of_size);
    if ((name != NULL) != is_found || (is_found ? rank != place.rank : rank != -1)) abort();
    environment_restore(&environment);
    return 0;
}

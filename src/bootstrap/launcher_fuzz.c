/* Whatever an environment says, NAME=value a line: the launcher that is found, if any, gives a
 * place that makes sense. */
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

static void check_place(const struct launcher_facts *facts)
{
    const bool is_whole = facts->size >= 1 && facts->rank >= 0 && facts->rank < facts->size;
    const bool is_local =
        (facts->local_rank == -1 || facts->local_rank >= 0) &&
        (facts->local_size == -1 || facts->local_size >= 1) &&
        (facts->local_rank < 0 || facts->local_size < 0 || facts->local_rank < facts->local_size);
    if (!is_whole || !is_local || facts->launcher == NULL) abort();
    if (!is_text(facts->master_address, sizeof facts->master_address) ||
        !is_text(facts->run_id, sizeof facts->run_id))
        abort();
    if (facts->master_port < 0 || facts->master_port > 65535) abort();
    if ((facts->master_port == 0) != (facts->master_address[0] == '\0')) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct environment environment;
    environment_replace(&environment, data, size);
    struct launcher_facts facts;
    const bool is_found = launcher_look(&facts) == TUTTI_OK;
    if (is_found) check_place(&facts);
    (void)launcher_may_span_hosts(is_found ? &facts : NULL);
    int rank, of_size;
    const char *const name = tutti_launcher(&rank, &of_size);
    if ((name != NULL) != is_found || (is_found ? rank != facts.rank : rank != -1)) abort();
    environment_restore(&environment);
    return 0;
}

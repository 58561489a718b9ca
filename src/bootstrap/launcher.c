#include "bootstrap/launcher.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* The first row whose rank and size are set wins. `names` tell one job of a user from another on this host. */
static const struct launcher {
    const char *name, *rank, *size;
    const char *names[4];
} launchers[] = {
    {"tutti-run", "TUTTI_RANK", "TUTTI_SIZE", {"TUTTI_JOB_ID"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"}},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

static enum tutti_status read_number(const char *variable, long least, long most, int *number)
{
    const char *text = getenv(variable);
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
        return error_set(TUTTI_INVALID_OPTIONS, "%s=%s: a number from %ld to %ld is needed",
                         variable, text, least, most);
    *number = (int)value;
    return TUTTI_OK;
}

/* Spreads text over the key (FNV-1a with four different starts). Not a secret: who listens and who connects is
 * checked by user, see rendezvous.h. */
static void mix(struct rendezvous_key *key, const char *text)
{
    for (unsigned lane = 0; lane < 4; lane++) {
        uint64_t hash;
        memcpy(&hash, key->bytes + lane * 8, sizeof hash);
        for (const char *c = text;; c++) {
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
            if (*c == '\0') break;
        }
        hash ^= hash >> 29;
        memcpy(key->bytes + lane * 8, &hash, sizeof hash);
    }
}

static void make_key(const struct launcher *launcher, struct rendezvous_key *key)
{
    static atomic_uint calls; /* every process of a job creates its communicators in the same order */
    const uint64_t numbers[4] = {0xcbf29ce484222325u + geteuid(), 0x9e3779b97f4a7c15u,
                                 atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed),
                                 0x94d049bb133111ebu};
    memcpy(key->bytes, numbers, sizeof numbers);
    for (int i = 0; i < 4 && launcher->names[i] != NULL; i++) {
        const char *value = getenv(launcher->names[i]);
        mix(key, value == NULL ? "" : value);
    }
    for (int lane = 0; lane < 3; lane++) { /* the call's number into all lanes */
        uint64_t hash, number;
        memcpy(&hash, key->bytes + lane * 8, sizeof hash);
        memcpy(&number, key->bytes + 16, sizeof number);
        hash = (hash ^ numbers[2]) * 0xff51afd7ed558ccdu + number;
        memcpy(key->bytes + lane * 8, &hash, sizeof hash);
    }
}

enum tutti_status launcher_detect(struct launcher_place *place)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *launcher = &launchers[i];
        if (getenv(launcher->rank) == NULL || getenv(launcher->size) == NULL) continue;
        place->launcher = launcher->name;
        TRY(read_number(launcher->size, 1, 1 << 16, &place->size));
        TRY(read_number(launcher->rank, 0, place->size - 1, &place->rank));
        make_key(launcher, &place->key);
        return TUTTI_OK;
    }
    return error_set(TUTTI_INVALID_OPTIONS,
                     "no launcher is recognised: RANK and WORLD_SIZE are not set; start with "
                     "tutti-run, or give rank, size and id in the options");
}

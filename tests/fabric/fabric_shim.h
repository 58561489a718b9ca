/* fabric_shim.h - puts another character between Tutti and a provider of libfabric: one that
 * demands more, has less, is late or fails. So what hardware asks for is tested with providers that
 * run anywhere. */
#ifndef TUTTI_TESTS_FABRIC_FABRIC_SHIM_H
#define TUTTI_TESTS_FABRIC_FABRIC_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric_shim {
    const char *name;
    bool demands_local; /* FI_MR_LOCAL: whatever it reads or stores is registered, and a descriptor says so */
    bool demands_address; /* FI_MR_VIRT_ADDR: a region's bytes are named by where they lie */
    bool makes_keys;      /* FI_MR_PROV_KEY */
    bool binds_to_endpoint; /* FI_MR_ENDPOINT: an endpoint cannot be closed while memory is bound to it */
    bool stays_open;        /* it refuses to close an endpoint */
    bool has_no_inject, has_one_part; /* an inject_size of 0; an iov_limit of 1 */
    bool keeps_no_order;              /* no FI_ORDER_SAW: messages may overtake writes */
    size_t message_bytes;             /* that it takes at most; 0: as the provider */
    unsigned late_permille;           /* of completions: shown at a later look, and in any order */
    unsigned again_permille;          /* of calls: FI_EAGAIN */
    unsigned failed_permille;         /* of sends and writes: completed with an error */
    unsigned lost_permille; /* of writes without FI_DELIVERY_COMPLETE: done, but other bytes arrive */
    unsigned done_max;      /* sends and writes of which it says that they are done; 0: of all */
    int mask_from,
        mask_to; /* messages of rank mask_from say that they are of rank mask_to; the same: none */
    unsigned registered_max; /* regions at a time; 0: as the provider */
    int errors; /* what it returns for the errors that it says it has, again and again: an error code, or 1 and an error of nothing; 0: none */
    unsigned devices_max; /* those opened after so many take only messages that are too short; 0: any number */
};

/* From now on, for devices that are created then; NULL: none. One thread. */
void fabric_shim_use(const struct fabric_shim *shim, uint64_t seed);
/* Its counts since then: how often it was late, and refused, also to close an endpoint; regions
 * that are registered now. */
struct fabric_shim_counts {
    unsigned late, again, failed, lost, registered, refused, busy;
};
struct fabric_shim_counts fabric_shim_count(void);
/* As hardware does by itself: messages that have come to a device are stored, although nobody
 * looks. */
void fabric_shim_move(void);
/* A provider that stays open stores once more where it was to receive, as a card may do that was
 * never closed. */
void fabric_shim_receive_late(void);

#endif

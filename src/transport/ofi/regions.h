/* regions.h - the memory that a device has registered with libfabric: the memory that it sends from
 * and receives in, if the provider wants that registered at all (FI_MR_LOCAL), and the memory that
 * peers write to.
 *
 *     key of the card ──► region ──► registration in a cache (memory/registrations.h) ──► fid_mr
 *                                    own memory │ memory that peers write to
 *
 * If registering is expensive (the provider demands FI_MR_LOCAL or makes keys, as hardware does),
 * memory stays registered after its use. A peer could then still write there, but a peer that keeps
 * to the protocol does not (card/card_device.h). With other providers nothing stays registered.
 *
 * Threads: one at a time, but tutti_mem_unregister comes from any thread. So if memory stays
 * registered, the domain has to be opened for any threads (FI_THREAD_SAFE), and the caches have a
 * lock of their own.
 */
#ifndef TUTTI_TRANSPORT_OFI_REGIONS_H
#define TUTTI_TRANSPORT_OFI_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/card_device.h"
#include "transport/ofi/calls.h"

struct ofi_regions;

/* Whether memory stays registered with a provider that has these properties. */
bool ofi_regions_stay(const struct fi_info *facts);
/* Domain and endpoint stay the caller's, and outlive the regions. NO_MEMORY, SYSTEM. */
enum tutti_status ofi_regions_create(const struct ofi_calls *calls, const struct fi_info *facts,
                                     struct fid_domain *domain, struct fid_ep *endpoint,
                                     struct ofi_regions **regions);
/* Unregisters everything, also what is in use; nothing can be registered any more. Regions keep
 * their keys, and have no target. Returns 0; or libfabric's last error, negative, if it keeps
 * memory registered: then another call tries again. */
int ofi_regions_stop(struct ofi_regions *regions);
/* Unregisters everything. NULL is allowed. */
void ofi_regions_free(struct ofi_regions *regions);

/* The next five as card/card_device.h says. */
enum tutti_status ofi_regions_make_room(struct ofi_regions *regions, unsigned count);
uint64_t ofi_regions_add(struct ofi_regions *regions, void *address, size_t bytes,
                         enum card_access access);
void ofi_regions_remove(struct ofi_regions *regions, uint64_t key);
struct card_target ofi_regions_target(const struct ofi_regions *regions, uint64_t key);
unsigned ofi_regions_count(const struct ofi_regions *regions);
/* The descriptor for a call that reads or stores in the region; NULL: none is needed. key 0: there
 * is no region. */
void *ofi_regions_descriptor(const struct ofi_regions *regions, uint64_t key);
/* Called now and then: closes regions that libfabric would not close before, and forgets memory
 * that has gone. */
void ofi_regions_sweep(struct ofi_regions *regions);
/* The memory that this module itself holds. */
size_t ofi_regions_bytes(const struct ofi_regions *regions);

#endif

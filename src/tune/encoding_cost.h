/* encoding_cost.h - a machine as a model sees it whose links between hosts carry encoded elements:
 * fewer bytes occupy cards, uplinks and the cores that copy to links, and both ends take the time of
 * the codec.
 *
 * Links within a host stay as they are: a permission is for what is slow. Where only links between
 * racks are encoded, cards carry as many bytes as before, which is more than they do.
 */
#ifndef TUTTI_TUNE_ENCODING_COST_H
#define TUTTI_TUNE_ENCODING_COST_H

#include "base/encoding_wish.h"
#include "model/calibration.h"
#include "model/machine.h"

/* encoding: one that takes the dtype. tables: the memory of the machine's own tables (calibration.h). */
void encoding_cost_apply(enum tutti_encoding encoding, enum tutti_dtype dtype,
                         enum encoded_links links, struct model_machine *machine,
                         struct calibration_tables *tables);

#endif

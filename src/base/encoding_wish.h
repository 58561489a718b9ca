/* encoding_wish.h - the permission to encode what a call sends, in words:
 *
 *     bfloat16                      on links between hosts, where the model expects it to be faster
 *     bfloat16/everywhere           on every link, if so
 *     int8/racks/required           on links between racks, whatever the model expects
 *     none                          on no link
 *
 * The words behind the name come in any order: `racks`, `hosts` or `everywhere`; `allowed` or
 * `required`. Words that are left out are `hosts` and `allowed`.
 */
#ifndef TUTTI_BASE_ENCODING_WISH_H
#define TUTTI_BASE_ENCODING_WISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/encoding.h"

/* X(ENUMERATOR, word, for people): the links that a permission is for. Signatures have the numbers:
 * append. */
#define ENCODED_LINKS_LIST(X)                 \
    X(HOSTS, hosts, "on links between hosts") \
    X(RACKS, racks, "on links between racks") \
    X(EVERYWHERE, everywhere, "on all links")

enum encoded_links {
#define X(enumerator, word, text) ENCODED_##enumerator,
    ENCODED_LINKS_LIST(X)
#undef X
};

struct encoding_wish {
    enum tutti_encoding encoding; /* TUTTI_ENCODING_NONE: elements go as they are */
    enum encoded_links links;
    bool is_required; /* else allowed: the model decides */
};

enum { ENCODING_WISH_TEXT_MAX = 48 };

/* Reads a wish. NULL: it is right; otherwise what is wrong with it, a static text. */
const char *encoding_wish_parse(const char *text, struct encoding_wish *wish);
/* "bfloat16 on links between hosts, required" */
void encoding_wish_describe(const struct encoding_wish *wish, char *text, size_t text_bytes);

/* In one number of 16 bits, so that calls with other wishes are other numbers; 0: no wish. */
static inline uint16_t encoding_wish_pack(const struct encoding_wish *wish)
{
    return (uint16_t)(1u << 15 | (unsigned)wish->encoding << 8 | (unsigned)wish->links << 1 |
                      wish->is_required);
}
static inline struct encoding_wish encoding_wish_unpack(uint16_t packed)
{
    return (struct encoding_wish){.encoding = (enum tutti_encoding)(packed >> 8 & 0x7f),
                                  .links = (enum encoded_links)(packed >> 1 & 0x7f),
                                  .is_required = (packed & 1) != 0};
}

#endif

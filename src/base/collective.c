#include "base/collective.h"

#include <string.h>

const char *const collective_names[COLLECTIVE_COUNT] = {
#define X(enumerator, name, reduces, rooted) [enumerator] = name,
    COLLECTIVE_LIST(X)
#undef X
};

bool collective_is_rooted(enum collective collective)
{
#define X(enumerator, name, reduces, rooted) [enumerator] = rooted,
    static const bool they_are_rooted[COLLECTIVE_COUNT] = {COLLECTIVE_LIST(X)};
#undef X
    return they_are_rooted[collective];
}

enum collective collective_from_name(const char *name)
{
    int i = 0;
    while (i < COLLECTIVE_COUNT && strcmp(collective_names[i], name) != 0) i++;
    return (enum collective)i;
}

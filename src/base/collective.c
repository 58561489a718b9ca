#include "base/collective.h"

#include <string.h>

static const struct {
    const char *name;
    bool rooted;
} collectives[COLLECTIVE_COUNT] = {
#define X(enumerator, name, reduces, rooted) [enumerator] = {name, rooted},
    COLLECTIVE_LIST(X)
#undef X
};

const char *collective_name(enum collective collective)
{
    return collectives[collective].name;
}

bool collective_is_rooted(enum collective collective)
{
    return collectives[collective].rooted;
}

enum collective collective_from_name(const char *name)
{
    int i = 0;
    while (i < COLLECTIVE_COUNT && strcmp(collectives[i].name, name) != 0) i++;
    return (enum collective)i;
}

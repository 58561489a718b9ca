#include "transport/paths.h"

#include <string.h>

#include "transport/local/paths.h"
#include "transport/tcp/paths.h"

const struct path_table *transport_paths(const char *name)
{
    if (strcmp(name, "local") == 0) return local_paths(false);
    if (strcmp(name, "tcp") == 0) return tcp_paths();
    return NULL;
}

const char *const *transport_path_names(void)
{
    static const char *const names[] = {"local", "tcp", NULL};
    return names;
}

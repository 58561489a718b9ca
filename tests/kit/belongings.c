#include "tests/kit/belongings.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tests/worlds/ranks.h"

static int count_entries(const char *path, const char *substring)
{
    DIR *const directory = opendir(path);
    if (directory == NULL) return -1;
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.' && strstr(entry->d_name, substring) != NULL;
    closedir(directory);
    return count;
}

int belongings_descriptors(void)
{
    return count_entries("/proc/self/fd", "");
}

int belongings_mappings(void)
{
    FILE *const file = fopen("/proc/self/maps", "r");
    if (file == NULL) return -1;
    char line[512];
    int count = 0;
    while (fgets(line, sizeof line, file) != NULL) count += strstr(line, "memfd:tutti") != NULL;
    fclose(file);
    return count;
}

int belongings_shared_names(void)
{
    return count_entries("/dev/shm", "tutti");
}

struct belongings belongings_now(void)
{
    return (struct belongings){.descriptors = belongings_descriptors(),
                               .mappings = belongings_mappings(),
                               .threads = count_entries("/proc/self/task", "")};
}

struct belongings belongings_in_the_end(const struct belongings *before)
{
    struct belongings now = belongings_now();
    for (int i = 0; i < 1000 && memcmp(&now, before, sizeof now) != 0; i++) {
        ranks_nap_ms(5);
        now = belongings_now();
    }
    return now;
}

/* metrics_file.h - where a process writes its numbers for Prometheus. */
#ifndef TUTTI_TESTS_KIT_METRICS_FILE_H
#define TUTTI_TESTS_KIT_METRICS_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* The number of files that processes with that pid have written to the folder, and the path of one
 * of them: "" if there is none. */
size_t metrics_file_find(const char *folder, pid_t pid, char *path, size_t path_bytes);

#endif

/* program.h - finds the program that ranks execute. */
#ifndef TUTTI_TOOLS_RUN_PROGRAM_H
#define TUTTI_TOOLS_RUN_PROGRAM_H

/* Looks for name in PATH unless it has a slash; the path goes to found[PATH_MAX]. Returns -1; or
 * the exit code, after it has said on stderr why there is no program, naming the host unless it is
 * "". */
int program_find(const char *name, const char *host, char *found);
/* The same for the folder for output, which is made if it is not there. */
int program_make_folder(const char *path, const char *host);

#endif

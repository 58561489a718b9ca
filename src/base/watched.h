/* watched.h - whether calls are watched: recorded, compared with those of other ranks, looked at
 * while they wait.
 *
 * They always are. Only bench/watchful builds the library a second time without, to measure what
 * watching costs; such a library hangs where the usual one says why.
 */
#ifndef TUTTI_BASE_WATCHED_H
#define TUTTI_BASE_WATCHED_H

#ifdef TUTTI_UNWATCHED
enum { CALLS_ARE_WATCHED = 0 };
#else
enum { CALLS_ARE_WATCHED = 1 };
#endif

#endif

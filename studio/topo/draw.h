/* draw.h - a topology as a picture: boxes in boxes for what contains what, lines for links.
 *
 * Ranks have the colour of their machine, lines that of their kind of link, which the legend tells.
 * A link from something to what contains it is written into its box instead.
 */
#ifndef TUTTI_STUDIO_TOPO_DRAW_H
#define TUTTI_STUDIO_TOPO_DRAW_H

#include <stdio.h>

#include "topo/topo.h"

enum { TOPO_DRAW_NODES_MAX = 8192, TOPO_DRAW_LINKS_MAX = 2048 };

/* Writes an SVG with colours for bright and for dark pages; the title may be NULL. UNSUPPORTED when
 * the topology is too large for a picture, NO_MEMORY; then nothing is written. Any thread. */
enum tutti_status topo_draw_svg(const struct topo *topo, const char *title, FILE *file);

#endif

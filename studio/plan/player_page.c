#include "studio/plan/player_page.h"

#include "base/embedded.h"

EMBEDDED_FILE(player_html, EMBEDDED_FOLDER "player.html");
EMBEDDED_FILE(player_css, EMBEDDED_FOLDER "player.css");
EMBEDDED_FILE(player_js, EMBEDDED_FOLDER "player.js");

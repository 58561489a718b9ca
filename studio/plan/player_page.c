/* player_page.c - see player_page.h. The build says where the files are. */
#include "studio/plan/player_page.h"

#define CARRY(name, ending)                           \
    __asm__(".pushsection .rodata\n"                  \
            "\t.hidden " #name "\n"                   \
            "\t.globl " #name "\n" #name ":\n"        \
            "\t.incbin \"" PLAYER_FILES ending "\"\n" \
            "\t.byte 0\n"                             \
            "\t.popsection\n")

CARRY(player_page, ".html");
CARRY(player_style, ".css");
CARRY(player_script, ".js");

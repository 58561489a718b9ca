/* embedded.h - a file as a constant of the program that is built: a text that is easier to read, to
 * edit and to check where it lies than as a constant in C.
 *
 *     extern const char page_css[];           ends in a 0, which the file need not have
 *     extern const size_t page_css_bytes;     without it
 *     EMBEDDED_FILE(page_css, FOLDER "page.css")
 *
 * Only the linker of the program or library sees the two. The build names the folder, and says that
 * the object depends on the file, which no compiler notices (tutti_embed in cmake/library.cmake).
 */
#ifndef TUTTI_BASE_EMBEDDED_H
#define TUTTI_BASE_EMBEDDED_H

#define EMBEDDED_FILE(name, file)                          \
    __asm__(".pushsection .rodata\n"                       \
            "\t.hidden " #name "\n"                        \
            "\t.globl " #name "\n" #name ":\n"             \
            "\t.incbin \"" file "\"\n" #name "_end:\n"     \
            "\t.byte 0\n"                                  \
            "\t.balign 8\n"                                \
            "\t.hidden " #name "_bytes\n"                  \
            "\t.globl " #name "_bytes\n" #name "_bytes:\n" \
            "\t.quad " #name "_end - " #name "\n"          \
            "\t.popsection\n")

#endif

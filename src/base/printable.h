/* printable.h - texts that people read on a terminal, with parts that come from elsewhere: names of
 * hosts, variables, messages of other ranks. A terminal obeys control characters, and a foreign
 * text with line breaks could make a log say anything.
 */
#ifndef TUTTI_BASE_PRINTABLE_H
#define TUTTI_BASE_PRINTABLE_H

/* Puts a question mark in place of each control character (C0, delete, C1, which is two bytes in
 * UTF-8), each character that turns the direction of writing or breaks lines (U+2028 to U+202E,
 * U+2066 to U+2069), and each byte that is not UTF-8. The text never gets longer. */
void printable_make(char *text);
/* The number of bytes of the UTF-8 character at `text`; 0: there is no valid one. Reads nothing
 * beyond a zero byte. */
int printable_character_bytes(const char *text);

#endif

#include "base/encoding_wish.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *word, *text;
} links[] = {
#define X(enumerator, word, text) [ENCODED_##enumerator] = {#word, text},
    ENCODED_LINKS_LIST(X)
#undef X
};
enum { LINKS = sizeof links / sizeof *links };

static bool is_word(const char *begin, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(begin, word, length) == 0;
}

/* The words behind the name; each kind once. */
static const char *read_word(const char *begin, size_t length, struct encoding_wish *wish,
                             bool *has_links, bool *has_mode)
{
    for (int i = 0; i < LINKS; i++) {
        if (!is_word(begin, length, links[i].word)) continue;
        if (*has_links) return "names two kinds of links";
        *has_links = true;
        wish->links = (enum encoded_links)i;
        return NULL;
    }
    const bool is_required = is_word(begin, length, "required");
    if (!is_required && !is_word(begin, length, "allowed"))
        return "behind the name, `racks`, `hosts` or `everywhere`, and `allowed` or `required`, "
               "are needed";
    if (*has_mode) return "is `allowed` or `required` twice";
    *has_mode = true;
    wish->is_required = is_required;
    return NULL;
}

const char *encoding_wish_parse(const char *text, struct encoding_wish *wish)
{
    char name[16];
    const size_t length = strcspn(text, "/");
    *wish = (struct encoding_wish){.encoding = TUTTI_ENCODING_NONE};
    if (length == 0 || length >= sizeof name) return "the name of an encoding, or none, is needed";
    memcpy(name, text, length);
    name[length] = '\0';
    wish->encoding = encoding_from_name(name);
    if (wish->encoding == TUTTI_ENCODING_NONE && strcmp(name, "none") != 0)
        return "no encoding of that name; there are bfloat16, float16, fp8_e4m3, fp8_e5m2, int8, "
               "int4, mxfp8, mxint8, mxfp4 and none";
    bool has_links = false, has_mode = false;
    for (const char *at = text + length; *at == '/';) {
        at++;
        const size_t word = strcspn(at, "/");
        const char *const wrong = read_word(at, word, wish, &has_links, &has_mode);
        if (wrong != NULL) return wrong;
        at += word;
    }
    return NULL;
}

void encoding_wish_describe(const struct encoding_wish *wish, char *text, size_t text_bytes)
{
    if (wish->encoding == TUTTI_ENCODING_NONE)
        snprintf(text, text_bytes, "none");
    else
        snprintf(text, text_bytes, "%s %s, %s", tutti_encoding_name(wish->encoding),
                 links[wish->links].text, wish->is_required ? "required" : "allowed");
}

#include "tokenizer.h"

#include "tokenizer_state.h"

/* ----------------------------------------------------------------------------------- the tokens */

struct tokenizer *tokenizer_create(void)
{
    struct tokenizer *tokenizer = allocate(1, sizeof *tokenizer);
    tokenizer->capacity = 2 * TOKENIZER_BYTES;
    tokenizer->tokens = allocate(tokenizer->capacity, sizeof *tokenizer->tokens);
    tokenizer->vocabulary = TOKENIZER_BYTES;
    for (int byte = 0; byte < TOKENIZER_BYTES; byte++) {
        tokenizer->tokens[byte].size = 1;
        tokenizer->tokens[byte].bytes[0] = (unsigned char)byte;
    }
    return tokenizer;
}

void tokenizer_free(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL) return;
    free(tokenizer->tokens);
    free(tokenizer->pairs.slots);
    free(tokenizer);
}

static void grow(struct tokenizer *tokenizer)
{
    tokenizer->capacity *= 2;
    tokenizer->tokens = realloc(tokenizer->tokens, tokenizer->capacity * sizeof *tokenizer->tokens);
    if (tokenizer->tokens == NULL) give_up("memory", strerror(errno));
}

bool tokenizer_add(struct tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    if (tokenizer->vocabulary == TOKENIZER_VOCABULARY_MAX) return false;
    if (tokenizer->vocabulary == tokenizer->capacity) grow(tokenizer);
    const struct token *a = &tokenizer->tokens[left], *b = &tokenizer->tokens[right];
    if (a->size + b->size > TOKENIZER_WORD_BYTES_MAX ||
        pair_map_find(&tokenizer->pairs, left, right) != PAIR_ABSENT)
        return false;
    struct token *token = &tokenizer->tokens[tokenizer->vocabulary];
    token->left = left;
    token->right = right;
    token->size = (unsigned char)(a->size + b->size);
    memcpy(token->bytes, a->bytes, a->size);
    memcpy(token->bytes + a->size, b->bytes, b->size);
    pair_map_add(&tokenizer->pairs, left, right, (uint32_t)tokenizer->vocabulary++);
    return true;
}

size_t tokenizer_vocabulary(const struct tokenizer *tokenizer)
{
    return tokenizer->vocabulary;
}

const unsigned char *tokenizer_bytes(const struct tokenizer *tokenizer, uint32_t token, size_t *size)
{
    *size = tokenizer->tokens[token].size;
    return tokenizer->tokens[token].bytes;
}

/* ------------------------------------------------------------------------------------- encoding */

enum class { BLANK, LETTER, DIGIT, MARK };

static enum class class_of(unsigned char byte) {
    if (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r') return BLANK;
    if ((byte | 32) >= 'a' && (byte | 32) <= 'z') return LETTER;
    if (byte >= 128) return LETTER; /* of UTF-8 */
    return byte >= '0' && byte <= '9' ? DIGIT : MARK;
}

size_t tokenizer_word(const unsigned char *text, size_t size)
{
    const size_t most = size < TOKENIZER_WORD_BYTES_MAX ? size : TOKENIZER_WORD_BYTES_MAX;
    size_t length = text[0] == ' ' && most > 1 && class_of(text[1]) != BLANK ? 1 : 0;
    const enum class class = class_of(text[length]);
    while (length < most && class_of(text[length]) == class) length++;
    /* The last of some spaces belongs to the word behind them. */
    if (class == BLANK && length > 1 && length < most && text[length - 1] == ' ') length--;
    return length;
}

/* Joins neighbours, the pair that training found first before the others, until no pair is a
 * token. */
static size_t join_pairs(const struct tokenizer *tokenizer, uint32_t *tokens, size_t count)
{
    for (;;) {
        uint32_t least = PAIR_ABSENT;
        size_t place = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            const uint32_t token = pair_map_find(&tokenizer->pairs, tokens[i], tokens[i + 1]);
            if (token >= least) continue;
            least = token;
            place = i;
        }
        if (least == PAIR_ABSENT) return count;
        tokens[place] = least;
        count--;
        memmove(tokens + place + 1, tokens + place + 2, (count - place - 1) * sizeof *tokens);
    }
}

size_t tokenizer_encode(const struct tokenizer *tokenizer, const unsigned char *text, size_t size,
                        uint32_t *tokens)
{
    size_t count = 0;
    for (size_t begin = 0, length; begin < size; begin += length) {
        length = tokenizer_word(text + begin, size - begin);
        for (size_t i = 0; i < length; i++) tokens[count + i] = text[begin + i];
        count += join_pairs(tokenizer, tokens + count, length);
    }
    return count;
}

/* --------------------------------------------------------------------------------------- a file */

/* The file is text: this line, how many pairs there are, and a line for each, in the order of their
 * tokens. */
static const char first_line[] = "byte pairs 1\n";

bool tokenizer_print(const struct tokenizer *tokenizer, FILE *file)
{
    fprintf(file, "%s%zu\n", first_line, tokenizer->vocabulary - TOKENIZER_BYTES);
    for (size_t i = TOKENIZER_BYTES; i < tokenizer->vocabulary; i++)
        fprintf(file, "%u %u\n", tokenizer->tokens[i].left, tokenizer->tokens[i].right);
    return fflush(file) == 0 && !ferror(file);
}

/* Reads a decimal number below `bound`, without needless zeros, and the mark behind it. */
static bool read_number(const char **at, const char *end, char mark, size_t bound, size_t *number)
{
    const char *first = *at;
    *number = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        *number = 10 * *number + (size_t)(**at - '0');
        if (*number >= bound) return false;
    }
    if (*at == first || (*first == '0' && *at - first > 1)) return false;
    return *at < end && *(*at)++ == mark;
}

/* NULL if all is well. */
static const char *read_pairs(struct tokenizer *tokenizer, const char *at, const char *end)
{
    const size_t line = sizeof first_line - 1;
    size_t count, left, right;
    if ((size_t)(end - at) < line || memcmp(at, first_line, line) != 0)
        return "it is no file of byte pairs";
    at += line;
    if (!read_number(&at, end, '\n', TOKENIZER_VOCABULARY_MAX - TOKENIZER_BYTES + 1, &count))
        return "it says no sensible number of pairs";
    for (size_t i = 0; i < count; i++) {
        if (!read_number(&at, end, ' ', tokenizer->vocabulary, &left) ||
            !read_number(&at, end, '\n', tokenizer->vocabulary, &right))
            return "a line is not a pair of earlier tokens";
        if (!tokenizer_add(tokenizer, (uint32_t)left, (uint32_t)right))
            return "a pair is there twice, or too long";
    }
    return at == end ? NULL : "there is more than it says";
}

struct tokenizer *tokenizer_parse(const char *bytes, size_t size, const char **why)
{
    struct tokenizer *tokenizer = tokenizer_create();
    *why = read_pairs(tokenizer, bytes, bytes + size);
    if (*why == NULL) return tokenizer;
    tokenizer_free(tokenizer);
    return NULL;
}

struct tokenizer *tokenizer_load(const char *path, const char **why)
{
    struct tokenizer *tokenizer = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        *why = strerror(errno);
        return NULL;
    }
    char *bytes = allocate(TOKENIZER_FILE_BYTES_MAX + 1, 1);
    const size_t size = fread(bytes, 1, TOKENIZER_FILE_BYTES_MAX + 1, file);
    if (ferror(file))
        *why = "it cannot be read";
    else if (size > TOKENIZER_FILE_BYTES_MAX)
        *why = "it is too long";
    else
        tokenizer = tokenizer_parse(bytes, size, why);
    free(bytes);
    fclose(file);
    return tokenizer;
}

/* The tokenizer gives any bytes back, learns the most frequent pairs, and reads no file that is not
 * a tokenizer's.
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "tokenizer.h"
#include "tokenizer_state.h"

enum { TEXT_BYTES = 30000 };

/* Words of few letters, some of them often. */
static unsigned char *make_text(struct chance *chance, int letters)
{
    unsigned char *text = allocate(TEXT_BYTES, 1);
    for (int i = 0; i < TEXT_BYTES; i++)
        text[i] =
            (unsigned char)(chance_below(chance, 6) == 0 ? " \n.7"[chance_below(chance, 4)]
                                                         : 'a' + chance_below(chance, letters));
    return text;
}

static void expect_same_back(const struct tokenizer *tokenizer, const unsigned char *text,
                             size_t size)
{
    uint32_t *tokens = allocate(size, sizeof *tokens);
    const size_t count = tokenizer_encode(tokenizer, text, size, tokens);
    size_t at = 0, length;
    assert_true(count <= size);
    for (size_t i = 0; i < count; i++, at += length) {
        assert_true(tokens[i] < tokenizer_vocabulary(tokenizer));
        const unsigned char *bytes = tokenizer_bytes(tokenizer, tokens[i], &length);
        assert_true(at + length <= size);
        assert_memory_equal(bytes, text + at, length);
    }
    assert_int_equal(at, size);
    free(tokens);
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    struct chance chance = {.seed = 1};
    unsigned char *text = make_text(&chance, 4), *bytes = allocate(TEXT_BYTES, 1);
    struct tokenizer *tokenizer = tokenizer_train(text, TEXT_BYTES, 700);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 700);
    expect_same_back(tokenizer, text, TEXT_BYTES);
    for (int round = 0; round < 200; round++) {
        const size_t size = chance_of_any_size(&chance, TEXT_BYTES) - 1;
        for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)chance_draw(&chance);
        for (size_t i = 0; i + 40 < size; i += 60) memcpy(bytes + i, text + i, 40);
        expect_same_back(tokenizer, bytes, size);
    }
    tokenizer_free(tokenizer);
    free(text);
    free(bytes);
}

static void text_becomes_fewer_tokens(void **state)
{
    (void)state;
    static const unsigned char text[] = "the cat and the hat and the bat and the mat and the rat";
    struct tokenizer *tokenizer = tokenizer_train(text, sizeof text - 1, 1000);
    uint32_t tokens[sizeof text];
    size_t size;
    assert_int_equal(tokenizer_encode(tokenizer, (const unsigned char *)" the", 4, tokens), 1);
    assert_memory_equal(tokenizer_bytes(tokenizer, tokens[0], &size), " the", 4);
    /* " c" and "ca" are there once. */
    assert_int_equal(tokenizer_encode(tokenizer, (const unsigned char *)" cat", 4, tokens), 3);
    tokenizer_free(tokenizer);
}

/* -------------------------------------------------- the same, the slow way: all pairs each time */

struct slow {
    uint32_t *tokens;
    size_t *ends; /* of words */
    size_t token_count, word_count;
};

static void slow_begin(struct slow *slow, const unsigned char *text, size_t size)
{
    for (size_t begin = 0; begin < size;) {
        const size_t length = tokenizer_word(text + begin, size - begin);
        for (size_t i = 0; i < length; i++) slow->tokens[slow->token_count++] = text[begin + i];
        slow->ends[slow->word_count++] = slow->token_count;
        begin += length;
    }
}

static size_t slow_most(const struct slow *slow, uint32_t left, uint32_t right, size_t *wanted)
{
    enum { BOUND = 512 };
    size_t *counts = allocate(BOUND * BOUND, sizeof *counts), most = 0;
    for (size_t word = 0, i = 0; word < slow->word_count; i = slow->ends[word++])
        for (; i + 1 < slow->ends[word]; i++) {
            const size_t count = ++counts[slow->tokens[i] * BOUND + slow->tokens[i + 1]];
            most = count > most ? count : most;
        }
    *wanted = counts[left * BOUND + right];
    free(counts);
    return most;
}

static void slow_join(struct slow *slow, uint32_t left, uint32_t right, uint32_t token)
{
    size_t to = 0;
    for (size_t word = 0, from = 0; word < slow->word_count; word++) {
        const size_t end = slow->ends[word];
        while (from < end) {
            const bool is_pair =
                from + 1 < end && slow->tokens[from] == left && slow->tokens[from + 1] == right;
            slow->tokens[to++] = is_pair ? token : slow->tokens[from];
            from += is_pair ? 2 : 1;
        }
        slow->ends[word] = to;
    }
    slow->token_count = to;
}

static void each_token_is_the_most_frequent_pair(void **state)
{
    (void)state;
    for (int letters = 1; letters <= 8; letters++) {
        struct chance chance = {.seed = (uint64_t)letters};
        unsigned char *text = make_text(&chance, letters);
        struct tokenizer *tokenizer = tokenizer_train(text, TEXT_BYTES, 320);
        struct slow slow = {.tokens = allocate(TEXT_BYTES, sizeof *slow.tokens),
                            .ends = allocate(TEXT_BYTES, sizeof *slow.ends)};
        slow_begin(&slow, text, TEXT_BYTES);
        for (uint32_t token = TOKENIZER_BYTES; token < tokenizer->vocabulary; token++) {
            const uint32_t left = tokenizer->tokens[token].left;
            const uint32_t right = tokenizer->tokens[token].right;
            size_t count;
            const size_t most = slow_most(&slow, left, right, &count);
            assert_int_equal(count, most);
            assert_true(count >= 2);
            slow_join(&slow, left, right, token);
        }
        /* Encoding takes the same way. */
        uint32_t *tokens = allocate(TEXT_BYTES, sizeof *tokens);
        assert_int_equal(tokenizer_encode(tokenizer, text, TEXT_BYTES, tokens), slow.token_count);
        assert_memory_equal(tokens, slow.tokens, slow.token_count * sizeof *tokens);
        free(tokens);
        free(slow.tokens);
        free(slow.ends);
        free(text);
        tokenizer_free(tokenizer);
    }
}

/* ---------------------------------------------------------------------------------------- files */

static char *print(const struct tokenizer *tokenizer, size_t *size)
{
    char *bytes;
    FILE *file = open_memstream(&bytes, size);
    assert_non_null(file);
    assert_true(tokenizer_print(tokenizer, file));
    fclose(file);
    return bytes;
}

static void a_file_brings_the_tokenizer_back(void **state)
{
    (void)state;
    struct chance chance = {.seed = 3};
    unsigned char *text = make_text(&chance, 5);
    struct tokenizer *tokenizer = tokenizer_train(text, TEXT_BYTES, 600);
    char path[] = "/tmp/tokenizer-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "wb");
    assert_true(file != NULL && tokenizer_print(tokenizer, file) && fclose(file) == 0);
    const char *why;
    struct tokenizer *again = tokenizer_load(path, &why);
    remove(path);
    assert_non_null(again);
    assert_int_equal(again->vocabulary, tokenizer->vocabulary);
    for (uint32_t token = 0; token < 600; token++) {
        size_t expected_size, got_size;
        const unsigned char *expected = tokenizer_bytes(tokenizer, token, &expected_size);
        const unsigned char *got = tokenizer_bytes(again, token, &got_size);
        assert_int_equal(got_size, expected_size);
        assert_memory_equal(got, expected, got_size);
    }
    assert_null(tokenizer_load("/nowhere/tokenizer", &why));
    assert_string_equal(why, strerror(ENOENT));
    tokenizer_free(tokenizer);
    tokenizer_free(again);
    free(text);
}

static void what_is_no_tokenizer_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *why;
    } cases[] = {
        {"", "no file of byte pairs"},
        {"byte pairs 2\n0\n", "no file of byte pairs"},
        {"byte pairs 1\n", "no sensible number"},
        {"byte pairs 1\n-1\n", "no sensible number"},
        {"byte pairs 1\n65281\n", "no sensible number"},
        {"byte pairs 1\n99999999999999999999999\n", "no sensible number"},
        {"byte pairs 1\n1\n", "not a pair"},
        {"byte pairs 1\n1\n97 256\n", "not a pair"},
        {"byte pairs 1\n1\n256 97\n", "not a pair"},
        {"byte pairs 1\n1\n097 98\n", "not a pair"},
        {"byte pairs 1\n1\n97  98\n", "not a pair"},
        {"byte pairs 1\n1\n97 98", "not a pair"},
        {"byte pairs 1\n2\n97 98\n97 98\n", "twice"},
        {"byte pairs 1\n6\n97 97\n256 256\n257 257\n258 258\n259 259\n260 97\n", "too long"},
        {"byte pairs 1\n1\n97 98\n\n", "more than it says"},
    };
    const char *why;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(tokenizer_parse(cases[i].bytes, strlen(cases[i].bytes), &why));
        assert_non_null(strstr(why, cases[i].why));
    }
    static const char good[] = "byte pairs 1\n2\n97 98\n256 256\n";
    struct tokenizer *tokenizer = tokenizer_parse(good, sizeof good - 1, &why);
    assert_non_null(tokenizer);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 258);
    tokenizer_free(tokenizer);
}

/* Of a file damaged in any way: parsing ends, and accepts only the file that was written. */
static void damaged_files_do_no_damage(void **state)
{
    (void)state;
    struct chance chance = {.seed = 4};
    unsigned char *text = make_text(&chance, 5);
    struct tokenizer *tokenizer = tokenizer_train(text, TEXT_BYTES, 300);
    size_t size;
    char *bytes = print(tokenizer, &size), *damaged = allocate(2 * size, 1);
    int accepted = 0;
    for (int round = 0; round < 3000; round++) {
        size_t length = size;
        memcpy(damaged, bytes, size);
        for (int changes = 1 + chance_below(&chance, 3); changes > 0 && length > 0; changes--) {
            const size_t at = chance_draw(&chance) % length;
            switch (chance_below(&chance, 4)) {
            case 0: damaged[at] = (char)chance_draw(&chance); break;
            case 1: damaged[at] = "0123456789 \n"[chance_below(&chance, 12)]; break;
            case 2: length = at; break;
            default: memmove(damaged + at / 2, damaged + at, length - at); length -= at - at / 2;
            }
        }
        const char *why = NULL;
        char *exact = malloc(length > 0 ? length : 1); /* so that reading on is seen by sanitizers */
        assert_non_null(exact);
        memcpy(exact, damaged, length);
        struct tokenizer *again = tokenizer_parse(exact, length, &why);
        assert_true((again == NULL) == (why != NULL));
        if (again != NULL) {
            size_t printed;
            char *same = print(again, &printed);
            assert_int_equal(printed, length);
            assert_memory_equal(same, exact, length);
            expect_same_back(again, text, 1000);
            free(same);
            accepted++;
        }
        tokenizer_free(again);
        free(exact);
    }
    assert_true(accepted > 100 && accepted < 2900); /* both happen */
    tokenizer_free(tokenizer);
    free(text);
    free(bytes);
    free(damaged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(text_becomes_fewer_tokens),
        cmocka_unit_test(each_token_is_the_most_frequent_pair),
        cmocka_unit_test(a_file_brings_the_tokenizer_back),
        cmocka_unit_test(what_is_no_tokenizer_is_refused),
        cmocka_unit_test(damaged_files_do_no_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

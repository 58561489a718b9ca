/* Whatever happens to the bytes of two sides under way, and whatever a side without the key says:
 * nobody is let in but by a transcript that both have, nothing is taken or given beyond the hello,
 * and what is over stays so.
 *
 * The input is a script: an operation (one byte) and its arguments. */
#include <stdlib.h>
#include <string.h>

#include "connect/hello.h"

struct script {
    const uint8_t *data;
    size_t left;
    struct hello sides[2]; /* the caller, the answerer */
    size_t taken[2], given[2];
    uint64_t now_ns;
};

static unsigned next(struct script *script)
{
    if (script->left == 0) return 0;
    script->left--;
    return *script->data++;
}

static void start(struct script *script)
{
    struct secret_key keys[2];
    struct hello_self selves[2];
    unsigned char nonce[HELLO_NONCE_BYTES];
    struct hello_call call = {.peer_rank = (int)(next(script) % 3) - 1};
    call.purpose = next(script);
    const unsigned differences = next(script);
    call.payload_bytes = (uint8_t)(next(script) % (HELLO_PAYLOAD_MAX + 1));
    memset(call.payload, 0x11, call.payload_bytes);
    memset(selves, 0, sizeof selves);
    for (int i = 0; i < 2; i++) {
        const char *const secret = i == 1 && (differences & 1) ? "other" : "the secret of a test";
        if (secret_from_run(secret, &keys[i]) != TUTTI_OK) abort();
        hello_self_init(&selves[i], &keys[i], i);
    }
    if (differences & 8) selves[0].configuration = selves[1].configuration = HELLO_ENCRYPTS;
    if (differences & 2) selves[1].configuration ^= HELLO_ENCRYPTS;
    if (differences & 4) selves[1].version_min = selves[1].version_max = HELLO_VERSION(9, 9);
    memset(nonce, 1, sizeof nonce);
    hello_start_call(&script->sides[0], &selves[0], &call, nonce, 0);
    memset(nonce, 2, sizeof nonce);
    hello_start_answer(&script->sides[1], &selves[1], nonce, 0);
}

static void take(struct script *script, int side, const unsigned char *bytes, size_t count)
{
    struct hello *const hello = &script->sides[side];
    const size_t wanted = hello_wants(hello);
    const enum hello_state before = hello->state;
    hello_take(hello, bytes, count, script->now_ns);
    const bool was_over =
        before != HELLO_GOING && before != HELLO_SECURES; /* time may end the others */
    if (was_over && hello->state != before) abort();
    script->taken[side] += count < wanted ? count : wanted;
    if (script->taken[side] > HELLO_BYTES) abort();
}

/* A few bytes of one side reach the other, as they are or changed. */
static void carry(struct script *script, int from, bool is_changed)
{
    unsigned char copy[HELLO_BYTES];
    const void *bytes;
    size_t count = hello_gives(&script->sides[from], &bytes);
    const size_t most = next(script);
    if (count > most) count = most;
    if (script->given[from] + count > HELLO_BYTES) abort();
    memcpy(copy, bytes, count);
    hello_given(&script->sides[from], count);
    script->given[from] += count;
    if (is_changed && count > 0) copy[next(script) % count] ^= (unsigned char)next(script);
    take(script, !from, copy, count);
}

static void invent(struct script *script, int side)
{
    size_t count = next(script);
    if (count > script->left) count = script->left;
    take(script, side, script->data, count);
    script->data += count;
    script->left -= count;
}

/* A part of what has gone between them, as either side saw it, is played to one of them. */
static void replay(struct script *script, int side)
{
    unsigned char copy[HELLO_BYTES];
    size_t begin = next(script) * 2 % HELLO_BYTES;
    size_t count = next(script);
    const struct hello *const recorded = &script->sides[next(script) % 2];
    if (begin > recorded->at) begin = recorded->at;
    if (count > recorded->at - begin) count = recorded->at - begin;
    memcpy(copy, recorded->transcript + begin, count);
    take(script, side, copy, count);
}

static bool is_through(const struct hello *hello)
{
    return hello->state == HELLO_SECURES || hello->state == HELLO_DONE;
}

static void check(const struct script *script)
{
    const struct hello *const caller = &script->sides[0], *const answerer = &script->sides[1];
    for (int i = 0; i < 2; i++) {
        char text[HELLO_TEXT_MAX];
        const struct hello *const hello = &script->sides[i];
        hello_explain(hello, text);
        if (memchr(text, '\0', sizeof text) == NULL) abort();
        if ((hello->state == HELLO_DONE) && hello->status != TUTTI_OK) abort();
        if ((hello->state == HELLO_FAILED) && hello->status == TUTTI_OK) abort();
        if (hello->call.payload_bytes > HELLO_PAYLOAD_MAX && hello->state != HELLO_STRAY) abort();
    }
    if (is_through(answerer) || is_through(caller)) {
        const size_t before_welcome = HELLO_BYTES - HELLO_WELCOME_BYTES;
        if (memcmp(caller->transcript, answerer->transcript, before_welcome) != 0) abort();
        if (memcmp(&caller->self.key, &answerer->self.key, sizeof caller->self.key) != 0) abort();
        if (caller->self.configuration != answerer->self.configuration) abort();
        if (caller->call.peer_rank == 0) abort();
    }
    if (caller->state == HELLO_DONE && answerer->state != HELLO_DONE) abort();
    if (caller->state == HELLO_SECURES && answerer->state == HELLO_GOING) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {.data = data, .left = size};
    start(&script);
    while (script.left > 0) {
        const unsigned operation = next(&script);
        const int side = operation & 1;
        switch (operation >> 1 & 7) {
        case 0:
        case 1:
        case 2: carry(&script, side, false); break;
        case 3: carry(&script, side, true); break;
        case 4: invent(&script, side); break;
        case 5: replay(&script, side); break;
        case 6: script.now_ns += next(&script) * UINT64_C(10000000); break;
        default: hello_leave(&script.sides[side]); break;
        }
        check(&script);
    }
    hello_release(&script.sides[0]);
    hello_release(&script.sides[1]);
    return 0;
}

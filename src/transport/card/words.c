#include "transport/card/words.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum tutti_status card_words_init(struct card_words *words)
{
    *words =
        (struct card_words){.queue = calloc((size_t)2 * PEERS_MESSAGES_MAX, sizeof *words->queue)};
    if (words->queue != NULL) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "control messages over a network card: out of memory");
}

void card_words_release(struct card_words *words)
{
    free(words->queue);
    *words = (struct card_words){0};
}

static struct card_word *told(const struct card_words *words, uint64_t number)
{
    return &words->queue[number % PEERS_MESSAGES_MAX];
}

static struct card_word *came(const struct card_words *words, uint64_t number)
{
    return &words->queue[PEERS_MESSAGES_MAX + number % PEERS_MESSAGES_MAX];
}

bool card_words_have_room(const struct card_words *words, bool is_final)
{
    const unsigned places =
        is_final ? PEERS_MESSAGES_MAX : PEERS_MESSAGES_MAX - PEERS_FINAL_MESSAGES;
    return words->told - words->acked < places;
}

void card_words_tell(struct card_words *words, const void *message, size_t bytes)
{
    assert(card_words_have_room(words, true) && bytes > 0 && bytes <= PEERS_MESSAGE_BYTES_MAX);
    struct card_word *word = told(words, words->told++);
    word->bytes = bytes;
    memcpy(word->data, message, bytes);
}

const struct card_word *card_words_next(const struct card_words *words)
{
    return words->sent < words->told ? told(words, words->sent) : NULL;
}

bool card_words_acked(struct card_words *words, uint64_t heard)
{
    if (heard > words->sent) return false;
    if (words->acked < heard) words->acked = heard;
    return true;
}

bool card_words_take(struct card_words *words, uint64_t number, uint64_t after, const void *message,
                     size_t bytes)
{
    if (number < words->heard || number - words->heard_told >= PEERS_MESSAGES_MAX) return false;
    struct card_word *word = came(words, number);
    if (word->bytes > 0 || bytes == 0 || bytes > PEERS_MESSAGE_BYTES_MAX) return false;
    word->bytes = bytes;
    word->after = after;
    memcpy(word->data, message, bytes);
    return true;
}

const struct card_word *card_words_hear(const struct card_words *words, uint64_t taken)
{
    const struct card_word *word = came(words, words->heard);
    return word->bytes > 0 && word->after <= taken ? word : NULL;
}

void card_words_heard(struct card_words *words)
{
    came(words, words->heard)->bytes = 0;
    words->heard++;
}

#!/bin/bash
# The simulation of whole jobs, or games of two ranks (tests/worlds/card_game.h), find every one of these bugs of the transport over simulated
# network cards, and say at which seed.
#
# Bugs that the tests in tests/virtual_card find when they are planted by hand:
#     device_test  a write beyond a region's end is stored; a region can be written until the next one is deregistered; keys are used
#                  again; memory is read after it was deregistered; a message without a receive is taken; a write completes when its
#                  first packet is acknowledged; packets of another user, another socket or an earlier device are believed; a peer
#                  that is gone and is sent nothing is not found
#     card_test    a message of another signature is shown; a peer is believed that posted more receives than it can; memory stays
#                  registered when links are given up; a rank sleeps while its device has something left to do; a sender that waits
#                  hears only when the receiver is idle that a part of a landing is free, or again what was offered
#     hostile_test a receiver is believed that it consumed what the card still has to read
# ctest: label=long label=nosan label=once timeout=600
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
export TUTTI_LOG=off
link=src/transport/card/link.c pair=src/transport/card/pair.c device=tests/virtual_card/device.c
rails=src/transport/card/card_rails.c
clean_seeds=100
begin_planting engine_sim_card_main "$link" "$pair" "$device" "$rails"
seeds=2000

bug 'one message more is sent than receives are posted' "$pair" \
    'if (pair->sent + kept >= pair->allowed) return false;' \
    'if (pair->sent + kept >= pair->allowed + CARD_CREDITS_KEPT + 1) return false;'
bug 'no credit is kept for messages that give some back' "$pair" \
    'const unsigned kept = gives_credit ? 0 : CARD_CREDITS_KEPT;' \
    'const unsigned kept = 0;
    (void)gives_credit;'
bug 'receives are posted again, and the peer is not told' "$pair" \
    'return (owes_credit(pair) || pair->owes_taken_now || owes_answer(pair)) &&
           send_head(pair, &message);' \
    '(void)message; return false;'
bug 'messages are put in the order in which they come' "$link" \
    'struct card_arrival *arrival = &rx->arrivals[message->sequence % rx->shape.window];' \
    'uint64_t at = rx->consumed;
    while (rx->arrivals[at % rx->shape.window].has_come && at < message->sequence) at++;
    struct card_arrival *arrival = &rx->arrivals[at % rx->shape.window];'
bug 'what was written is announced before it is there' "$link" \
    'entry->writing++;' \
    'entry->writing++;
        written->has_landed = true;
        tx->untold++;'
bug 'a message is given back before it is consumed' "$link" \
    '.consumed = rx->consumed,' \
    '.consumed = rx->consumed + rx->arrivals[rx->consumed % rx->shape.window].has_come,'
# The second edit: without it an assertion ends the simulation before it can name a seed.
bug 'memory of the sender is free when it was given to the device' "$link" \
    'if (tx->entry_first == tx->entry_sending || entry->end > tx->consumed || entry->writing > 0 ||
        entry->sending > 0)' \
    'if (tx->entry_first == tx->entry_sending)' \
    'assert(entry_of(tx, entry)->sending > 0);' \
    'if (entry_of(tx, entry)->sending == 0) return;'
bug 'each message goes to the beginning of what was offered' "$link" \
    'piece->at = tx->offer.room == 0 ? behind : behind % tx->offer.room;' \
    'piece->at = 0 * behind;'
bug 'the bytes behind the end of a landing are written there' "$link" \
    'piece->at = tx->offer.room == 0 ? behind : behind % tx->offer.room;' \
    'piece->at = behind;'
bug 'a landing is filled again before it was consumed' "$link" \
    'return rx->position + offer->room;' \
    'return rx->position + 2 * offer->room <= offer->until ? rx->position + 2 * offer->room : offer->until;'
bug 'what was consumed of a landing is not told' "$link" \
    '.length = open_until(rx) - offer->from,' \
    '.length = least(offer->until - offer->from, offer->room != 0 ? offer->room : UINT64_MAX),'
# Every grant carries the offer, and an idle rank tells what it has consumed, the question, too. So the second edit leaves the offer out
# where it is not owed.
bug 'who asks for a place is not answered where one was offered' "$link" \
    'rx->owes_offer |= is_offering(rx);' \
    '' \
    '.length = open_until(rx) - offer->from,' \
    '.length = offer->room > 0 || rx->owes_offer ? open_until(rx) - offer->from : 0,'
bug 'nobody makes a landing for who asks' "$link" \
    'return is_second;' \
    'return is_second && false;'
bug 'what was offered stays registered when it was consumed' "$link" \
    'if (!is_offering(rx) || rx->position < rx->offer.until) return 0;
    rx->offer = (struct card_offer){0};' \
    'if (!is_offering(rx) || rx->position < rx->offer.until) return 0;
    rx->offer = (struct card_offer){0};
    if (true) return 0;'
bug 'what was offered is deregistered while some of it is missing' "$link" \
    'if (!is_offering(rx) || rx->position < rx->offer.until) return 0;' \
    'if (!is_offering(rx) || rx->position == rx->offer.from) return 0;'
bug 'what was offered stays registered when links are given up' "$pair" \
    'device_of(pair)->ops->deregister(device_of(pair), pair->rx[i]->offer.key);' \
    ''
bug 'what was posted stays registered when links are given up' "$pair" \
    'if (pair->tx[i] != NULL) stop_tx(pair, pair->tx[i]);' \
    ''
bug 'a remote write is acknowledged before all of it was' "$device" \
    'if (operation->unacked == 0 && !operation->has_more)' \
    'if (!operation->has_more)'

bug 'a further card writes to the region of the first one' "$rails" \
    '*there = (struct card_target){place->key, place->base, {{0}}};' \
    '*there = (struct card_target){target->key, place->base, {{0}}};'
bug 'what was offered stays registered with further cards' "$rails" \
    'rails->devices[i]->ops->deregister(rails->devices[i], region.further[i - 1]);' \
    ';'

# In jobs, no message reaches beyond an offer.
libraries=(-lcmocka)
begin_planting card_game_main "$link"
bug 'an offer is used for more bytes than it has' "$link" \
    'if (offer->room == 0) return least(least(open, left), write_bytes);' \
    'if (offer->room == 0) return least(left, write_bytes);'

end_planting

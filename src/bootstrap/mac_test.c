#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/mac.h"

static void skip_without_openssl(void)
{
    unsigned char mac[MAC_BYTES];
    if (mac_compute("", 0, "", 0, mac) != TUTTI_UNSUPPORTED) return;
    print_message("%s\n", tutti_error_message());
    skip();
}

static void expect(const char *key, size_t key_bytes, const char *data, const char *hex)
{
    unsigned char mac[MAC_BYTES];
    char text[2 * MAC_BYTES + 1];
    assert_int_equal(mac_compute(key, key_bytes, data, strlen(data), mac), TUTTI_OK);
    for (int i = 0; i < MAC_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", mac[i]);
    assert_string_equal(text, hex);
}

/* Test cases 1, 2 and 6 of RFC 4231. */
static void macs_are_those_of_rfc_4231(void **state)
{
    (void)state;
    char key[131];
    skip_without_openssl();
    memset(key, 0x0b, sizeof key);
    expect(key, 20, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect("Jefe", 4, "what do ya want for nothing?",
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    expect(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First",
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void any_bit_makes_macs_differ(void **state)
{
    (void)state;
    skip_without_openssl();
    unsigned char a[MAC_BYTES] = {1, 2, 3}, b[MAC_BYTES] = {1, 2, 3};
    assert_true(mac_equal(a, b));
    for (int bit = 0; bit < 8 * MAC_BYTES; bit++) {
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(mac_equal(a, b));
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    mac_wipe(a, sizeof a);
    for (int i = 0; i < MAC_BYTES; i++) assert_int_equal(a[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(macs_are_those_of_rfc_4231),
        cmocka_unit_test(any_bit_makes_macs_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The text of a unique id, as pure functions: what is right, what is refused, and that no text from outside reaches a
 * terminal unclean. The handshake and its frames: handshake_test.c; whole jobs: uid_test.c. */
#include "../check.h"

#include "../../bootstrap/log.h"
#include "../../bootstrap/uid.h"

#include <errno.h>

#define SECRET "000102030405060708090a0b0c0d0e0f"

static void make_id(unsigned char id[ISO_UID_BYTES], const char *text)
{
    memset(id, 0, ISO_UID_BYTES);
    memcpy(id, text, strlen(text));
}

static void test_good_texts(void)
{
    unsigned char id[ISO_UID_BYTES], again[ISO_UID_BYTES];
    struct uid uid;
    const char *why;
    make_id(id, "10.1.2.3:65535:" SECRET);
    CHECK_EQ(iso_uid_parse(id, &uid, &why), 0);
    CHECK(uid.address.bytes[3] == 3 && !uid.address.ipv6 && uid.address.port == 65535 && uid.secret[15] == 15);
    iso_uid_format(&uid, again);
    CHECK_BYTES(again, id, ISO_UID_BYTES);
    make_id(id, "[fe80::1234:5678:9abc:def0]:1:FF0102030405060708090a0b0c0d0e0F");
    CHECK_EQ(iso_uid_parse(id, &uid, &why), 0);
    CHECK(uid.address.ipv6 && uid.address.port == 1 && uid.secret[0] == 255 && uid.secret[15] == 15);
    iso_uid_format(&uid, again);
    make_id(id, "[fe80::1234:5678:9abc:def0]:1:ff0102030405060708090a0b0c0d0e0f");
    CHECK_BYTES(again, id, ISO_UID_BYTES);
}

static void test_bad_texts(void)
{
    static const char *const bad[] = {"",
                                      ":",
                                      "1.2.3.4",
                                      "1.2.3.4:",
                                      "1.2.3.4:5",
                                      "1.2.3.4:5:",
                                      "1.2.3.4:0:" SECRET,
                                      "1.2.3.4:65536:" SECRET,
                                      "1.2.3.4:0000005:" SECRET,
                                      "1.2.3.4:-5:" SECRET,
                                      "1.2.3.4: 5:" SECRET,
                                      "1.2.3:5:" SECRET,
                                      "1.2.3.4.5:5:" SECRET,
                                      "localhost:5:" SECRET,
                                      "[1.2.3.4]:5:" SECRET,
                                      "[::1:5:" SECRET,
                                      "::1:5:" SECRET,
                                      "[::1]5:" SECRET,
                                      "[]:5:" SECRET,
                                      "1.2.3.4:5:" SECRET "0",
                                      "1.2.3.4:5:00010203040506070809",
                                      "1.2.3.4:5:" SECRET ":",
                                      "1.2.3.4:5:g00102030405060708090a0b0c0d0e0f",
                                      "1.2.3.4:5:" SECRET "\n"};
    unsigned char id[ISO_UID_BYTES];
    struct uid uid;
    const char *why;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        make_id(id, bad[i]);
        CHECK_EQ_NAMED(iso_uid_parse(id, &uid, &why), -EINVAL, bad[i]);
        CHECK_NAMED(*why != '\0', bad[i]);
    }
    memset(id, '1', sizeof id); /* no NUL in it */
    CHECK_EQ(iso_uid_parse(id, &uid, &why), -EINVAL);
}

static void test_text_helpers(void)
{
    char text[64];
    const bool here[] = {true, false, true, false, false, false, true, false};
    iso_uid_list_missing(here, 8, text, sizeof text);
    CHECK_NAMED(strcmp(text, "1, 3-5, 7") == 0, text);
    iso_uid_list_missing(here, 1, text, sizeof text);
    CHECK_NAMED(strcmp(text, "") == 0, text);
    bool many[4096] = {false};
    for (int i = 0; i < 4096; i += 2)
        many[i] = true;
    iso_uid_list_missing(many, 4096, text, sizeof text);
    CHECK_NAMED(strlen(text) < sizeof text && strcmp(text + strlen(text) - 3, "...") == 0, text);
    iso_log_clean((const unsigned char *)"a\033b\xff\0c", 6, text, sizeof text);
    CHECK_NAMED(strcmp(text, "a?b?") == 0, text);
    iso_log_clean((const unsigned char *)"abcdef", 6, text, 4);
    CHECK_NAMED(strcmp(text, "abc") == 0, text);
}

int main(void)
{
    test_good_texts();
    test_bad_texts();
    test_text_helpers();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

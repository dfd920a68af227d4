/* SPDX-License-Identifier: MIT */
/* The text of a unique id and the messages of the rendezvous, as pure functions: what is right, what is refused, and
 * that nothing from outside reaches a terminal unclean. Whole jobs: uid_test.c. */
#include "../check.h"

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
    CHECK(strcmp(uid.address, "10.1.2.3") == 0 && !uid.ipv6 && uid.port == 65535 && uid.secret[15] == 15);
    iso_uid_format(&uid, again);
    CHECK_BYTES(again, id, ISO_UID_BYTES);
    make_id(id, "[fe80::1234:5678:9abc:def0]:1:FF0102030405060708090a0b0c0d0e0F");
    CHECK_EQ(iso_uid_parse(id, &uid, &why), 0);
    CHECK(uid.ipv6 && uid.port == 1 && uid.secret[0] == 255 && uid.secret[15] == 15);
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

static void test_hello(void)
{
    struct uid_hello sent = {
        .nonce = {1, 2, 3}, .protocol = ISO_PROTOCOL, .version = ISO_VERSION, .rank = 7, .size = 9};
    struct uid_hello got;
    unsigned char bytes[UID_HELLO_BYTES];
    iso_uid_encode_hello(&sent, bytes);
    for (size_t len = 0; len < UID_HELLO_BYTES; len++)
        CHECK_EQ(iso_uid_judge_hello(bytes, len, &got), UID_INCOMPLETE);
    CHECK_EQ(iso_uid_judge_hello(bytes, sizeof bytes, &got), UID_WELCOME);
    CHECK(got.rank == 7 && got.size == 9 && strcmp(got.version, ISO_VERSION) == 0);
    CHECK_BYTES(got.nonce, sent.nonce, sizeof got.nonce);
    sent.protocol++;
    iso_uid_encode_hello(&sent, bytes);
    CHECK_EQ(iso_uid_judge_hello(bytes, sizeof bytes, &got), UID_WRONG_VERSION);
    sent.protocol--;
    snprintf(sent.version, sizeof sent.version, "9.8\033");
    iso_uid_encode_hello(&sent, bytes);
    CHECK_EQ(iso_uid_judge_hello(bytes, sizeof bytes, &got), UID_WRONG_VERSION);
    CHECK_NAMED(strcmp(got.version, "9.8?") == 0, got.version);
    bytes[0] = 'G';
    CHECK_EQ(iso_uid_judge_hello(bytes, 1, &got), UID_NOT_OURS); /* known at the first byte */
}

/* A proof depends on the secret, on its purpose, and on every byte that both ends have said. */
static void test_proofs(void)
{
    struct uid_handshake handshake = {.hello = {1}, .nonce = {2}};
    unsigned char secret[UID_SECRET_BYTES] = {3}, code[UID_CODE_BYTES], other[UID_CODE_BYTES];
    iso_uid_prove(&handshake, secret, UID_PROOF_PE, code);
    iso_uid_prove(&handshake, secret, UID_PROOF_HUB, other);
    CHECK(!iso_auth_is_equal(code, other));
    secret[0]++;
    iso_uid_prove(&handshake, secret, UID_PROOF_PE, other);
    CHECK(!iso_auth_is_equal(code, other));
    secret[0]--;
    for (size_t i = 0; i < sizeof handshake.hello + sizeof handshake.nonce; i++) {
        unsigned char *at =
            i < sizeof handshake.hello ? &handshake.hello[i] : &handshake.nonce[i - sizeof handshake.hello];
        (*at)++;
        iso_uid_prove(&handshake, secret, UID_PROOF_PE, other);
        CHECK(!iso_auth_is_equal(code, other));
        (*at)--;
    }
    iso_uid_prove(&handshake, secret, UID_PROOF_PE, other);
    CHECK(iso_auth_is_equal(code, other));
}

/* A message is right at its turn only, and not at the end that sent it. */
static void test_seals(void)
{
    const struct uid_handshake handshake = {.hello = {1}, .nonce = {2}};
    const unsigned char secret[UID_SECRET_BYTES] = {3}, head[UID_FRAME_BYTES] = {4}, digest[UID_CODE_BYTES] = {5};
    unsigned char first[UID_CODE_BYTES], second[UID_CODE_BYTES];
    struct uid_seal hub, pe, again;
    iso_uid_start_seal(&hub, &handshake, secret, true);
    iso_uid_start_seal(&pe, &handshake, secret, false);
    iso_uid_seal(&hub, head, digest, first);
    iso_uid_seal(&hub, head, digest, second);
    again = pe;
    CHECK(!iso_uid_is_sealed(&again, head, digest, second)); /* one was left out */
    CHECK(!iso_uid_is_sealed(&again, head, digest, first));  /* it comes too late */
    CHECK(iso_uid_is_sealed(&pe, head, digest, first));
    CHECK(iso_uid_is_sealed(&pe, head, digest, second));
    CHECK(!iso_uid_is_sealed(&hub, head, digest, first)); /* sent back */
    again = pe;
    iso_uid_seal(&hub, head, digest, first);
    CHECK(!iso_uid_is_sealed(&again, head, secret, first)); /* another payload */
    CHECK(iso_uid_is_sealed(&pe, head, digest, first));
}

static void test_frames(void)
{
    unsigned char bytes[UID_FRAME_BYTES];
    struct uid_frame sent = {.kind = UID_FRAME_DATA, .seq = 0x01020304, .len = UID_DATA_BYTES_MAX}, got;
    iso_uid_encode_frame(&sent, bytes);
    CHECK_EQ(iso_uid_decode_frame(bytes, &got), 0);
    CHECK(got.kind == sent.kind && got.seq == sent.seq && got.len == sent.len);
    const struct uid_frame wrong[] = {{UID_FRAME_DATA, 1, UID_DATA_BYTES_MAX + 1},
                                      {UID_FRAME_WELCOME, 1, 1},
                                      {UID_FRAME_FAIL, 1, UID_SENTENCE_BYTES},
                                      {0, 1, 0},
                                      {UID_FRAME_CHALLENGE, 1, 31},
                                      {5, 1, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        iso_uid_encode_frame(&wrong[i], bytes);
        CHECK_EQ(iso_uid_decode_frame(bytes, &got), -EPROTO);
    }
    memset(bytes, 0, sizeof bytes);
    CHECK_EQ(iso_uid_decode_frame(bytes, &got), -EPROTO);
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
    iso_uid_clean_text((const unsigned char *)"a\033b\xff\0c", 6, text, sizeof text);
    CHECK_NAMED(strcmp(text, "a?b?") == 0, text);
    iso_uid_clean_text((const unsigned char *)"abcdef", 6, text, 4);
    CHECK_NAMED(strcmp(text, "abc") == 0, text);
}

int main(void)
{
    test_good_texts();
    test_bad_texts();
    test_hello();
    test_proofs();
    test_seals();
    test_frames();
    test_text_helpers();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

/* SPDX-License-Identifier: MIT */
/* libFuzzer on everything that reaches the rendezvous from outside: id texts, hellos (in pieces, with and without the
 * right beginning), frames and sentences. What is accepted must come out the same when it is encoded again. */
#include "../../bootstrap/uid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static const unsigned char nonce[AUTH_BYTES] = {7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void require(bool true_now)
{
    if (!true_now)
        abort();
}

static void require_clean(const char *text, size_t text_bytes)
{
    require(strnlen(text, text_bytes) < text_bytes);
    for (; *text; text++)
        require(*text >= 32 && *text < 127);
}

static void fuzz_text(const uint8_t *data, size_t len)
{
    unsigned char id[ISO_UID_BYTES] = {0}, again[ISO_UID_BYTES];
    struct uid uid, second;
    const char *why = NULL;
    memcpy(id, data, len < sizeof id ? len : sizeof id);
    int rc = iso_uid_parse(id, &uid, &why);
    require((rc == 0 || rc == -EINVAL) && why && (rc == 0) == (*why == '\0'));
    if (rc != 0)
        return;
    iso_uid_format(&uid, again);
    require(memchr(again, 0, sizeof again) != NULL && iso_uid_parse(again, &second, &why) == 0);
    require(iso_uid_is_same(&uid, &second) && uid.port > 0);
}

/* The verdict on a prefix is UID_INCOMPLETE or the final one, and never changes once it is final. */
static void fuzz_hello(unsigned char *bytes, size_t len)
{
    struct uid_hello hello;
    enum uid_verdict last = UID_INCOMPLETE;
    for (size_t n = 0; n <= len; n++) {
        enum uid_verdict verdict = iso_uid_judge_hello(bytes, n, &hello);
        require(last == UID_INCOMPLETE || verdict == last);
        last = verdict;
        require_clean(hello.version, sizeof hello.version);
    }
    if (last != UID_WELCOME)
        return;
    unsigned char again[UID_HELLO_BYTES];
    struct uid_hello second;
    require(len == UID_HELLO_BYTES);
    iso_uid_encode_hello(&hello, again);
    require(iso_uid_judge_hello(again, sizeof again, &second) == UID_WELCOME);
    require(second.rank == hello.rank && second.size == hello.size);
}

static void fuzz_frame(const uint8_t *data, size_t len)
{
    struct uid_frame frame;
    unsigned char bytes[UID_FRAME_BYTES] = {0}, again[UID_FRAME_BYTES];
    memcpy(bytes, data, len < sizeof bytes ? len : sizeof bytes);
    if (iso_uid_decode_frame(bytes, &frame) != 0)
        return;
    require(frame.len <= UID_DATA_BYTES_MAX && frame.kind >= UID_FRAME_WELCOME && frame.kind <= UID_FRAME_CHALLENGE);
    iso_uid_encode_frame(&frame, again);
    require(memcmp(bytes, again, sizeof bytes) == 0);
}

static void fuzz_sentence(const uint8_t *data, size_t len)
{
    char text[UID_SENTENCE_BYTES], shorter[9];
    bool here[256];
    iso_uid_clean_text(data, len, text, sizeof text);
    require_clean(text, sizeof text);
    iso_uid_clean_text(data, len, shorter, sizeof shorter);
    require_clean(shorter, sizeof shorter);
    int size = len < 256 ? (int)len : 256;
    for (int r = 0; r < size; r++)
        here[r] = data[r] & 1;
    iso_uid_list_missing(here, size, text, 100);
    require_clean(text, 100);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    unsigned char bytes[UID_HELLO_BYTES] = {0};
    if (len_bytes == 0)
        return 0;
    unsigned chosen = data[0];
    data++;
    len_bytes--;
    size_t len = len_bytes < sizeof bytes ? len_bytes : sizeof bytes;
    fuzz_text(data, len_bytes);
    fuzz_frame(data, len_bytes);
    fuzz_sentence(data, len_bytes);
    memcpy(bytes, data, len);
    fuzz_hello(bytes, len);
    if (chosen & 1) { /* the first bytes are right: what follows is judged */
        struct uid_hello hello = {.protocol = ISO_PROTOCOL, .version = ISO_VERSION};
        memcpy(hello.nonce, nonce, sizeof nonce);
        iso_uid_encode_hello(&hello, bytes);
        size_t right = (chosen >> 1) % sizeof bytes;
        if (len > right)
            memcpy(bytes + right, data + right, len - right);
        fuzz_hello(bytes, sizeof bytes);
    }
    return 0;
}

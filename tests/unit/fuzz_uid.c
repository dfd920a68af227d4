/* SPDX-License-Identifier: MIT */
/* libFuzzer on texts and addresses that come from outside: ids, sentences and addresses of other PEs. What is accepted
 * must come out the same when it is printed again. */
#include "../../bootstrap/log.h"
#include "../../bootstrap/net/interface.h"
#include "../../bootstrap/uid_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

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
    require(iso_uid_is_same(&uid, &second) && uid.address.port > 0);
}

/* Another PE's addresses: each is tried once, whatever it says. */
static void fuzz_addresses(const uint8_t *data, size_t len)
{
    struct host_addresses theirs, mine = {.n_ip4 = 1, .n_ip6 = 1, .ip4 = {{10, 0, 0, 1}}};
    struct tcp_address address;
    memset(&theirs, 0, sizeof theirs);
    memcpy(&theirs, data, len < sizeof theirs ? len : sizeof theirs);
    int n = 0;
    while (iso_interface_pick(&theirs, &mine, len & 1, n, &address)) {
        char name[TCP_NAME_BYTES];
        iso_tcp_name(&address, name);
        require_clean(name, sizeof name);
        n++;
    }
    require(n == 0 || n == theirs.n_ip4 + theirs.n_ip6);
    require(n <= HOST_IP4_MAX + HOST_IP6_MAX);
}

static void fuzz_sentence(const uint8_t *data, size_t len)
{
    char text[UID_SENTENCE_BYTES], shorter[9];
    bool here[256];
    iso_log_clean(data, len, text, sizeof text);
    require_clean(text, sizeof text);
    iso_log_clean(data, len, shorter, sizeof shorter);
    require_clean(shorter, sizeof shorter);
    int size = len < 256 ? (int)len : 256;
    for (int r = 0; r < size; r++)
        here[r] = data[r] & 1;
    iso_uid_list_missing(here, size, text, 100);
    require_clean(text, 100);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    fuzz_text(data, len_bytes);
    fuzz_addresses(data, len_bytes);
    fuzz_sentence(data, len_bytes);
    return 0;
}

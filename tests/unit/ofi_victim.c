/* SPDX-License-Identifier: MIT */
/* No test: tests/cluster/ofi_native.sh starts it, over two nodes of one PE each. The first argument: what PE 0 does.
 *   key        a large put with a key that PE 1 has not given
 *   address    an atomic operation where PE 1 has no segment
 *   lost       a message whose number is far behind the next one
 *   stranger   a message without the token: it must be dropped, and all else must go on; ends with 0
 *   tokens     prints the tokens of the channel: no packet may have them
 *   broken     breaks the job, waits, and sends once more: only with `returns`
 * With `returns` behind it errors return: both PEs get one that says why, leave, and end with 0.
 * It knows the inside of the library, which it contains. */
#include "../check.h"

#include "../../shmem/node/channel_state.h"
#include "../../shmem/transport/ofi/ofi.h"

#include <stdlib.h>

enum { BYTES = 2 * OFI_BULK_MIN };

static void spoil_keys(struct ofi *o)
{
    iso_ofi_lock(o);
    for (int i = 0; i < o->net.peers[1].keys.n; i++)
        ((struct network_key *)o->net.peers[1].keys.rows)[i].key ^= 0x5a5a;
    o->peers[1].there.key ^= 0x5a5a; /* of the stage */
    iso_ofi_unlock(o);
}

/* An addition of 1 to the word of PE 1 at addr, in the queue of the default context. */
static void send_add(struct ofi *o, uint64_t addr, uint64_t skipped, bool stranger)
{
    struct ofi_message m = {.type = OFI_AMO, .op = AMO_ADD, .bytes = 8, .addr = addr, .operand = 1};
    iso_ofi_lock(o);
    struct ofi_queue *q = iso_ofi_queue_to(o, &ISO->ctx_default, 1);
    struct ofi_queue before = *q;
    q->asks.made += skipped;
    q->asks.done += skipped; /* there is room */
    o->peers[1].token_out ^= stranger;
    iso_ofi_send(o, q, &m, NULL, NULL);
    o->peers[1].token_out ^= stranger;
    if (stranger) /* no answer comes */
        q->asks = before.asks;
    iso_ofi_unlock(o);
}

/* A wait that ends in a broken job closes the endpoint. What this PE sends afterwards has no effect. */
static void send_after_wait(struct ofi *o, uint64_t addr)
{
    CHECK_EQ(shmemx_break("pe 0 has had enough"), 0);
    iso_ofi_lock(o);
    struct ofi_queue *q = iso_ofi_queue_to(o, &ISO->ctx_default, 1);
    iso_ofi_wait(o, q, q->asks.made + 1, 0, "wait"); /* for a message that it has not sent */
    iso_ofi_unlock(o);
    send_add(o, addr, 0, false);
}

/* Puts come back without effect; the next call that has a result says why, and the broken job can be left. */
static int leave_broken(const char *word)
{
    char text[512] = "";
    time_t begin = time(NULL);
    CHECK(shmemx_malloc(8, SHMEMX_HOST) == NULL);
    CHECK(shmemx_status(SHMEM_TEAM_WORLD, 0, &(shmemx_device_error_t){0}) >= 0);
    CHECK(shmemx_malloc(8, SHMEMX_HOST) == NULL);
    shmemx_error_text(text, sizeof text);
    if (!CHECK(strstr(text, word) != NULL))
        fprintf(stderr, "the text is: %s\n", text);
    CHECK_EQ(shmemx_leave(), 0);
    CHECK(time(NULL) - begin <= 5);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool returns = argc > 2, lost = strcmp(what, "lost") == 0, broken = strcmp(what, "broken") == 0;
    const char *reason = lost                         ? "where pe 1" /* both get the same one */
                         : broken                     ? "pe 0 has had enough"
                         : strcmp(what, "key") == 0 ? "a put of 65536 bytes from pe 0"
                                                    : "was refused: there is no segment";
    shmem_init();
    uint64_t *word = (uint64_t *)shmem_calloc(1, 8);
    char *large = (char *)shmem_calloc(1, BYTES), *mine = (char *)malloc(BYTES);
    CHECK_OR_EXIT(word != NULL && large != NULL && mine != NULL && ISO->ofi != NULL);
    memset(mine, 7, BYTES);
    for (int pe = 0; strcmp(what, "tokens") == 0 && pe < shmem_n_pes(); pe++) {
        char line[64] = "token ";
        for (int i = 0; i < CHANNEL_TOKEN_BYTES; i++)
            snprintf(line + 6 + 2 * i, 3, "%02x", ISO->channel->targets[pe].token[i]);
        puts(line);
    }
    if (returns && shmemx_set_error_mode(SHMEMX_ERRORS_RETURN) != 0) /* before PE 0 begins */
        return CHECK_FAILED;
    shmem_barrier_all();
    if (returns && shmem_my_pe() == 1) /* finds a lost message; a provider may close the connection of a wrong key */
        return leave_broken(strcmp(what, "key") == 0 ? "the job was broken" : reason);
    if (shmem_my_pe() == 0) {
        struct ofi *o = ISO->ofi;
        shmem_putmem(large, mine, BYTES, 1);
        shmem_uint64_atomic_add(word, 1, 1);
        shmem_quiet();
        uint64_t there = (uint64_t)(uintptr_t)ISO->segments[SEGMENT_INDEX_HEAP].peers[1].base;
        uint64_t at = there + (uint64_t)((char *)word - ISO->segments[SEGMENT_INDEX_HEAP].base);
        if (strcmp(what, "key") == 0)
            spoil_keys(o);
        if (strcmp(what, "address") == 0)
            send_add(o, 4096, 0, false);
        if (lost)
            send_add(o, at, OFI_CREDITS, false);
        if (strcmp(what, "stranger") == 0)
            send_add(o, at, 0, true);
        if (broken && returns)
            send_after_wait(o, at);
        shmem_putmem(large, mine, BYTES, 1);
        if (returns) { /* shmem_quiet ends the process in a broken job */
            iso_transport_ofi.quiet(&ISO->ctx_default);
            return leave_broken(reason);
        }
        shmem_uint64_atomic_add(word, 1, 1);
        shmem_quiet();
        CHECK_EQ(shmem_uint64_atomic_fetch(word, 1), 2);
    }
    shmem_barrier_all();
    if (shmem_my_pe() == 1)
        CHECK(*word == 2 && large[0] == 7 && large[BYTES - 1] == 7);
    free(mine);
    return check_done();
}

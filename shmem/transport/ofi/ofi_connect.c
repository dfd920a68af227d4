/* SPDX-License-Identifier: MIT */
/* Addresses and tokens, exchanged through the channel by the first operation on a peer. Both ends know each other then:
 * one request serves both directions. The provider makes its own connection when it first sends. */
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "ofi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* 0 or -errno. */
static int fill_hello(struct ofi *o, int pe, struct ofi_hello *mine)
{
    struct ofi_peer *peer = &o->peers[pe];
    while (peer->token_in == 0)
        if (getrandom(&peer->token_in, sizeof peer->token_in, 0) != sizeof peer->token_in)
            return -errno;
    mine->token = peer->token_in;
    mine->format = o->info->addr_format;
    mine->name_len = (uint16_t)o->name_len;
    memcpy(mine->name, o->name, o->name_len);
    snprintf(mine->provider, sizeof mine->provider, "%.*s", OFI_PROVIDER_BYTES - 1, o->info->fabric_attr->prov_name);
    return 0;
}

/* 0 or -errno; -EPROTO: another provider. */
static int take_hello(struct ofi *o, int pe, const struct ofi_hello *theirs)
{
    struct ofi_peer *peer = &o->peers[pe];
    char text[160];
    if (peer->known)
        return 0;
    if (strncmp(theirs->provider, o->info->fabric_attr->prov_name, OFI_PROVIDER_BYTES - 1) != 0 ||
        theirs->format != o->info->addr_format || theirs->name_len > sizeof theirs->name)
        return -EPROTO;
    if (fi_av_insert(o->av, theirs->name, 1, &peer->address, 0, NULL) != 1)
        return -EADDRNOTAVAIL;
    peer->token_out = theirs->token;
    peer->known = true;
    o->early |= peer->in != NULL; /* it knows this PE since it has answered, and that answer was slower */
    log_debug("ofi: pe %d (host %s) is at %s", pe, ISO->peers[pe].host,
              iso_ofi_name_text(theirs->name, theirs->name_len, theirs->format, text, sizeof text));
    return 0;
}

int iso_ofi_answer(int pe, const void *request, void *answer)
{
    struct ofi *o = ISO->ofi;
    struct ofi_hello hello, mine = {0};
    struct network_key_info info = {0};
    _Static_assert(sizeof hello <= CHANNEL_BODY_BYTES, "one message of the channel");
    memcpy(&hello, request, sizeof hello);
    if (hello.type == OFI_STAGE) {
        int rc = iso_ofi_answer_stage(o, pe, &info.key);
        memcpy(answer, &info, sizeof info);
        return rc;
    }
    int rc = hello.type == OFI_HELLO ? fill_hello(o, pe, &mine) : -EPROTO;
    if (rc == 0)
        rc = take_hello(o, pe, &hello);
    memcpy(answer, &mine, sizeof mine);
    return rc;
}

static void exchange_addresses(struct ofi *o, int pe)
{
    struct ofi_hello mine = {.type = OFI_HELLO}, theirs = {0};
    const char *host = ISO->peers[pe].host;
    int rc = fill_hello(o, pe, &mine);
    if (rc == 0) {
        theirs = mine;
        rc = iso_network_ask(&o->net, pe, &theirs, sizeof theirs);
    }
    if (rc == 0)
        rc = theirs.error != 0 ? theirs.error : take_hello(o, pe, &theirs);
    if (rc == 0)
        return;
    if (rc == -EPROTO && strcmp(theirs.provider, mine.provider) == 0)
        iso_network_lose(&o->net, -1, "pe %d (host %s) has an address of libfabric's format %u and pe %d (host %s) one "
                         "of format %u (IPv4 is %d, IPv6 is %d); set SHMEM_NETWORK to addresses of one kind on all "
                         "hosts", ISO->my_pe, ISO->boot.host, mine.format, pe, host, theirs.format, FI_SOCKADDR_IN,
                         FI_SOCKADDR_IN6);
    else if (rc == -EPROTO)
        iso_network_lose(&o->net, -1, "pe %d (host %s) uses libfabric's provider %s and pe %d (host %s) uses %s: they "
                         "cannot talk to each other; set SHMEM_TRANSPORT equal on all PEs, with a provider that all "
                         "hosts have", ISO->my_pe, ISO->boot.host, o->info->fabric_attr->prov_name, pe, host,
                         theirs.provider[0] != '\0' ? theirs.provider : "another network");
    iso_network_lose(&o->net, -1, "pe %d (host %s) cannot exchange addresses with pe %d (host %s): %s", ISO->my_pe,
                     ISO->boot.host, pe, host, o->lib.error_text(-rc));
}

struct network_queue *iso_ofi_connect(int pe, int group)
{
    struct ofi *o = ISO->ofi;
    if (!o->peers[pe].known)
        exchange_addresses(o, pe);
    struct ofi_queue *q = o->net.lost ? NULL : (struct ofi_queue *)calloc(1, sizeof *q);
    if (q == NULL) { /* no effect while lost */
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no memory for a queue to pe %d", ISO->my_pe, ISO->boot.host,
                         pe);
        return NULL;
    }
    q->pe = pe;
    q->group = group;
    return &q->link;
}

/* SPDX-License-Identifier: MIT */
/* Addresses of this host and their order of preference. */
#include "interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

enum { MOST4 = 4, MOST6 = 2 };

static bool is_wanted(const struct ifaddrs *entry, const char *wanted)
{
    char text[INET6_ADDRSTRLEN] = "";
    const void *bytes = entry->ifa_addr->sa_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr;
    inet_ntop(entry->ifa_addr->sa_family, bytes, text, sizeof text);
    return strcmp(entry->ifa_name, wanted) == 0 || strcmp(text, wanted) == 0;
}

static bool suits(const struct ifaddrs *entry, const char *wanted, bool loopback)
{
    unsigned needed = IFF_UP | IFF_RUNNING;
    if (entry->ifa_addr == NULL || (entry->ifa_flags & needed) != needed)
        return false;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)
        return false;
    if (wanted[0] != '\0')
        return is_wanted(entry, wanted);
    return ((entry->ifa_flags & IFF_LOOPBACK) != 0) == loopback;
}

/* Link-local addresses need a scope, which is another host's own affair. */
static void add(struct channel_address *to, const struct ifaddrs *entry)
{
    if (entry->ifa_addr->sa_family == AF_INET && to->n_ip4 < MOST4) {
        memcpy(to->ip4[to->n_ip4++], &((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr, 4);
        return;
    }
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr;
    if (entry->ifa_addr->sa_family == AF_INET6 && to->n_ip6 < MOST6 && !IN6_IS_ADDR_LINKLOCAL(in6))
        memcpy(to->ip6[to->n_ip6++], in6, 16);
}

static void add_all(struct channel_address *to, const struct ifaddrs *list, const char *wanted, bool loopback)
{
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next)
        if (suits(entry, wanted, loopback))
            add(to, entry);
}

int iso_interface_find(struct channel_address *mine, const char *wanted)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0) {
        log_error("shmem_init: the addresses of this host cannot be read: %m");
        return -EIO;
    }
    add_all(mine, list, wanted, false);
    if (mine->n_ip4 + mine->n_ip6 == 0 && wanted[0] == '\0')
        add_all(mine, list, wanted, true);
    freeifaddrs(list);
    if (mine->n_ip4 + mine->n_ip6 > 0)
        return 0;
    log_error("shmem_init: SHMEM_NETWORK is \"%.64s\"; allowed: empty, the name of an interface that is up, or a "
              "numeric address of this host",
              wanted);
    return -EINVAL;
}

/* ---- which one to try ---- */

static const uint8_t *bytes_of(const struct channel_address *a, int i)
{
    return i < a->n_ip4 ? a->ip4[i] : a->ip6[i - a->n_ip4];
}

static int common_bits(const uint8_t *a, const uint8_t *b, int bytes)
{
    for (int i = 0; i < bytes; i++)
        if (a[i] != b[i])
            return 8 * i + __builtin_clz((unsigned)(a[i] ^ b[i])) - 24;
    return 8 * bytes;
}

/* The larger the better. */
static int rate(const struct channel_address *theirs, int i, const struct channel_address *mine, bool same_host)
{
    int best = 0, bytes = i < theirs->n_ip4 ? 4 : 16;
    for (int k = 0; k < mine->n_ip4 + mine->n_ip6; k++) {
        if ((k < mine->n_ip4 ? 4 : 16) != bytes)
            continue;
        int bits = common_bits(bytes_of(theirs, i), bytes_of(mine, k), bytes);
        if (bits == 8 * bytes && !same_host)
            return -1;
        best = ISO_MAX(best, bits);
    }
    return bytes == 4 ? 2 * best + 1 : best / 2;
}

static void fill(const struct channel_address *a, int i, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof *to);
    if (i < a->n_ip4) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_family = AF_INET;
        in->sin_port = htons(a->port);
        memcpy(&in->sin_addr, a->ip4[i], 4);
        return;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(a->port);
    memcpy(&in6->sin6_addr, a->ip6[i - a->n_ip4], 16);
}

bool iso_interface_pick(const struct channel_address *theirs, const struct channel_address *mine, bool same_host, int i,
                        struct sockaddr_storage *address)
{
    int n = ISO_MIN(theirs->n_ip4, MOST4) + ISO_MIN(theirs->n_ip6, MOST6);
    for (int k = 0; k < n; k++) {
        int before = 0, mark = rate(theirs, k, mine, same_host);
        for (int other = 0; other < n; other++) {
            int theirs_mark = rate(theirs, other, mine, same_host);
            before += theirs_mark > mark || (theirs_mark == mark && other < k);
        }
        if (before != i)
            continue;
        fill(theirs, k, address);
        return true;
    }
    return false;
}

socklen_t iso_interface_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void iso_interface_name(const struct sockaddr_storage *address, char *text, size_t bytes)
{
    char number[INET6_ADDRSTRLEN] = "unknown";
    bool ipv6 = address->ss_family == AF_INET6;
    const void *from = ipv6 ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    unsigned port = ntohs(ipv6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                               : ((const struct sockaddr_in *)address)->sin_port);
    inet_ntop(address->ss_family, from, number, sizeof number);
    snprintf(text, bytes, ipv6 ? "[%s]:%u" : "%s:%u", number, port);
}

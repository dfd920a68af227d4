/* SPDX-License-Identifier: MIT */
/* Addresses of this host and their order of preference. */
#include "interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

static const void *address_of(const struct ifaddrs *entry)
{
    return entry->ifa_addr->sa_family == AF_INET6
               ? (const void *)&((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr
               : (const void *)&((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr;
}

static bool suits(const struct ifaddrs *entry, const char *wanted, bool loopback)
{
    unsigned needed = IFF_UP | IFF_RUNNING;
    char text[INET6_ADDRSTRLEN] = "";
    if (entry->ifa_addr == NULL || (entry->ifa_flags & needed) != needed)
        return false;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)
        return false;
    if (wanted[0] == '\0')
        return ((entry->ifa_flags & IFF_LOOPBACK) != 0) == loopback;
    inet_ntop(entry->ifa_addr->sa_family, address_of(entry), text, sizeof text);
    return strcmp(entry->ifa_name, wanted) == 0 || strcmp(text, wanted) == 0;
}

/* Link-local IPv6 addresses need a scope, which another host cannot know. */
static void add_all(struct host_addresses *to, const struct ifaddrs *list, const char *wanted, bool loopback)
{
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        if (!suits(entry, wanted, loopback))
            continue;
        const void *bytes = address_of(entry);
        bool ipv6 = entry->ifa_addr->sa_family == AF_INET6;
        if (!ipv6 && to->n_ip4 < HOST_IP4_MAX)
            memcpy(to->ip4[to->n_ip4++], bytes, 4);
        else if (ipv6 && to->n_ip6 < HOST_IP6_MAX && !IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)bytes))
            memcpy(to->ip6[to->n_ip6++], bytes, 16);
    }
}

int iso_interface_find(struct host_addresses *mine, const char *wanted, const char **why)
{
    struct ifaddrs *list;
    memset(mine, 0, sizeof *mine);
    *why = "the addresses of this host cannot be read";
    if (getifaddrs(&list) != 0)
        return -EIO;
    add_all(mine, list, wanted, false);
    if (mine->n_ip4 + mine->n_ip6 == 0 && wanted[0] == '\0')
        add_all(mine, list, wanted, true);
    freeifaddrs(list);
    *why = "allowed: empty, the name of an interface that is up, or a numeric address of this host";
    return mine->n_ip4 + mine->n_ip6 > 0 ? 0 : -EINVAL;
}

/* ---- which one to try ---- */

static const uint8_t *bytes_of(const struct host_addresses *a, int i)
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
static int rate(const struct host_addresses *theirs, int i, const struct host_addresses *mine, bool same_host)
{
    int best = 0, bytes = i < theirs->n_ip4 ? 4 : 16;
    for (int k = 0; k < mine->n_ip4 + mine->n_ip6; k++) {
        if ((k < mine->n_ip4 ? 4 : 16) != bytes)
            continue;
        int bits = common_bits(bytes_of(theirs, i), bytes_of(mine, k), bytes);
        if (bits == 8 * bytes && !same_host)
            return -1;
        best = bits > best ? bits : best;
    }
    return bytes == 4 ? 2 * best + 1 : best / 2;
}

bool iso_interface_pick(const struct host_addresses *theirs, const struct host_addresses *mine, bool same_host, int i,
                        struct tcp_address *address)
{
    if (theirs->n_ip4 > HOST_IP4_MAX || theirs->n_ip6 > HOST_IP6_MAX)
        return false;
    int n = theirs->n_ip4 + theirs->n_ip6;
    for (int k = 0; k < n; k++) {
        int before = 0, mark = rate(theirs, k, mine, same_host);
        for (int other = 0; other < n; other++) {
            int other_mark = rate(theirs, other, mine, same_host);
            before += other_mark > mark || (other_mark == mark && other < k);
        }
        if (before != i)
            continue;
        *address = (struct tcp_address){.port = theirs->port, .ipv6 = k >= theirs->n_ip4};
        memcpy(address->bytes, bytes_of(theirs, k), address->ipv6 ? 16 : 4);
        return true;
    }
    return false;
}

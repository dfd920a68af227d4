/* SPDX-License-Identifier: MIT */
/* Addresses of this host and their order of preference. */
#include "interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

static const void *interface_address(const struct ifaddrs *entry)
{
    return entry->ifa_addr->sa_family == AF_INET6
               ? (const void *)&((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr
               : (const void *)&((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr;
}

/* Of an interface that is up. IFF_RUNNING: it has a carrier. */
static bool suits(const struct ifaddrs *entry, const char *wanted, unsigned flags)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (entry->ifa_addr == NULL || (entry->ifa_flags & IFF_UP) == 0)
        return false;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)
        return false;
    if (wanted[0] == '\0')
        return (entry->ifa_flags & (IFF_LOOPBACK | IFF_RUNNING)) == flags;
    inet_ntop(entry->ifa_addr->sa_family, interface_address(entry), text, sizeof text);
    return strcmp(entry->ifa_name, wanted) == 0 || strcmp(text, wanted) == 0;
}

/* Link-local IPv6 addresses need a scope, which another host cannot know. */
static void add_interfaces(struct host_addresses *to, const struct ifaddrs *list, const char *wanted, unsigned flags)
{
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        if (!suits(entry, wanted, flags))
            continue;
        const void *bytes = interface_address(entry);
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
    static const unsigned kinds[] = {IFF_RUNNING, 0, IFF_LOOPBACK | IFF_RUNNING};
    for (int i = 0; i < 3 && mine->n_ip4 + mine->n_ip6 == 0; i++)
        add_interfaces(mine, list, wanted, kinds[i]);
    freeifaddrs(list);
    *why = "allowed: empty, the name of an interface that is up, or a numeric address of this host";
    return mine->n_ip4 + mine->n_ip6 > 0 ? 0 : -EINVAL;
}

static bool is_loopback(const uint8_t *bytes, bool ipv6)
{
    static const uint8_t ip6[16] = {[15] = 1};
    return ipv6 ? memcmp(bytes, ip6, 16) == 0 : bytes[0] == 127;
}

bool iso_interface_is_loopback(const struct host_addresses *theirs)
{
    for (int i = 0; i < theirs->n_ip4; i++)
        if (!is_loopback(theirs->ip4[i], false))
            return false;
    for (int i = 0; i < theirs->n_ip6; i++)
        if (!is_loopback(theirs->ip6[i], true))
            return false;
    return true;
}

/* The first of `most` rows of `bytes` each; of the n that are there, one that is equal moves, else the last may go. */
static uint8_t put_first(uint8_t *rows, uint8_t n, int most, size_t bytes, const uint8_t *first)
{
    int at = 0;
    while (at < n && memcmp(rows + (size_t)at * bytes, first, bytes) != 0)
        at++;
    n = (uint8_t)(at == n && n < most ? n + 1 : n);
    at = at < n ? at : n - 1;
    memmove(rows + bytes, rows, (size_t)at * bytes);
    memcpy(rows, first, bytes);
    return n;
}

void iso_interface_prefer(struct host_addresses *mine, const struct tcp_address *first)
{
    static const uint8_t any[16] = {0};
    if (is_loopback(first->bytes, first->ipv6) || memcmp(first->bytes, any, first->ipv6 ? 16 : 4) == 0)
        return;
    if (first->ipv6 && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)first->bytes))
        return;
    uint8_t n4 = first->ipv6 ? 0 : put_first(mine->ip4[0], mine->n_ip4, HOST_IP4_MAX, 4, first->bytes);
    mine->n_ip6 = first->ipv6 ? put_first(mine->ip6[0], mine->n_ip6, HOST_IP6_MAX, 16, first->bytes) : 0;
    mine->n_ip4 = n4;
}

/* ---- which one to try ---- */

static const uint8_t *address_bytes(const struct host_addresses *a, int i)
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

/* How likely their address i is to be reached, by the bits that it has in common with one of ours. A bit of IPv4 counts
 * as four of IPv6, so that all bits of one count as much as all of the other, and one more: IPv4 comes first. -1: it is
 * an address of ours, and they are on another host. */
static int rate(const struct host_addresses *theirs, int i, const struct host_addresses *mine, bool same_host)
{
    int best = 0, bytes = i < theirs->n_ip4 ? 4 : 16;
    for (int k = 0; k < mine->n_ip4 + mine->n_ip6; k++) {
        if ((k < mine->n_ip4 ? 4 : 16) != bytes)
            continue;
        int bits = common_bits(address_bytes(theirs, i), address_bytes(mine, k), bytes);
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
        memcpy(address->bytes, address_bytes(theirs, k), address->ipv6 ? 16 : 4);
        return true;
    }
    return false;
}

/* SPDX-License-Identifier: MIT */
/* Making a unique id: choose an address of this machine, listen there, draw a secret, and keep the socket until the PE
 * that becomes rank 0 of that id takes it. Callers: shmemx_get_uniqueid (create), boot_uid.c (take). */
#include "listener.h"

#include "auth.h"
#include "../log.h"
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct pending {
    struct pending *next;
    struct uid uid;
    int fd;
};

/* Of the process, not of a PE: the thread that makes an id and the one that becomes rank 0 may differ. */
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *pending_first;

int iso_listener_take(const struct uid *uid)
{
    int fd = -1;
    pthread_mutex_lock(&pending_lock);
    for (struct pending **at = &pending_first; *at; at = &(*at)->next)
        if (iso_uid_is_same(&(*at)->uid, uid)) {
            struct pending *found = *at;
            fd = found->fd;
            *at = found->next;
            free(found);
            break;
        }
    pthread_mutex_unlock(&pending_lock);
    return fd;
}

static bool set_address(struct uid *uid, const char *text)
{
    struct in6_addr scratch; /* large enough for both families */
    size_t len = strlen(text);
    if (len >= sizeof uid->address)
        return false;
    uid->ipv6 = strchr(text, ':') != NULL;
    memcpy(uid->address, text, len + 1);
    return inet_pton(uid->ipv6 ? AF_INET6 : AF_INET, text, &scratch) == 1;
}

/* How well an interface address suits: 0 not at all; IPv4 before IPv6. Link-local ones need a scope the id lacks. */
static int rate_address(const struct ifaddrs *entry, const char *interface)
{
    unsigned needed = IFF_UP | IFF_RUNNING;
    if (!entry->ifa_addr || (entry->ifa_flags & needed) != needed)
        return 0;
    if (*interface ? strcmp(entry->ifa_name, interface) != 0 : (entry->ifa_flags & IFF_LOOPBACK) != 0)
        return 0;
    if (entry->ifa_addr->sa_family == AF_INET)
        return 2;
    if (entry->ifa_addr->sa_family != AF_INET6)
        return 0;
    return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr) ? 0 : 1;
}

/* An address of this interface, or of the first one that is not loopback where `interface` is empty. */
static bool find_address(struct uid *uid, const char *interface)
{
    struct ifaddrs *list, *best = NULL;
    if (getifaddrs(&list) != 0)
        return false;
    for (struct ifaddrs *entry = list; entry; entry = entry->ifa_next)
        if (rate_address(entry, interface) > (best ? rate_address(best, interface) : 0))
            best = entry;
    if (best) {
        uid->ipv6 = best->ifa_addr->sa_family == AF_INET6;
        const void *address = uid->ipv6 ? (const void *)&((const struct sockaddr_in6 *)best->ifa_addr)->sin6_addr
                                        : (const void *)&((const struct sockaddr_in *)best->ifa_addr)->sin_addr;
        inet_ntop(best->ifa_addr->sa_family, address, uid->address, sizeof uid->address);
    }
    freeifaddrs(list);
    return best != NULL;
}

/* SHMEM_UID_ADDRESS, an address or an interface; else the first that is not loopback; else 127.0.0.1. */
static int choose_address(struct uid *uid, const char *wanted)
{
    if ((*wanted && set_address(uid, wanted)) || find_address(uid, wanted))
        return 0;
    if (*wanted) {
        log_error("SHMEM_UID_ADDRESS is \"%.64s\", allowed is a numeric address of this machine or the name of an "
                  "interface that is up",
                  wanted);
        return -EINVAL;
    }
    return set_address(uid, "127.0.0.1") ? 0 : -EINVAL;
}

static int fill_secret(unsigned char *secret)
{
    int rc = iso_auth_draw(secret);
    errno = -rc;
    if (rc != 0)
        log_error("unique id: getrandom: %m");
    return rc;
}

int iso_boot_uid_create(unsigned char id[ISO_UID_BYTES])
{
    struct uid uid = {.port = 0};
    struct env env;
    char error[256];
    int rc = iso_env_read(&env, error, sizeof error);
    if (rc != 0) {
        log_error("%s", error);
        return rc;
    }
    if ((rc = choose_address(&uid, env.uid_address)) != 0 || (rc = fill_secret(uid.secret)) != 0)
        return rc;
    int fd = iso_wire_listen(&uid);
    struct pending *pending = fd < 0 ? NULL : (struct pending *)malloc(sizeof *pending);
    if (!pending) {
        errno = fd < 0 ? -fd : ENOMEM;
        log_error("unique id: cannot listen on %s (SHMEM_UID_ADDRESS chooses another address): %m", uid.address);
        if (fd >= 0)
            close(fd);
        return fd < 0 ? fd : -ENOMEM;
    }
    *pending = (struct pending){.uid = uid, .fd = fd};
    pthread_mutex_lock(&pending_lock);
    pending->next = pending_first;
    pending_first = pending;
    pthread_mutex_unlock(&pending_lock);
    iso_uid_format(&uid, id);
    return 0;
}

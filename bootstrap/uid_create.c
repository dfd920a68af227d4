/* SPDX-License-Identifier: MIT */
/* Making a unique id: choose an address of this host, listen there, draw a secret, and keep the socket until the PE
 * that becomes rank 0 of that id takes it. Called by shmemx_get_uniqueid (create) and uid_hub.c (take), from any
 * thread. */
#include "env.h"
#include "uid_job.h"

#include "log.h"
#include "net/interface.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct listener {
    struct listener *next;
    struct uid uid;
    int fd;
};

/* Of the process, not of a PE: the thread that makes an id and the one that becomes rank 0 may differ. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener *listeners;

int iso_uid_take_listener(const struct uid *uid)
{
    int fd = -1;
    pthread_mutex_lock(&lock);
    for (struct listener **at = &listeners; *at; at = &(*at)->next)
        if (iso_uid_is_same(&(*at)->uid, uid)) {
            struct listener *found = *at;
            fd = found->fd;
            *at = found->next;
            free(found);
            break;
        }
    pthread_mutex_unlock(&lock);
    return fd;
}

/* SHMEM_UID_ADDRESS, an address or an interface; else the first that is not loopback; else 127.0.0.1. */
static int choose_address(struct tcp_address *address, const char *wanted)
{
    struct host_addresses mine, none;
    const char *why;
    memset(&none, 0, sizeof none);
    if (iso_tcp_parse(wanted, address))
        return 0;
    if (iso_interface_find(&mine, wanted, &why) == 0 && iso_interface_pick(&mine, &none, true, 0, address))
        return 0;
    if (*wanted) {
        log_error("SHMEM_UID_ADDRESS is \"%.64s\": %s", wanted, why);
        return -EINVAL;
    }
    return iso_tcp_parse("127.0.0.1", address) ? 0 : -EINVAL;
}

int iso_boot_uid_create(unsigned char id[ISO_UID_BYTES])
{
    struct uid uid;
    struct env env;
    char error[256], name[TCP_NAME_BYTES];
    memset(&uid, 0, sizeof uid);
    int rc = iso_env_read(&env, error, sizeof error);
    if (rc != 0) {
        log_error("%s", error);
        return rc;
    }
    if ((rc = choose_address(&uid.address, env.uid_address)) != 0)
        return rc;
    if ((rc = iso_auth_draw(uid.secret)) != 0) {
        log_error("unique id: getrandom: %s", strerror(-rc));
        return rc;
    }
    struct listener *listener = (struct listener *)malloc(sizeof *listener);
    int fd = listener ? iso_tcp_listen(&uid.address) : -ENOMEM;
    if (fd < 0) {
        iso_tcp_name(&uid.address, name);
        log_error("unique id: cannot listen on %s: %s; SHMEM_UID_ADDRESS chooses another address", name,
                  strerror(-fd));
        free(listener);
        return fd;
    }
    pthread_mutex_lock(&lock);
    *listener = (struct listener){.next = listeners, .uid = uid, .fd = fd};
    listeners = listener;
    pthread_mutex_unlock(&lock);
    iso_uid_format(&uid, id);
    return 0;
}

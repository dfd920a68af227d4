/* SPDX-License-Identifier: MIT */
/* Making a unique id: choose an address of this host, reserve a port there, draw a secret. Rank 0 listens on that port
 * from its init on, whichever process it is: this one, a child forked before or after, or a program started by them.
 * Nothing listens before, so a forked child inherits no connection, and at most the reservation. Called by
 * shmemx_get_uniqueid (create) and boot_uid.c (release), from any thread. */
#include "env.h"
#include "uid_job.h"

#include "log.h"
#include "net/interface.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reservation {
    struct reservation *next;
    struct uid uid;
    int fd;
};

/* Of the process, not of a PE: the thread that makes an id and the one that becomes rank 0 may differ. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation *reservations;

void iso_uid_release(const struct uid *uid)
{
    pthread_mutex_lock(&lock);
    for (struct reservation **at = &reservations; *at; at = &(*at)->next)
        if (iso_uid_is_same(&(*at)->uid, uid)) {
            struct reservation *found = *at;
            *at = found->next;
            close(found->fd);
            free(found);
            break;
        }
    pthread_mutex_unlock(&lock);
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
    struct reservation *made = (struct reservation *)malloc(sizeof *made);
    int fd = made ? iso_tcp_reserve(&uid.address) : -ENOMEM;
    if (fd < 0) {
        iso_tcp_name(&uid.address, name);
        log_error("unique id: no port can be reserved on %s: %s; SHMEM_UID_ADDRESS chooses another address", name,
                  strerror(-fd));
        free(made);
        return fd;
    }
    pthread_mutex_lock(&lock);
    *made = (struct reservation){.next = reservations, .uid = uid, .fd = fd};
    reservations = made;
    pthread_mutex_unlock(&lock);
    iso_uid_format(&uid, id);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* No test: ends as the first argument says, with a sentence that tests/cluster/verbs_faults.sh looks for:
 *   key             PE 0 puts with a key that PE 1 has not given
 *   twice           PE 0 asks for a connection that PE 1 has made already
 *   layers          PE 0 says that its port is one of InfiniBand, and PE 1 has Ethernet
 *   locked KIB      the PEs may lock this much memory: too little to begin, or to register the heap
 * It knows the inside of the library, which it contains. Two PEs on two nodes. */
#include "../check.h"

#include "../../shmem/transport/verbs/verbs.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Whoever may lock memory is not limited. */
static int limit_locked_memory(long kib)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    const struct rlimit limit = {(rlim_t)kib << 10, (rlim_t)kib << 10};
    if (syscall(SYS_capget, &header, data) != 0)
        return -1;
    for (int i = 0; i < 2; i++)
        data[i].effective = data[i].permitted = data[i].inheritable =
            i == 0 ? data[i].effective & ~(1u << CAP_IPC_LOCK) : data[i].effective;
    return setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capset, &header, data) != 0 ? -1 : 0;
}

static void spoil_keys(int pe)
{
    struct verbs *v = ISO->verbs;
    pthread_mutex_lock(&v->net.lock);
    for (int i = 0; i < v->net.peers[pe].keys.n; i++)
        ((struct network_key *)v->net.peers[pe].keys.rows)[i].key ^= 0x5a;
    pthread_mutex_unlock(&v->net.lock);
}

static void forget_connection(int pe, bool other_layer)
{
    struct verbs *v = ISO->verbs;
    pthread_mutex_lock(&v->net.lock);
    v->net.peers[pe].out[0] = NULL;
    v->port.ethernet &= !other_layer;
    pthread_mutex_unlock(&v->net.lock);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "locked") == 0 && (argc < 3 || limit_locked_memory(atol(argv[2])) != 0)) {
        perror("the limit cannot be set");
        return 0; /* which the test takes for a failure */
    }
    shmem_init();
    uint64_t *words = (uint64_t *)shmem_calloc(2, 8);
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        shmem_uint64_put(words, words + 1, 1, 1);
    shmem_barrier_all();
    bool key = strcmp(what, "key") == 0, twice = strcmp(what, "twice") == 0;
    bool layers = strcmp(what, "layers") == 0;
    if ((key || twice || layers) && shmem_my_pe() == 0) {
        if (key)
            spoil_keys(1);
        else
            forget_connection(1, layers);
        shmem_uint64_put(words, words + 1, 1, 1);
        shmem_quiet();
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* No test by itself: tests/cluster starts it, over two nodes. Pages that a PE gives back to the system while a peer
 * asks for the key of the piece around them: the call that gives them back is made to take long enough for the peer,
 * and what the peer puts there later must be there. By shmem_free, and by shmem_realloc, which shrinks an object or
 * moves it.
 * Argument: a file that both nodes have. */
#include "../check.h"

#include "../../shmem/transport/verbs/verbs.h"

#include <fcntl.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
enum { FREED = 20, SLOW_US = 400000 };

int __real_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice);

static int punched;
static int *in_call; /* of a file that both PEs have, since both nodes are one machine: PE 0's `punched` */

int __wrap_madvise(void *at, size_t len, int advice)
{
    if (advice != MADV_REMOVE)
        return __real_madvise(at, len, advice);
    punched++;
    if (check_self.pe == 0) {
        __atomic_store_n(in_call, punched, __ATOMIC_RELEASE); /* pairs with put_later */
        usleep(SLOW_US);
    }
    return __real_madvise(at, len, advice);
}

static int *share_word(const char *path)
{
    if (check_self.pe != 0)
        shmem_barrier_all();
    int fd = open(path, check_self.pe == 0 ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR, 0600);
    CHECK_OR_EXIT(fd >= 0 && ftruncate(fd, sizeof(int)) == 0);
    void *at = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK_OR_EXIT(at != MAP_FAILED);
    close(fd);
    if (check_self.pe == 0)
        shmem_barrier_all();
    return (int *)at;
}

enum how { BY_FREE, BY_SHRINKING, BY_MOVING };
/* MiB, so that what follows lies in a piece that nobody has touched (network_memory.c). */
static const size_t fronts[] = {33, 16, 48};

/* What gives [old, old + FREED MiB) back. */
static void give_back(enum how how, char *old)
{
    if (how == BY_FREE)
        shmem_free(old);
    else
        CHECK_OR_EXIT(shmem_realloc(old, how == BY_MOVING ? 2 * FREED * MIB : 64) != NULL);
}

struct late_put {
    char *at;
    int number; /* of the call that it is to meet */
};

/* By another thread of PE 1, since realloc ends with a barrier. */
static void *put_later(void *argument)
{
    const struct late_put *put = (const struct late_put *)argument;
    while (__atomic_load_n(in_call, __ATOMIC_ACQUIRE) < put->number)
        check_pause();
    shmem_char_p(put->at, 7, 0);
    shmem_quiet();
    return NULL;
}

/* `behind` lies in the same piece as what is given back, and is no part of it. */
static void give_back_while_asked(enum how how, char *old, char *behind)
{
    pthread_t thread;
    struct late_put put = {behind, punched + 1};
    bool asks = check_self.pe == 1;
    shmem_barrier_all();
    if (asks)
        CHECK_OR_EXIT(pthread_create(&thread, NULL, put_later, &put) == 0);
    give_back(how, old);
    if (asks)
        pthread_join(thread, NULL);
    shmem_barrier_all();
}

static void check_how(enum how how, const char *name)
{
    enum { AT = 8192 };
    char *front = (char *)shmem_malloc(fronts[how] * MIB);
    char *old = (char *)shmem_malloc(FREED * MIB), *behind = (char *)shmem_malloc(2 * MIB);
    CHECK_OR_EXIT(front != NULL && old != NULL && behind != NULL);
    int before = punched;
    give_back_while_asked(how, old, behind);
    CHECK_EQ_NAMED(punched - before, 1, name);
    char *again = (char *)shmem_malloc((FREED - 1) * MIB);
    CHECK_NAMED(again >= old && again < old + MIB, name);
    memset(again, 1, 2 * AT);
    shmem_barrier_all();
    if (check_self.pe == 1)
        shmem_char_p(again + AT, 9, 0);
    shmem_barrier_all();
    if (check_self.pe == 0)
        CHECK_EQ_NAMED(again[AT], 9, name);
}

int main(int argc, char **argv)
{
    int provided;
    CHECK_OR_EXIT(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    check_self.pe = shmem_my_pe();
    if (shmem_n_pes() != 2 || ISO->verbs == NULL) {
        shmem_finalize();
        return CHECK_SKIP("needs two PEs on two nodes");
    }
    in_call = share_word(argc > 1 ? argv[1] : "verbs_punch.word");
    check_how(BY_FREE, "free");
    check_how(BY_SHRINKING, "realloc, smaller");
    check_how(BY_MOVING, "realloc, elsewhere");
    shmem_barrier_all();
    shmem_finalize();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

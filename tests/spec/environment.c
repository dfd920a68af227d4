/* SPDX-License-Identifier: MIT */
/* What environment.sh runs under different variables: starts, allocates two sizes, says what happened.
 * usage: environment [BYTES_THAT_FIT [BYTES_THAT_DO_NOT]]; 0 leaves one out. */
#include "../check.h"

int main(int argc, char **argv)
{
    size_t fits = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    size_t too_much = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
    int provided = -1;
    if (shmem_init_thread(SHMEM_THREAD_SINGLE, &provided) != 0) {
        printf("init_thread: nonzero\n");
        return 3;
    }
    check_self.pe = shmem_my_pe();
    if (fits != 0) {
        char *object = (char *)shmem_malloc(fits);
        if (CHECK(object != NULL)) {
            object[0] = 1;
            object[fits - 1] = 1;
            shmem_int_p((int *)(void *)object, 5, (check_self.pe + 1) % shmem_n_pes());
        }
        shmem_free(object);
    }
    if (too_much != 0)
        CHECK(shmem_malloc(too_much) == NULL);
    shmem_finalize();
    if (check_self.pe == 0 && check_self.failures == 0)
        printf("program ran\n");
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

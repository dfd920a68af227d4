/* SPDX-License-Identifier: MIT */
/* A PE of another version: a PMIx client that sends what a library with protocol 999 and version 9.9.9 would send
 * first. The other PEs must refuse it with a sentence that names both versions. Knows the layout of the stamp in
 * boot_pmix.c (protocol, length, 16 bytes of version), which is the one that stays as it is. */
#define _GNU_SOURCE
#include <pmix.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct stamp {
    uint32_t protocol;
    uint32_t len;
    char version[16];
};

int main(void)
{
    pmix_proc_t me, all;
    struct stamp stamp = {999, 64, "9.9.9"};
    char message[sizeof stamp + 64] = {0};
    memcpy(message, &stamp, sizeof stamp);
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 1;
    pmix_value_t value;
    memset(&value, 0, sizeof value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = message;
    value.data.bo.size = sizeof message;
    bool yes = true;
    pmix_info_t collect;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Put(PMIX_GLOBAL, "iso.0", &value) != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS)
        return 1;
    PMIx_Fence(&all, 1, &collect, 1);
    sleep(20); /* whoever refuses us ends the job */
    PMIx_Finalize(NULL, 0);
    return 0;
}

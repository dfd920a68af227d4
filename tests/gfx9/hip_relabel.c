/* SPDX-License-Identifier: MIT */
/* HIP 5.2 knows no gfx942. With GFX9_ISA=gfx942 a program's code for it is given to HIP as gfx90a's, when the program
 * registers it; below HIP, gfx9.h runs it as what it is. Preloaded, since HIP has a function of the same name. */
#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "__CLANG_OFFLOAD_BUNDLE__"
enum { MACHINE = 224 /* EM_AMDGPU */, FLAGS_MACHINE = 0xff, GFX90A = 0x3f, GFX942 = 0x4c };

/* What clang's host pass gives, and what is in it: a header, then an entry of each target. */
struct wrapper {
    uint32_t magic, version;
    const char *bundle;
    void *unused;
};
struct entry {
    uint64_t offset, bytes, name_bytes;
    /* the target's name follows */
};

typedef void **register_fn(const void *wrapper);
void **__hipRegisterFatBinary(const void *wrapper);

static const char *first_entry(const char *bundle, uint64_t *n)
{
    memcpy(n, bundle + strlen(MAGIC), sizeof(*n));
    return bundle + strlen(MAGIC) + sizeof(*n);
}

static uint64_t bytes_of(const char *bundle)
{
    uint64_t n, all = 0;
    const char *at = first_entry(bundle, &n);
    for (struct entry e; n > 0; n--, at += sizeof(e) + e.name_bytes) {
        memcpy(&e, at, sizeof(e));
        all = e.offset + e.bytes > all ? e.offset + e.bytes : all;
    }
    return all;
}

/* The old gfx90a is hidden, and gfx942 takes its name. */
static void relabel(char *bundle)
{
    static const char old[] = "gfx90a", wanted[] = "gfx942";
    uint64_t n;
    char *at = (char *)(uintptr_t)first_entry(bundle, &n);
    for (struct entry e; n > 0; n--, at += sizeof(e) + e.name_bytes) {
        memcpy(&e, at, sizeof(e));
        char *isa = at + sizeof(e) + e.name_bytes - strlen(old);
        if (memcmp(isa, old, strlen(old)) == 0) {
            memcpy(isa, "gfxold", strlen(old));
        } else if (memcmp(isa, wanted, strlen(wanted)) == 0) {
            Elf64_Ehdr *elf = (Elf64_Ehdr *)(void *)(bundle + e.offset);
            memcpy(isa, old, strlen(old));
            if (elf->e_machine == MACHINE && (elf->e_flags & FLAGS_MACHINE) == GFX942)
                elf->e_flags = (elf->e_flags & ~(uint32_t)FLAGS_MACHINE) | GFX90A;
        }
    }
}

/* HIP keeps both copies for as long as the program runs. */
static const void *relabelled(const struct wrapper *given)
{
    struct wrapper *wrapper = malloc(sizeof(*wrapper));
    uint64_t bytes = bytes_of(given->bundle);
    char *bundle = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (wrapper == NULL || bundle == NULL) {
        fprintf(stderr, "no memory for a program's code of gfx942\n");
        abort();
    }
    memcpy(bundle, given->bundle, bytes);
    relabel(bundle);
    *wrapper = *given;
    wrapper->bundle = bundle;
    return wrapper;
}

void **__hipRegisterFatBinary(const void *wrapper)
{
    const struct wrapper *given = wrapper;
    const char *isa = getenv("GFX9_ISA");
    void *found = dlsym(RTLD_NEXT, "__hipRegisterFatBinary");
    register_fn *next;
    memcpy(&next, &found, sizeof(next));
    bool wanted = isa != NULL && strcmp(isa, "gfx942") == 0 && memcmp(given->bundle, MAGIC, strlen(MAGIC)) == 0;
    return next(wanted ? relabelled(given) : wrapper);
}

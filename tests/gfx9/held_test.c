/* SPDX-License-Identifier: MIT */
/* What GFX9_WEAK=1 shows: without prim_settle_stores a flag is seen before the data of other waves, with it never; and
 * all waves of the block see each other's stores behind a bare sync. usage: held_test ISA CODE_OBJECT */
#include "gfx9.h"

#include <elf.h>
#include <hsa/hsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 256, MOST_BYTES = 1 << 20 };

struct held_args { /* as in held_kernels.c */
    uint64_t *data, *seen, *flag;
    uint64_t settles;
};

static int wrong;
static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "not so: %s\n", what);
    wrong = 1;
}

/* Segments at their addresses from the returned one on; such small code has no relocations. */
static char *load(const char *path, char *file)
{
    char *memory = mmap(NULL, MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *f = fopen(path, "rb");
    size_t bytes = f != NULL ? fread(file, 1, MOST_BYTES, f) : 0;
    if (f != NULL)
        fclose(f);
    if (bytes < sizeof(Elf64_Ehdr) || memory == MAP_FAILED)
        return NULL;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file;
    const Elf64_Phdr *p = (const Elf64_Phdr *)(const void *)(file + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++)
        if (p[i].p_type == PT_LOAD && p[i].p_vaddr + p[i].p_filesz <= MOST_BYTES)
            memcpy(memory + p[i].p_vaddr, file + p[i].p_offset, p[i].p_filesz);
    return memory;
}

/* The address of a symbol's object, or 0. */
static uint64_t find(const char *file, const char *memory, const char *name)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(const void *)(file + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        const Elf64_Sym *symbols = (const Elf64_Sym *)(const void *)(file + s[i].sh_offset);
        const char *names = file + s[s[i].sh_link].sh_offset;
        for (uint64_t k = 0; s[i].sh_type == SHT_DYNSYM && k < s[i].sh_size / sizeof(*symbols); k++)
            if (strcmp(names + symbols[k].st_name, name) == 0)
                return (uint64_t)(uintptr_t)memory + symbols[k].st_value;
    }
    return 0;
}

/* How many words had not come when the flag was seen. */
static int run(const char *isa, uint64_t kernel, const char *weak, uint64_t settles)
{
    static uint64_t data[THREADS], seen[THREADS], flag;
    struct held_args args = {data, seen, &flag, settles};
    hsa_kernel_dispatch_packet_t packet;
    int missing = -1;
    memset(&packet, 0, sizeof(packet));
    memset(data, 0, sizeof(data));
    memset(seen, 0, sizeof(seen));
    flag = 0;
    packet.workgroup_size_x = THREADS;
    packet.workgroup_size_y = packet.workgroup_size_z = 1;
    packet.grid_size_x = THREADS;
    packet.grid_size_y = packet.grid_size_z = 1;
    packet.kernel_object = kernel;
    packet.kernarg_address = &args;
    setenv("GFX9_WEAK", weak, 1);
    struct gfx9_dispatch dispatch = {&packet, NULL, isa, 0};
    struct gfx9_run *r = gfx9_start(&dispatch);
    enum gfx9_progress progress = r != NULL ? GFX9_BUSY : GFX9_FAILED;
    while (progress == GFX9_BUSY || progress == GFX9_WAITING) {
        progress = gfx9_go_on(r);
        if (flag == 0 || missing >= 0)
            continue;
        missing = 0;
        for (int i = 0; i < THREADS; i++)
            missing += data[i] != (uint64_t)i + 1;
    }
    if (progress == GFX9_FAILED)
        fprintf(stderr, "%s\n", r != NULL ? gfx9_error(r) : "no memory");
    check(progress == GFX9_ENDED, "the kernel ends");
    gfx9_end(r);
    for (uint64_t i = 0; i < THREADS; i++) {
        check(data[i] == i + 1, "all stores are there when the kernel has ended");
        check(seen[i] == THREADS - i, "the block sees its own stores behind a bare sync");
    }
    return missing;
}

int main(int argc, char **argv)
{
    char *file = malloc(MOST_BYTES), *memory = argc == 3 && file != NULL ? load(argv[2], file) : NULL;
    uint64_t kernel = memory != NULL ? find(file, memory, "held_put.kd") : 0;
    if (kernel == 0) {
        fprintf(stderr, "usage: held_test ISA CODE_OBJECT, with the kernel held_put in it\n");
        return 1;
    }
    check(run(argv[1], kernel, "1", 0) > 0, "a bare sync lets the flag pass the other waves' stores");
    check(run(argv[1], kernel, "1", 1) == 0, "settled stores are there before the flag");
    check(run(argv[1], kernel, "0", 0) == 0, "without GFX9_WEAK=1 stores are done at once");
    free(file);
    return wrong;
}

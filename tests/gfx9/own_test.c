/* SPDX-License-Identifier: MIT */
/* The interpreter by itself, without HIP. What GFX9_WEAK=1 shows: without prim_settle_stores a flag is seen before the
 * data of other waves, with it never; and all waves of the block see each other's stores behind a bare sync. Additions
 * that carry, by SDWA. usage: own_test ISA CODE_OBJECT */
#include "gfx9.h"

#include "own_cases.h"

#include <elf.h>
#include <hsa/hsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 256, MOST_BYTES = 1 << 20 };

struct held_args { /* as in own_kernels.c */
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

static struct gfx9_run *begin(const char *isa, uint64_t kernel, void *args, uint16_t threads)
{
    static hsa_kernel_dispatch_packet_t packet;
    memset(&packet, 0, sizeof(packet));
    packet.workgroup_size_x = threads;
    packet.workgroup_size_y = packet.workgroup_size_z = 1;
    packet.grid_size_x = threads;
    packet.grid_size_y = packet.grid_size_z = 1;
    packet.kernel_object = kernel;
    packet.kernarg_address = args;
    struct gfx9_dispatch dispatch = {&packet, NULL, isa, 0};
    return gfx9_start(&dispatch);
}

static void end(struct gfx9_run *r, enum gfx9_progress progress)
{
    if (progress == GFX9_FAILED)
        fprintf(stderr, "%s\n", r != NULL ? gfx9_error(r) : "no memory");
    check(progress == GFX9_ENDED, "the kernel ends");
    gfx9_end(r);
}

/* How many words had not come when the flag was seen. */
static int run_stores(const char *isa, uint64_t kernel, const char *weak, uint64_t settles)
{
    static uint64_t data[THREADS], seen[THREADS], flag;
    struct held_args args = {data, seen, &flag, settles};
    int missing = -1;
    memset(data, 0, sizeof(data));
    memset(seen, 0, sizeof(seen));
    flag = 0;
    setenv("GFX9_WEAK", weak, 1);
    struct gfx9_run *r = begin(isa, kernel, &args, THREADS);
    enum gfx9_progress progress = r != NULL ? GFX9_BUSY : GFX9_FAILED;
    while (progress == GFX9_BUSY || progress == GFX9_WAITING) {
        progress = gfx9_go_on(r);
        if (flag == 0 || missing >= 0)
            continue;
        missing = 0;
        for (int i = 0; i < THREADS; i++)
            missing += data[i] != (uint64_t)i + 1;
    }
    end(r, progress);
    for (uint64_t i = 0; i < THREADS; i++) {
        check(data[i] == i + 1, "all stores are there when the kernel has ended");
        check(seen[i] == THREADS - i, "the block sees its own stores behind a bare sync");
    }
    return missing;
}

enum part { BYTE_0, BYTE_1, BYTE_2, BYTE_3, WORD_0, WORD_1, DWORD };
static uint64_t part_of(uint32_t v, enum part part)
{
    return part <= BYTE_3 ? v >> 8 * part & 0xff : part == DWORD ? v : v >> 16 * (part - WORD_0) & 0xffff;
}

static void run_carries(const char *isa, uint64_t kernel)
{
    static uint32_t first[OWN_LANES], second[OWN_LANES];
    static uint64_t results[OWN_CASES * OWN_LANES];
    struct carry_args args = {first, second, results};
    for (uint32_t i = 0; i < OWN_LANES; i++) {
        first[i] = i < 4 ? 0u - (i & 1) : 0x9e3779b9u * (i + 1);
        second[i] = i < 4 ? 0u - (i >> 1) : 0x85ebca6bu * (i + 7);
    }
    struct gfx9_run *r = begin(isa, kernel, &args, OWN_LANES);
    enum gfx9_progress progress = r != NULL ? GFX9_BUSY : GFX9_FAILED;
    while (progress == GFX9_BUSY || progress == GFX9_WAITING)
        progress = gfx9_go_on(r);
    end(r, progress);
    const uint64_t *seen = results;
#define EXPECT(name, carry_in, result, from_first, from_second)                                                     \
    for (uint32_t i = 0; i < OWN_LANES; i++, seen++) {                                                              \
        uint64_t a = part_of(first[i], from_first), b = part_of(second[i], from_second);                            \
        uint64_t carry = i & 1, expected = (result) & 0x1ffffffffu;                                                 \
        (void)carry;                                                                                                \
        if (*seen == expected)                                                                                      \
            continue;                                                                                               \
        fprintf(stderr, #name " of " #from_first " %#llx and " #from_second " %#llx: seen %#llx, expected %#llx\n", \
                (unsigned long long)a, (unsigned long long)b, (unsigned long long)*seen,                            \
                (unsigned long long)expected);                                                                      \
        wrong = 1;                                                                                                  \
    }
    OWN_CARRIES(EXPECT)
}

int main(int argc, char **argv)
{
    char *file = malloc(MOST_BYTES), *memory = argc == 3 && file != NULL ? load(argv[2], file) : NULL;
    uint64_t put = memory != NULL ? find(file, memory, "held_put.kd") : 0;
    uint64_t carries = put != 0 ? find(file, memory, "own_carries.kd") : 0;
    if (carries == 0) {
        fprintf(stderr, "usage: own_test ISA CODE_OBJECT, which is own_kernels.c\n");
        return 1;
    }
    check(run_stores(argv[1], put, "1", 0) > 0, "a bare sync lets the flag pass the other waves' stores");
    check(run_stores(argv[1], put, "1", 1) == 0, "settled stores are there before the flag");
    check(run_stores(argv[1], put, "0", 0) == 0, "without GFX9_WEAK=1 stores are done at once");
    run_carries(argv[1], carries);
    free(file);
    return wrong;
}

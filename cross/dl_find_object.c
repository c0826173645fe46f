// libgcc's unwinder finds the unwind table of an address through glibc's _dl_find_object (glibc 2.35 and later). A static
// musl binary has no such function, so here is the part of it that the unwinder uses, on top of dl_iterate_phdr.
// aarch64 only: 32-bit ARM finds its tables by linker symbols.

#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

// As in glibc's <bits/dl_find_object.h> for aarch64.
struct dl_find_object {
    unsigned long long flags;
    void *map_start;
    void *map_end;
    void *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};

struct search {
    uintptr_t address;
    struct dl_find_object *result;
};

static int look(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    const ElfW(Phdr) *frames = NULL;
    const ElfW(Phdr) *hit = NULL;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && search->address - start < header->p_memsz) hit = header;
        if (header->p_type == PT_GNU_EH_FRAME) frames = header;
    }
    if (!hit || !frames) return 0;
    uintptr_t start = info->dlpi_addr + hit->p_vaddr;
    *search->result = (struct dl_find_object){
        .map_start = (void *)start,
        .map_end = (void *)(start + hit->p_memsz),
        .eh_frame = (void *)(info->dlpi_addr + frames->p_vaddr),
    };
    return 1;
}

int _dl_find_object(void *address, struct dl_find_object *result) {
    struct search search = {.address = (uintptr_t)address, .result = result};
    return dl_iterate_phdr(look, &search) ? 0 : -1;
}

// The unwinder refers to these weakly and takes one for a sign of all: link all of them.
__attribute__((used)) static void *const threads[] = {
    (void *)pthread_once, (void *)pthread_mutex_lock, (void *)pthread_mutex_unlock,
};

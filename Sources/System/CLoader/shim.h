#include <elf.h>
#include <stddef.h>

/*
 * dl_iterate_phdr(3), which glibc's <link.h> declares only with _GNU_SOURCE: Swift's own module of glibc is built without that. These are the first
 * members of struct dl_phdr_info.
 */
struct loaded_object {
    Elf64_Addr address;
    const char *name;
    const Elf64_Phdr *segments;
    Elf64_Half segment_count;
};

int for_each_loaded_object(int (*callback)(struct loaded_object *object, size_t size, void *data), void *data) __asm__("dl_iterate_phdr");

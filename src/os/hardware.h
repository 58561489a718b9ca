/* hardware.h - what a host is made of, in the words of its operating system: by which a file of
 * measurements finds out whether it was made for another machine.
 *
 * A field that nothing tells is empty or 0. All texts are printable (base/printable.h).
 */
#ifndef TUTTI_OS_HARDWARE_H
#define TUTTI_OS_HARDWARE_H

#include <stdint.h>

enum {
    HARDWARE_CACHE_LEVELS = 4,
    HARDWARE_CPU_SIZE = 96,
    HARDWARE_KERNEL_SIZE = 65,
    HARDWARE_CARDS_SIZE = 256,
    HARDWARE_CPUS_SIZE = HARDWARE_CPU_SIZE + 24
};

struct hardware {
    char cpu_model[HARDWARE_CPU_SIZE];
    int cpu_count;                               /* that are online */
    int cpus_a_cache;                            /* that share the last cache */
    uint64_t cache_bytes[HARDWARE_CACHE_LEVELS]; /* for data, from the first level on; each as often as it is there */
    char kernel_release[HARDWARE_KERNEL_SIZE];
    /* Network cards in the order of their names, no virtual cards: "eth0 100000 Mb/s, eth1". */
    char cards[HARDWARE_CARDS_SIZE];
};

/* Describes this host. Any thread; reads a few small files. */
void hardware_of_host(struct hardware *hardware);
/* The same but for the kernel's release, from folders like /proc and /sys. */
void hardware_within(const char *proc, const char *sys, struct hardware *hardware);
/* For people: "AMD EPYC 7742, 64 CPUs". */
void hardware_print_cpus(const struct hardware *hardware, char text[static HARDWARE_CPUS_SIZE]);

#endif

/* devices.h - GPUs, and the libraries of their drivers. */
#ifndef TUTTI_TOOLS_INFO_DEVICES_H
#define TUTTI_TOOLS_INFO_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

enum { DEVICES_MAX = 32, DEVICES_TEXT_SIZE = 256, DEVICES_NAME_SIZE = 64, DEVICES_BUS_SIZE = 16 };

struct device {
    int number;
    char name[DEVICES_NAME_SIZE], bus[DEVICES_BUS_SIZE];
    uint64_t memory_bytes;
    unsigned processor_count;
};

struct cuda_devices {
    bool is_there;
    char file[DEVICES_TEXT_SIZE]; /* of the driver */
    char why[DEVICES_TEXT_SIZE];  /* there is none, or it cannot say what it has; "": all is well */
    int count;
    struct device devices[DEVICES_MAX];
};

/* Tutti does not use them. */
struct rocm_devices {
    bool is_there;
    char file[DEVICES_TEXT_SIZE];
    int count;
};

/* answer: a struct cuda_devices, or a struct rocm_devices. Block as long as the driver takes. */
void devices_ask_cuda(void *answer, int question);
void devices_ask_rocm(void *answer, int question);

#endif

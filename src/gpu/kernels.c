/* kernels.c - see kernels.h. The build says where the file is. */
#include "gpu/kernels.h"

__asm__(".pushsection .rodata\n"
        "\t.hidden gpu_kernels_ptx\n"
        "\t.globl gpu_kernels_ptx\n"
        "gpu_kernels_ptx:\n"
        "\t.incbin \"" GPU_KERNELS_FILE "\"\n"
        "gpu_kernels_end:\n"
        "\t.byte 0\n"
        "\t.balign 8\n"
        "\t.hidden gpu_kernels_ptx_bytes\n"
        "\t.globl gpu_kernels_ptx_bytes\n"
        "gpu_kernels_ptx_bytes:\n"
        "\t.quad gpu_kernels_end - gpu_kernels_ptx\n"
        "\t.popsection\n");

# The malloc settings that the peers' -m variants and Tutti are measured with: memory is kept when it is freed, and comes in
# huge pages where the kernel gives them. Sourced by the scripts here.
MALLOC="env MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 GLIBC_TUNABLES=glibc.malloc.hugetlb=1"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/foreign/nccl_tuner.h"

static void add(struct tune_table *table, struct tune_key key, uint64_t from, uint64_t to,
                const char *algorithm)
{
    const struct tune_entry entry = {.key = key,
                                     .bytes_from = from,
                                     .bytes_to = to,
                                     .algorithm = algo_find(key.collective, algorithm)};
    if (tune_table_add(table, &entry) != TUTTI_OK) fail_msg("%s", tutti_error_message());
}

static void what_nccl_has_is_written_and_the_rest_counted(void **state)
{
    (void)state;
    const struct tune_shape shape = {8, 2, 1, false}, racks = {8, 2, 2, false},
                            loopback = {8, 1, 1, true};
    struct tune_table table;
    char *text = NULL;
    size_t size;
    tune_table_init(&table);
    add(&table, (struct tune_key){shape, COLLECTIVE_ALLREDUCE, 0, false}, 0, 1024, "tree");
    add(&table, (struct tune_key){shape, COLLECTIVE_ALLREDUCE, 0, false}, 4096, 8192, "ring");
    add(&table, (struct tune_key){shape, COLLECTIVE_ALLREDUCE, 0, true}, 4096, 8192, "double_tree");
    add(&table, (struct tune_key){shape, COLLECTIVE_ALLGATHER, 0, false}, 8, 16, "ring");
    add(&table, (struct tune_key){shape, COLLECTIVE_ALLREDUCE, 0, false}, 8192, 16384, "twoshot");
    add(&table, (struct tune_key){shape, COLLECTIVE_BROADCAST, 0, false}, 8, 16, "tree");
    add(&table, (struct tune_key){shape, COLLECTIVE_ALLTOALL, 0, false}, 8, 16, "pairwise");
    add(&table, (struct tune_key){racks, COLLECTIVE_ALLREDUCE, 0, false}, 8, 16, "ring");
    add(&table, (struct tune_key){loopback, COLLECTIVE_ALLREDUCE, 0, false}, 8, 16, "ring");
    add(&table, (struct tune_key){shape, COLLECTIVE_ALLREDUCE, CALIBRATION_CLASS_FLOAT8, false}, 8,
        16, "ring");
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(nccl_tuner_dump(&table, file), 6);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, "# collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,"
                              "nRanks,numPipeOps,regBuff\n"
                              "allreduce,0,1023,tree,simple,-1,2,8,-1,0\n"
                              "allreduce,4096,8191,ring,simple,-1,2,8,-1,0\n"
                              "allreduce,4096,8191,tree,simple,-1,2,8,-1,1\n"
                              "allgather,64,127,ring,simple,-1,2,8,-1,0\n");
    free(text);
    tune_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nccl_has_is_written_and_the_rest_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "comm/stored_folder.h"

static char folder[] = "/tmp/tutti-folder-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_plan(const char *name)
{
    FILE *const file = fopen(path_of(name), "we");
    assert_non_null(file);
    fputs("plan barrier ranks 2 parts 1\nrank 0\n lane 0\n in[] -> to 1\n from 1 -> out[]\n"
          "rank 1\n lane 0\n in[] -> to 0\n from 0 -> out[]\n",
          file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path_of(name), 0600), 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : 1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void one_letter_is_a_name(void **state)
{
    (void)state;
    static const char *const names[] = {"b.plan", "a.plan",     "other.plan", ".plan",
                                        "plan",   "a.plan.old", ".c.plan"};
    const struct plan_budget limits = plan_budget_default();
    const struct stored_folder *found;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) write_plan(names[i]);
    assert_int_equal(stored_folder_find(folder, &limits, &found), TUTTI_OK);
    assert_int_equal(found->refusal_count, 0);
    assert_int_equal(found->count, 3);
    for (int i = 0; i < 3; i++) {
        const char *const name = stored_plan_algorithm(found->places[i].plan)->name;
        static const char *const sorted[] = {"/a.plan", "/b.plan", "/other.plan"};
        assert_non_null(strstr(name, sorted[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_letter_is_a_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

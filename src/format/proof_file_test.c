#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/plan_file.h"
#include "format/proof_file.h"
#include "plan/verify.h"

static char home[] = "/tmp/tutti-proof-XXXXXX";
static char folder[100];

static int make_home(void **state)
{
    (void)state;
    if (mkdtemp(home) == NULL || setenv("XDG_CACHE_HOME", home, 1) != 0) return 1;
    snprintf(folder, sizeof folder, "%s/tutti/proofs", home);
    return 0;
}

static int remove_home(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", home);
    return system(command);
}

static struct algorithm *loaded(const char *text)
{
    struct plan *plan;
    struct algorithm *algorithm;
    struct plan_budget budget = plan_budget_default();
    assert_int_equal(plan_file_parse(text, strlen(text), &budget, &plan), TUTTI_OK);
    assert_int_equal(loaded_create("mine", plan, &algorithm), TUTTI_OK);
    return algorithm;
}

static const char right[] = "plan barrier ranks 2 parts 1\n"
                            "rank 0\n lane 0\n in[] -> to 1\n from 1 -> out[]\n"
                            "rank 1\n lane 0\n in[] -> to 0\n from 0 -> out[]\n";

static const char other_right[] = "plan barrier ranks 2 parts 1\n"
                                  "rank 0\n lane 0\n in[] -> to 1\n from 1 channel 1 -> out[]\n"
                                  "rank 1\n lane 0\n in[] -> to 0 channel 1\n from 0 -> out[]\n";

/* The one entry that there is. */
static const char *entry_path(const struct algorithm *algorithm)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%016llx-%s-%d.proof", folder,
             (unsigned long long)algorithm->plan_fingerprint, tutti_version_text(), VERIFY_VERSION);
    return path;
}

static struct algorithm *kept(void)
{
    struct algorithm *const algorithm = loaded(right);
    struct loaded_proof proof, found = {false, false};
    struct plan_budget budget = plan_budget_default();
    assert_int_equal(loaded_prove(algorithm, &budget, &proof), TUTTI_OK);
    proof.has_one_tree = true;
    proof.in_rank_order = false;
    proof_file_keep(algorithm, &proof);
    assert_true(proof_file_find(algorithm, &found));
    assert_true(found.has_one_tree && !found.in_rank_order);
    return algorithm;
}

static void a_proof_that_was_kept_is_found(void **state)
{
    (void)state;
    struct loaded_proof proof;
    struct algorithm *const unknown = loaded(right);
    assert_false(proof_file_find(unknown, &proof));
    struct algorithm *const algorithm = kept();
    struct stat about;
    assert_int_equal(stat(folder, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0700);
    assert_true(proof_file_find(unknown, &proof));
    loaded_free(unknown);
    loaded_free(algorithm);
}

static void an_entry_that_others_can_change_does_not_count(void **state)
{
    (void)state;
    struct loaded_proof proof;
    struct algorithm *const algorithm = kept();
    const char *const path = entry_path(algorithm);
    assert_int_equal(chmod(path, 0666), 0);
    assert_false(proof_file_find(algorithm, &proof));
    assert_int_equal(chmod(path, 0600), 0);
    assert_true(proof_file_find(algorithm, &proof));
    assert_int_equal(chmod(folder, 0755), 0);
    assert_false(proof_file_find(algorithm, &proof));
    proof_file_keep(algorithm, &proof); /* nothing happens */
    assert_int_equal(chmod(folder, 0700), 0);
    assert_true(proof_file_find(algorithm, &proof));
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_false(proof_file_find(algorithm, &proof));
        assert_int_equal(unlink(path), 0);
    }
    loaded_free(algorithm);
}

/* Whatever byte is another one, and wherever it ends. */
static void a_changed_entry_does_not_count(void **state)
{
    (void)state;
    struct loaded_proof proof;
    struct algorithm *const algorithm = kept();
    const char *const path = entry_path(algorithm);
    char text[1000];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t size = fread(text, 1, sizeof text, file);
    assert_int_equal(fclose(file), 0);
    for (size_t at = 0; at < 2 * size; at++) {
        file = fopen(path, "w");
        assert_non_null(file);
        const size_t written = at < size ? size : at - size;
        if (at < size) text[at] ^= 2;
        assert_int_equal(fwrite(text, 1, written, file), written);
        assert_int_equal(fclose(file), 0);
        if (at < size) text[at] ^= 2;
        assert_false(proof_file_find(algorithm, &proof));
    }
    assert_int_equal(unlink(path), 0);
    loaded_free(algorithm);
}

/* A plan with the fingerprint of another one is still another one. */
static void an_entry_of_another_plan_does_not_count(void **state)
{
    (void)state;
    struct loaded_proof proof;
    struct algorithm *const algorithm = kept();
    struct algorithm *const other =
        loaded("plan barrier ranks 2 parts 1\nrank 0\n lane 0\n in[] -> to 1\n"
               "rank 1\n lane 0\n from 0 -> out[]\n");
    other->plan_fingerprint = algorithm->plan_fingerprint;
    assert_false(proof_file_find(other, &proof));
    loaded_free(algorithm);
    loaded_free(other);
}

static void make_old(const char *name, int seconds, off_t bytes)
{
    char path[300];
    const struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *const file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), bytes), 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool is_there(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static int count_files(void)
{
    int count = 0;
    DIR *const entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

static void what_was_used_longest_ago_makes_room(void **state)
{
    (void)state;
    char name[40];
    struct loaded_proof proof = {true, true};
    struct algorithm *const algorithm = kept(), *const other = loaded(other_right);
    const char *const path = entry_path(algorithm);
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    assert_true(proof_file_find(algorithm, &proof)); /* the oldest, and used again */
    for (int i = 0; i < PROOFS_MAX + 40; i++) {
        snprintf(name, sizeof name, i % 2 == 0 ? "%d.proof" : "%d.new", i);
        make_old(name, 1000 + i, 10);
    }
    proof_file_keep(other, &proof);
    assert_int_equal(count_files(), PROOFS_MAX);
    assert_true(proof_file_find(algorithm, &proof));
    assert_true(proof_file_find(other, &proof));
    assert_false(is_there("41.new"));
    assert_true(is_there("42.proof"));
    make_old("large.proof", 2000, PROOF_BYTES_MAX); /* 511 files of 10 bytes are older */
    proof_file_keep(other, &proof);
    assert_false(is_there("large.proof"));
    assert_int_equal(count_files(), 2);
    assert_true(proof_file_find(algorithm, &proof));
    assert_true(proof_file_find(other, &proof));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(entry_path(other)), 0);
    loaded_free(algorithm);
    loaded_free(other);
}

static void nothing_is_kept_without_a_folder(void **state)
{
    (void)state;
    struct loaded_proof proof = {true, true};
    struct algorithm *const algorithm = loaded(right);
    setenv("XDG_CACHE_HOME", "relative", 1);
    char *const before = getenv("HOME") != NULL ? strdup(getenv("HOME")) : NULL;
    unsetenv("HOME");
    proof_file_keep(algorithm, &proof);
    assert_false(proof_file_find(algorithm, &proof));
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    proof_file_keep(algorithm, &proof);
    assert_false(proof_file_find(algorithm, &proof));
    setenv("XDG_CACHE_HOME", home, 1);
    if (before != NULL) setenv("HOME", before, 1);
    free(before);
    loaded_free(algorithm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_that_was_kept_is_found),
        cmocka_unit_test(an_entry_that_others_can_change_does_not_count),
        cmocka_unit_test(a_changed_entry_does_not_count),
        cmocka_unit_test(an_entry_of_another_plan_does_not_count),
        cmocka_unit_test(what_was_used_longest_ago_makes_room),
        cmocka_unit_test(nothing_is_kept_without_a_folder),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}

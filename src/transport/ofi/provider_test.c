/* A card is opened while libfabric refuses something: at every step a shortage is reported as a
 * shortage, and nothing stays open.
 *
 * ctest: label=notsan waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "transport/ofi/shortage.h"

#if __has_include(<rdma/fabric.h>)

#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "transport/ofi/offers.h"
#include "transport/ofi/provider.h"

/* ------------------------------------------------------------ a libfabric that refuses one step */

enum step { FABRIC, DOMAIN, ADDRESSES, QUEUE, ENDPOINT, BIND, ENABLE, STEPS };

static enum step refused_step;
static int refusal, open_count;
static const struct fid *kept_open; /* cannot be closed */

static int come_to(enum step step)
{
    if (step == refused_step) return -refusal;
    open_count += step <= ENDPOINT;
    return 0;
}

static int fake_close(struct fid *object)
{
    if (object == kept_open) return -FI_EBUSY;
    open_count--;
    return 0;
}

static int fake_bind(struct fid *object, struct fid *other, uint64_t flags)
{
    (void)object, (void)other, (void)flags;
    return come_to(BIND);
}

static int fake_control(struct fid *object, int command, void *argument)
{
    (void)object;
    if (command == FI_GETWAIT) *(int *)argument = -1;
    return command == FI_ENABLE ? come_to(ENABLE) : 0;
}

static struct fi_ops operations = {
    .size = sizeof operations, .close = fake_close, .bind = fake_bind, .control = fake_control};
static struct fid_fabric fabric = {.fid.ops = &operations};
static struct fid_domain domain = {.fid.ops = &operations};
static struct fid_av addresses = {.fid.ops = &operations};
static struct fid_cq queue = {.fid.ops = &operations};
static struct fid_ep endpoint = {.fid.ops = &operations};

static int open_addresses(struct fid_domain *in, struct fi_av_attr *attributes,
                          struct fid_av **opened, void *context)
{
    (void)in, (void)attributes, (void)context;
    const int result = come_to(ADDRESSES);
    if (result == 0) *opened = &addresses;
    return result;
}

static int open_queue(struct fid_domain *in, struct fi_cq_attr *attributes, struct fid_cq **opened,
                      void *context)
{
    (void)in, (void)context;
    /* Only a queue that can be waited for takes a descriptor. */
    const int result =
        attributes->wait_obj == FI_WAIT_NONE && refused_step == QUEUE ? 0 : come_to(QUEUE);
    if (result == 0) *opened = &queue;
    open_count += attributes->wait_obj == FI_WAIT_NONE;
    return result;
}

static int open_endpoint(struct fid_domain *in, struct fi_info *info, struct fid_ep **opened,
                         void *context)
{
    (void)in, (void)info, (void)context;
    const int result = come_to(ENDPOINT);
    if (result == 0) *opened = &endpoint;
    return result;
}

static struct fi_ops_domain domain_operations = {.size = sizeof domain_operations,
                                                 .av_open = open_addresses,
                                                 .cq_open = open_queue,
                                                 .endpoint = open_endpoint};

static int open_domain(struct fid_fabric *in, struct fi_info *info, struct fid_domain **opened,
                       void *context)
{
    (void)in, (void)info, (void)context;
    const int result = come_to(DOMAIN);
    domain.ops = &domain_operations;
    if (result == 0) *opened = &domain;
    return result;
}

static struct fi_ops_fabric fabric_operations = {.size = sizeof fabric_operations,
                                                 .domain = open_domain};

static int open_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **opened, void *context)
{
    (void)attributes, (void)context;
    const int result = come_to(FABRIC);
    fabric.ops = &fabric_operations;
    if (result == 0) *opened = &fabric;
    return result;
}

static struct fi_fabric_attr fabric_facts = {.prov_name = (char[]){"fake"}};
static struct fi_domain_attr domain_facts;
static struct fi_rx_attr receive_facts = {.size = 64};
static struct fi_tx_attr send_facts;
static struct fi_ep_attr endpoint_facts;

static struct fi_info *copy_info(const struct fi_info *info)
{
    (void)info;
    struct fi_info *const copy = calloc(1, sizeof *copy);
    assert_non_null(copy);
    copy->fabric_attr = &fabric_facts;
    copy->domain_attr = &domain_facts;
    copy->rx_attr = &receive_facts;
    copy->tx_attr = &send_facts;
    copy->ep_attr = &endpoint_facts;
    return copy;
}

static void free_info(struct fi_info *info)
{
    free(info);
}

static int refuse_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                       const struct fi_info *hints, struct fi_info **info)
{
    (void)version, (void)node, (void)service, (void)flags, (void)hints, (void)info;
    return -refusal;
}

static const char *text_of(int error)
{
    return strerror(error);
}

static const struct ofi_library library = {.getinfo = refuse_info,
                                           .freeinfo = free_info,
                                           .dupinfo = copy_info,
                                           .fabric = open_fabric,
                                           .strerror = text_of};
static const struct fi_info chosen;
static const struct ofi_choice choice = {
    .library = &library, .provider = "fake", .cards = {{.info = &chosen}}, .card_count = 1};

/* ---------------------------------------------------------------------------------------- tests */

static enum tutti_status open_refused(enum step step, int error)
{
    struct ofi_provider provider;
    refused_step = step;
    refusal = error;
    open_count = 0;
    const enum tutti_status status = ofi_provider_open(&provider, &choice, 0, 2, 16);
    assert_int_equal(ofi_provider_stop(&provider), 0);
    ofi_provider_close(&provider);
    assert_int_equal(open_count, 0);
    return status;
}

static void a_card_that_is_not_refused_opens(void **state)
{
    (void)state;
    assert_int_equal(open_refused(STEPS, EIO), TUTTI_OK);
}

static void a_shortage_is_reported_at_every_step(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum tutti_status status;
    } rows[] = {{EMFILE, TUTTI_NO_DESCRIPTORS},
                {ENFILE, TUTTI_NO_DESCRIPTORS},
                {ENOMEM, TUTTI_NO_MEMORY},
                {EIO, TUTTI_UNSUPPORTED}};
    for (enum step step = FABRIC; step < STEPS; step++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            if (step == QUEUE && rows[i].error == EIO) continue; /* there are other queues */
            assert_int_equal(open_refused(step, rows[i].error), rows[i].status);
            assert_non_null(strstr(tutti_error_message(), "fake"));
            assert_non_null(strstr(tutti_error_message(), strerror(rows[i].error)));
        }
}

static void an_endpoint_that_is_busy_stays_open_and_can_be_closed_later(void **state)
{
    (void)state;
    struct ofi_provider provider;
    refused_step = STEPS;
    open_count = 0;
    assert_int_equal(ofi_provider_open(&provider, &choice, 0, 2, 16), TUTTI_OK);
    const int all = open_count;
    kept_open = &endpoint.fid;
    assert_int_equal(ofi_provider_stop(&provider), -FI_EBUSY);
    assert_int_equal(ofi_provider_stop(&provider), -FI_EBUSY);
    assert_int_equal(open_count, all);
    kept_open = NULL;
    assert_int_equal(ofi_provider_stop(&provider), 0);
    ofi_provider_close(&provider);
    assert_int_equal(open_count, 0);
}

static void a_queue_without_descriptor_takes_the_place_of_one_that_is_not_supported(void **state)
{
    (void)state;
    assert_int_equal(open_refused(QUEUE, ENOSYS), TUTTI_OK);
}

static void a_shortage_is_reported_when_cards_are_looked_for(void **state)
{
    (void)state;
    struct ofi_offers *offers;
    refusal = EMFILE;
    assert_int_equal(ofi_offers_find(&library, NULL, false, &offers), TUTTI_NO_DESCRIPTORS);
    refusal = ENOMEM;
    assert_int_equal(ofi_offers_find(&library, NULL, false, &offers), TUTTI_NO_MEMORY);
    refusal = EIO;
    assert_int_equal(ofi_offers_find(&library, NULL, false, &offers), TUTTI_UNSUPPORTED);
}

/* So that it can open `count` more. */
static void leave_descriptors(int count)
{
    int end = 0;
    for (int free = 0; free < count; end++) free += fcntl(end, F_GETFD) < 0;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)end;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void another_error_without_descriptors_is_that_shortage(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    leave_descriptors(3);
    const enum tutti_status status = open_refused(ENDPOINT, EIO);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, TUTTI_NO_DESCRIPTORS);
    assert_non_null(strstr(tutti_error_message(), "only 3 more descriptors"));
}

/* A process that has `count` descriptors left looks for a card, and opens it. */
static enum tutti_status choose_with(int count, const char *wish, const char *sys)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct ofi_choice made;
        struct ofi_provider provider = {0};
        leave_descriptors(count);
        enum tutti_status status = ofi_choose_anew(wish, sys, &made);
        if (status == TUTTI_OK && made.library != NULL)
            status = ofi_provider_open(&provider, &made, 0, 2, 16);
        if (status != TUTTI_OK && status != TUTTI_NO_DESCRIPTORS)
            print_error("%d descriptors: %s\n", count, tutti_error_message());
        _exit((int)status);
    }
    int outcome;
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_true(WIFEXITED(outcome));
    return (enum tutti_status)WEXITSTATUS(outcome);
}

/* libfabric itself, as far as it is here. */
static void however_few_descriptors_there_are_libfabric_gets_on_or_lacks_them(void **state)
{
    (void)state;
    if (choose_with(500, "tcp", NULL) != TUTTI_OK) skip();
    int failures = 0;
    for (int count = 0; count < 40; count += 1 + count / 4) {
        const enum tutti_status status = choose_with(count, "tcp", NULL);
        assert_true(status == TUTTI_OK || status == TUTTI_NO_DESCRIPTORS);
        failures += status != TUTTI_OK;
    }
    assert_true(failures > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_that_is_not_refused_opens),
        cmocka_unit_test(a_shortage_is_reported_at_every_step),
        cmocka_unit_test(an_endpoint_that_is_busy_stays_open_and_can_be_closed_later),
        cmocka_unit_test(a_queue_without_descriptor_takes_the_place_of_one_that_is_not_supported),
        cmocka_unit_test(a_shortage_is_reported_when_cards_are_looked_for),
        cmocka_unit_test(another_error_without_descriptors_is_that_shortage),
        cmocka_unit_test(however_few_descriptors_there_are_libfabric_gets_on_or_lacks_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return ofi_is_shortage(ofi_status_of(0)) ? 1 : 77;
}

#endif

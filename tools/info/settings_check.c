#include "settings_check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/interface.h"
#include "bootstrap/launcher.h"
#include "bootstrap/secret.h"
#include "connect/listener.h"
#include "gpu/gpu.h"
#include "kernel/kernel.h"
#include "os/tcp_socket.h"
#include "os/tls.h"
#include "team/host_levels.h"
#include "transport/ofi/choice.h"

typedef enum tutti_status check(enum option_id option);

/* ---------------------------------------------------------------------------------- the readers */

/* Whether a communicator of this process alone can be created. */
static enum tutti_status check_creation(enum option_id option)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    /* A file in the user's cache folder, about which there may be a warning, is another matter. */
    if (option != OPTION_CALIBRATION) setenv(option_names.CALIBRATION, "shipped", 1);
    options.rank = 0;
    options.size = 1;
    return tutti_comm_create(&options, &comm); /* which goes with the process */
}

static enum tutti_status check_interface(enum option_id option)
{
    const struct net_address nowhere = {.family = AF_UNSPEC};
    struct interface_choice choice;
    size_t count;
    (void)option;
    return interface_find(&nowhere, true, 1, &choice, &count);
}

static enum tutti_status check_ports(enum option_id option)
{
    uint16_t first, last;
    (void)option;
    return listener_ports_read(&first, &last);
}

static enum tutti_status check_protocol(enum option_id option)
{
    struct net_address loopback, bound;
    int protocol, fd;
    TRY(option_choice(option, &protocol));
    if (!net_address_parse("127.0.0.1:0", &loopback)) return TUTTI_INTERNAL;
    return tcp_listen_with((enum tcp_protocol)protocol, &loopback, 0, &fd, &bound);
}

static enum tutti_status check_secret(enum option_id option)
{
    struct secret_key key;
    (void)option;
    return secret_read("", &key);
}

static enum tutti_status check_encryption(enum option_id option)
{
    struct tls_context *context;
    int is_on;
    TRY(option_choice(option, &is_on));
    return is_on ? tls_context_create(&context) : TUTTI_OK;
}

static enum tutti_status check_fabric(enum option_id option)
{
    struct ofi_choice choice;
    return ofi_choose_anew(option_text(option), NULL, &choice);
}

static enum tutti_status check_gpu_driver(enum option_id option)
{
    const struct gpu_driver *driver;
    (void)option;
    return gpu_driver(&driver);
}

static enum tutti_status check_racks(enum option_id option)
{
    struct topo topo;
    (void)option;
    return host_levels_read_topology(&topo);
}

static enum tutti_status check_launcher(enum option_id option)
{
    struct launcher_facts facts;
    (void)option;
    return launcher_look(&facts);
}

static enum tutti_status check_kernel(enum option_id option)
{
    const char *const used = kernel_level_name(kernel_level_chosen());
    if (strcmp(used, option_text(option)) == 0) return TUTTI_OK;
    return error_set(TUTTI_UNSUPPORTED, "%s=%s: this processor does not have it, so %s is used",
                     option_name(option), option_text(option), used);
}

static enum tutti_status check_file(enum option_id option)
{
    const char *const path = option_text(option);
    return access(path, R_OK) == 0 ? TUTTI_OK : error_system("%.200s", path);
}

static enum tutti_status check_folder(enum option_id option)
{
    const char *const path = option_text(option);
    struct stat about;
    if (stat(path, &about) != 0) return error_system("%.200s", path);
    if (!S_ISDIR(about.st_mode)) return error_set(TUTTI_SYSTEM, "%.200s is no folder", path);
    return access(path, W_OK | X_OK) == 0 ? TUTTI_OK : error_system("%.200s", path);
}

/* One that the library makes when it is needed, in a folder that is there. */
static enum tutti_status check_new_folder(enum option_id option)
{
    char path[4096], *slash;
    if (access(option_text(option), F_OK) == 0) return check_folder(option);
    snprintf(path, sizeof path, "%s", option_text(option));
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--) path[end - 1] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL)
        strcpy(path, ".");
    else
        slash[slash == path] = '\0';
    return access(path, W_OK | X_OK) == 0 ? TUTTI_OK : error_system("%.200s", path);
}

/* ------------------------------------------------------------------------------------ the table */

enum company {
    ALONE, /* other variables do not count: so the one that is wrong is blamed */
    AMONG_OTHERS
};

static const struct {
    check *check;
    enum company company;
} checks[OPTION_COUNT] = {
    [OPTION_ALGORITHMS] = {check_creation, ALONE},
    [OPTION_ENCODINGS] = {check_creation, ALONE},
    [OPTION_CALIBRATION] = {check_creation, ALONE},
    [OPTION_TABLE] = {check_creation, ALONE},
    [OPTION_PLANS] = {check_creation, ALONE},
    [OPTION_PROGRESS_CPUS] = {check_creation, ALONE},
    [OPTION_TRACE_SIGNAL] = {check_creation, ALONE},
    [OPTION_KERNEL] = {check_kernel, ALONE},
    [OPTION_CUDA_DRIVER] = {check_gpu_driver, ALONE},
    [OPTION_TRACE_DIR] = {check_new_folder, ALONE},
    [OPTION_METRICS_DIR] = {check_new_folder, ALONE},
    [OPTION_SOCKET_IFNAME] = {check_interface, AMONG_OTHERS},
    [OPTION_SOCKET_FAMILY] = {check_interface, AMONG_OTHERS},
    [OPTION_SOCKET_PROTOCOL] = {check_protocol, ALONE},
    [OPTION_PORT_RANGE] = {check_ports, ALONE},
    [OPTION_SECRET] = {check_secret, AMONG_OTHERS},
    [OPTION_SECRET_FILE] = {check_secret, AMONG_OTHERS},
    [OPTION_ENCRYPTION] = {check_encryption, ALONE},
    [OPTION_FABRIC] = {check_fabric, ALONE},
    [OPTION_TOPO_FILE] = {check_racks, ALONE},
    [OPTION_RENDEZVOUS_DIR] = {check_folder, ALONE},
    [OPTION_RANK] = {check_launcher, AMONG_OTHERS},
    [OPTION_SIZE] = {check_launcher, AMONG_OTHERS},
    [OPTION_PODS] = {check_launcher, AMONG_OTHERS},
    [OPTION_RANKS_PER_POD] = {check_launcher, AMONG_OTHERS},
    [OPTION_LIBRARY] = {check_file, ALONE},
};

/* Takes all variables TUTTI_... but this out of the environment. */
static void keep_alone(enum option_id option)
{
    char **kept = environ;
    for (char **variable = environ; *variable != NULL; variable++)
        if (strncmp(*variable, OPTION_PREFIX, strlen(OPTION_PREFIX)) != 0 ||
            option_find(*variable) == option)
            *kept++ = *variable;
    *kept = NULL;
}

static void ask(void *answer, int question)
{
    struct check_answer *const found = answer;
    const enum option_id option = (enum option_id)question;
    if (checks[option].company == ALONE) keep_alone(option);
    unsetenv(option_names.LOG); /* then the log has warnings, and nothing else */
    if (checks[option].check(option) != TUTTI_OK)
        snprintf(found->problem, sizeof found->problem, "%s", tutti_error_message());
}

probe_function *settings_checker(enum option_id option)
{
    return checks[option].check != NULL ? ask : NULL;
}

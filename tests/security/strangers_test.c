/* Start-up among strangers: while the ranks of a job on three pretended hosts look for each other,
 * everything that a network has to offer comes to their listening ports, from before the first rank
 * is there until all are through.
 *
 *     scanner    connects and closes, port by port
 *     loris      200 connections that say one byte a second
 *     garbage    10,000 connections that say what makes no sense, and recorded hellos; the last rank waits for them
 *     insider    has the key, and says that it is whom it is not, or what makes no sense
 *     silent     fills a table with connections that say nothing, and waits until they are closed
 *
 * The same comes to a job that runs, which makes new connections meanwhile; and there are ranks
 * with another secret.
 *
 * An insider that plays a rank well is one (connect/hello.h); that is not tried.
 * ctest: label=notsan label=once timeout=200 waits */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/launcher.h"
#include "connect/discovery_message.h"
#include "connect/hello.h"
#include "connect/listener.h"
#include "os/clock.h"
#include "tests/kit/fault_time.h"
#include "tests/worlds/launched_rank.h"
#include "tests/worlds/ranks.h"

enum {
    RANKS = 6,
    HOSTS = 3,
    MASTER_PORTS = 4, /* that rank 0 may listen at */
    OTHER_PORTS = 10,
    PORTS = MASTER_PORTS + OTHER_PORTS,
    GARBAGE_CONNECTIONS = 10000,
    INSIDER_CONNECTIONS = 120,
    SCANS = 500,
    LORIS_CONNECTIONS = 200,
    HELD = 100, /* the garbage that stays open for a while */
    SILENT_CONNECTIONS = 64,
    SILENT_ROUNDS = 1,
    SILENT_S_MAX = 20, /* ten times what is promised */
    LOG_BYTES_MAX = 1 << 20
};

enum stranger { SCANNER, LORIS, GARBAGE, INSIDER, SILENT, STRANGER_KINDS };

/* Of all processes. */
struct scene {
    int port; /* the first one: those of rank 0, and behind them those of all others */
    int strangers[4], stranger_count;
    int least[STRANGER_KINDS]; /* connections of each sort: until then the last rank does not come */
    bool is_late;    /* they come when the job runs, which ends when it has seen so many */
    int odd_rank;    /* with a secret of its own; -1: none */
    bool has_none;   /* it has no secret at all */
    int first_tries; /* also of those that find nobody: until then no rank comes */
    atomic_int tries;
    atomic_int counts[STRANGER_KINDS];
    atomic_int ranks_started, ranks_left;
    _Atomic uint64_t silence_ns; /* the longest time that a silent connection stayed open */
    _Atomic uint64_t joined_ns;  /* how long the last rank took to join */
    _Atomic uint64_t refused_ns; /* after the start-up deadline, until the last rank had its error */
    atomic_long strays, without_key, pushed_out; /* what the ranks say that they dropped */
    atomic_long nonsense;                        /* and whom they did not understand */
};

/* ------------------------------------------------------------------------------------ strangers */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 17;
}

/* -1: nobody is there. */
static int connect_to(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    /* Where a queue is full: half a second, as whoever tries the next port does. */
    const struct timeval patience = {.tv_usec = 500000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0) return fd;
    close(fd);
    return -1;
}

/* With a reset, or properly, which leaves the address occupied for a minute. */
static void end_connection(int fd, bool properly)
{
    const struct linger at_once = {.l_onoff = 1};
    if (!properly) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

static void say(int fd, const void *bytes, size_t count)
{
    (void)!send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT); /* who hung up has heard enough */
}

static bool goes_on(struct scene *scene)
{
    return atomic_load(&scene->ranks_left) > 0;
}

static int scan(struct scene *scene)
{
    for (int i = 0; goes_on(scene); i++) {
        atomic_fetch_add(&scene->tries, 1);
        const int fd = connect_to(scene->port + i % PORTS);
        if (fd >= 0) {
            end_connection(fd, i % 16 == 0);
            atomic_fetch_add(&scene->counts[SCANNER], 1);
        }
        if (i % PORTS == 0) ranks_nap_ms(1);
    }
    return 0;
}

/* Who has not got in tries again at once. */
static int say_one_byte_a_second(struct scene *scene)
{
    int fds[LORIS_CONNECTIONS];
    for (int i = 0; i < LORIS_CONNECTIONS; i++) fds[i] = -1;
    for (int round = 0; goes_on(scene); round++) {
        const int second = round / 100;
        for (int i = 0; i < LORIS_CONNECTIONS; i++) {
            if (fds[i] < 0) {
                atomic_fetch_add(&scene->tries, 1);
                fds[i] = connect_to(scene->port + (i + round) % PORTS);
                if (fds[i] >= 0) atomic_fetch_add(&scene->counts[LORIS], 1);
            } else if (round % 100 == 0 &&
                       send(fds[i], &"TUTTIHI1"[second % 8], 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
                end_connection(fds[i], false);
                fds[i] = -1;
            }
        }
        ranks_nap_ms(10);
    }
    return 0;
}

/* A CALL as somebody sends it who has that key (NULL: this job's). */
static void make_call(const char *secret, unsigned char bytes[HELLO_CALL_BYTES])
{
    struct secret_key key;
    struct hello_self self = {0};
    struct hello hello;
    const struct hello_call call = {.peer_rank = HELLO_ANY_RANK, .purpose = 1};
    unsigned char nonce[HELLO_NONCE_BYTES];
    memset(nonce, 7, sizeof nonce);
    const enum tutti_status status =
        secret != NULL ? secret_from_bytes(secret, strlen(secret), &key) : secret_read("", &key);
    if (status != TUTTI_OK) abort();
    hello_self_init(&self, &key, 3);
    hello_start_call(&hello, &self, &call, nonce, 0);
    const void *out;
    if (hello_gives(&hello, &out) != HELLO_CALL_BYTES) abort();
    memcpy(bytes, out, HELLO_CALL_BYTES);
    hello_release(&hello);
}

static void say_garbage(int fd, int kind, uint64_t *random)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const unsigned char tls[] = {0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3};
    unsigned char bytes[HELLO_BYTES], recorded[HELLO_CALL_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)next_random(random);
    switch (kind % 7) {
    case 0: say(fd, bytes, 1 + next_random(random) % sizeof bytes); break;
    case 1: say(fd, http, sizeof http - 1); break;
    case 2: say(fd, tls, sizeof tls); break;
    case 3: /* truncated */
        make_call(NULL, recorded);
        say(fd, recorded, next_random(random) % HELLO_CALL_BYTES);
        break;
    case 4: /* recorded, and then left alone */
        make_call(NULL, recorded);
        say(fd, recorded, HELLO_CALL_BYTES);
        break;
    case 5: /* recorded, with an end that does not fit */
        make_call(NULL, recorded);
        say(fd, recorded, HELLO_CALL_BYTES);
        memcpy(bytes, recorded, 8);
        say(fd, bytes, HELLO_PROOF_BYTES);
        break;
    default:
        make_call("the secret of another job", recorded);
        say(fd, recorded, HELLO_CALL_BYTES);
        break;
    }
}

static int talk_garbage(struct scene *scene, uint64_t random)
{
    int held[HELD];
    for (int i = 0; i < HELD; i++) held[i] = -1;
    for (int i = 0, said = 0; goes_on(scene); i++) {
        atomic_fetch_add(&scene->tries, 1);
        const int fd = connect_to(scene->port + i % PORTS);
        if (fd < 0) {
            if (i % PORTS == 0) ranks_nap_ms(1);
            continue;
        }
        say_garbage(fd, said, &random);
        if (held[said % HELD] >= 0) end_connection(held[said % HELD], false);
        held[said++ % HELD] = fd;
        if (atomic_fetch_add(&scene->counts[GARBAGE], 1) > 2 * GARBAGE_CONNECTIONS) ranks_nap_ms(1);
    }
    return 0;
}

/* ----------------------------------------------------------------------------------- an insider */

/* The first meeting of the job: what is derived for later ones differs. */
static void find_meeting(struct rendezvous_key *meeting)
{
    static const char what[] = "roll call";
    struct launcher_facts facts;
    if (launcher_detect(&facts) != TUTTI_OK) abort();
    rendezvous_key_derive(&facts.key, what, sizeof what, meeting);
}

/* As connect/port.c has it: what for, the meeting, who and whom, which connection. */
static void claim(const struct rendezvous_key *meeting, int rank, int peer, bool is_callback,
                  struct hello_call *call)
{
    const int32_t ranks[2] = {rank, peer};
    *call = (struct hello_call){.peer_rank = HELLO_ANY_RANK, .purpose = is_callback ? 2 : 1};
    memcpy(call->payload, meeting, sizeof *meeting);
    memcpy(call->payload + sizeof *meeting, ranks, sizeof ranks);
    call->payload_bytes = sizeof *meeting + sizeof ranks + 1;
}

static void say_nonsense(int fd, int rank, int kind, uint64_t *random)
{
    struct discovery_head head = discovery_head_make(DISCOVERY_ENTRY, rank, RANKS);
    struct discovery_entry entry = {.core_count = 1, .host_name = "elsewhere"};
    unsigned char noise[sizeof head + sizeof entry];
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (unsigned char)next_random(random);
    switch (kind % 8) {
    case 0: return;
    case 1: say(fd, noise, sizeof noise); return;
    case 2: head.rank = rank - 1; break; /* another one than that it came as */
    case 3: head = discovery_head_make(DISCOVERY_TABLE, rank, RANKS); break;
    case 4: head.entry_count = 1u << 31; break;
    case 5: memset(entry.host_name, 'x', sizeof entry.host_name); break; /* without an end */
    case 6: entry.address.family = AF_UNIX; break;
    default: head.size = RANKS + 1; break;
    }
    say(fd, &head, sizeof head);
    say(fd, &entry, sizeof entry);
}

/* One connection at a time; it stays open until the next one is accepted. */
static int pretend_to_be_ranks(struct scene *scene, uint64_t random)
{
    static const int wrong[] = {-1, 0, RANKS, INT_MIN, INT_MAX, RANKS + 40};
    struct listener_options options = {.incoming_max = 1};
    struct secret_key key;
    struct listener *listener;
    struct rendezvous_key meeting;
    find_meeting(&meeting);
    if (secret_read("", &key) != TUTTI_OK) return 1;
    hello_self_init(&options.self, &key, HELLO_ANY_RANK);
    if (listener_open(&options, &listener) != TUTTI_OK) return 1;
    int held = -1;
    for (int i = 0; goes_on(scene); i++) {
        const bool claims_wrong = i % 4 == 0;
        const int late = i % 5 == 0 ? 3 : RANKS - 1; /* or there already */
        const int rank = claims_wrong ? wrong[i / 4 % 6] : late;
        struct connector_options call = {.address = {.family = AF_INET, .bytes = {127, 0, 0, 1}},
                                         .deadline_ns = clock_now_ns() + 100000000};
        call.address.port =
            (uint16_t)(claims_wrong ? scene->port + i / 4 % 2 * MASTER_PORTS : scene->port);
        claim(&meeting, rank, 0, i % 7 == 6, &call.hello);
        struct connector *connector;
        struct accepted_connection accepted;
        enum tutti_status status = listener_connect(listener, &call, &connector);
        while (status == TUTTI_OK &&
               (status = connector_test(connector, &accepted)) == TUTTI_IN_PROGRESS) {
            listener_progress(listener, clock_now_ns());
            ranks_nap_ms(1);
            status = TUTTI_OK;
        }
        atomic_fetch_add(&scene->tries, 1);
        if (status == TUTTI_OK) {
            say_nonsense(accepted.socket.fd, late, i, &random);
            if (held >= 0) end_connection(held, i % 2 == 0);
            held = accepted.socket.fd;
            atomic_fetch_add(&scene->counts[INSIDER], 1);
        }
        connector_free(connector);
    }
    if (held >= 0) close(held);
    listener_close(listener);
    return 0;
}

/* Until the other side has closed it, at most as long as is borne; how long. */
static uint64_t wait_for_end(int fd, uint64_t since_ns)
{
    char byte;
    const struct timeval patience = {.tv_sec = SILENT_S_MAX};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)!recv(fd, &byte, 1, 0);
    return clock_now_ns() - since_ns;
}

static int be_silent(struct scene *scene)
{
    for (int round = 0; round < SILENT_ROUNDS && goes_on(scene); round++) {
        int fds[SILENT_CONNECTIONS];
        const uint64_t begin_ns = clock_now_ns();
        for (int i = 0; i < SILENT_CONNECTIONS; i++) fds[i] = connect_to(scene->port);
        for (int i = 0; i < SILENT_CONNECTIONS; i++) {
            if (fds[i] < 0) return 1;
            fault_time_raise(&scene->silence_ns, wait_for_end(fds[i], begin_ns));
            close(fds[i]);
        }
        atomic_fetch_add(&scene->counts[SILENT], SILENT_CONNECTIONS);
    }
    return 0;
}

static int be_stranger(struct scene *scene, int number, uint64_t seed)
{
    const uint64_t random = seed + (uint64_t)number;
    while (scene->is_late && atomic_load(&scene->ranks_started) < RANKS) ranks_nap_ms(1);
    switch ((enum stranger)scene->strangers[number]) {
    case SCANNER: return scan(scene);
    case LORIS: return say_one_byte_a_second(scene);
    case GARBAGE: return talk_garbage(scene, random);
    case SILENT: return be_silent(scene);
    default: return pretend_to_be_ranks(scene, random);
    }
}

/* -------------------------------------------------------------------------------------- the job */

static void take_place(const struct scene *scene, int rank)
{
    char range[32];
    snprintf(range, sizeof range, "%d-%d", scene->port + MASTER_PORTS, scene->port + PORTS - 1);
    launched_rank_become(
        &(struct launched_rank){.rank = rank, .size = RANKS, .hosts = HOSTS, .port = scene->port});
    setenv("TUTTI_PORT_RANGE", range, 1);
    setenv("TUTTI_SECRET", "only the ranks of this test know it", 1);
    setenv("TUTTI_LOG", "info", 1);
}

static int sum_up(struct tutti_comm *comm, int rank)
{
    int64_t values[1000];
    const int size = tutti_comm_size(comm), own = tutti_comm_rank(comm);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 1000; i++) values[i] = (int64_t)own * i + round;
        RANKS_EXPECT(tutti_allreduce(values, values, 1000, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK);
        for (int i = 0; i < 1000; i++)
            RANKS_EXPECT(values[i] == (int64_t)size * (size - 1) / 2 * i + (int64_t)size * round);
    }
    return 0;
}

static bool has_seen_enough(struct scene *scene)
{
    for (int i = 0; i < STRANGER_KINDS; i++)
        if (atomic_load(&scene->counts[i]) < scene->least[i]) return false;
    return true;
}

/* Goes on, with new connections between hosts again and again, until rank 0 has seen enough
 * strangers. */
static int work_among_strangers(struct scene *scene, struct tutti_comm *comm, int rank)
{
    int32_t goes_on_working = 1;
    atomic_fetch_add(&scene->ranks_started, 1);
    while (goes_on_working) {
        struct tutti_comm *same;
        RANKS_EXPECT(tutti_comm_dup(comm, NULL, &same) == TUTTI_OK);
        if (sum_up(same, rank) != 0) return 1;
        RANKS_EXPECT(tutti_comm_free(same) == TUTTI_OK);
        goes_on_working = !has_seen_enough(scene);
        RANKS_EXPECT(tutti_broadcast(&goes_on_working, &goes_on_working, 1, TUTTI_INT32, 0, comm) ==
                     TUTTI_OK);
    }
    return 0;
}

static int work(struct scene *scene, int rank)
{
    struct tutti_comm *comm, *half;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.init_timeout_ns = 60000000000u;
    options.timeout_ns = 30000000000u;
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    if (rank == RANKS - 1) atomic_store(&scene->joined_ns, clock_now_ns() - begin_ns);
    if (scene->is_late && work_among_strangers(scene, comm, rank) != 0) return 1;
    if (sum_up(comm, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_split(comm, rank / 3, rank, NULL, &half) == TUTTI_OK);
    if (sum_up(half, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK);
    if (sum_up(comm, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

/* What the log says of strangers. */
static void read_log(struct scene *scene, int fd)
{
    char *log = calloc(1, LOG_BYTES_MAX + 1);
    if (log == NULL) abort();
    const ssize_t bytes = pread(fd, log, LOG_BYTES_MAX, 0);
    if (bytes > 0) fputs(log, stderr);
    for (const char *at = log; (at = strstr(at, ": dropped ")) != NULL; at++) {
        long strays, without_key, pushed_out;
        if (sscanf(at, ": dropped %ld strays, %ld without this job's key, %ld to", &strays,
                   &without_key, &pushed_out) != 3)
            continue;
        atomic_fetch_add(&scene->strays, strays);
        atomic_fetch_add(&scene->without_key, without_key);
        atomic_fetch_add(&scene->pushed_out, pushed_out);
    }
    for (const char *at = log; (at = strstr(at, "sent a report that makes no sense")) != NULL; at++)
        atomic_fetch_add(&scene->nonsense, 1);
    free(log);
}

/* A job of which one rank has another secret: that one is told, with the address of who refused it,
 * and the others miss it. */
static int start_in_vain(struct scene *scene, int rank)
{
    struct tutti_comm *comm;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    const bool is_odd = rank == scene->odd_rank;
    char who[16], port[16];
    snprintf(who, sizeof who, "rank %d", scene->odd_rank);
    snprintf(port, sizeof port, "127.0.0.1:%d", scene->port);
    options.init_timeout_ns = 3000000000u;
    if (is_odd && scene->has_none)
        unsetenv("TUTTI_SECRET");
    else if (is_odd)
        setenv("TUTTI_SECRET", "the secret of another job", 1);
    const uint64_t begin_ns = clock_now_ns();
    const enum tutti_status status = tutti_comm_create(&options, &comm);
    fault_time_raise(&scene->refused_ns,
                     fault_time_beyond(clock_now_ns() - begin_ns, options.init_timeout_ns));
    printf("rank %d: %s: %s\n", rank, tutti_status_name(status), tutti_error_message());
    RANKS_EXPECT(comm == NULL && status == (is_odd ? TUTTI_AUTH_FAILED : TUTTI_INIT_TIMEOUT));
    RANKS_EXPECT(strstr(tutti_error_message(), is_odd ? port : who) != NULL);
    const char *const cause = !scene->has_none ? "key"
                              : is_odd ? "it has a secret and this rank has none: set TUTTI_SECRET"
                                       : "this rank has a secret and it has none: set TUTTI_SECRET";
    if (is_odd || rank == 0) RANKS_EXPECT(strstr(tutti_error_message(), cause) != NULL);
    return 0;
}

static int be_rank(struct scene *scene, int rank)
{
    const int log = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
    while (atomic_load(&scene->tries) < scene->first_tries) ranks_nap_ms(1);
    while (rank == RANKS - 1 && !scene->is_late && !has_seen_enough(scene)) ranks_nap_ms(1);
    dup2(log, STDERR_FILENO);
    const int result = scene->odd_rank < 0 ? work(scene, rank) : start_in_vain(scene, rank);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    atomic_fetch_sub(&scene->ranks_left, 1);
    read_log(scene, log);
    close(log);
    close(before);
    return result;
}

/* A rank or a stranger, by its number. */
static int play(struct tutti_comm *none, int number, int size, uint64_t seed, void *context)
{
    struct scene *scene = context;
    (void)none;
    (void)size;
    take_place(scene, number % RANKS);
    return number < RANKS ? be_rank(scene, number) : be_stranger(scene, number - RANKS, seed);
}

/* ------------------------------------------------------------------------------------ the tests */

static int find_ports(void)
{
    const int port = launched_rank_find_ports(PORTS);
    if (port < 0) fail_msg("there are no %d free ports", PORTS);
    return port;
}

static struct scene *set_scene(const enum stranger *strangers, int count, int first_tries)
{
    struct scene *scene = ranks_share(sizeof *scene);
    scene->port = find_ports();
    for (int i = 0; i < count; i++) scene->strangers[i] = (int)strangers[i];
    scene->stranger_count = count;
    scene->first_tries = first_tries;
    atomic_store(&scene->ranks_left, RANKS);
    scene->odd_rank = -1;
    return scene;
}

static void run(struct scene *scene)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 150000, .without_comm = true};
    assert_int_equal(ranks_run(RANKS + scene->stranger_count, &options, play, scene), 0);
}

static void a_job_starts_among_strangers(void **state)
{
    (void)state;
    static const enum stranger strangers[] = {SCANNER, LORIS, GARBAGE, GARBAGE};
    struct scene *scene = set_scene(strangers, 4, 500);
    scene->least[SCANNER] = SCANS;
    scene->least[LORIS] = LORIS_CONNECTIONS;
    scene->least[GARBAGE] = GARBAGE_CONNECTIONS;
    run(scene);
    const long dropped = scene->strays + scene->without_key + scene->pushed_out;
    printf("%d scans, %d slow, %d garbage; dropped: %ld strays, %ld without the key, %ld to make "
           "room\n",
           scene->counts[SCANNER], scene->counts[LORIS], scene->counts[GARBAGE], scene->strays,
           scene->without_key, scene->pushed_out);
    fault_time_print("strangers", scene->joined_ns);
    assert_true(dropped >= GARBAGE_CONNECTIONS / 10 * 9);
    assert_true(scene->without_key > 0);
    munmap(scene, sizeof *scene);
}

static void who_has_the_key_and_makes_no_sense_is_dropped(void **state)
{
    (void)state;
    static const enum stranger strangers[] = {INSIDER};
    struct scene *scene = set_scene(strangers, 1, 2);
    scene->least[INSIDER] = INSIDER_CONNECTIONS;
    run(scene);
    printf("%d connections, %ld of them sent what makes no sense\n", scene->counts[INSIDER],
           scene->nonsense);
    assert_true(scene->nonsense >= INSIDER_CONNECTIONS / 8);
    munmap(scene, sizeof *scene);
}

static void a_job_goes_on_among_strangers(void **state)
{
    (void)state;
    static const enum stranger strangers[] = {SCANNER, LORIS, GARBAGE, SILENT};
    struct scene *scene = set_scene(strangers, 4, 0);
    scene->is_late = true;
    scene->least[SCANNER] = SCANS;
    scene->least[LORIS] = LORIS_CONNECTIONS;
    scene->least[GARBAGE] = GARBAGE_CONNECTIONS / 10;
    scene->least[SILENT] = SILENT_CONNECTIONS;
    run(scene);
    assert_true(scene->without_key > 0);
    munmap(scene, sizeof *scene);
}

static void who_is_silent_gives_way_while_a_job_runs(void **state)
{
    (void)state;
    static const enum stranger strangers[] = {SILENT};
    struct scene *scene = set_scene(strangers, 1, 0);
    scene->is_late = true;
    scene->least[SILENT] = SILENT_CONNECTIONS;
    run(scene);
    fault_time_print("silence", scene->silence_ns);
    assert_true(scene->silence_ns < SILENT_S_MAX * UINT64_C(1000000000));
    munmap(scene, sizeof *scene);
}

static void a_rank_with_another_secret_is_refused(void **state)
{
    (void)state;
    static const int odd_ranks[] = {1, RANKS - 1};
    for (int i = 0; i < 4; i++) {
        struct scene *scene = set_scene(NULL, 0, 0);
        scene->odd_rank = odd_ranks[i / 2];
        scene->has_none = i % 2 != 0;
        run(scene);
        fault_time_print("secret", scene->refused_ns);
        assert_true(scene->without_key > 0);
        munmap(scene, sizeof *scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_goes_on_among_strangers),
        cmocka_unit_test(who_is_silent_gives_way_while_a_job_runs),
        cmocka_unit_test(a_rank_with_another_secret_is_refused),
        cmocka_unit_test(a_job_starts_among_strangers),
        cmocka_unit_test(who_has_the_key_and_makes_no_sense_is_dropped),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

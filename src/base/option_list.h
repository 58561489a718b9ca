/* option_list.h - the one table of options: every environment variable TUTTI_... that the library,
 * its tools, its bindings or its tests read.
 *
 * To add an option, add one line here, and read it where it is needed with a function of option.h:
 *
 *     X(JOB, RAILS, COUNT(1, 4), "1", "How many NICs carry large data at once.")                  here
 *     TRY(option_count(OPTION_RAILS, &rail_count));                                               there
 *
 * Then `make reference` writes it into its page and into man/tutti.7. Everything else follows from
 * the line: the name, the default, the error text, and that a typo in it is noticed.
 * tests/repo/options_test.sh checks that no other file spells a name out.
 *
 * The columns:
 *
 *     group          which table of docs/reference/options.md has it: LAUNCH (between a launcher and its ranks), JOB, NETWORK (ranks on
 *                    several hosts), PYTHON (the bindings read it); or of docs/develop/options.md:
 *                    TEST (only tests read it)
 *     name           without the prefix TUTTI_; option.h makes OPTION_name and option_names.name of it
 *     kind           how the value is read:
 *                        DURATION                 30s, 500ms, 2h; a number alone is seconds       option_duration
 *                        SECONDS(least, most)     a whole number of seconds                       option_duration
 *                        MILLISECONDS(least, most)  a whole number of them, also as 50ms, or 0    option_duration
 *                        BYTES                    4096, 64k, 16m, 1g                              option_bytes
 *                        COUNT(least, most)       a whole number                                  option_count
 *                        BOOLEAN                  0 or 1                                          option_boolean
 *                        CHOICE("a", "b")         one of these words                              option_choice
 *                        WISH("a", "b")           one of these words; another word counts as not set, with a line in the log, for
 *                                                 options that must not fail a job                option_wish
 *                        TEXT("a directory")      what the reader makes of it; the words say what it should be       option_text
 *     default        written as the user would set it. Words in parentheses are for readers alone: then the option has no
 *                    value when nobody sets it.
 *     documentation  a sentence or two of Markdown, with links as from docs/reference/
 *
 * An empty variable counts as unset. Code uses the position of a word of CHOICE and WISH, so a new
 * word comes last.
 */
#ifndef TUTTI_BASE_OPTION_LIST_H
#define TUTTI_BASE_OPTION_LIST_H

/* clang-format off */
#define OPTION_LIST(X)                                                                                                              \
    X(JOB, TIMEOUT, DURATION, "30m", "The deadline of an operation.")                                                               \
    X(JOB, INIT_TIMEOUT, DURATION, "5m", "How long `tutti_comm_create` waits for all ranks to arrive.")                             \
    X(JOB, ALGORITHMS, TEXT("rules for algorithms"), "(chosen)",                                                                    \
      "The algorithm of each call, [see below](#rules-for-algorithms).")                                                            \
    X(JOB, ENCODINGS, TEXT("rules for encodings"), "(none)",                                                                        \
      "Which calls may go or must go in fewer bytes, and on which links: `allreduce:64k-=bfloat16/hosts`, "                         \
      "[see how](../how-to/encodings.md).")                                                                                         \
    X(JOB, DETERMINISTIC, BOOLEAN, "0",                                                                                             \
      "`1`: the bits of a result do not depend on size, offset or bucketing either.")                                               \
    X(JOB, KERNEL, WISH("scalar", "avx2", "avx512", "neon"), "(the best)",                                                          \
      "The instructions that reduce and copy. Tutti does not use instructions that the processor lacks.")                           \
    X(JOB, CMA, WISH("0", "1"), "1",                                                                                                \
      "`0`: no rank reads private memory or GPU memory of other processes directly; all data goes through slots.")                  \
    X(JOB, CUDA_DRIVER, TEXT("a file"), "(the library that the program has loaded)",                                                \
      "The library of the CUDA driver, such as `libcuda.so.1`. Tutti loads and initialises it; without this option it uses GPUs "   \
      "if the program has initialised CUDA.")                                                                                       \
    X(JOB, TRANSPORT, CHOICE("auto", "tcp"), "auto",                                                                                \
      "`tcp`: all data goes over TCP, also between ranks of one host, to measure or test TCP. The same on all ranks.")              \
    X(JOB, PROGRESS_CPUS, TEXT("a list of CPUs such as 3 or 0-1,8"), "(where the program may run)",                                 \
      "The CPUs of the thread that moves [started operations](../how-to/buckets.md#how-much-is-hidden) while the program "          \
      "computes: name CPUs on which no rank computes.")                                                                             \
    X(JOB, CALIBRATION, TEXT("a file, or shipped"), "(in the user's cache directory)",                                              \
      "The file with the [costs of work on this host](../how-to/calibration.md), by which Tutti chooses algorithms. `tutti-topo "   \
      "--calibrate` writes it. `shipped`: the numbers that Tutti comes with.")                                                      \
    X(JOB, TABLE, TEXT("a file"), "",                                                                                               \
      "The file of [measured choices](../how-to/calibration.md#tuning) that `tutti-tune` wrote. The same on all ranks.")            \
    X(JOB, PLANS, TEXT("a directory"), "",                                                                                          \
      "A directory with [plans of your own](../how-to/own-plans.md), which compete with the built-in plans. The same on all ranks.")\
    X(JOB, UNEXPECTED, BYTES, "16m",                                                                                                \
      "How many bytes of [messages](../explanation/point-to-point.md) may wait at a rank for its `tutti_recv`.")                    \
    X(JOB, TRACE_DIR, TEXT("a directory"), "",                                                                                      \
      "The directory to which each rank of a communicator that fails writes [its last calls](../how-to/tracing.md).")               \
    X(JOB, TRACE_SIGNAL,                                                                                                            \
      TEXT("USR1, USR2, HUP, QUIT, URG, WINCH, or the number of one of these or of a real-time signal"), "(none)",                  \
      "A signal on which each rank of every communicator, failed or not, writes its last calls: to `TUTTI_TRACE_DIR`, or else "     \
      "to the working directory.")                                                                                                  \
    X(JOB, METRICS_DIR, TEXT("a directory"), "",                                                                                    \
      "The directory to which each process writes [metrics for Prometheus](../how-to/metrics.md).")                                 \
    X(JOB, METRICS_INTERVAL, SECONDS(1, 86400), "10", "How often each process writes its metrics for Prometheus.")                  \
    X(JOB, GPU_BLOCKS, COUNT(0, 64), "0",                                                                                           \
      "The number of thread blocks, each on a multiprocessor of the GPU, that reduce and copy while an operation on GPU memory "    \
      "runs. `0`: half of the multiprocessors, or all of them divided by the ranks of the process if it has several; 1 to 64.")     \
    X(JOB, LOG, WISH("off", "warn", "info", "debug"), "warn",                                                                       \
      "How much Tutti logs on stderr. If nobody reads stderr, Tutti drops lines, and a later line says how many.")                  \
                                                                                                                                    \
    X(NETWORK, SOCKET_IFNAME, TEXT("names of network interfaces"), "(the interface on the route to the first host)",                \
      "The network interfaces between hosts: prefixes of their names, separated by commas, the best first. `^` in "                 \
      "front: all other interfaces; `=` in front: whole names.")                                                                    \
    X(NETWORK, SOCKET_FAMILY, CHOICE("4", "6", "AF_INET", "AF_INET6"), "(both)",                                                    \
      "`4` or `AF_INET`: only IPv4 addresses; `6` or `AF_INET6`: only IPv6 addresses.")                                             \
    X(NETWORK, SOCKET_PROTOCOL, CHOICE("tcp", "mptcp", "smc"), "tcp",                                                               \
      "The sockets that carry data between hosts: `tcp`; [`mptcp`](../explanation/hosts.md#mptcp-and-smc): TCP "                    \
      "over several paths at once; `smc`: shared memory or RDMA behind the same sockets. Tutti uses TCP if the kernel or the peer " \
      "lacks the protocol.")                                                                                                        \
    X(NETWORK, RAILS, COUNT(1, 4), "1",                                                                                             \
      "The number of [NICs](../how-to/several-nics.md), also of [RDMA "                                                             \
      "NICs](../how-to/fabric.md#several-nics), over which large data may go at once.")                                             \
    X(NETWORK, PORT_RANGE, TEXT("a port or a range of ports such as 5000-5100, from 1 to 65535"), "(any)",                          \
      "A process listens at the first free port of the range.")                                                                     \
    X(NETWORK, SECRET, TEXT("a secret"), "(the job's id)",                                                                          \
      "The secret of the job: only ranks that have it can join from other hosts. The environment shows it; use a file to hide it.") \
    X(NETWORK, SECRET_FILE, TEXT("a file"), "",                                                                                     \
      "The file with the secret, closed to all other users (`chmod 600`). A newline at its end does not count.")                    \
    X(NETWORK, INTEGRITY, CHOICE("off", "network", "on"), "off",                                                                    \
      "`network`: ranks [check data](../how-to/checksums.md) that comes over TCP with a checksum; `on`: also "                      \
      "data that comes through shared memory. The same on all ranks.")                                                              \
    X(NETWORK, ENCRYPTION, CHOICE("off", "on"), "off",                                                                              \
      "`on`: ranks [encrypt](../explanation/security.md#encryption) all data over TCP, which needs a secret. The same on all "      \
      "ranks.")                                                                                                                     \
    X(NETWORK, FABRIC, TEXT("auto, off, a provider of libfabric such as efa or verbs;ofi_rxm:mlx5_0, or ^efa,psm3"), "auto",        \
      "The [RDMA NIC](../how-to/fabric.md) that carries data between hosts. `auto`: the best NIC; `off`: none, data goes over "     \
      "TCP; a provider of libfabric, with the NICs behind a colon, if any: this provider; `^` and names: as `auto` without these "  \
      "providers.")                                                                                                                 \
    X(NETWORK, TOPO_FILE, TEXT("a file"), "",                                                                                       \
      "A file that says [which hosts are in which rack](../how-to/topology.md#racks-for-the-library).")                             \
    X(NETWORK, PROBE, BOOLEAN, "1",                                                                                                 \
      "`0` on rank 0: Tutti does not [measure the network](../how-to/topology.md#measured-at-the-start) as a job starts. Then all " \
      "hosts are in one rack, if no file names racks, and have the calibrated or the shipped rates.")                               \
    X(NETWORK, HEARTBEAT, MILLISECONDS(10, 10000), "100",                                                                           \
      "The time from one [heartbeat](../how-to/failures.md#hosts-that-vanish) of a host to the next. A host is suspected after "    \
      "ten such times in silence, and gone after thirty. `0`: no heartbeats. The same on all ranks.")                               \
    X(NETWORK, HOSTID, TEXT("any text"), "",                                                                                        \
      "Tutti takes ranks with different values to be on different hosts, even if they could share memory. Ranks without a value "   \
      "are together.")                                                                                                              \
    X(NETWORK, ID_HOSTS, CHOICE("one", "many"), "(as the launcher says; without one, `one`)",                                       \
      "Whether ranks that meet by an id made in this process, or through a store, "                                                 \
      "[may be on several hosts](../explanation/start-up.md#an-id-over-several-hosts).")                                            \
    X(NETWORK, RENDEZVOUS_DIR, TEXT("a directory"), "",                                                                             \
      "A directory that all ranks see, through which they exchange addresses if the launcher has no service for that.")             \
                                                                                                                                    \
    X(LAUNCH, RANK, COUNT(0, 65535), "", "The rank of this process.")                                                               \
    X(LAUNCH, SIZE, COUNT(1, 65536), "", "The number of ranks.")                                                                    \
    X(LAUNCH, JOB_ID, TEXT("any text"), "",                                                                                         \
      "Distinguishes this job from the user's other jobs, [under every launcher](../how-to/launchers.md). The same on all ranks.")  \
    X(LAUNCH, ELASTIC_STORE, TEXT("a directory"), "",                                                                               \
      "Where ranks of an [elastic loop](../how-to/elastic.md) and processes that join it find each other; `tutti-run --elastic` "   \
      "sets it.")                                                                                                                   \
    X(LAUNCH, ELASTIC_JOIN, BOOLEAN, "0",                                                                                           \
      "`1`: this process joins an [elastic loop](../how-to/elastic.md) that has begun; `tutti-run --elastic` sets it for "          \
      "processes that it starts later.")                                                                                            \
    X(LAUNCH, ELASTIC_MEMBER, TEXT("a name"), "",                                                                                   \
      "The name by which this process says there that it belongs to the team; `tutti-run --elastic` gives each start another one.") \
    X(LAUNCH, PODS, COUNT(1, 65536), "",                                                                                            \
      "The number of pods in an [Indexed Job](../how-to/launchers.md#an-indexed-job-or-jobset) of Kubernetes.")                     \
    X(LAUNCH, RANKS_PER_POD, COUNT(1, 65536), "", "The number of ranks in each pod of an Indexed Job.")                             \
                                                                                                                                    \
    X(PYTHON, LIBRARY, TEXT("a file"), "(beside the package, or the system's)",                                                     \
      "The library `libtutti.so` that the [Python package](../start/python.md) loads.")                                             \
    X(PYTHON, TORCH_BACKEND, CHOICE("auto", "cpp", "python"), "auto",                                                               \
      "Which of the [two backends for PyTorch](../start/torch.md#backend-in-c-or-in-python) runs calls.")                           \
                                                                                                                                    \
    X(TEST, LONG, BOOLEAN, "", "`1`: randomised tests go on for longer; `./check --long` sets it.")                                 \
    X(TEST, ROOT, TEXT("a directory"), "", "The source tree.")                                                                      \
    X(TEST, BUILD, TEXT("a directory"), "", "The build directory.")                                                                 \
    X(TEST, BIN, TEXT("a directory"), "", "The directory of the built programs.")                                                   \
    X(TEST, SEED, TEXT("a number"), "", "The seed of `src/plan/mutation_test.c`.")                                                  \
    X(TEST, MUTANTS, TEXT("a number"), "", "How many changed plans `src/plan/mutation_test.c` tries.")                              \
    X(TEST, TORCH_PYTHON, TEXT("a program"), "", "A Python that can import PyTorch; tests try it before others.")                   \
    X(TEST, TENSORFLOW_PYTHON, TEXT("a program"), "", "A Python that can import TensorFlow; tests try it before others.")           \
    X(TEST, JAX_PYTHON, TEXT("a program"), "", "A Python that can import JAX; tests try it before others.")                         \
    X(TEST, PROGRAM_MINUTES, TEXT("a number"), "5", "How long `tests/programs/long_test.sh` goes on.")                              \
    X(TEST, STANDIN_DEVICES, TEXT("a number"), "2",                                                                                 \
      "How many devices the stand-in for CUDA's driver has (`tests/gpu/cuda_standin.h`).")                                          \
    X(TEST, STANDIN_QUEUES, TEXT("a number"), "8", "How many hardware queues each of these devices has.")                           \
    X(TEST, STANDIN_COPY_QUEUES, TEXT("a number"), "0", "How many further queues a device has for copies in each direction; `0`: none.")\
    X(TEST, STANDIN_PROCESSORS, TEXT("a number"), "8", "How many multiprocessors each of these devices has.")                       \
    X(TEST, STANDIN_SEED, TEXT("a number"), "1",                                                                                    \
      "The seed of the devices' lateness: which work is late, and in which order. `0`: no work is late.")                           \
    X(TEST, STANDIN_LOCK, BOOLEAN, "1",                                                                                             \
      "`0`: a thread that waits in the stand-in for CUDA's driver, for example in a copy, keeps no other threads out.")             \
    X(TEST, STANDIN_WAIT, BOOLEAN, "",                                                                                              \
      "`1`: to allocate memory of the stand-in for CUDA's driver also waits for all work on the device.")                           \
    X(TEST, STANDIN_PEERS, BOOLEAN, "1", "`0`: no device of the stand-in for CUDA's driver reaches memory of another device.")      \
    X(TEST, STANDIN_MAPPED, TEXT("a number"), "0",                                                                                  \
      "Which numbers and ranges the stand-in gives to memory that is mapped by hand (`tests/gpu/cuda_standin.h`).")                 \
    X(TEST, TEST_SEED, TEXT("a number"), "(fresh)", "The seed of a test that prints its seed, to repeat that run.")                 \
    X(TEST, TEST_FILTER, TEXT("a pattern"), "", "Which cases of a test program run.")                                               \
    X(TEST, TEST_RANKS, CHOICE("threads"), "", "`threads`: ranks are threads instead of processes.")                                \
    X(TEST, TEST_HOSTS, TEXT("a number"), "", "The number of hosts that a test simulates.")                                         \
    X(TEST, TEST_RESTARTS, TEXT("a number"), "", "How often `tests/startup/restart_test.c` repeats itself.")
/* clang-format on */

#endif

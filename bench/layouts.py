"""layouts - what the commands of this folder measure on: this machine, or an emulated cluster (peers/cluster).

Every layout has

  calibration        the file of its calibration, which somebody has to make first: calibrate()
  ranks              how many there are
  shape()            the words with which tutti-plan is told of it
  levels()           those of them that say which ranks share a host and a rack
  job(WORDS...)      runs a program in every rank; returns what subprocess.run does. command(WORDS...) says how
  close()            leaves nothing behind

TUTTI_BIN is the folder of the tools; without it, build/bin of the repository.
"""
import copy
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get("TUTTI_BIN", os.path.join(ROOT, "build", "bin"))
PATHS = os.path.join(os.path.dirname(os.path.abspath(BIN)), "bench", "paths")
CLUSTER = os.path.join(ROOT, "bench", "peers", "cluster")
PREFIX = os.environ.get("CLUSTER_PREFIX", "cc")  # of the names of its hosts
JOB_SECONDS_MAX = 600


def tool(name):
    return os.path.join(BIN, name)


def size_of(text):
    return int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)


def run(*words, **options):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def share(values, part):
    """The value that so large a part of all stays below."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def must_calibrate(done):
    """The calibration of a machine that others used meanwhile is one, too."""
    if done.returncode not in (0, 3):
        sys.exit(f"{os.path.basename(sys.argv[0])}: the calibration failed")
    return done.returncode == 0


class Layout:
    """What both kinds have in common: variables for the ranks, and the launcher's words."""

    def __init__(self, folder, ranks, variables):
        self.calibration = os.path.join(folder, "calibration.json")
        self.ranks = ranks
        self.environment = {**os.environ, **variables}
        self.launcher = []

    def command(self, *words, tools=BIN):
        return [os.path.join(tools, "tutti-run"), *self.launcher, "--no-prefix", *words]

    def job(self, *words, **variables):
        return subprocess.run(self.command(*words), text=True, stdout=subprocess.PIPE, env={**self.environment, **variables},
                              timeout=JOB_SECONDS_MAX, check=False)


class Machine(Layout):
    """This one, with so many ranks, each on a core of its own as long as there are any."""

    def __init__(self, folder, ranks, variables=None, pinned=True):
        super().__init__(folder, ranks, variables or {})
        self.launcher = ["-n", str(ranks), *(["--pin"] if pinned else [])]

    def calibrate(self):
        """The ways within the host, too, as docs/how-to/calibration.md has it."""
        ways = f"{self.calibration}.ways"
        with open(ways, "w") as file:
            subprocess.run([tool("tutti-run"), "-n", "2", "--pin", "--no-prefix", PATHS, "--json"], stdout=file, check=True)
        return must_calibrate(subprocess.run([tool("tutti-topo"), "--calibrate", ways, "-o", self.calibration],
                                             stdout=subprocess.DEVNULL, check=False))

    def shape(self):
        return ["--ranks", str(self.ranks)]

    def levels(self):
        return []

    def close(self):
        pass


class Cluster(Layout):
    """Hosts of some ranks each behind switches with links of a known rate. Its racks take hosts in blocks, or in turns; a file tells jobs of
    them, unless they are not to be told."""

    def __init__(self, folder, hosts, rate_mbit, racks=1, ranks_a_host=1, interleaved=False, variables=None, told=True, uplink_mbit=None,
                 congestion=None):
        super().__init__(folder, hosts * ranks_a_host, variables or {})
        self.hosts, self.racks, self.ranks_a_host, self.interleaved = hosts, racks, ranks_a_host, interleaved
        self.file = os.path.join(folder, "hosts")
        run(CLUSTER, "up", "--hosts", str(hosts), "--racks", str(racks), "--host-rate", f"{rate_mbit}mbit", "--uplink-rate",
            f"{uplink_mbit or rate_mbit}mbit", *(["--cc", congestion] if congestion else []))
        addresses = run(CLUSTER, "hostfile", *(["interleaved"] if interleaved else [])).split()
        with open(self.file, "w") as file:
            file.writelines(f"{address} slots={ranks_a_host}\n" for address in addresses)
        self.launcher = ["--hosts", self.file, "--rsh", f"{CLUSTER} rsh"]
        if racks > 1 and told:
            self.write_racks(addresses, os.path.join(folder, "racks"))

    def part(self, hosts):
        """The last of its hosts, as a layout that need not be closed."""
        other = copy.copy(self)
        other.hosts, other.ranks, other.file = hosts, hosts * self.ranks_a_host, f"{self.file}.{hosts}"
        with open(self.file) as all_hosts, open(other.file, "w") as file:
            file.writelines(all_hosts.readlines()[-hosts:])
        other.launcher = ["--hosts", other.file, "--rsh", f"{CLUSTER} rsh"]
        return other

    def rack_of(self, host):
        return host % self.racks if self.interleaved else host * self.racks // self.hosts

    def write_racks(self, addresses, name):
        with open(name, "w") as file:
            for rack in range(self.racks):
                members = [f"{PREFIX}-h{int(address.split('.')[-1]) - 1}" for host, address in enumerate(addresses)
                           if self.rack_of(host) == rack]
                file.write(f"rack{rack}: {' '.join(members)}\n")
        self.environment["TUTTI_TOPO_FILE"] = name

    def calibrate(self):
        return must_calibrate(self.job(tool("tutti-topo"), "--calibrate", "--probe", "-o", self.calibration))

    def levels(self):
        words = ["--hosts", f"{self.hosts}x{self.ranks_a_host}"]
        if self.racks > 1:
            words += ["--racks", f"{self.racks}x{self.hosts // self.racks}"]
        return words + (["--interleaved-racks"] if self.interleaved else [])

    def machines(self):
        """The hosts are namespaces of this machine, and share its cores."""
        return ["--machines", "1"]

    def shape(self):
        return [*self.levels(), *self.machines()]

    def close(self):
        subprocess.run([CLUSTER, "down"], check=False)

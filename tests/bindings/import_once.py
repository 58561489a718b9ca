"""Imports large packages once, for all processes of a test that need them: each process is forked from one that has them.

    import_once.py serve SOCKET MODULE...                           with the Python and the environment that the processes have
    import_once.py run SOCKET [-W ignore] SCRIPT [ARGUMENT...]      in place of "python3 SCRIPT ...", any number of times
    import_once.py run SOCKET [-W ignore] -m MODULE [ARGUMENT...]
    import_once.py run SOCKET [-W ignore] -c PROGRAM [ARGUMENT...]

A process has the environment, directory, affinity and files 0 to 2 of its run. The run passes on the signals that it gets, and ends as the
process ends: with its status, or by its signal. A process ends with its run and with the server, and the server with the process that has
started it. The program is __main__, and nothing of Python's end is left out.

A module that cannot be imported is passed over: programs that need it find out. The packages count as imported from the start. So a program that
sets what they read when they are imported, or looks at the import, needs a Python of its own. The server must have one thread, or it forks
nothing.
"""

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
PR_SET_PDEATHSIG = 1


def die_with(parent):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def receive(connection, size):
    """So many bytes; fewer at the end of the connection."""
    parts = []
    while size > 0:
        part = connection.recv(size)
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


# ------------------------------------------------------------------------------------------------------------------------ a run


def run(path, arguments):
    told = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "affinity": sorted(os.sched_getaffinity(0)),
    }
    message = json.dumps(told).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [struct.pack("=I", len(message))], [0, 1, 2])
        connection.sendall(message)
        pid = struct.unpack("=i", receive(connection, 4))[0]
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        ended = receive(connection, 4)
    if len(ended) < 4:
        sys.exit("import_once.py: the server has ended")
    status = struct.unpack("=i", ended)[0]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.WEXITSTATUS(status))


# -------------------------------------------------------------------------------------------------------------------- the server


class Server:
    def __init__(self, path):
        self.runs = {}  # the connection of each process
        self.wakes, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.wake = wake
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path + ".new")
        self.listener.listen(64)
        os.rename(path + ".new", path)  # from here on it takes runs

    def serve(self):
        """Returns in each process what it is told."""
        while True:
            ready = select.select([self.wakes, self.listener, *self.runs.values()], [], [])[0]
            if self.wakes in ready:
                os.read(self.wakes, 1000)
            self.tell_ends()
            for pid, connection in self.runs.items():
                if connection in ready:  # a run says nothing more: it is gone
                    os.kill(pid, signal.SIGKILL)
            if self.listener in ready:
                told = self.start(self.listener.accept()[0])
                if told is not None:
                    return told

    def tell_ends(self):
        while self.runs:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            connection = self.runs.pop(pid, None)
            if connection is not None:
                try:
                    connection.sendall(struct.pack("=i", status))
                except OSError:
                    pass  # the run is gone
                connection.close()

    def start(self, connection):
        head, files, _, _ = socket.recv_fds(connection, 4, 3)
        told = receive(connection, struct.unpack("=I", head)[0]) if len(head) == 4 and len(files) == 3 else b""
        if not told:
            for file in files:
                os.close(file)
            connection.close()
            return None
        sys.stdout.flush()
        server = os.getpid()
        pid = os.fork()
        if pid != 0:
            for file in files:
                os.close(file)
            self.runs[pid] = connection
            connection.sendall(struct.pack("=i", pid))
            return None
        die_with(server)
        self.leave([connection])
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return json.loads(told)

    def leave(self, connections):
        """In a process that is no server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self.listener, *connections, *self.runs.values()):
            one.close()
        os.close(self.wakes)
        os.close(self.wake)


def serve(path, names):
    die_with(os.getppid())
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            pass
    gc.freeze()  # what is collected is the programs' own
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        sys.exit(f"import_once.py: {', '.join(names)} have started {threads - 1} threads")
    return Server(path).serve()


def become(told):
    """The program that a run has asked for, in this process."""
    import runpy
    import types
    import warnings

    os.chdir(told["directory"])
    os.environ.clear()
    os.environ.update(told["environment"])
    os.sched_setaffinity(0, told["affinity"])
    arguments = told["arguments"]
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])
        sys.warnoptions[:] = [arguments[1]]
        arguments = arguments[2:]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = arguments[1:]
        runpy._run_module_as_main(arguments[1], alter_argv=True)
    elif arguments[0] == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), main.__dict__)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        sys.argv = arguments
        main.__file__ = arguments[0]
        with open(arguments[0], "rb") as file:
            program = compile(file.read(), arguments[0], "exec")
        exec(program, main.__dict__)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3:])
    become(serve(sys.argv[2], sys.argv[3:]))

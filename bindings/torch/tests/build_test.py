"""The backend in C++ is compiled once, by one process, and whatever prevents that is survived: python3 build_test.py

No compiler is needed: scripts take its place, which say what they do in a file.
"""

import contextlib
import errno
import fcntl
import json
import logging
import multiprocessing
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import unittest
import warnings
from unittest import mock

import torch
import tutti_torch
from tutti_torch import _native

# What does not work in a process: file systems that know no locks, or are full.


def no_locks(where):
    def flock(file, how, lock=fcntl.flock):
        if where in os.readlink(f"/proc/self/fd/{file.fileno()}"):
            raise OSError(errno.ENOLCK, "No locks available")
        lock(file, how)

    return mock.patch.object(fcntl, "flock", flock)


def no_room(module, function):
    return mock.patch.object(module, function, side_effect=OSError(errno.ENOSPC, "No space left on device"))


def decide(rank, seconds, environment, broken, told):
    """What a rank of a program does, in a process of its own."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # that of the other process
    logging.disable()
    with broken, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            made = _native.module(rank, seconds)
            told.send(f"{'none' if made is None else 'made'} {[str(warning.message) for warning in said]}")
        except RuntimeError as error:
            told.send(f"raised {error}")
        except BaseException as error:
            told.send(f"another error: {error!r}")


# Scripts that stand in for a compiler: one fails, the other one never ends.
FAILS = "echo 'backend.cpp:1: error: no such thing' >&2; exit 1"
SLEEPS = "sleep 1000 & echo $! >>%s.sleeping; wait"


# They have PyTorch from the start, which takes seconds to import.
PROCESSES = multiprocessing.get_context("fork")


@unittest.skipUnless(_native.is_new_enough(), f"PyTorch {torch.__version__} has no backend in C++")
class Build(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name
        self.log = os.path.join(self.place, "called")

    def compiler(self, script):
        path = os.path.join(self.place, "compiler")
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\necho called >>{self.log}\n{script}\n")
        os.chmod(path, 0o700)
        return path

    def begin(self, rank=0, seconds=100.0, broken=contextlib.nullcontext(), **environment):
        own = {
            "CXX": os.path.join(self.place, "compiler"),
            "XDG_CACHE_HOME": os.path.join(self.place, "cache"),
            "TMPDIR": self.place,
            **environment,
        }
        inherited = {name: value for name, value in os.environ.items() if name not in ("LOCAL_RANK", _native.MODE)}
        hears, tells = PROCESSES.Pipe(duplex=False)
        process = PROCESSES.Process(target=decide, args=(rank, seconds, {**inherited, **own}, broken, tells))
        process.start()
        tells.close()
        return process, hears

    def said(self, *begun):
        return [self.end(*one) for one in begun]

    def end(self, process, hears):
        try:
            return hears.recv() if hears.poll(300) else "nothing in time"
        except EOFError:
            return "nothing"
        finally:
            process.kill()
            process.join()

    def calls(self):
        if not os.path.exists(self.log):
            return 0
        with open(self.log) as file:
            return len(file.readlines())

    def test_a_failed_build_is_tried_once_and_warned_of_once(self):
        self.compiler(FAILS)
        ranks = [self.begin(rank) for rank in range(3)]
        said = self.said(*ranks)
        self.assertIn("no such thing", said[0])
        self.assertEqual(said[1:], ["none []"] * 2)
        self.assertEqual(self.calls(), 1)
        self.assertIn("before", self.said(self.begin())[0])
        self.assertEqual(self.calls(), 1)
        again = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tutti_torch"],
            env={**os.environ, "CXX": os.path.join(self.place, "compiler"), "XDG_CACHE_HOME": f"{self.place}/cache"},
            capture_output=True,
            text=True,
        )
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("no such thing", again.stderr)
        self.assertEqual(self.calls(), 2)

    def test_no_compiler_is_a_warning_or_an_error(self):
        absent = os.path.join(self.place, "absent")
        asked = [self.begin(CXX=absent), self.begin(CXX=absent, **{_native.MODE: "cpp"})]
        warned, raised = self.said(*asked)
        self.assertRegex(warned, "^none .*no C[+][+] compiler")
        self.assertRegex(raised, "^raised .*no C[+][+] compiler")
        self.assertEqual(self.said(self.begin(CXX=absent, **{_native.MODE: "python"})), ["none []"])

    def test_what_is_no_library_is_not_loaded(self):
        # The file that -o names.
        self.compiler('while [ "$1" != -o ]; do shift; done; echo nothing >"$2"')
        self.assertRegex(self.said(self.begin())[0], "^none .*cannot be loaded")

    def test_waiting_ends_and_leaves_no_compiler(self):
        self.compiler(SLEEPS % self.log)
        began = time.monotonic()
        ranks = [self.begin(rank, seconds=2.0) for rank in range(3)]
        said = self.said(*ranks)
        self.assertRegex(said[0], "^none .*not done in time")
        self.assertEqual(said[1:], ["none []"] * 2)
        self.assertLess(time.monotonic() - began, 300)
        if os.path.exists(self.log + ".sleeping"):  # it may have been ended earlier
            with open(self.log + ".sleeping") as file:
                for pid in file.read().split():
                    self.assertFalse(is_running(int(pid)), "a compiler is left")

    def test_a_killed_builder_is_followed_by_another(self):
        self.compiler(SLEEPS % self.log)
        first, _ = self.begin()
        until = time.monotonic() + 100
        while not os.path.exists(self.log + ".sleeping") and time.monotonic() < until:
            time.sleep(0.05)
        first.kill()
        first.join()
        with open(self.log + ".sleeping") as file:
            os.kill(int(file.read()), 9)  # nobody else looks after it now
        self.compiler(FAILS)
        self.assertIn("no such thing", self.said(self.begin())[0])
        folder = os.path.join(self.place, "cache", "tutti", "torch")
        self.assertEqual([name for name in os.listdir(folder) if ".build-" in name], [])

    def test_a_failed_build_is_tried_again_later(self):
        self.compiler("echo 'c++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1")
        self.assertIn("Killed", self.said(self.begin())[0])
        folder = os.path.join(self.place, "cache", "tutti", "torch")
        (failed,) = [name for name in os.listdir(folder) if name.endswith(".failed")]
        past = time.time() - _native.REMEMBERED_SECONDS - 60
        os.utime(os.path.join(folder, failed), (past, past))
        self.compiler(FAILS)
        self.assertIn("no such thing", self.said(self.begin())[0])
        self.assertEqual(self.calls(), 2)

    def test_a_file_system_without_locks_is_passed_over(self):
        self.compiler(FAILS)
        said = self.said(self.begin(broken=no_locks("/cache/")))[0]
        self.assertIn(os.path.join(self.place, f"tutti-torch-{os.getuid()}"), said)
        said = self.said(self.begin(broken=no_locks(self.place)))[0]
        self.assertRegex(said, "^none .*none of these folders .*No locks available")

    def test_a_full_disk_is_survived(self):
        self.compiler(FAILS)
        for what in ((os, "makedirs"), (tempfile, "TemporaryDirectory")):
            said = self.said(self.begin(broken=no_room(*what)))[0]
            self.assertRegex(said, "^none .*none of these folders .*No space left on device")
            self.assertEqual(self.calls(), 0)
            shutil.rmtree(os.path.join(self.place, "cache"), ignore_errors=True)
            shutil.rmtree(os.path.join(self.place, f"tutti-torch-{os.getuid()}"), ignore_errors=True)

    def test_a_compiler_without_room_gets_another_folder(self):
        full = "echo 'fatal error: error writing to x.s: No space left on device' >&2; exit 1"
        self.compiler(f'case "$TMPDIR" in */cache/*) {full};; esac; {FAILS}')
        said = self.said(self.begin())[0]
        self.assertIn("no such thing", said)
        self.assertIn(os.path.join(self.place, f"tutti-torch-{os.getuid()}"), said)
        self.assertEqual(self.calls(), 2)
        # Where no folder has room, that is found out once for all ranks.
        self.compiler(full)
        shutil.rmtree(os.path.join(self.place, f"tutti-torch-{os.getuid()}"))
        said = self.said(*[self.begin(rank) for rank in range(3)])
        self.assertRegex(said[0], "^none .*none of these folders .*No space left on device")
        self.assertEqual(said[1:], ["none []"] * 2)
        self.assertEqual(self.calls(), 4)

    def test_every_file_that_is_compiled_counts(self):
        sources = shutil.copytree(_native._SOURCES, os.path.join(self.place, "native"))
        shutil.copytree(os.path.join(_native._headers(), "tutti"), os.path.join(sources, "tutti"), dirs_exist_ok=True)
        with mock.patch.multiple(_native, _SOURCES=sources, _HEADERS=(sources,)):
            names = [_native._name(["c++"])]
            self.assertEqual(_native._name(["c++"]), names[0])
            for folder, _, files in os.walk(sources):
                for file in files:
                    with open(os.path.join(folder, file), "a") as changed:
                        changed.write("\n")
                    names.append(_native._name(["c++"]))
        self.assertGreater(len(names), 7)
        self.assertEqual(len(set(names)), len(names))

    def ready_made(self, **other):
        """The package of a wheel tutti-torch for what is here, but for some facts, with a library that is none."""
        package = os.path.join(self.place, "packages", _native.READY_MADE)
        os.makedirs(package, exist_ok=True)
        for name, text in {
            "__init__.py": "",
            "built_for.json": json.dumps({**_native.facts(), **other}),
            f"_backend.{sysconfig.get_config_var('SOABI')}.so": "nothing",
        }.items():
            with open(os.path.join(package, name), "w") as file:
                file.write(text)
        return package

    def without_compiler(self):
        """The text of the warning where nothing can be compiled, by processes that find that package."""
        path = [os.path.join(self.place, "packages"), *sys.path]
        environment = {"CXX": os.path.join(self.place, "absent"), _native.MODE: "cpp"}
        return self.said(self.begin(broken=mock.patch.object(sys, "path", path), **environment))[0]

    def test_what_is_ready_made_for_others_is_not_loaded(self):
        self.ready_made()
        fits = self.without_compiler()
        self.assertRegex(fits, f"^raised .*no C[+][+] compiler.*; .*/{_native.READY_MADE}/_backend.*cannot be loaded")
        for name, words in {
            "torch": "PyTorch other, and here is PyTorch " + torch.__version__,
            "commit": "the PyTorch of commit other, and here is",
            "cxx11_abi": "a PyTorch with _GLIBCXX_USE_CXX11_ABI=other, and here is",
            "python": "Python other, and here is Python ",
            "tutti": "tutti-comm other, and here is tutti-comm ",
            "sources": "sources with the digest other, and here is",
        }.items():
            self.ready_made(**{name: "other"})
            said = self.without_compiler()
            self.assertIn("no C++ compiler", said)
            self.assertIn("; the installed tutti-torch is for " + words, said)
            self.assertNotIn("cannot be loaded", said)

    def test_what_is_ready_made_and_damaged_is_named(self):
        package = self.ready_made()
        for text in ("", "[]", "{}", '"torch"', "\0"):
            with open(os.path.join(package, "built_for.json"), "w") as file:
                file.write(text)
            self.assertRegex(self.without_compiler(), "^raised .*; the installed tutti-torch is damaged: .*built_for.json")
        os.remove(os.path.join(package, "built_for.json"))
        self.assertRegex(self.without_compiler(), "^raised .*; the installed tutti-torch is damaged: .*No such file")

    def test_what_does_not_fit_is_compiled(self):
        self.ready_made(torch="1.0")
        self.compiler(FAILS)
        path = mock.patch.object(sys, "path", [os.path.join(self.place, "packages"), *sys.path])
        self.assertRegex(self.said(self.begin(broken=path))[0], "^none .*no such thing.*; the installed tutti-torch is for PyTorch 1.0")
        self.assertEqual(self.calls(), 1)

    def test_the_second_folder_is_used_where_the_first_cannot_be(self):
        self.compiler(FAILS)
        with open(os.path.join(self.place, "file"), "w"):
            pass
        said = self.said(self.begin(XDG_CACHE_HOME=os.path.join(self.place, "file")))[0]
        self.assertIn(os.path.join(self.place, f"tutti-torch-{os.getuid()}"), said)
        # Nor is that, when others can write to it.
        os.chmod(os.path.join(self.place, f"tutti-torch-{os.getuid()}"), 0o777)
        said = self.said(self.begin(XDG_CACHE_HOME=os.path.join(self.place, "file")))[0]
        self.assertRegex(said, "^none .*none of these folders .*others can write to it")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


tutti_torch.register()
unittest.main()

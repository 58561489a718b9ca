"""The backend in C++ is compiled once, by one process, and whatever prevents that is survived: python3 build_test.py

No compiler is needed: scripts take its place, which say what they do in a file.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import torch
import tutti_torch
from tutti_torch import _native

PROGRAM = """
import sys, warnings
from tutti_torch import _native
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    try:
        made = _native.module(int(sys.argv[1]), float(sys.argv[2]))
        print("none" if made is None else "made", [str(warning.message) for warning in said])
    except RuntimeError as error:
        print("raised", error)
"""

# Scripts that stand in for a compiler: one fails, the other one never ends.
FAILS = "echo 'backend.cpp:1: error: no such thing' >&2; exit 1"
SLEEPS = "sleep 1000 & echo $! >>%s.sleeping; wait"


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

    def begin(self, rank=0, seconds=100.0, **environment):
        own = {
            "CXX": os.path.join(self.place, "compiler"),
            "XDG_CACHE_HOME": os.path.join(self.place, "cache"),
            "TMPDIR": self.place,
            **environment,
        }
        inherited = {name: value for name, value in os.environ.items() if name not in ("LOCAL_RANK", _native.MODE)}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, str(rank), str(seconds)],
            env={**inherited, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def said(self, *begun):
        return [process.communicate(timeout=300)[0].strip() for process in begun]

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
        first = self.begin()
        until = time.monotonic() + 100
        while not os.path.exists(self.log + ".sleeping") and time.monotonic() < until:
            time.sleep(0.05)
        first.kill()
        first.communicate()
        with open(self.log + ".sleeping") as file:
            os.kill(int(file.read()), 9)  # nobody else looks after it now
        self.compiler(FAILS)
        self.assertIn("no such thing", self.said(self.begin())[0])
        folder = os.path.join(self.place, "cache", "tutti", "torch")
        self.assertEqual([name for name in os.listdir(folder) if ".build-" in name], [])

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

    def test_the_second_folder_is_used_where_the_first_cannot_be(self):
        self.compiler(FAILS)
        with open(os.path.join(self.place, "file"), "w"):
            pass
        said = self.said(self.begin(XDG_CACHE_HOME=os.path.join(self.place, "file")))[0]
        self.assertIn(os.path.join(self.place, f"tutti-torch-{os.getuid()}"), said)
        # Nor is that, when others can write to it.
        os.chmod(os.path.join(self.place, f"tutti-torch-{os.getuid()}"), 0o777)
        said = self.said(self.begin(XDG_CACHE_HOME=os.path.join(self.place, "file")))[0]
        self.assertRegex(said, "^none .*none of .* can be written to")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


tutti_torch.register()
unittest.main()

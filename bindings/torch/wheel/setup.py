"""Compiles what `tutti_torch` otherwise compiles on first use, with the same command, and says what it is for (built_for.json).

Its version has a label for PyTorch's: 0.1.0+torch2.13.0.cpu. PyTorch keeps no ABI between its versions, so tutti_torch takes it for exactly
this PyTorch, this Python and this version of Tutti, and asks for these as far as a wheel can.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig

import torch
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "bindings", "torch", "src"), os.path.join(ROOT, "bindings", "python", "src")]

from tutti_torch import _native  # noqa: E402: it is in the tree

FACTS = _native.facts()
PACKAGE = _native.READY_MADE


class Compile(build_ext):
    def build_extension(self, extension):
        made = self.get_ext_fullpath(extension.name)
        os.makedirs(os.path.dirname(made), exist_ok=True)
        # Texts of PyTorch's checks name its headers, which are elsewhere at the user's.
        names = [f"-ffile-prefix-map={folder}/=" for folder in (os.path.dirname(os.path.dirname(torch.__file__)), ROOT)]
        subprocess.run([*_native.command(_native.compiler(), made), *names], check=True)


class Say(build_py):
    def run(self):
        super().run()
        folder = os.path.join(self.build_lib, PACKAGE)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "built_for.json"), "w") as file:
            json.dump(FACTS, file, indent=1)


label = re.sub("[^a-z0-9]+", ".", FACTS["torch"].lower())
python = ".".join(sysconfig.get_python_version().split(".")[:2])
setup(
    version=f"{FACTS['tutti']}+torch{label}",
    python_requires=f"=={python}.*",
    install_requires=[f"tutti-comm=={FACTS['tutti']}", f"torch=={FACTS['torch'].split('+')[0]}"],
    packages=[PACKAGE],
    package_dir={PACKAGE: PACKAGE},
    ext_modules=[Extension(f"{PACKAGE}._backend", [])],
    cmdclass={"build_ext": Compile, "build_py": Say},
)

"""The backend in C++ (native/backend.cpp): ready made by the wheel tutti-torch, or compiled on first use, and loaded.

    ready made, for this PyTorch, Python and Tutti ───────► loaded
        not there, or for others ─► found in the cache ───► loaded
        not there ─► lock ─► compiled beside it, renamed ─► loaded
                       └──── no compiler, an error, too late ─► None: the group of _group.py alone does it

Invariants
  1. However many processes begin at once, one compiles and the others wait for it, none of them for ever.
  2. A file of the cache is whole: it gets its name when it is finished. Only this user can write there.
  3. An attempt that failed is remembered for a while, for the same sources, PyTorch, Python and compiler: the processes that begin
     together, and those that a launcher starts again, do not make it one after the other.
  4. Whatever the file system or the compiler refuses is a CannotBuild, never another error.
  5. A ready-made part is loaded only if all of facts() are as when it was made: PyTorch keeps no ABI between its versions.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import importlib.machinery
import importlib.util
import json
import logging
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

MODE = "TUTTI_TORCH_BACKEND"
MODES = ("auto", "cpp", "python")
OLDEST_TORCH = (2, 13)
LIMIT_SECONDS = 300.0
REMEMBERED_SECONDS = 600.0  # an attempt that failed
READY_MADE = "tutti_torch_ready"  # the package in the wheel tutti-torch (bindings/torch/wheel)

# It passes calls on: what -O2 adds is only time to compile.
_FLAGS = [
    *("-std=c++20", "-O1", "-g0", "-fPIC", "-shared", "-fvisibility=hidden"),
    f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
]
# What a compiler says where another folder may have room.
_NO_ROOM = {errno.ENOSPC: "No space left on device", errno.EDQUOT: "Disk quota exceeded"}
_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCES = os.path.join(_HERE, "native")
# The library's header: of a wheel, and of a source tree.
_HEADERS = (_SOURCES, os.path.join(_HERE, "..", "..", "..", "..", "include"))


class CannotBuild(RuntimeError):
    """Why there is no backend in C++."""


_module: Any = None
_has_decided = False


def module(rank: int, limit_seconds: float) -> Any:
    """The module with the class Backend, or None where the group in Python has to do. Decided once in a process.

    It warns, once on a host, unless Python was asked for; and raises where C++ was.
    """
    global _module, _has_decided
    if not _has_decided:
        _module = _decide(rank, min(LIMIT_SECONDS, limit_seconds))
        _has_decided = True
    return _module


def _decide(rank: int, limit_seconds: float) -> Any:
    mode = os.environ.get(MODE) or "auto"
    if mode not in MODES:
        raise ValueError(f"{MODE} is {mode!r}, and should be one of {', '.join(MODES)}")
    if mode == "python" or (mode == "auto" and not is_new_enough()):
        return None
    try:
        return load(limit_seconds)
    except CannotBuild as error:
        if mode == "cpp":
            raise
        if int(os.environ.get("LOCAL_RANK", rank)) == 0:
            warnings.warn(
                f"Tutti's backend in C++ is not there: {error}. The one in Python takes its place: PyTorch's compiler"
                f" and profiler do not see its calls. {MODE}=python says that this is as it should be.",
                RuntimeWarning,
                stacklevel=2,
            )
        return None


def load(limit_seconds: float, again: bool = False) -> Any:
    """Loads what is ready made, else compiles what has to be and loads that. `again`: also after an attempt that failed."""
    if not is_new_enough():
        oldest = ".".join(str(part) for part in OLDEST_TORCH)
        raise CannotBuild(f"it is for PyTorch {oldest} and later, and this is {torch.__version__}")
    file, why_not = _find_ready_made()
    if file is not None:
        try:
            return _load_file(file)
        except CannotBuild as error:
            why_not = str(error)
    try:
        return _load_file(_find_or_build(limit_seconds, again, why_not))
    except CannotBuild as error:
        hint = why_not or "the wheel tutti-torch, which needs no compiler, is not installed"
        raise CannotBuild(f"{error}; {hint}") from error


def _find_or_build(limit_seconds: float, again: bool, why_not_ready_made: Optional[str]) -> str:
    with_compiler = compiler()
    try:
        name = _name(with_compiler)
    except OSError as error:
        raise CannotBuild(f"its sources cannot be read: {error}") from error
    file = _find(name)
    if file is None:
        if why_not_ready_made is not None:
            logging.getLogger("tutti_torch").warning("%s, so it is not used", why_not_ready_made)
        file = _build(with_compiler, name, time.monotonic() + limit_seconds, again)
    return file


def _load_file(file: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("tutti_torch._backend", file)
    spec = importlib.util.spec_from_file_location(loader.name, file, loader=loader)
    assert spec is not None
    try:
        made = importlib.util.module_from_spec(spec)
        loader.exec_module(made)
    except ImportError as error:
        raise CannotBuild(f"{file} cannot be loaded: {error}") from error
    return made


def is_new_enough() -> bool:
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= OLDEST_TORCH


# --------------------------------------------------------------------------------------------------- what is ready made


def facts() -> Dict[str, str]:
    """All that a compiled file depends on, but the compiler. CannotBuild where the sources cannot be read."""
    from tutti import __version__

    digest = hashlib.sha256()
    try:
        _add_sources(digest)
    except OSError as error:
        raise CannotBuild(f"its sources cannot be read: {error}") from error
    return {
        "torch": torch.__version__,
        "commit": str(torch.version.git_version),
        "cxx11_abi": str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
        "python": str(sysconfig.get_config_var("SOABI")),
        "tutti": __version__,
        "sources": digest.hexdigest(),
    }


_WORDS = {
    "torch": "PyTorch {}",
    "commit": "the PyTorch of commit {}",
    "cxx11_abi": "a PyTorch with _GLIBCXX_USE_CXX11_ABI={}",
    "python": "Python {}",
    "tutti": "tutti-comm {}",
    "sources": "sources with the digest {:.16}",
}


def _find_ready_made() -> Tuple[Optional[str], Optional[str]]:
    """The file, or why the one that is installed does not fit; neither where none is installed."""
    try:
        spec = importlib.util.find_spec(READY_MADE)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        return None, None
    folder = list(spec.submodule_search_locations)[0]
    path = os.path.join(folder, "built_for.json")
    try:
        with open(path, encoding="utf-8") as file:
            made_for = json.load(file)
        made_for = {name: str(made_for[name]) for name in _WORDS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, f"the installed tutti-torch is damaged: {path} cannot be read ({error!r}); install it again"
    for name, is_here in facts().items():
        if made_for[name] != is_here:
            words = _WORDS[name]
            return None, f"the installed tutti-torch is for {words.format(made_for[name])}, and here is {words.format(is_here)}"
    return os.path.join(folder, f"_backend.{made_for['python']}.so"), None


# ------------------------------------------------------------------------------------------------------- the cache


def _folders() -> List[str]:
    """Where files are looked for, and built: the first one that serves for that."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    # Not every user has a home.
    folders = [os.path.join(home, "tutti", "torch")] if os.path.isabs(home) else []
    with contextlib.suppress(OSError):
        folders.append(os.path.join(tempfile.gettempdir(), f"tutti-torch-{os.getuid()}"))
    return folders


def _is_ours(path: str) -> bool:
    """Whether nobody else can have written it: a library that is loaded runs as this user."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_uid == os.getuid() and not stat.S_ISLNK(found.st_mode) and not found.st_mode & 0o022


def _find(name: str) -> Optional[str]:
    for folder in _folders():
        file = os.path.join(folder, name + ".so")
        if _is_ours(folder) and _is_ours(file):
            return file
    return None


def _heed_failure(name: str) -> None:
    """Raises why an attempt failed a while ago. What was in its way may be gone later: memory, say, or a package."""
    for folder in _folders():
        file = os.path.join(folder, name + ".failed")
        try:
            if not _is_ours(folder) or abs(time.time() - os.stat(file).st_mtime) > REMEMBERED_SECONDS:
                continue
            with open(file, errors="replace") as told:
                output = told.read()
        except OSError:
            continue
        raise CannotBuild(
            f"it could not be compiled before ({_error_of(output)}; all of it in {file});"
            " `python -m tutti_torch` tries again at once"
        )


def _remember_failure(folder: str, name: str, output: str) -> str:
    """Gives the name of the file. It is there without its text where the disk is full, which says enough."""
    file = os.path.join(folder, name + ".failed")
    with contextlib.suppress(OSError), open(file, "w") as log:
        log.write(output)
    return file


def _name(with_compiler: List[str]) -> str:
    """Another one for everything that a compiled file depends on."""
    digest = hashlib.sha256()
    for part in (
        torch.__version__,
        str(torch.version.git_version),
        str(sysconfig.get_config_var("SOABI")),
        " ".join([*with_compiler, *_FLAGS]),
    ):
        digest.update(part.encode() + b"\0")
    _add_sources(digest)
    return f"torch-{torch.__version__}-{sys.implementation.cache_tag}-{digest.hexdigest()[:16]}"


def _add_sources(digest: Any) -> None:
    """The same for a wheel, which has the library's headers among the sources, and for a source tree, which has them elsewhere."""
    headers = os.path.join(_headers(), "tutti")
    for folder in (_SOURCES, headers):
        for file in sorted(_files_of(folder)):
            if folder == _SOURCES and file.startswith(os.path.join(headers, "")):
                continue
            digest.update(os.path.relpath(file, folder).encode() + b"\0")
            with open(file, "rb") as source:
                digest.update(source.read() + b"\0")


def _files_of(folder: str) -> Iterator[str]:
    """All that may be compiled, also in folders below."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".h", ".cpp")):
                yield os.path.join(place, name)


def _headers() -> str:
    for folder in _HEADERS:
        if os.path.exists(os.path.join(folder, "tutti", "tutti.h")):
            return os.path.normpath(folder)
    raise CannotBuild(f"tutti/tutti.h is in neither of {', '.join(_HEADERS)}")


# ------------------------------------------------------------------------------------------------------ the build


def compiler() -> List[str]:
    """$CXX, or the first that is here."""
    try:
        named = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise CannotBuild(f"CXX cannot be understood: {error}") from None
    for candidate in (named,) if named else (["c++"], ["g++"], ["clang++"]):
        if shutil.which(candidate[0]):
            return candidate
    raise CannotBuild("it has to be compiled once, and there is no C++ compiler" + (f" {named[0]}" if named else ""))


def _build(with_compiler: List[str], name: str, until: float, again: bool) -> str:
    """Locks of folders that did not serve are kept until it is over: whoever waits for them then finds the file, or the failure."""
    problems = []
    with contextlib.ExitStack() as locks:
        for folder in _folders():
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                if not _is_ours(folder):
                    raise OSError("others can write to it")
                locks.enter_context(_lock(os.path.join(folder, name + ".lock"), until))
                file = _find(name)
                if file is not None:
                    return file  # another process was faster
                if not again:
                    _heed_failure(name)
                return _build_in(folder, with_compiler, name, until)
            except OSError as error:
                problems.append(f"{folder} ({error.strerror or error})")
        problem = f"it has to be compiled once, which none of these folders serves for: {', '.join(problems)}"
        for folder in _folders():
            if _is_ours(folder):
                _remember_failure(folder, name, problem)
    raise CannotBuild(problem)


def _build_in(folder: str, with_compiler: List[str], name: str, until: float) -> str:
    """The caller has the folder's lock. OSError: another folder may do."""
    logging.getLogger("tutti_torch").warning(
        "Tutti's backend for PyTorch %s is compiled now, once, which takes up to a minute", torch.__version__
    )
    for left_over in glob.glob(os.path.join(glob.escape(folder), name + ".build-*")):
        shutil.rmtree(left_over, ignore_errors=True)  # by a process that was killed
    file = os.path.join(folder, name + ".so")
    with tempfile.TemporaryDirectory(dir=folder, prefix=name + ".build-") as place:
        made = os.path.join(place, "backend.so")
        output = _run(command(with_compiler, made), place, until)
        if output is not None:
            for code, text in _NO_ROOM.items():
                if text in output:
                    raise OSError(code, text)
            failed = _remember_failure(folder, name, output)
            raise CannotBuild(f"it could not be compiled ({_error_of(output)}; all of it in {failed})")
        os.chmod(made, 0o700)
        with open(made, "rb") as whole:
            os.fsync(whole.fileno())  # before it has its name
        os.replace(made, file)
    for other in _folders():
        with contextlib.suppress(OSError):
            os.remove(os.path.join(other, name + ".failed"))
    return file


def command(with_compiler: List[str], made: str) -> List[str]:
    """What compiles the sources to the file `made`."""
    root = os.path.dirname(torch.__file__)
    include = os.path.join(root, "include")
    folders = [include, os.path.join(include, "torch", "csrc", "api", "include"), sysconfig.get_path("include")]
    return [
        *with_compiler,
        *_FLAGS,
        f"-I{_headers()}",
        *[word for folder in folders for word in ("-isystem", folder)],
        os.path.join(_SOURCES, "backend.cpp"),
        *("-o", made, "-L" + os.path.join(root, "lib"), "-ltorch_python", "-ltorch_cpu", "-lc10"),
    ]


def _run(words: List[str], place: str, until: float) -> Optional[str]:
    """None when the command succeeds, otherwise what it said. It and its children end by the deadline, and have all their files
    in that place."""
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C", "TMPDIR": place},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise CannotBuild(
            "it has to be compiled once, which is not done in time; `python -m tutti_torch` does it beforehand"
        ) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return None if process.returncode == 0 else output or f"{words[0]} ended with {process.returncode}"


def _error_of(output: str) -> str:
    """The first error that a compiler tells."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "it said nothing")


@contextlib.contextmanager
def _lock(path: str, until: float) -> Iterator[None]:
    """One process of the host has it; it is let go of with the process that has it, however that ends."""
    with open(path, "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise CannotBuild(f"another process compiles it, which is not done in time (it has {path})") from None
                time.sleep(0.05)
        yield

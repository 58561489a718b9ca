#!/usr/bin/env python3
"""release.py - what a release needs besides work (docs/develop/releasing.md).

    scripts/release.py check             whether all files that name the version name that of include/tutti/tutti.h
    scripts/release.py set VERSION       makes them name another one, such as 0.3.0, released today
    scripts/release.py archive FOLDER    writes tutti-VERSION.tar.gz of the last commit, and SHA256SUMS, to the folder

The exit status is 1, and the output says why, if something does not fit.
"""
import datetime
import email.utils
import gzip
import hashlib
import os
import pathlib
import re
import subprocess
import sys

HEADER = "include/tutti/tutti.h"
NEXT = "## Next"    # the heading in CHANGELOG.md of what no release has yet
DATE = r"\d{4}-\d\d-\d\d"
VERSION = r"\d+\.\d+\.\d+"


class ReleaseError(Exception):
    """Something does not fit; the text says what."""


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def write(path, text):
    pathlib.Path(path).write_text(text, encoding="utf-8")


def find(path, pattern):
    """The groups of the first match in a file."""
    found = re.search(pattern, read(path), re.M)
    if not found:
        raise ReleaseError("%s does not have %r" % (path, pattern))
    return found.groups()


def header_version():
    return ".".join(find(HEADER, r"#define TUTTI_VERSION_%s (\d+)$" % part)[0] for part in ("MAJOR", "MINOR", "PATCH"))


# Files that name the version, and where: the first group is the version.
PLACES = {
    "CITATION.cff": r"^version: (.*)$",
    "CHANGELOG.md": r"^## (%s), %s$" % (VERSION, DATE),
    "debian/changelog": r"\Atutti \((.*)-[^-]*\)",
    "share/spack/spack_repo/tutti/packages/tutti/package.py": r'^    version\("(%s)", tag="v\1"\)$' % VERSION,
}


def check():
    version = header_version()
    faults = ["%s has version %s, and %s has %s" % (path, found, HEADER, version)
              for path, found in ((path, find(path, pattern)[0]) for path, pattern in PLACES.items()) if found != version]
    released, = find("CITATION.cff", r"^date-released: (%s)$" % DATE)
    listed = find("CHANGELOG.md", r"^## (%s), (%s)$" % (VERSION, DATE))[1]
    if released != listed:
        faults.append("CITATION.cff was released on %s, and CHANGELOG.md on %s" % (released, listed))
    for heading in re.findall(r"^## (.*)$", read("CHANGELOG.md"), re.M)[1:]:
        if heading == NEXT[3:]:
            faults.append("CHANGELOG.md: %r stands below a release" % NEXT)
    if faults:
        raise ReleaseError("\n".join(faults))
    return version


def replace(path, pattern, text):
    changed, count = re.subn(pattern, lambda _: text, read(path), count=1, flags=re.M)
    if count != 1:
        raise ReleaseError("%s does not have %r" % (path, pattern))
    write(path, changed)


def set_version(version):
    if not re.fullmatch(VERSION, version):
        raise ReleaseError("%r is no version: it has the form 0.3.0" % version)
    old = check()
    if [int(part) for part in version.split(".")] <= [int(part) for part in old.split(".")]:
        raise ReleaseError("%s is not later than %s" % (version, old))
    if not re.search("^%s$" % NEXT, read("CHANGELOG.md"), re.M):
        raise ReleaseError("CHANGELOG.md says nothing of this release: write it below %r" % NEXT)
    now = datetime.datetime.now(datetime.timezone.utc)
    today = now.date().isoformat()
    for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split(".")):
        replace(HEADER, r"^#define TUTTI_VERSION_%s \d+$" % part, "#define TUTTI_VERSION_%s %s" % (part, number))
    replace("CHANGELOG.md", "^%s$" % NEXT, "## %s, %s" % (version, today))
    replace("CITATION.cff", "^version: .*$", "version: " + version)
    replace("CITATION.cff", "^date-released: .*$", "date-released: " + today)
    recipe = "share/spack/spack_repo/tutti/packages/tutti/package.py"
    line = '    version("%s", tag="v%s")'
    replace(recipe, "^" + re.escape(line % (old, old)) + "$", line % (version, version) + "\n" + line % (old, old))
    maintainer, = find("debian/control", "^Maintainer: (.*)$")
    write("debian/changelog", "tutti (%s-1) unstable; urgency=medium\n\n  * New version; its CHANGELOG.md says what is new.\n\n -- %s  %s\n\n%s" % (
        version, maintainer, email.utils.format_datetime(now), read("debian/changelog")))
    check()
    print("now: make reference, and read `git diff`")


def git(*words):
    return subprocess.run(["git", *words], check=True, stdout=subprocess.PIPE).stdout


def archive(folder):
    version = check()
    if git("status", "--porcelain"):
        raise ReleaseError("there are changes that are in no commit")
    name = "tutti-%s.tar.gz" % version
    packed = gzip.compress(git("archive", "--format=tar", "--prefix=tutti-%s/" % version, "HEAD"), mtime=0)    # the same bytes each time
    place = pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(packed)
    write(place / "SHA256SUMS", "%s  %s\n" % (hashlib.sha256(packed).hexdigest(), name))
    print(place / name)


def main():
    words = sys.argv[1:]
    if len(words) == 2 and words[0] == "archive":
        words[1] = os.path.abspath(words[1])
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    try:
        if words == ["check"]:
            print(check())
        elif len(words) == 2 and words[0] == "set":
            set_version(words[1])
        elif len(words) == 2 and words[0] == "archive":
            archive(words[1])
        else:
            print(__doc__, file=sys.stderr)
            sys.exit(2)
    except (ReleaseError, OSError, subprocess.CalledProcessError) as error:
        sys.exit("release.py: %s" % error)


if __name__ == "__main__":
    main()

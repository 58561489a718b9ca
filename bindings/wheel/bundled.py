"""bundled.py - adds to a wheel the list of the libraries in it, with their licences.

    bundled.py WHEEL ARCHIVES      ARCHIVES: a file that names the archives that were linked into the wheel's files, one a line

The list is licenses/BUNDLED.md in the wheel's dist-info folder; beside it bundled/ has each library's notice of copyright and licence.
Versions and notices are those of the Debian packages from which the libraries come. A library without a licence in LICENCES is an error:
somebody has to read its licence first.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

# By source package: the licence of the library, and the file of /usr/share/common-licenses that its notice refers to.
LICENCES = {
    "expat": ("MIT", None),
    "hwloc": ("BSD-3-Clause", None),
    "jansson": ("MIT", None),
    "openssl": ("Apache-2.0", "Apache-2.0"),
    "systemd": ("LGPL-2.1-or-later", "LGPL-2.1"),
}

HEAD = """# Libraries in this wheel

| library | version | from | licence | notice |
|---|---|---|---|---|
"""
FOOT = """
The versions are those of Debian's source packages, with which Debian publishes all sources. Libraries in `tutti_comm.libs` are loaded when
a program starts, and can be replaced by others of the same interface. The rest are part of the files that use them.
"""


def ask(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def package_of(file):
    """The Debian package that has the file, without its architecture."""
    for name in (file, file.resolve()):
        # Where /lib is a link to /usr/lib, a package may have either name.
        for tried in (str(name), re.sub("^/usr/lib/", "/lib/", str(name))):
            found = subprocess.run(["dpkg-query", "-S", tried], capture_output=True, text=True)
            if found.returncode == 0:
                return found.stdout.split(":")[0]
    sys.exit(f"bundled.py: no Debian package has {file}, so its licence is not known")


def packages_in(wheel, archives):
    """(package, where in the wheel) of what is linked into files, and of what auditwheel has put beside them."""
    linked = {package_of(pathlib.Path(line)) for line in archives.read_text().split()}
    beside = set()
    for bill in wheel.glob("*.dist-info/sboms/auditwheel.cdx.json"):
        for component in json.loads(bill.read_text())["components"]:
            if component["purl"].startswith("pkg:deb/"):
                beside.add(component["name"])
    return [(name, "linked in") for name in sorted(linked)] + [(name, "`tutti_comm.libs`") for name in sorted(beside)]


def add_list(wheel, archives):
    (metadata,) = wheel.glob("*.dist-info")
    notices = metadata / "licenses" / "bundled"
    notices.mkdir(parents=True, exist_ok=True)
    packages = packages_in(wheel, archives)
    grafted = [file for folder in wheel.glob("*.libs") for file in folder.iterdir()]
    if len(grafted) != sum(place != "linked in" for _, place in packages):
        sys.exit(f"bundled.py: {len(grafted)} libraries beside files of the wheel, but packages are {packages}")
    rows = []
    for package, place in packages:
        source, version = ask("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package).split()
        if source not in LICENCES:
            sys.exit(f"bundled.py: LICENCES has no licence of {source} ({package})")
        licence, text = LICENCES[source]
        notice = pathlib.Path("/usr/share/doc", package, "copyright").read_text()
        if text:
            notice += f"\n\n---- {text} ----\n\n" + pathlib.Path("/usr/share/common-licenses", text).read_text()
        (notices / f"{source}.txt").write_text(notice)
        rows.append(f"| {source} | {version} | {place} | {licence} | [bundled/{source}.txt](bundled/{source}.txt) |\n")
    (metadata / "licenses" / "BUNDLED.md").write_text(HEAD + "".join(rows) + FOOT)


def main():
    wheel, archives = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "-d", place, wheel], check=True, stdout=subprocess.DEVNULL)
        (unpacked,) = pathlib.Path(place).iterdir()
        add_list(unpacked, archives)
        subprocess.run([sys.executable, "-m", "wheel", "pack", "-d", wheel.parent, unpacked], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()

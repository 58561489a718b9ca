#!/usr/bin/env python3
"""metadata.py VERSION FOLDER - writes what Python asks about an installed package, from pyproject.toml.

The wheel gets the same from its build. The version comes from there, and PyTorch finds its backend there.
"""
import pathlib
import sys
import tomllib


def main():
    version, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with open("pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    place = folder / ("%s-%s.dist-info" % (project["name"].replace("-", "_"), version))
    place.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: " + project["name"], "Version: " + version, "Summary: " + project["description"],
             "License: Apache-2.0", "Requires-Python: " + project["requires-python"]]
    lines += ["Requires-Dist: " + wish for wish in project["dependencies"]]
    (place / "METADATA").write_text("\n".join(lines) + "\n")
    text = ""
    for group, names in project["entry-points"].items():
        text += "[%s]\n" % group + "".join("%s = %s\n" % pair for pair in names.items())
    (place / "entry_points.txt").write_text(text)
    (place / "INSTALLER").write_text("dpkg\n")


if __name__ == "__main__":
    main()

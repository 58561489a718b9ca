#!/usr/bin/env python3
"""Writes the tables of docs/explanation/performance.md that say which ways messages take, from what tutti-plan says.

    scripts/path_tables.py [--tutti-plan build/bin/tutti-plan] [--check]

Each stands between a line <!-- paths OPTIONS --> and a line <!-- end -->. With --check nothing is written, and the exit status is 1 if a table
is not what tutti-plan says.
"""
import argparse
import difflib
import os
import re
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "explanation", "performance.md")
TABLE = re.compile(r"<!-- paths (.*?) -->\n.*?<!-- end -->", re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tutti-plan", default="build/bin/tutti-plan", metavar="PROGRAM")
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()

    def table(match):
        command = [arguments.tutti_plan, "paths", "--all", *match.group(1).split()]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return "<!-- paths %s -->\n\n%s\n<!-- end -->" % (match.group(1), text)

    with open(PAGE, encoding="utf-8") as file:
        before = file.read()
    after, count = TABLE.subn(table, before)
    if count == 0:
        sys.exit("%s has no tables of paths" % PAGE)
    if arguments.check:
        difference = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "the page", "tutti-plan",
                                               lineterm=""))
        print("\n".join(difference))
        sys.exit(1 if difference else 0)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(after)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the tests of one build folder for ./check, and says of each test what came of it.

    run_tests.py --suite NAME --folder BUILD --kept FOLDER --results FILE -- [PREFIX...] ctest [OPTION...]

A test that fails is run once more, alone, after all others. If it passes then, it is unsteady: it counts as passed, and both
outputs are kept. An unsteady test is a defect, of the test or of what it tests. Some failures are never chance; a test that fails
so is not run again:

  - it died of a signal, or a sanitizer reported something;
  - it hung, so that it or its ranks had to be ended;
  - data was wrong;
  - something was left behind;
  - it could not be started.

If more than `AGAIN_AT_MOST` tests fail in one suite, something is broken, and none is run again.

Each line of the results is "OUTCOME SUITE SECONDS NAME", where OUTCOME is passed, failed, skipped or unsteady. The program
prints the output of each failed test, and a line for each test that failed, was unsteady or was skipped.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

AGAIN_AT_MOST = 5

# Words in the output of a failed test that tell a failure that is never chance. Ranks that a test kills die of SIGKILL or SIGTERM.
NEVER_CHANCE = [
    ("a signal", r"died of signal (?!9\b|15\b)\d+|Segmentation fault|Bus error|core dumped|Assertion .* failed"),
    ("a sanitizer's report", r"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|: runtime error: |Invalid (read|write) of size"),
    ("a hang", r"still there at the deadline|does not come back"),
    ("wrong data", r"\b(is|are) wrong\b|has other bits|^difference at offset|"
                   r"Arrays are not equal|Tensor-likes are not|"
                   r"does not hold: .*(memcmp|elements_|sums?\b|bits|wrong|same|equal)"),
    ("something left behind", r"left behind|left in /dev/shm"),
]

Test = collections.namedtuple("Test", "name outcome seconds output reason")


def never_chance(how, output):
    """Why this failure is never chance, or None. how is ctest's word for it, such as Failed or Timeout."""
    if how != "Failed":
        return {"Timeout": "a hang", "Not Run": "it cannot be started"}.get(how, "a signal")
    for reason, words in NEVER_CHANCE:
        if re.search(words, output, re.MULTILINE):
            return reason
    return None


def run(command, folder, report, log, progress=False):
    """Runs ctest; returns the tests by name, or None if there is no report."""
    report.unlink(missing_ok=True)
    options = ["--test-dir", folder, "--output-on-failure", "--output-junit", report.resolve(), "--output-log", log.resolve()]
    shown = None if progress else subprocess.DEVNULL
    subprocess.run([*command, *options, *(["--progress"] if progress else [])], stdout=shown, stderr=shown, check=False)
    try:
        cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    except (OSError, xml.etree.ElementTree.ParseError):
        return None
    how = dict(re.findall(r"^\s+\d+ - (\S+) \(([^()]*)\)$", log.read_text(errors="replace"), re.MULTILINE))
    tests = {}
    for case in cases:
        name, output = case.get("name"), case.findtext("system-out") or ""
        outcome, reason = "failed", None
        if case.get("status") == "run":
            outcome = "passed"
        elif case.get("status") == "notrun" and how.get(name) == "Skipped":
            outcome = "skipped"
        else:
            reason = never_chance(how.get(name, "Failed"), output)
        tests[name] = Test(name, outcome, float(case.get("time", 0)), output, reason)
    return tests


def run_again(test, command, arguments):
    """Runs a failed test alone; returns what came of both runs together, and keeps both outputs."""
    kept = arguments.kept / f"{arguments.suite}.{test.name.replace('/', '.')}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.with_name(kept.name + ".first.txt").write_text(test.output)
    # The name alone selects: the labels that left out others do not matter.
    alone = [*command[: command.index("ctest") + 1], "-R", f"^{re.escape(test.name)}$"]
    second = (run(alone, arguments.folder, kept.with_name(kept.name + ".xml"), kept.with_name(kept.name + ".second.txt")) or {}).get(test.name)
    if second is None or second.outcome != "passed":
        return second if second and second.reason else test
    return test._replace(outcome="unsteady", seconds=test.seconds + second.seconds)


def main():
    parser = argparse.ArgumentParser(description="Runs the tests of one build folder for ./check.")
    parser.add_argument("--suite", required=True, help="the name that the results get")
    parser.add_argument("--folder", required=True, help="the build folder")
    parser.add_argument("--kept", required=True, type=pathlib.Path, help="where outputs of unsteady tests go")
    parser.add_argument("--results", required=True, type=pathlib.Path, help="a file to which the results are appended")
    parser.add_argument("command", nargs="+", help="ctest with its options, behind what it is to be run by")
    arguments = parser.parse_args()

    terminal = sys.stdout.isatty()
    log = arguments.results.with_name(arguments.suite + "-tests.log")
    tests = run(arguments.command, arguments.folder, arguments.results.with_name(arguments.suite + ".xml"), log, terminal)
    if not tests:
        print(f"  failed {arguments.suite}: " + ("ctest gave no report" if tests is None else "no test was run"))
        with arguments.results.open("a") as results:
            results.write(f"failed {arguments.suite} 0 all\n")
        return

    failed = [test for test in tests.values() if test.outcome == "failed"]
    if len(failed) <= AGAIN_AT_MOST:
        for test in failed:
            if test.reason is None:
                tests[test.name] = run_again(test, arguments.command, arguments)

    with arguments.results.open("a") as results:
        for test in tests.values():
            results.write(f"{test.outcome} {arguments.suite} {test.seconds:.1f} {test.name}\n")
    for test in tests.values():
        if test.outcome == "failed" and not terminal:
            print(f"--- {arguments.suite}: {test.name}\n{test.output.rstrip()}\n---")
    for test in tests.values():
        if test.outcome == "failed":
            print(f"  failed {test.name}" + (f": {test.reason}" if test.reason else ""))
        elif test.outcome == "unsteady":
            print(f"  unsteady: {test.name} (passed when it ran alone)")
        elif test.outcome == "skipped":
            lines = test.output.strip().splitlines()
            print(f"  skipped {test.name}" + (f": {lines[-1]}" if lines else ""))


if __name__ == "__main__":
    main()

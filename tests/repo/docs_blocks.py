"""docs_blocks.py - finds the fenced blocks of a page that are marked as runnable, and runs them.

    docs_blocks.py PAGE...      with TUTTI_BUILD and TUTTI_ROOT, and CC

Marks are comments, which readers of the page do not see, on the line above a block:
    <!-- run -->           a C or Python block: compiled and run as one rank; a shell block: run; a console block: its lines
                           behind "$ " are run, and the others are their output
    <!-- run 4 -->         a C block under `tutti-run -n 4`
    <!-- run 4: int x; --> declarations that the block needs and that are no news to its readers; in a Python block
                           statements
    <!-- run has: A | B --> a console block of which the lines A and B matter alone, as shown and as printed
    <!-- compile: ... -->  a C block that is compiled in the same way and not run
    <!-- above -->         a C block that stands above main() of the next one
    <!-- frame -->         a C block with a main(), in which "/* example */" stands for the C blocks of the page that follow
    <!-- quote FILE -->    the block stands in that file of the source tree, word for word; a line "..." stands for lines that are left out
    <!-- file NAME -->     the block is a file of that name for the blocks that follow
A block of text right behind a C or shell block is its output, without what goes to stderr.  Lines of ranks may come in
any order; "..." in a line stands for anything.  A C block that calls a function of the header that the library does not have is skipped, and
that is said; so is a Python block where NumPy, or PyTorch if it needs that, is not here.
"""
import functools
import os
import re
import subprocess
import sys
import tempfile

ROOT, BUILD = os.environ["TUTTI_ROOT"], os.environ["TUTTI_BUILD"]
INCLUDES = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n#include \"tutti/tutti.h\"\n\n"
TIMEOUT_S = 60


class Block:
    def __init__(self, page, line, language, mark, text):
        self.page, self.line, self.language, self.mark, self.text = page, line, language, mark, text
        self.output = None

    def place(self):
        return "%s:%d" % (os.path.relpath(self.page, ROOT), self.line)


def read_blocks(page):
    """Marked blocks in order; an output block behind one belongs to it."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n")
    blocks, mark, last, i = [], None, None, 0
    while i < len(lines):
        line = lines[i]
        fence = re.match(r"```(\w*)$", line)
        comment = re.match(r"<!-- (run|compile|above|frame|quote|file)\b(.*?) -->$", line)
        if fence:
            end = lines.index("```", i + 1)
            text = "\n".join(lines[i + 1:end]) + "\n"
            if mark:
                last = Block(page, i + 1, fence.group(1), mark, text)
                blocks.append(last)
            elif last is not None and fence.group(1) in ("", "text"):
                last.output, last = text, None
            else:
                last = None
            mark, i = None, end
        elif comment:
            mark = comment.groups()
        elif re.match(r"<!-- (run|compile|above|frame|quote|file)\b", line):
            blocks.append(Block(page, i + 1, "", ("broken", ""), ""))
        elif line.strip():
            mark = None
            if last is not None and not line.endswith(":"):   # one line of introduction is allowed
                last = None
        i += 1
    return blocks


def command(words, folder, stderr=subprocess.PIPE):
    environment = dict(os.environ, PATH=os.path.join(BUILD, "bin") + ":" + os.environ["PATH"],
                       LD_LIBRARY_PATH=os.path.join(BUILD, "lib"), TUTTI_TIMEOUT="20s", TUTTI_INIT_TIMEOUT="20s",
                       TUTTI_LIBRARY=os.path.join(BUILD, "lib/libtutti.so"), TUTTI_TORCH_BACKEND="python",
                       PYTHONPATH=":".join(os.path.join(ROOT, "bindings", name, "src") for name in ("python", "torch")))
    return subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=stderr, timeout=TIMEOUT_S, check=False, text=True)


def same(expected, got, any_order):
    """Line by line; "..." matches anything, in its line, or as many lines as there are."""
    wanted, there = [text.rstrip().split("\n") for text in (expected, got)]
    if any_order:
        wanted, there = sorted(wanted), sorted(there)
    pattern = "\n".join("(?:.*\n?)*" if line.strip() == "..." else
                        ".*".join(re.escape(part.rstrip()) for part in line.split("...")) + r"[ \t]*"
                        for line in wanted)
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in there)) is not None


def ranks_of(rest):
    """What a mark says behind "run": the number of ranks, and what comes before the block."""
    match = re.match(r" ?(\d*)(?:: (.*))?$", rest)
    return int(match.group(1) or 1), match.group(2) or ""


@functools.lru_cache(None)
def python_with(modules):
    """A Python that has them, or None."""
    for python in (os.environ.get("TUTTI_TORCH_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-W", "ignore", "-c", "import " + modules],
                                     stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


class Runner:
    def __init__(self, folder):
        self.folder, self.frame, self.above = folder, None, ""
        self.passed, self.failed, self.skipped = 0, 0, 0
        declared = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/reference.py"), "--names"],
                                  stdout=subprocess.PIPE, check=True, text=True).stdout.split()
        symbols = subprocess.run(["nm", "-D", "--defined-only", os.path.join(BUILD, "lib/libtutti.so")],
                                 stdout=subprocess.PIPE, check=True, text=True).stdout
        self.missing = set(declared) - set(re.findall(r" T (tutti_\w+)", symbols))

    def say(self, block, words):
        print("%s: %s" % (block.place(), words.rstrip().replace("\n", "\n    ")))

    def fail(self, block, words):
        self.failed += 1
        self.say(block, words)

    def judge(self, block, done, any_order=False, expected=None):
        expected, got = block.output if expected is None else expected, done.stdout
        if done.returncode != 0:
            self.fail(block, "exit status %d\n%s%s" % (done.returncode, got, done.stderr or ""))
        elif expected is not None and not same(expected, got, any_order):
            self.fail(block, "says\n%sinstead of\n%s" % (got, expected))
        else:
            return True
        return False

    def run(self, block):
        kind, rest = block.mark
        if kind == "frame":
            self.frame = block.text
        elif kind == "above":
            self.above += block.text + "\n"
        elif kind == "broken":
            self.fail(block, "is a mark that does not end in its line")
        elif kind == "quote":
            with open(os.path.join(ROOT, rest.strip()), encoding="utf-8") as file:
                whole, place = file.read(), 0
            for part in re.split(r"(?m)^ *\.\.\.\n", block.text):
                found = whole.find(part, place)
                if found < 0:
                    self.fail(block, "does not stand in" + rest)
                    return
                place = found + len(part)
            self.passed += 1
        elif kind == "file":
            with open(os.path.join(self.folder, rest.strip()), "w", encoding="utf-8") as file:
                file.write(block.text)
        elif block.language == "c":
            self.run_c(block, rest, kind == "compile")
        elif block.language in ("sh", "bash"):
            done = command(["bash", "-e", "-o", "pipefail", "-c", block.text], self.folder)
            self.passed += self.judge(block, done)
        elif block.language == "console":
            self.run_console(block, rest)
        elif block.language == "python":
            self.run_python(block, rest)
        else:
            self.fail(block, "nobody can run '%s'" % block.language)

    def run_console(self, block, rest):
        good = True
        if rest.startswith(" has: "):
            line, _, shown = block.text.partition("\n")
            done = command(["bash", "-o", "pipefail", "-c", line[2:]], self.folder, subprocess.STDOUT)
            for wanted in rest[len(" has: "):].split(" | "):
                for text, what in ((shown, "is shown"), (done.stdout, "was printed")):
                    if not any(same(wanted, line, False) for line in text.splitlines()):
                        self.fail(block, "no line '%s' %s\n%s" % (wanted, what, text))
                        return
            self.passed += self.judge(block, done, expected="...")
            return
        for part in re.split(r"(?m)^\$ ", block.text)[1:]:
            line, _, expected = part.partition("\n")
            done = command(["bash", "-o", "pipefail", "-c", line], self.folder, subprocess.STDOUT)
            good = self.judge(block, done, "tutti-run" in line, expected) and good
        self.passed += good

    def program(self, block, declarations):
        """The text of a C block as a program."""
        above, self.above = self.above, ""
        if re.search(r"\bint main\(", block.text):
            return above + block.text
        headers = "".join(re.findall(r"(?m)^#include [<\"]tutti/.*\n", block.text))
        body = re.sub(r"(?m)^#include .*\n", "", block.text)
        if self.frame:
            before, _, behind = self.frame.partition("/* example */")
            head, _, main = before.rpartition("\nint main")
            return "%s\n%s\nint main%s%s\n%s%s" % (head, above, main, declarations, body, behind)
        return "%s%s%s\nint main(void)\n{\n%s\n%s\nreturn 0;\n}\n" % (INCLUDES, headers, above, declarations, body)

    def run_python(self, block, rest):
        ranks, statements = ranks_of(rest)
        text = statements + "\n" + block.text
        modules = ["numpy", *(["torch.distributed"] if re.search(r"\btorch\b", text) else [])]
        python = python_with(",".join(modules))
        if python is None:
            self.skipped += 1
            self.say(block, "skipped: no Python has " + " and ".join(modules))
            return
        with open(os.path.join(self.folder, "block.py"), "w", encoding="utf-8") as file:
            file.write(text)
        done = command(["tutti-run", "-n", str(ranks), python, "-W", "ignore", "block.py"], self.folder)
        self.passed += self.judge(block, done, True)

    def run_c(self, block, rest, only_compile):
        ranks, declarations = ranks_of(rest)
        text = self.program(block, declarations)
        absent = sorted(self.missing & set(re.findall(r"\btutti_\w+", text)))
        if absent:
            self.skipped += 1
            self.say(block, "skipped: the library has no " + ", ".join(absent))
            return
        source = os.path.join(self.folder, "block.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        done = command([os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused", "-Werror", "-O1", "-pthread",
                        "-I" + os.path.join(ROOT, "include"), "block.c",
                        *(["-Wno-unused-result", "-c"] if only_compile else
                          ["-o", "block", "-L" + os.path.join(BUILD, "lib"), "-ltutti", "-lm"])],
                       self.folder, subprocess.STDOUT)
        if done.returncode != 0:
            self.fail(block, "does not compile\n" + done.stdout)
            return
        if only_compile:
            self.passed += 1
            return
        words = ["tutti-run", "-n", str(ranks), "./block"] if ranks > 1 else \
            ["env", "TUTTI_RANK=0", "TUTTI_SIZE=1", "TUTTI_JOB_ID=docs%d" % os.getpid(), "./block"]
        done = command(words, self.folder)
        self.passed += self.judge(block, done, True)


def run_page(page):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(BUILD, os.path.join(folder, "build"))
        runner = Runner(folder)
        for block in read_blocks(page):
            try:
                runner.run(block)
            except subprocess.TimeoutExpired as error:
                runner.fail(block, "has not ended after %d s" % error.timeout)
        return runner


def main():
    total = [0, 0, 0]
    for page in sys.argv[1:]:
        runner = run_page(page)
        for i, count in enumerate((runner.passed, runner.failed, runner.skipped)):
            total[i] += count
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return total[1] != 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())

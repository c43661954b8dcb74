"""Are all sources formatted as .clang-format says? Exit 77 (skipped) without clang-format 14,
since other versions lay out the same style differently.

usage: format.py ROOT [--fix]
"""

import os
import re
import shutil
import subprocess
import sys

SUFFIXES = ("*.hpp", "*.cpp", "*.cu", "*.cuh")


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    root, fix = arguments[0], "--fix" in arguments
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if not re.search(r"version 14\.", version):
        print(f"skipped: clang-format 14 is needed, found {version.strip() or 'none'}")
        return 77
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached", "--others",
         "--exclude-standard", "--", *SUFFIXES],
        capture_output=True, text=True)
    if listed.returncode != 0:
        print(f"skipped: {root} is not a git checkout: {listed.stderr.strip()}")
        return 77
    files = sorted({f"{root}/{name}" for name in listed.stdout.split("\0") if name})
    files = [name for name in files if os.path.isfile(name)]
    if not files:
        print(f"no sources in {root}")
        return 1
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    result = subprocess.run([tool, *mode, *files], capture_output=True, text=True)
    bad = sorted(set(re.findall(r"^(.*?):\d+:\d+: error:", result.stderr, re.MULTILINE)))
    for name in bad:
        print(f"{name}: not formatted")
    print(f"format: {len(files)} files, {len(bad)} not formatted"
          + (" (run: python3 checks/tests/format.py . --fix)" if bad else ""))
    return result.returncode != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

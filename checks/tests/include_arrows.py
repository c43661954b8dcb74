"""Who may include whom: enforces the arrows between the rooms.

usage: include_arrows.py ROOT | --self-test
"""

import pathlib
import re
import sys
import tempfile

# Longest prefix first. A file may include what lies under the prefixes given, and nothing else of
# the project.
MAY_INCLUDE = [
    ("kernels/abi/", []),
    ("kernels/", ["kernels/"]),
    ("reference/", ["reference/"]),
    ("proofs/checker/", ["reference/", "proofs/checker/", "proofs/programs/", "proofs/common/"]),
    ("proofs/", ["reference/", "proofs/"]),
    ("checks/cli/", ["reference/", "kernels/abi/", "proofs/", "checks/", "fuzz/", "reports/"]),
    ("checks/", ["reference/", "kernels/abi/", "checks/"]),
    ("fuzz/", ["reference/", "checks/", "fuzz/"]),
    ("reports/", ["reference/", "checks/", "fuzz/", "reports/"]),
]
ROOMS = sorted({prefix.split("/")[0] for prefix, _ in MAY_INCLUDE})
SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".inl", ".inc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def problems_of_file(root, path):
    name = path.relative_to(root).as_posix()
    allowed = next(targets for prefix, targets in MAY_INCLUDE if name.startswith(prefix))
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, target = match.group(1) == '"', match.group(2)
        ours = target.split("/")[0] in ROOMS and "/" in target
        where = f"{name}:{number}: includes {target}"
        if quoted and not ours:
            yield f"{where}: write the path from the top of the project, or <> for a library"
        elif ours and not quoted:
            yield f"{where}: write our own headers in quotes"
        elif ours and not any(target.startswith(prefix) for prefix in allowed):
            yield f"{where}: {name.split('/')[0]} may include {', '.join(allowed) or 'nothing'}"
        elif ours and not (root / target).is_file():
            yield f"{where}: there is no such file"


def problems(root):
    files = [
        path
        for room in ROOMS
        for path in sorted((root / room).rglob("*"))
        if path.suffix in SUFFIXES and path.is_file()
    ]
    return len(files), [text for path in files for text in problems_of_file(root, path)]


def self_test():
    """Plants one file for each way to break a rule, and one that breaks none."""
    planted = {
        "reference/good.hpp": ("#include <vector>\n", None),
        "reference/uses_checks.cpp": ('#include "checks/good.hpp"\n', "reference may include"),
        "reference/uses_kernels.cpp": ('#include "kernels/abi/abi.h"\n', "reference may include"),
        "reference/relative.cpp": ('#include "good.hpp"\n', "path from the top"),
        "reference/parent.cpp": ('#include "../checks/good.hpp"\n', "path from the top"),
        "reference/angle.cpp": ("#include <reference/good.hpp>\n", "in quotes"),
        "reference/absent.cpp": ('#include "reference/absent.hpp"\n', "no such file"),
        "kernels/abi/abi.h": ("#include <stdint.h>\n", None),
        "kernels/abi/bad.h": ('#include "kernels/abi/abi.h"\n', "kernels may include nothing"),
        "kernels/good.cu": ('  #  include "kernels/abi/abi.h"\n', None),
        "kernels/bad.cu": ('#include "reference/good.hpp"\n', "kernels may include kernels/"),
        "checks/good.hpp": ('#include "reference/good.hpp"\n#include "kernels/abi/abi.h"\n', None),
        "checks/uses_kernel.cpp": ('#include "kernels/good.cu"\n', "checks may include"),
        "checks/cli/program.cpp": ('#include "reports/good.hpp"\n', None),
        "checks/cli/uses_kernel.cpp": ('#include "kernels/good.cu"\n', "checks may include"),
        "checks/uses_fuzz.cpp": ('#include "fuzz/good.hpp"\n', "checks may include"),
        "proofs/good.hpp": ('#include "reference/good.hpp"\n', None),
        "proofs/bad.hpp": ('#include "checks/good.hpp"\n', "proofs may include"),
        "proofs/engine/uses_checker.hpp": ('#include "proofs/good.hpp"\n', None),
        "proofs/checker/uses_engine.hpp": (
            '#include "proofs/engine/uses_checker.hpp"\n', "proofs may include"),
        "fuzz/good.hpp": ('#include "checks/good.hpp"\n', None),
        "fuzz/bad.hpp": ('#include "reports/good.hpp"\n', "fuzz may include"),
        "reports/good.hpp": ('#include "fuzz/good.hpp"\n', None),
        "reports/bad.hpp": ('#include "proofs/good.hpp"\n', "reports may include"),
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, (text, _) in planted.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        _, found = problems(root)
    failures = 0
    for name, (_, expected) in planted.items():
        mine = [text for text in found if text.startswith(name + ":")]
        right = not mine if expected is None else len(mine) == 1 and expected in mine[0]
        if not right:
            print(f"self-test: {name}: expected {expected!r}, got {mine}")
            failures += 1
    print(f"include arrows self-test: {len(planted)} planted files, {failures} judged wrongly")
    return failures != 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1:
        sys.exit(__doc__)
    count, found = problems(pathlib.Path(arguments[0]).resolve())
    for text in found:
        print(text)
    print(f"include arrows: {count} files, {len(found)} problems")
    return bool(found) or count == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

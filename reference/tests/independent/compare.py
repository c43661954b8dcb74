#!/usr/bin/python3
"""compare.py --assay PATH --cases DIR [--digits 45] [--jobs 1]: two implementations, one answer.

For every case file `assay eval F --digits 50 --grad --json` and oracle.py must give the same
tensors, the same shapes and values that agree to `digits` significant digits:

    |ours - theirs| <= 10^-digits |ours|;      where ours is exactly 0:  |theirs| <= 1e-60

Prints one line per tensor that differs, with the first such index and both values.  Exit code 0:
all agree, 1: a difference, 2: no case.  `--self-test` needs no assay: it spoils the oracle's own
answers in known ways and demands that each is reported, and reported where it is.
"""

import argparse
import copy
import glob
import json
import multiprocessing
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from mpmath import mp, mpf  # noqa: E402

import oracle  # noqa: E402

ASSAY_DIGITS = 50
ORACLE_DIGITS = 60
ZERO = mpf("1e-60")
TIMEOUT_SECONDS = 300


def agree(ours, theirs, digits):
    """Whether two decimal strings agree; a NaN never does."""
    try:
        with mp.workdps(ORACLE_DIGITS + 20):
            a, b = mpf(ours), mpf(theirs)
            if a == b:
                return True
            if a == 0:
                return bool(abs(b) <= ZERO)
            return bool(abs(a - b) <= mpf(10) ** -digits * abs(a))
    except (ValueError, TypeError):
        return False


def differences(ours, theirs, digits):
    """Lines about what differs between two answers, without the case's name."""
    lines = []
    if theirs.get("op") != ours["op"]:
        lines.append(f"op: oracle {ours['op']}, assay {theirs.get('op')}")
    for part in ("outputs", "gradients"):
        mine, other = ours[part], theirs.get(part)
        if not isinstance(other, dict):
            lines.append(f"{part}: missing")
            continue
        if set(mine) != set(other):
            lines.append(f"{part}: only oracle {sorted(set(mine) - set(other))}, "
                         f"only assay {sorted(set(other) - set(mine))}")
        for name in sorted(set(mine) & set(other)):
            a, b = mine[name], other[name]
            if a["shape"] != b.get("shape") or len(a["values"]) != len(b.get("values", [])):
                lines.append(f"{part} {name}: shape: oracle {a['shape']}, assay {b.get('shape')}, "
                             f"{len(b.get('values', []))} values")
                continue
            bad = [i for i, (x, y) in enumerate(zip(a["values"], b["values"]))
                   if not agree(x, y, digits)]
            if bad:
                i = bad[0]
                lines.append(f"{part} {name}{place(i, a['shape'])}: oracle {a['values'][i]}, "
                             f"assay {b['values'][i]} ({len(bad)} of {len(a['values'])} differ)")
    return lines


def place(flat, shape):
    """The multi-index of a flat row-major one."""
    index = []
    for n in reversed(shape):
        index.append(flat % n)
        flat //= n
    return str(index[::-1])


def ask_assay(program, path):
    """Runs assay on a case; raises RuntimeError with one line when there is no answer."""
    command = [program, "eval", path, "--digits", str(ASSAY_DIGITS), "--grad", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(str(error)) from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[0]
        raise RuntimeError(f"assay exits with {done.returncode}: {said}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise RuntimeError(f"assay prints no JSON: {error}") from error


def judge(job):
    """(path, lines) for one case."""
    program, path, digits = job
    try:
        theirs = ask_assay(program, path)
    except RuntimeError as error:
        return path, [str(error)]
    return path, differences(oracle.answer(path, ORACLE_DIGITS), theirs, digits)


def _nudged(text, digit):
    """The decimal string with its `digit`-th significant digit changed."""
    count = 0
    for position, character in enumerate(text):
        if character in "eE":
            break
        if character.isdigit():
            count += character != "0" or count > 0
            if count == digit:
                changed = str((int(character) + 5) % 10)
                return text[:position] + changed + text[position + 1 :]
    raise ValueError(f"{text} has no digit {digit}")


def self_test(paths, digits):
    """Spoils answers; returns the number of spoiled answers that were not reported."""
    missed = tried = 0

    def expect(ours, spoiled, fragment):
        nonlocal missed, tried
        tried += 1
        lines = differences(ours, spoiled, digits)
        if len(lines) != 1 or not lines[0].startswith(fragment):
            missed += 1
            print(f"self-test: wanted one line '{fragment}...', got {lines}")

    for turn, path in enumerate(paths):
        ours = oracle.answer(path, ORACLE_DIGITS)
        if differences(ours, copy.deepcopy(ours), digits):
            missed += 1
            print(f"self-test: {path} differs from itself")
        for part in ("outputs", "gradients"):
            name = sorted(ours[part])[turn % len(ours[part])]
            entry = ours[part][name]
            for i, text in list(enumerate(entry["values"]))[-1:]:
                wrong = "1e-50" if text == "0" else _nudged(text, digits)
                for value in (wrong, "nan"):
                    spoiled = copy.deepcopy(ours)
                    spoiled[part][name]["values"][i] = value
                    expect(ours, spoiled, f"{part} {name}{place(i, entry['shape'])}")
            spoiled = copy.deepcopy(ours)
            del spoiled[part][name]
            expect(ours, spoiled, f"{part}: only oracle ['{name}']")
            spoiled = copy.deepcopy(ours)
            spoiled[part][name]["shape"] = entry["shape"] + [1]
            expect(ours, spoiled, f"{part} {name}: shape")
    print(f"self-test: {tried} spoiled answers, {missed} not reported")
    return missed


def main():
    parser = argparse.ArgumentParser(description="Compares assay eval with the oracle.")
    parser.add_argument("--assay")
    parser.add_argument("--cases", required=True)
    parser.add_argument("--digits", type=int, default=45)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(arguments.cases, "*.safetensors")))
    if not paths:
        print(f"no case in {arguments.cases}")
        return 2
    if arguments.self_test:
        return 1 if self_test(paths, arguments.digits) else 0
    if not arguments.assay:
        parser.error("--assay is needed")
    jobs = [(arguments.assay, path, arguments.digits) for path in paths]
    bad = 0
    with multiprocessing.Pool(arguments.jobs) as pool:
        for path, lines in pool.imap(judge, jobs):
            bad += bool(lines)
            for line in lines:
                print(f"{os.path.basename(path)}: {line}", flush=True)
    print(f"{len(paths) - bad} of {len(paths)} cases agree to {arguments.digits} digits")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

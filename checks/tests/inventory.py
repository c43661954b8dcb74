"""Is every operation complete? Prints what is missing.

Each header of reference/recurrences that registers an operation must show up in `assay list ops`
with a title, a source that stands in the bibliography, inputs, outputs, and for every output that
is not of integers an adjoint; and the notation must name it.

usage: inventory.py ROOT PROGRAM | --self-test
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

OPERATION = re.compile(r"^\s*ASSAY_OPERATION\(\s*[\w:]+\s*,\s*(\w+)\s*\)", re.MULTILINE)
SOURCE_KEY = re.compile(r"\[([A-Za-z][\w+. -]*?)(?:\s+v\d+)?(?:,[^\]]*)?\]")


def registered(root):
    """Operations by name, with the text of the header that defines each."""
    found = {}
    for path in sorted((root / "reference/recurrences").glob("*.hpp")):
        text = path.read_text()
        for name in OPERATION.findall(text):
            found[name] = text
    return found


def missing_of(entry, text, notation, bibliography):
    """What the entry of one operation lacks."""
    if not entry.get("title"):
        yield "a title"
    if not entry.get("inputs"):
        yield "an input"
    if not entry.get("outputs"):
        yield "an output"
    if not entry.get("forms"):
        yield "a form"
    for kind in ("inputs", "outputs", "options"):
        for one in entry.get(kind, []):
            if not one.get("doc"):
                yield f"a description of {one.get('name')} ({kind})"
    keys = SOURCE_KEY.findall(entry.get("source", ""))
    if not keys:
        yield "a source like [Key, Eq. 3]"
    for key in keys:
        if f"**[{key}]**" not in bibliography:
            yield f"the entry **[{key}]** in reference/BIBLIOGRAPHY.md"
    if any(not output.get("integer") for output in entry.get("outputs", [])):
        if not any(one.get("differentiable") for one in entry.get("inputs", [])):
            yield "a differentiable input"
        if not re.search(r"adjoint", text):
            yield "an adjoint in its header"
    if f"`{entry['name']}`" not in notation:
        yield "its row in reference/NOTATION.md"


def problems(root, listing):
    notation = (root / "reference/NOTATION.md").read_text()
    bibliography = (root / "reference/BIBLIOGRAPHY.md").read_text()
    listed = {entry["name"]: entry for entry in listing["ops"]}
    found = registered(root)
    for name in sorted(found.keys() - listed.keys()):
        yield f"{name}: `assay list ops` does not have it"
    for name in sorted(listed.keys() - found.keys()):
        yield f"{name}: no header registers it"
    for name in sorted(found.keys() & listed.keys()):
        for what in missing_of(listed[name], found[name], notation, bibliography):
            yield f"{name}: lacks {what}"
        if not any(claim["id"].startswith(name + "/") for claim in listing["claims"]):
            yield f"{name}: lacks a claim (assay list claims)"


def self_test():
    """A complete operation, then the same with one thing taken away at a time."""

    def check(change, expected):
        entry = {
            "name": "toy", "title": "a toy", "source": "[Toy v2, Eq. 1]", "forms": ["recurrent"],
            "inputs": [{"name": "x", "doc": "input", "differentiable": True}],
            "outputs": [{"name": "y", "doc": "output", "integer": False}], "options": [],
        }
        files = {
            "reference/recurrences/toy.hpp": "void adjoint();\nASSAY_OPERATION(Toy, toy)\n",
            "reference/NOTATION.md": "| `toy` |\n",
            "reference/BIBLIOGRAPHY.md": "- **[Toy]** A toy.\n",
        }
        listing = {"ops": [entry], "claims": [{"id": "toy/adjoint"}, {"id": "toys/adjoint"}]}
        change(entry, files, listing)
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            found = list(problems(root, listing))
        right = not found if expected is None else any(expected in text for text in found)
        if not right:
            print(f"self-test: expected {expected!r}, got {found}")
        return right

    header, notation = "reference/recurrences/toy.hpp", "reference/NOTATION.md"
    bibliography = "reference/BIBLIOGRAPHY.md"
    plants = [
        (lambda e, f, l: None, None),
        (lambda e, f, l: e.update(title=""), "a title"),
        (lambda e, f, l: e.update(source=""), "a source"),
        (lambda e, f, l: e.update(inputs=[]), "an input"),
        (lambda e, f, l: e["inputs"][0].update(doc=""), "a description of x"),
        (lambda e, f, l: e["inputs"][0].update(differentiable=False), "a differentiable input"),
        (lambda e, f, l: e.update(forms=[]), "a form"),
        (lambda e, f, l: l.update(ops=[]), "does not have it"),
        (lambda e, f, l: l.update(claims=l["claims"][1:]), "lacks a claim"),
        (lambda e, f, l: f.update({header: "void adjoint();\n"}), "no header registers it"),
        (lambda e, f, l: f.update({header: "ASSAY_OPERATION(Toy, toy)\n"}), "an adjoint"),
        (lambda e, f, l: f.update({notation: "toy\n"}), "its row in"),
        (lambda e, f, l: f.update({bibliography: ""}), "the entry **[Toy]**"),
    ]
    wrong = sum(not check(*plant) for plant in plants)
    print(f"inventory self-test: {len(plants)} plants, {wrong} judged wrongly")
    return wrong != 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 2:
        sys.exit(__doc__)
    root, program = pathlib.Path(arguments[0]), arguments[1]
    listing = {}
    for what in ("ops", "claims"):
        command = [program, "list", what, "--json"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            print(f"assay list {what} --json: exit {run.returncode}: {run.stderr.strip()}")
            return True
        listing.update(json.loads(run.stdout))
    found = list(problems(root, listing))
    for text in found:
        print(text)
    print(f"inventory: {len(listing['ops'])} operations, {len(found)} things missing")
    return bool(found) or not listing["ops"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

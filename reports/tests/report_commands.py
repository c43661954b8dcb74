"""Runs `assay report` on the samples and on bad input: exit codes, files, JSON, one line per error.

usage: report_commands.py ASSAY SAMPLES OUT
"""

import json
import pathlib
import subprocess
import sys

RUNS = [  # arguments, exit code, verdict
    (["spectrum", "--trace", "mdn_mqar", "--enclose", "2"], 1, "OUTSIDE THE UNIT CIRCLE"),
    (["spectrum", "--trace", "mom_mqar", "--steps", "40"], 0, "INSIDE THE UNIT CIRCLE"),
    (["spectrum", "--paper", "--points", "5000"], 0, "INSIDE THE UNIT CIRCLE"),
    (["stability", "--trace", "mdn_mqar"], 1, "GROWS"),
    (["stability", "--trace", "m2rnn_s3"], 3, "UNDECIDED"),
    (["stability", "--trace", "mom_mqar"], 0, "DOES NOT GROW"),
    # Theorem B covers mu <= 0.6 for every s; mu up to 0.99 with s = 1/2 has unstable cycles.
    (["stability", "--box", "mdn:coupled,s=1,mu=0:0.6"], 0, "CONTRACTIVE"),
    (["stability", "--box", "mdn:decoupled,mu=0:0.9", "--keys", "fixed"], 1, "UNSTABLE"),
    (["conditioning", "--trace", "mdn_mqar"], 0, "WELL CONDITIONED"),
    (["conditioning", "--box", "mdn:coupled,s=1,mu=0.135:0.5", "--chunks", "4"], 1, None),
    (["conditioning", "mdn", "--candidate", "cpu", "--model", "bf16", "--points", "3", "--shape",
      "T=70,K=8,V=8"], 0, "ACCURATE"),
    (["conditioning", "mdn", "--candidate", "fault:mdn.residual_undecayed", "--points", "3",
      "--shape", "T=70,K=8,V=8"], 1, "INACCURATE"),
]
BAD = [  # arguments, what the line must say
    (["spectrum", "--trace", "nothing.safetensors"], "nothing.safetensors"),
    (["spectrum"], "--trace"),
    (["spectrum", "--box", "mdn:alpha=2:3"], "alpha"),
    (["spectrum", "--box", "nothing"], "nothing"),
    (["stability", "--box", "gdn:alpha=0:1"], "mdn"),
    (["conditioning", "--trace", "m2rnn_s3"], "no chunk form"),
    (["conditioning", "gdn", "--candidate", "cpu"], "mdn"),
    (["conditioning", "--errors", "nothing.json"], "nothing.json"),
    (["conditioning", "--errors", "a.json", "--candidate", "cpu"], "--errors"),
]


def run(program, samples, arguments):
    arguments = [str(samples / f"{a}.safetensors") if a.endswith(("_mqar", "_s3")) else a
                 for a in arguments]
    return subprocess.run([program, "report", *arguments], capture_output=True, text=True)


def main(program, samples, out):
    samples, out, failures = pathlib.Path(samples), pathlib.Path(out), []

    def check(ok, what):
        if not ok:
            failures.append(what)

    for number, (arguments, code, verdict) in enumerate(RUNS):
        folder = out / f"report{number}"
        result = run(program, samples, [*arguments, "--out", str(folder)])
        name = " ".join(arguments)
        check(result.returncode == code, f"{name}: exit {result.returncode}, {result.stderr[-300:]}")
        if result.returncode not in (0, 1, 3):
            continue
        data = json.loads((folder / f"{arguments[0]}.json").read_text())
        check(data["schema_version"] == 1, f"{name}: schema_version")
        check(verdict is None or data["verdict"] == verdict, f"{name}: verdict {data['verdict']}")
        page = (folder / f"{arguments[0]}.html").read_text()
        check(data["verdict"] in page and "http" not in page.replace("http://www.w3.org", ""),
              f"{name}: page")
        for csv in folder.glob("*.csv"):
            lines = csv.read_text().splitlines()
            check(len({line.count(",") for line in lines if '"' not in line}) <= 1, f"{name}: {csv}")
    for arguments, words in BAD:
        result = run(program, samples, [*arguments, "--out", str(out / "bad")])
        line = result.stderr.strip()
        check(result.returncode == 2 and "\n" not in line and words in line,
              f"{arguments}: exit {result.returncode}: {line!r}")
    result = run(program, samples, ["spectrum", "--paper", "--points", "100", "--json"])
    check(json.loads(result.stdout)["schema_version"] == 1, "--json")
    # Measured on one machine, drawn on another.
    measured = out / "gates.json"
    result = run(program, samples, ["conditioning", "mdn", "--candidate", "cpu", "--points", "2",
                                    "--shape", "T=3,K=2,V=2", "--json"])
    measured.write_text(result.stdout)
    result = run(program, samples, ["conditioning", "--errors", str(measured), "--out",
                                    str(out / "drawn")])
    check(result.returncode == 0 and (out / "drawn" / "conditioning_gates.svg").exists(),
          f"--errors: exit {result.returncode}: {result.stderr[-300:]}")
    for text in failures:
        print(text)
    print(f"assay report: {len(RUNS) + len(BAD) + 1} runs, {len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

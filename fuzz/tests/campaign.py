"""Campaigns as a user runs them: killed, interrupted, crowded, under MPI, with hostile input.

usage: campaign.py ASSAY {planted|mpi|kills|resume|budget|interrupt|hostile}
Exit 77: skipped, with the reason.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ASSAY = os.path.abspath(sys.argv[1])
PLUGINS = pathlib.Path(ASSAY).with_name("test_plugins")
COMMON = ["--no-corpus", "--shrink-steps", "60", "--threads", "2"]


def run(*arguments, prefix=(), expect=None, environment=None):
    done = subprocess.run(
        [*prefix, ASSAY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **(environment or {})},
    )
    if expect is not None and done.returncode != expect:
        sys.exit(f"{arguments}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}")
    return done


def result(folder):
    document = json.loads((folder / "result.json").read_text())
    return document.pop("run"), document


def children(pid):
    """Processes below pid, by reading /proc."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def check(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def planted(work):
    """Kernels with one misbehaviour each, which shows at T = 5 alone: found, named, shrunk."""
    for name, verdict, what in [
        ("segfault", "CRASHED", "call"),
        ("hang", "TIMEOUT", "call"),
        ("after", "WRONG", "hygiene: written outside"),
        ("unwritten", "WRONG", "hygiene: not written"),
        ("random", "WRONG", "values"),
        ("strides", "WRONG", "hygiene: strides ignored"),
    ]:
        limit = 1 if name == "hang" else 60
        done = run("fuzz", "--candidate", PLUGINS / f"{name}.so", "--cases", 60, "--budget", 0,
                   "--stop-after", 1, "--time-limit", limit, "--out", work / name,
                   "--no-corpus", "--shrink-steps", 12 if name == "hang" else 60, expect=1)
        finding = result(work / name)[1]["findings"][0]
        check((finding["verdict"], finding["what"]) == (verdict, what), f"{name}: {finding}")
        check(finding["shrunk"]["verdict"] == verdict, f"{name}: shrinking keeps the verdict")
        wanted = 5 if name != "strides" else 1
        check(finding["shrunk"]["sizes"]["T"] == wanted, f"{name}: T = {wanted}")
        check("minimal: " in done.stdout, "the minimal case is printed")
    done = run("fuzz", "--candidate", PLUGINS / "correct.so", "--cases", 60, "--budget", 0,
               "--no-corpus", "--out", work / "correct", expect=0)


def mpi(work):
    mpirun = shutil.which("mpirun")
    if not mpirun or not pathlib.Path(ASSAY).with_name("assay_mpi.so").exists():
        print("skipped: no mpirun, or assay was built without MPI")
        sys.exit(77)
    environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    options = ["gdn", "delta", "--candidate", "fault:*.packed_leak", "--cases", 90, "--budget", 0]
    whole = None
    for ranks in (1, 2, 4):
        out = work / f"ranks{ranks}"
        prefix = [mpirun, "-n", str(ranks), "--oversubscribe"]
        shared = [o for o in COMMON if o not in ("--threads", "2")]
        run("fuzz", *options, *shared, "--out", out, prefix=prefix, expect=1, environment=environment)
        how, what = result(out)
        check(how["processes"] == ranks, f"{ranks} ranks, {how['processes']} took part")
        check(what["tally"]["findings"] > 5, "some findings")
        whole = whole or what
        check(what == whole, f"{ranks} ranks find the same as one")
    out = work / "alone"
    run("fuzz", *options, *COMMON, "--out", out, expect=1)
    check(result(out)[1] == whole, "the same without MPI")
    # A candidate that crashes, on whatever rank it does.
    crashing = ["--candidate", PLUGINS / "segfault.so", "--cases", 80, "--budget", 0, *shared]
    run("fuzz", *crashing, "--out", work / "crashes1", expect=1)
    run("fuzz", *crashing, "--out", work / "crashes2", expect=1, environment=environment,
        prefix=[mpirun, "-n", "2", "--oversubscribe"])
    crashes = result(work / "crashes1")[1]
    check(crashes["tally"]["verdicts"]["CRASHED"] >= 5, "crashes are found")
    check(result(work / "crashes2")[1] == crashes, "the same crashes on two ranks")
    # Nobody waits for ever when a campaign cannot start.
    done = run("fuzz", *options, "--out", out, prefix=[mpirun, "-n", "2", "--oversubscribe"],
               environment=environment)
    check(done.returncode == 2 and "holds a campaign" in done.stderr, "refused under MPI too")


def kills(work):
    """The worker's child is killed from outside again and again: no case is lost."""
    options = ["gdn", "mdn", "--candidate", "cpu", "--cases", 500, "--budget", 0,
               "--phases", "random", "--keep", 0, *COMMON]
    run("fuzz", *options, "--out", work / "calm")
    process = subprocess.Popen(
        [ASSAY, "fuzz", *map(str, options), "--out", work / "killed"], stdout=subprocess.DEVNULL
    )
    killed = 0
    while process.poll() is None:
        for child in children(process.pid):
            if killed < 20:
                try:
                    os.kill(child, signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
        time.sleep(0.15)
    how, what = result(work / "killed")
    check(killed == 20, f"20 children killed, not {killed}")
    calm = result(work / "calm")[1]
    for key, value in calm["tally"].items():
        check(what["tally"][key] == value, f"{key}: {what['tally'][key]}, not {value}; {what['findings']}")
    check(what == calm, "the same cases and findings as without kills")
    check(how["lost_children"] > 0, "the kills are counted")


def budget(work):
    """A kernel that hangs does not make the budget longer, and its cases are not lost."""
    options = ["--candidate", PLUGINS / "hang.so", "--cases", 60,
               "--keep", 0, *COMMON]
    run("fuzz", *options, "--budget", 0, "--time-limit", 1, "--out", work / "whole", expect=1)
    start = time.monotonic()
    done = run("fuzz", *options, "--budget", "2s", "--time-limit", 60, "--out", work / "short")
    took = time.monotonic() - start
    check(took < 15, f"two seconds took {took:.0f}, with calls of up to 60")
    how = result(work / "short")[0]
    check(how["given_up"] > 0, "cases were given up")
    check("given up when the budget was over" in done.stdout, "it is said")
    run("fuzz", *options, "--budget", 0, "--time-limit", 1, "--out", work / "short", "--resume",
        expect=1)
    how, what = result(work / "short")
    check(how["given_up"] == 0, "none is left")
    whole = result(work / "whole")[1]
    check(whole["tally"]["verdicts"]["TIMEOUT"] > 0, "some cases hang")
    check(what == whole, "resumed gives what one run gives")


def resume(work):
    """kill -9 in the middle; then on with --resume."""
    options = ["gdn", "delta", "--candidate", "fault:*.tail_unwritten", "--cases", 150,
               "--budget", 0, *COMMON]
    run("fuzz", *options, "--out", work / "whole", expect=1)
    process = subprocess.Popen(
        [ASSAY, "fuzz", *map(str, options), "--out", work / "killed"], stdout=subprocess.DEVNULL
    )
    journal = work / "killed" / "journal.jsonl"
    wait_until(lambda: journal.exists() and journal.read_text().count('"found"') >= 5, "findings")
    process.kill()
    process.wait()
    found = {json.loads(line)["found"]["hash"] for line in journal.read_text().splitlines()
             if '"found"' in line}
    check(found, "findings survive kill -9")
    run("fuzz", *options, "--out", work / "killed", expect=2)
    run("fuzz", *options, "--out", work / "killed", "--resume", "--seed", 7, expect=2)
    run("fuzz", *options, "--out", work / "killed", "--resume", expect=1)
    how, what = result(work / "killed")
    whole = result(work / "whole")[1]
    check(what == whole, "killed and resumed gives what one run gives")
    check(found <= {f["hash"] for f in what["findings"]}, "nothing found is lost")
    # A kept failure replays without anything else, and says that it is the same.
    folder = work / "killed" / what["findings"][0]["shrunk"]["folder"]
    moved = work / "moved"
    shutil.copytree(folder, moved)
    done = run("replay", moved, expect=1)
    check("reproduced: " in done.stdout and "NOT REPRODUCED" not in done.stdout, "it replays")
    done = run("replay", moved, "--candidate", "cpu", expect=0)
    check("NOT REPRODUCED" in done.stdout, "a repaired kernel is seen")


def interrupt(work):
    process = subprocess.Popen(
        [ASSAY, "fuzz", "gdn", "--candidate", "fault:*.zero_gradient", "--budget", "60s", *COMMON,
         "--out", work / "it"],
        stdout=subprocess.DEVNULL,
    )
    journal = work / "it" / "journal.jsonl"
    wait_until(lambda: journal.exists() and journal.read_text().count('"found"') >= 3, "findings")
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)
    check(process.returncode == -signal.SIGTERM, f"it dies by the signal, not {process.returncode}")
    how, what = result(work / "it")
    check(how["interrupted"] and what["tally"]["findings"] >= 3, "the result is there")

    # `check` with a candidate that hangs, and a signal that comes twice, as timeout(1) sends it.
    written = work / "check.json"
    run("gen", "linear_attention", "--shape", "B=1,T=5,H=1,K=4,V=3", "--out", work / "five", expect=0)
    process = subprocess.Popen(
        [ASSAY, "check", "--case", work / "five", "--candidate", PLUGINS / "hang.so",
         "--json", written],
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: children(process.pid), "the candidate's process")
    time.sleep(1)
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)
    check(process.returncode == -signal.SIGTERM, f"it dies by the signal, not {process.returncode}")
    check(time.monotonic() - start < 15, "it does not wait for the candidate")
    check(json.loads(written.read_text())["interrupted"], "what there was is written")


def hostile(work):
    def refused(*arguments, says, expect=2):
        done = run(*arguments, expect=expect)
        lines = done.stderr.strip().splitlines()
        check(len(lines) == 1 and says in lines[0], f"{arguments}: one line with {says!r}: {lines}")

    fuzz = ["fuzz", "gdn", "--cases", 3, "--budget", 0, "--out", work / "out"]
    refused(*fuzz, "--seed", "-1", says="--seed")
    refused(*fuzz, "--shard", "3/3", says="--shard")
    refused(*fuzz, "--shard", "x", says="--shard")
    refused(*fuzz, "--phases", "grid,nothing", says="nothing")
    refused(*fuzz, "--target", "fame", says="fame")
    refused(*fuzz, "--candidate", "nothing.so", says="nothing.so")
    refused(*fuzz, "--corpus", work / "missing", says="missing")
    refused(*fuzz, "--past", work / "missing", says="missing")
    refused("fuzz", "gdm", says="unknown operation")
    refused("fuzz", "gdn", "--budget", "0", says="never end")
    (work / "file").write_text("no folder")
    refused("fuzz", "gdn", "--out", work / "file" / "below", says="cannot make the folder")
    refused("replay", "gdn keys=purple", says="purple")
    refused("replay", work / "missing.safetensors", says="missing.safetensors")
    refused("merge", work / "nothing", "--out", work / "m", says="no campaign")
    # A corpus that was tampered with.
    corpus = work / "corpus"
    corpus.mkdir()
    for name, data in {
        "garbage": b"\xff" * 100,
        "long": (1 << 62).to_bytes(8, "little") + b"{}",
        "empty": b"",
    }.items():
        (corpus / f"{name}.safetensors").write_bytes(data)
        refused(*fuzz, "--corpus", corpus, says=name)
        refused("corpus", "--corpus", corpus, "run", says=name)
        (corpus / f"{name}.safetensors").unlink()
    refused("corpus", "--corpus", corpus, "add", "gdn B=1,T=2", "--name", "../x", says="name")
    # The journal of a campaign that was tampered with, and a disk that is full.
    options = ["gdn", "--candidate", "fault:*.zero_gradient", "--cases", 20, "--budget", 0, *COMMON]
    run("fuzz", *options, "--out", work / "bad", expect=1)
    with open(work / "bad" / "journal.jsonl", "a") as journal:
        journal.write('{"found": {"index": "x"}}\n')
    refused("fuzz", *options, "--out", work / "bad", "--resume", says="journal.jsonl line")
    run("fuzz", *options, "--out", work / "away", expect=1)
    journal = work / "away" / "journal.jsonl"
    journal.write_text(journal.read_text().replace("failures/", "failures/../../"))
    refused("merge", work / "away", "--out", work / "m", says="must be below failures/")
    done = run("fuzz", *options, "--keep", 0, "--out", work / "full",
               prefix=["bash", "-c", 'ulimit -f 6; exec "$@"', "-"], expect=3)
    check("cannot write" in done.stderr, f"a full disk is said: {done.stderr}")
    for line in (work / "full" / "journal.jsonl").read_text().splitlines():
        json.loads(line)


with tempfile.TemporaryDirectory(prefix="assay-campaign-") as folder:
    {"planted": planted, "mpi": mpi, "kills": kills, "resume": resume, "budget": budget,
     "interrupt": interrupt, "hostile": hostile}[sys.argv[2]](pathlib.Path(folder))

"""`check`: the verdict of the installed program `assay` on a function of this very process."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import warnings

from .function import Function
from .server import Server


def _program():
    program = os.environ.get("ASSAY") or shutil.which("assay")
    if not program:
        raise FileNotFoundError("the program `assay` is not on PATH; the environment variable "
                                "ASSAY can name it")
    return program


def _shared_file():
    if hasattr(os, "memfd_create"):
        return os.memfd_create("assay")
    file, path = tempfile.mkstemp()
    os.unlink(path)
    return file


def check(op, fn, *, model=None, budget=None, backward=None, framework=None, device=None,
          arguments=()):
    """Raises AssertionError with the one-screen text of `assay check` unless `fn` passes; returns
    the text when it does.

    op        an operation, as `assay list ops` names it
    fn        any callable, closures included; it is called in this thread
    model     "fp32", "tf32", "fp16", "bf16" or a JSON file; default: what assay infers
    budget    "30s", "2m"
    backward  function of inputs and cotangents; default: fn.backward, else a function of its
              module with its name and _backward after it, else autograd or vjp
    framework "numpy", "torch", "jax" or "list"; default: found out as for python:module:function
    arguments further arguments of `assay check`, e.g. ["--seed", "7"]
    """
    owner = sys.modules.get(getattr(fn, "__module__", None))
    if backward is None and not hasattr(fn, "backward"):
        backward = getattr(owner, getattr(fn, "__name__", "") + "_backward", None)
    function = Function(fn, owner, backward=backward, framework=framework, device=device)
    ours, theirs = socket.socketpair()
    request, reply = _shared_file(), _shared_file()
    descriptors = (theirs.fileno(), request, reply)
    command = [_program(), "check", op, "--candidate",
               "python-fd:" + ",".join(map(str, descriptors))]
    command += ["--model", model] if model else []
    command += ["--budget", budget] if budget else []
    command += list(arguments)
    lines = []
    process = None
    try:
        process = subprocess.Popen(command, pass_fds=descriptors, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        theirs.close()
        reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
        reader.start()
        Server(ours, request, reply, function).serve()
        code = process.wait()
        reader.join()
    finally:
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait()
        if process is not None:
            process.stdout.close()
        for closable in (ours, theirs):
            closable.close()
        os.close(request)
        os.close(reply)
    text = "".join(lines).rstrip()
    if code == 0:
        for line in text.splitlines():
            if line.startswith("gradients were NOT judged"):
                warnings.warn(f"{op}, {function.name}: {line}", stacklevel=2)
        return text
    if code == 2:
        raise ValueError(text)
    raise AssertionError(text or f"assay ended with code {code}")

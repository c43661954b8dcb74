"""Answers the requests of `assay`: JSON lines on a socket, tensors in two shared files."""

import json
import os
import time
import traceback

from . import safetensors
from .frameworks import Unsupported
from .function import what_to_return

PROTOCOL = 1


def describe_exception(error):
    """One line: type, message, and the place in the user's code."""
    try:
        message = str(error)
    except Exception:  # theirs as well
        message = "(its message cannot be made)"
    text = " ".join(f"{type(error).__name__}: {message}".split())
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.abspath(__file__))
    for frame in reversed(frames):
        file = os.path.abspath(frame.filename)
        if not file.startswith(here) and "importlib" not in file:
            return f"{text} ({os.path.basename(file)}:{frame.lineno})"
    return text


def _is_out_of_memory(error):
    return (isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
            or "can't allocate memory" in str(error))


def _encodable(x):
    """`x` with what no encoding has a word for, half a surrogate pair say, written out."""
    if isinstance(x, str):
        return x.encode("utf-8", "backslashreplace").decode()
    if isinstance(x, dict):
        return {_encodable(name): _encodable(value) for name, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [_encodable(value) for value in x]
    return x


def _read(file, size):
    parts, done = [], 0
    while done < size:  # one call reads 2 GiB at most
        parts.append(os.pread(file, size - done, done))
        if not parts[-1]:
            raise EOFError("the request's tensors are truncated")
        done += len(parts[-1])
    return b"".join(parts)


class Server:
    def __init__(self, control, request_file, reply_file, function, refusal=""):
        self.control = control
        self.request_file = request_file
        self.reply_file = reply_file
        self.function = function  # None: `refusal` says why there is none
        self.refusal = refusal

    def serve(self):
        """Until the other side hangs up."""
        pending = b""
        while True:
            while b"\n" not in pending:
                block = self.control.recv(65536)
                if not block:
                    return
                pending += block
            line, _, pending = pending.partition(b"\n")
            request = json.loads(line)
            reply = self.answer(request)
            reply["id"] = request["id"]
            try:
                self.control.sendall(json.dumps(_encodable(reply)).encode() + b"\n")
            except OSError:
                return
            if reply.get("leaving"):
                return

    def answer(self, request):
        if self.function is None:
            return {"status": "failed", "detail": self.refusal, "leaving": True}
        try:
            if request["method"] == "describe":
                return self.describe()
            return self.run(request)
        except (Unsupported, NotImplementedError) as error:
            return {"status": "unsupported", "detail": str(error) or type(error).__name__}
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and what derives from nothing better, too
            status = "out_of_memory" if _is_out_of_memory(error) else "failed"
            return {"status": status, "detail": describe_exception(error)}

    def describe(self):
        return {"protocol": PROTOCOL, "status": "ran", "name": self.function.name,
                "framework": self.function.framework.name, "operations": [],
                "model": self.function.model or "", "has_backward": self.function.has_backward}

    def run(self, request):
        stored = safetensors.parse(_read(self.request_file, request["bytes"]))
        start = time.perf_counter()
        tensors, results, declined, note = self.function.run(request, stored)
        seconds = time.perf_counter() - start
        hygiene = self.modified(tensors, stored)
        out = {}
        for name, value in results.items():
            try:
                out[name] = self.function.framework.store(value)
            except (TypeError, ValueError) as error:
                names = [entry["name"] for entry in request["outputs"]]
                kind = type(value).__name__
                raise TypeError(f"'{name}' is a {kind} that cannot be read as a tensor: {error}; "
                                f"{what_to_return(names)}") from None
        for entry in request["outputs"] + request["gradients"]:
            name = entry["name"]
            if name not in out and name not in declined:
                hygiene.append({"kind": "not written", "tensor": name, "detail":
                                "not returned (None says that it is not computed)"})
                declined.append(name)
        data = safetensors.serialize(out)
        os.ftruncate(self.reply_file, 0)
        written = 0
        while written < len(data):
            written += os.pwrite(self.reply_file, data[written:], written)
        untyped = [name for name, value in results.items() if not _has_dtype(value)]
        return {"status": "ran", "detail": note, "seconds": seconds, "hygiene": hygiene,
                "declined": declined, "untyped": untyped, "bytes": len(data)}

    def modified(self, tensors, stored):
        """Inputs that no longer hold what they were given."""
        findings = []
        load, store = self.function.framework.load, self.function.framework.store
        for name, tensor in tensors.items():
            before, after = store(load(stored[name], False)), store(tensor)
            if after.shape != before.shape or after.data != before.data:
                findings.append({"kind": "input modified", "tensor": name,
                                 "detail": _first_change(before, after)})
        return findings


def _has_dtype(value):
    """Numbers and lists of Python have none, unless there are arrays in them."""
    if isinstance(value, (list, tuple)):
        return any(_has_dtype(x) for x in value)
    return hasattr(value, "dtype")


def _first_change(before, after):
    if before.shape != after.shape or len(before.data) != len(after.data):
        return f"its shape is now {list(after.shape)}"
    at = next(i for i, (a, b) in enumerate(zip(before.data, after.data)) if a != b)
    flat = at // safetensors.ELEMENT_BYTES[before.dtype]
    index = []
    for length in reversed(before.shape):
        index.insert(0, flat % length)
        flat //= length
    return "the first change is in element [" + ",".join(map(str, index)) + "]"

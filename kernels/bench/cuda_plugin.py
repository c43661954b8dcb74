"""A kernel plug-in (kernels/abi/assay_kernel.h) called on PyTorch tensors, and what the benches share:
arguments, and what a report says of its making."""

import argparse
import ctypes as c
import datetime
import json
import math
import os
import sys

import torch

DTYPES = {torch.float64: (2, 64), torch.float32: (2, 32), torch.float16: (2, 16),
          torch.bfloat16: (4, 16), torch.int64: (0, 64), torch.int32: (0, 32)}
UNSUPPORTED = 1


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class DType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class View(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", Device), ("ndim", c.c_int32), ("dtype", DType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("byte_offset", c.c_uint64)]


class Tensor(c.Structure):
    _fields_ = [("role", c.c_char_p), ("view", View)]


class Option(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_int32), ("reserved", c.c_int32),
                ("integer", c.c_int64), ("real", c.c_double), ("string", c.c_char_p)]


class Call(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("reserved", c.c_uint32), ("operation", c.c_char_p),
                ("inputs", c.POINTER(Tensor)), ("outputs", c.POINTER(Tensor)),
                ("cotangents", c.POINTER(Tensor)), ("gradients", c.POINTER(Tensor)),
                ("options", c.POINTER(Option)),
                ("num_inputs", c.c_int32), ("num_outputs", c.c_int32),
                ("num_cotangents", c.c_int32), ("num_gradients", c.c_int32),
                ("num_options", c.c_int32), ("form", c.c_int32), ("chunk", c.c_int64),
                ("threads", c.c_int32), ("reserved2", c.c_int32), ("workspace", c.c_void_p),
                ("workspace_bytes", c.c_uint64), ("stream", c.c_void_p)]


class Table(c.Structure):
    _fields_ = [("abi_version", c.c_uint32), ("struct_size", c.c_uint32), ("name", c.c_char_p),
                ("version", c.c_char_p), ("device_type", c.c_int32), ("num_operations", c.c_int32),
                ("operations", c.c_void_p), ("precisions", c.c_void_p),
                ("num_precisions", c.c_int32), ("reserved", c.c_int32),
                ("supports", c.CFUNCTYPE(c.c_int, c.POINTER(Call), c.c_char_p, c.c_size_t)),
                ("workspace", c.CFUNCTYPE(c.c_int, c.POINTER(Call), c.POINTER(c.c_uint64))),
                ("run", c.CFUNCTYPE(c.c_int, c.POINTER(Call))),
                ("last_error", c.CFUNCTYPE(c.c_char_p))]


class Prepared:
    """One call with its memory; run() may be repeated, also while a graph is captured."""

    def __init__(self, plugin, op, inputs, outputs, cotangents, gradients, options):
        self.plugin, self.kept = plugin, []
        self.tensors = dict(outputs=outputs, gradients=gradients)
        call = Call(struct_size=c.sizeof(Call), operation=op.encode())
        for name, tensors in (("inputs", inputs), ("outputs", outputs),
                              ("cotangents", cotangents), ("gradients", gradients)):
            array = (Tensor * max(len(tensors), 1))(*[self.tensor(*t) for t in tensors.items()])
            setattr(call, name, array)
            setattr(call, "num_" + name, len(tensors))
            self.kept.append((array, tensors))
        chosen = (Option * max(len(options), 1))(
            *[self.option(n, x) for n, x in options.items()])
        call.options, call.num_options = chosen, len(options)
        self.kept.append(chosen)
        reason = c.create_string_buffer(256)
        if plugin.table.supports(c.byref(call), reason, 256) != 0:
            raise NotImplementedError(reason.value.decode())
        size = c.c_uint64()
        plugin.check(plugin.table.workspace(c.byref(call), c.byref(size)))
        self.workspace = torch.full((max(size.value, 1),), 0xFE, dtype=torch.uint8, device="cuda")
        call.workspace, call.workspace_bytes = self.workspace.data_ptr(), size.value
        self.call = call

    @staticmethod
    def option(name, x):
        kind = next(i for i, t in enumerate((bool, int, float, str)) if type(x) is t)
        return Option(name=name.encode(), type=kind, integer=x if kind < 2 else 0,
                      real=x if kind == 2 else 0, string=x.encode() if kind == 3 else None)

    def tensor(self, role, x):
        axes = c.c_int64 * max(x.dim(), 1)
        shape, strides = axes(*x.shape), axes(*x.stride())
        self.kept.append((shape, strides))
        view = View(x.data_ptr() or None, Device(2, 0), x.dim(), DType(*DTYPES[x.dtype], 1), shape,
                    strides, 0)
        return Tensor(role=role.encode(), view=view)

    def run(self):
        self.call.stream = torch.cuda.current_stream().cuda_stream
        self.plugin.check(self.plugin.table.run(c.byref(self.call)))


class Plugin:
    def __init__(self, path):
        self.library = c.CDLL(path)
        self.table = Table.in_dll(self.library, "assay_kernel_table")

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"status {status}: {self.table.last_error().decode()}")

    def prepare(self, op, inputs, outputs, cotangents=None, gradients=None, **options):
        return Prepared(self, op, inputs, outputs, cotangents or {}, gradients or {}, options)


def median_ms(run, repeat, calls=1):
    """Of one call, from replays of a graph of `calls` of them one after the other."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    graph.replay()
    times = []
    for _ in range(repeat):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2] / calls


def bench_parser(plugin=True, repeat=None):
    """The arguments of every bench; with `repeat`, of those that take times."""
    parser = argparse.ArgumentParser()
    if plugin:
        parser.add_argument("plugin")
    parser.add_argument("--json", help="where to write the report")
    parser.add_argument("--commit", default="", help="what the report says was measured")
    if repeat:
        parser.add_argument("--repeat", type=int, default=repeat)
    return parser


def report_of(what, arguments, **more):
    """What a report begins with; the command is without paths."""
    words = ["kernels/bench/" + os.path.basename(sys.argv[0])]
    words += [a for a in sys.argv[1:] if "/" not in a]
    begin = {"what": what, "card": torch.cuda.get_device_name(), "torch": torch.__version__,
             "commit": arguments.commit, "date": datetime.date.today().isoformat(),
             "command": " ".join(words)}
    if hasattr(arguments, "repeat"):
        begin["repeat"] = arguments.repeat
    return {**begin, **more}


def write_report(report, path, indent=1):
    """Numbers that JSON has no word for are null."""
    def clean(x):
        if isinstance(x, dict):
            return {n: clean(y) for n, y in x.items()}
        if isinstance(x, (list, tuple)):
            return [clean(y) for y in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    if path:
        with open(path, "w") as f:
            json.dump(clean(report), f, indent=indent)

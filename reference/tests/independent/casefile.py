"""Reading and writing case files: the safetensors container, nothing but the standard library.

    8 bytes little-endian n | n bytes JSON header | data
    header: name -> {"dtype", "shape", "data_offsets": [begin, end]},  "__metadata__": str -> str

Every floating number of these formats is a Python float exactly, and stays exact as an mpf.
"""

import json
import math
import struct

WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4}
CODE = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i"}


class Tensor:
    """dtype, shape and the numbers in row-major order."""

    def __init__(self, dtype, shape, values):
        self.dtype, self.shape, self.values = dtype, list(shape), list(values)
        if len(self.values) != math.prod(self.shape):
            raise ValueError(f"{len(self.values)} values for shape {self.shape}")


def _decode(dtype, raw):
    count = len(raw) // WIDTH[dtype]
    if dtype == "BF16":  # the upper half of a binary32
        halves = struct.unpack(f"<{count}H", raw)
        return struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(h << 16 for h in halves)))
    return struct.unpack(f"<{count}{CODE[dtype]}", raw)


def _bf16_bits(x):
    """Nearest, ties to even, through binary32 (inputs are drawn, so double rounding is no harm)."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    if math.isinf(x):
        return bits >> 16
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def _encode(dtype, values):
    if dtype == "BF16":
        return struct.pack(f"<{len(values)}H", *map(_bf16_bits, values))
    return struct.pack(f"<{len(values)}{CODE[dtype]}", *values)


def rounded(dtype, shape, values):
    """A tensor holding what `values` become when stored as `dtype`."""
    return Tensor(dtype, shape, _decode(dtype, _encode(dtype, list(values))))


def read(path):
    """Returns (op, options, name -> Tensor)."""
    with open(path, "rb") as file:
        blob = file.read()
    size = struct.unpack_from("<Q", blob)[0]
    header = json.loads(blob[8 : 8 + size])
    data = blob[8 + size :]
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        (begin, end), dtype, shape = entry["data_offsets"], entry["dtype"], entry["shape"]
        if end - begin != math.prod(shape) * WIDTH[dtype]:
            raise ValueError(f"{path}: {name}: data_offsets do not fit the shape")
        tensors[name] = Tensor(dtype, shape, _decode(dtype, data[begin:end]))
    return metadata["assay.op"], json.loads(metadata.get("assay.options") or "{}"), tensors


def write(path, op, options, tensors, seed=0):
    """Writes a case file; the header is padded with blanks to a multiple of 8 bytes."""
    metadata = {
        "assay.op": op,
        "assay.options": json.dumps(options, sort_keys=True),
        "assay.version": "1",
        "assay.seed": str(seed),
    }
    header, data = {"__metadata__": metadata}, b""
    # Widest first keeps every tensor aligned to its own element size.
    for name in sorted(tensors, key=lambda n: (-WIDTH[tensors[n].dtype], n)):
        tensor = tensors[name]
        raw = _encode(tensor.dtype, tensor.values)
        span = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": span}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)

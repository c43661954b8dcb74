"""safetensors without a library: names, dtypes, shapes and raw bytes."""

import json
import struct

ELEMENT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4}


class Stored:
    """A tensor as it lies in a file: row-major little-endian bytes."""

    def __init__(self, dtype, shape, data):
        self.dtype = dtype
        self.shape = tuple(shape)
        self.data = data  # bytes

    def count(self):
        count = 1
        for length in self.shape:
            count *= length
        return count


def parse(data):
    """{name: Stored} of a file's bytes."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(bytes(data[8:8 + length]))
    body = memoryview(data)[8 + length:]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = Stored(entry["dtype"], entry["shape"], bytes(body[begin:end]))
        if len(tensors[name].data) != tensors[name].count() * ELEMENT_BYTES[entry["dtype"]]:
            raise ValueError(f"tensor '{name}' has a wrong range")
    return tensors


def serialize(tensors):
    """The bytes of a file with these tensors."""
    header, chunks, offset = {}, [], 0
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape),
                        "data_offsets": [offset, end]}
        chunks.append(tensor.data)
        offset = end
    text = json.dumps(header).encode()
    return b"".join([struct.pack("<Q", len(text)), text, *chunks])

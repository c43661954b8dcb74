"""Stored tensors as tensors of a framework and back. Frameworks are imported when they are asked
for, never before."""

import array
import ctypes
import importlib

from .safetensors import Stored


class Unsupported(Exception):
    """The case is legal, but this function does not do it."""


def _scalars(tensor):
    """A stored tensor as an array of Python numbers' C types; bf16 and f16 become float."""
    if tensor.dtype == "BF16":
        words = array.array("H", tensor.data)
        return array.array("f", array.array("I", (w << 16 for w in words)).tobytes())
    if tensor.dtype == "F16":
        import struct
        return array.array("f", struct.unpack(f"<{tensor.count()}e", tensor.data))
    code = {"F64": "d", "F32": "f", "I64": "q", "I32": "i"}[tensor.dtype]
    return array.array(code, tensor.data)


class Lists:
    """Nested lists of numbers: no library at all."""

    name = "list"
    differentiates = False

    def __init__(self, device=None):
        del device

    def load(self, tensor, strided):
        if strided:
            raise Unsupported("lists have no strides")
        flat = list(_scalars(tensor))
        for length in reversed(tensor.shape[1:]):
            flat = [flat[i:i + length] for i in range(0, len(flat), length)] if length else []
        return flat if tensor.shape else flat[0]

    def store(self, value):
        shape, flat = [], [value]
        while flat and isinstance(flat[0], (list, tuple)):
            shape.append(len(flat[0]))
            if any(len(row) != shape[-1] for row in flat):
                raise TypeError("a nested list whose rows differ in length")
            flat = [x for row in flat for x in row]
        whole = bool(flat) and all(isinstance(x, int) for x in flat)
        if whole:
            return Stored("I64", shape, array.array("q", flat).tobytes())
        return Stored("F64", shape, array.array("d", flat).tobytes())


class NumPy:
    """numpy.ndarray; bf16, which NumPy does not have, is handed over as float32."""

    name = "numpy"
    differentiates = False

    def __init__(self, device=None):
        del device
        self.np = importlib.import_module("numpy")
        self.dtypes = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}

    def load(self, tensor, strided):
        np = self.np
        if tensor.dtype == "BF16":
            words = np.frombuffer(tensor.data, "<u2").astype("<u4") << 16
            plain = words.view("<f4").reshape(tensor.shape)
        else:
            plain = np.frombuffer(tensor.data, self.dtypes[tensor.dtype]).reshape(tensor.shape)
        if not strided or not tensor.shape:
            return plain.copy()
        # Gaps after each element and each row, filled with what must not be read.
        filler = np.nan if plain.dtype.kind == "f" else np.iinfo(plain.dtype).max
        base = np.full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3), filler, plain.dtype)
        view = base[..., 1:1 + 2 * tensor.shape[-1]:2]
        view[...] = plain
        return view

    def store(self, value):
        array_ = self.np.asarray(value)
        if array_.dtype.kind == "b":
            array_ = array_.astype("<i8")
        for name, dtype in self.dtypes.items():
            if array_.dtype == self.np.dtype(dtype):
                return Stored(name, array_.shape, array_.tobytes())
        if array_.dtype.name == "bfloat16":  # of ml_dtypes, which JAX uses
            return Stored("BF16", array_.shape, array_.tobytes())
        raise TypeError(f"an array of {array_.dtype}")


class Torch:
    """torch.Tensor, on the GPU when there is one and nothing else is declared."""

    name = "torch"
    differentiates = True

    def __init__(self, device=None):
        self.torch = torch = importlib.import_module("torch")
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.dtypes = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
                       "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32}

    def load(self, tensor, strided):
        torch, dtype = self.torch, self.dtypes[tensor.dtype]
        if tensor.data:
            plain = torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(tensor.shape)
        else:
            plain = torch.empty(tensor.shape, dtype=dtype)
        plain = plain.to(self.device, copy=True)
        if not strided or not tensor.shape:
            return plain
        filler = float("nan") if dtype.is_floating_point else torch.iinfo(dtype).max
        base = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3), filler, dtype=dtype,
                          device=self.device)
        view = base[..., 1:1 + 2 * tensor.shape[-1]:2]
        view.copy_(plain)
        return view

    def store(self, value):
        if not isinstance(value, self.torch.Tensor):
            value = self.torch.as_tensor(value)
        value = value.detach().to("cpu").contiguous()
        if value.dtype == self.torch.bool:
            value = value.to(self.torch.int64)
        for name, dtype in self.dtypes.items():
            if value.dtype == dtype:
                size = value.numel() * value.element_size()
                data = ctypes.string_at(value.data_ptr(), size) if size else b""
                return Stored(name, value.shape, data)
        raise TypeError(f"a tensor of {value.dtype}")

    def synchronize(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()


class Jax:
    """jax.Array."""

    name = "jax"
    differentiates = True

    def __init__(self, device=None):
        del device
        self.jax = importlib.import_module("jax")
        self.numpy = NumPy()

    def load(self, tensor, strided):
        if strided:
            raise Unsupported("JAX arrays have no strides")
        if tensor.dtype == "F64" and not self.jax.config.jax_enable_x64:
            raise Unsupported("fp64 needs jax_enable_x64")  # else it is rounded without a word
        np, jnp = self.numpy.np, self.jax.numpy
        if tensor.dtype == "BF16":
            return jnp.asarray(np.frombuffer(tensor.data, jnp.bfloat16).reshape(tensor.shape))
        return jnp.asarray(self.numpy.load(tensor, False))

    def store(self, value):
        return self.numpy.store(value)


FRAMEWORKS = {f.name: f for f in (Lists, NumPy, Torch, Jax)}

"""Tests of assay_worker that need neither `assay` nor any library."""

import os
import pathlib
import stat
import sys
import tempfile
import textwrap
import unittest
import warnings

import assay_worker
from assay_worker import function, safetensors
from assay_worker.frameworks import Lists, Unsupported
from assay_worker.safetensors import Stored

# Plays `assay check`: one case through the inherited descriptors, then a verdict.
FAKE_ASSAY = '''#!{python}
import json, os, socket, struct, sys
sys.path.insert(0, {package!r})
from assay_worker import safetensors
spec = sys.argv[sys.argv.index("--candidate") + 1]
control, request, reply = map(int, spec.removeprefix("python-fd:").split(","))
line = socket.socket(fileno=control)
answers = line.makefile()
def ask(message, data=b""):
    os.ftruncate(request, 0)
    os.pwrite(request, data, 0)
    line.sendall(json.dumps({{"id": 1, "bytes": len(data), **message}}).encode() + b"\\n")
    return json.loads(answers.readline())
described = ask({{"method": "describe"}})
print("described", described["name"], *sys.argv[1:3], *sys.argv[5:])
print("gradients", described["has_backward"])
if not described["has_backward"]:
    print("gradients were NOT judged")
case = {{"x": safetensors.Stored("F32", [2], struct.pack("<2f", 1, 2))}}
answer = ask({{"method": "run", "op": "double", "inputs": ["x"], "cotangents": [],
              "outputs": [{{"name": "y"}}], "gradients": [], "options": {{}}, "defaults": {{}},
              "strided": False}}, safetensors.serialize(case))
print(answer["status"], answer["detail"])
if answer["status"] != "ran":
    sys.exit(2)
y = safetensors.parse(os.pread(reply, answer["bytes"], 0))["y"]
print("y", *struct.unpack("<2d", y.data))
sys.exit(0 if struct.unpack("<2d", y.data) == (2, 4) else 1)
'''


def doubled(x):
    return [2 * element for element in x]


def doubled_backward(x, d_y):
    return {"x": [2 * element for element in d_y]}


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        program = pathlib.Path(self.folder.name) / "assay"
        package = str(pathlib.Path(assay_worker.__file__).parent.parent)
        program.write_text(FAKE_ASSAY.format(python=sys.executable, package=package))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        before = os.environ.get("ASSAY")
        os.environ["ASSAY"] = str(program)
        self.addCleanup(lambda: os.environ.pop("ASSAY") if before is None
                        else os.environ.update(ASSAY=before))

    def test_closures_are_served_by_this_process(self):
        seen = []

        def double(x):
            seen.append(os.getpid())
            return [2 * element for element in x]

        text = assay_worker.check("double", double, framework="list", model="bf16", budget="30s")
        self.assertEqual(seen, [os.getpid()])
        self.assertIn("described double check double --model bf16 --budget 30s", text)
        self.assertIn("y 2.0 4.0", text)

    def test_a_backward_beside_the_function_is_found(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            text = assay_worker.check("double", doubled, framework="list")
        self.assertIn("gradients True", text)

    def test_without_gradients_there_is_a_warning(self):
        with self.assertWarnsRegex(UserWarning, "double, triple: gradients were NOT judged"):
            def triple(x):
                return [2 * element for element in x]
            assay_worker.check("double", triple, framework="list")

    def test_a_finding_is_an_assertion_error_with_the_text(self):
        with self.assertRaises(AssertionError) as caught:
            assay_worker.check("double", lambda x: [3 * e for e in x], framework="list")
        self.assertIn("y 3.0 6.0", str(caught.exception))

    def test_bad_usage_is_a_value_error(self):
        def fails(x):
            raise RuntimeError("planted")

        with self.assertRaises(ValueError) as caught:
            assay_worker.check("double", fails, framework="list")
        self.assertIn("RuntimeError: planted (test_worker.py:", str(caught.exception))

    def test_no_descriptor_is_left_open(self):
        assay_worker.check("double", lambda x: [2 * e for e in x], framework="list")
        before = len(os.listdir("/proc/self/fd"))
        assay_worker.check("double", lambda x: [2 * e for e in x], framework="list")
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_a_missing_program_is_named(self):
        os.environ["ASSAY"] = ""
        path = os.environ.pop("PATH")
        try:
            with self.assertRaisesRegex(FileNotFoundError, "ASSAY"):
                assay_worker.check("double", lambda x: x, framework="list")
        finally:
            os.environ["PATH"] = path


class Parts(unittest.TestCase):
    def test_safetensors_round_trip(self):
        tensors = {"a": Stored("F32", [2, 1], b"12345678"), "empty": Stored("BF16", [0, 3], b"")}
        again = safetensors.parse(safetensors.serialize(tensors))
        self.assertEqual({n: (t.dtype, t.shape, t.data) for n, t in again.items()},
                         {n: (t.dtype, t.shape, t.data) for n, t in tensors.items()})

    def test_lists_hold_the_exact_values_of_every_dtype(self):
        lists = Lists()
        self.assertEqual(lists.load(Stored("BF16", [2], bytes.fromhex("803f80bf")), False), [1, -1])
        self.assertEqual(lists.load(Stored("F16", [1, 2], bytes.fromhex("003c00c0")), False),
                         [[1, -2]])
        self.assertEqual(lists.load(Stored("I64", [], (7).to_bytes(8, "little")), False), 7)
        self.assertEqual(lists.store([[1.5], [2.5]]).shape, (2, 1))
        self.assertEqual(lists.store(3).dtype, "I64")
        with self.assertRaises(TypeError):
            lists.store([[1.0], [2.0, 3.0]])

    def test_arguments_that_a_function_does_not_take(self):
        def fn(q, scale=None):
            return q

        def needs(q, alpha):
            return q

        bind = function._bind
        self.assertEqual(bind(fn, {"q": 1}, {"scale": 2}, {"eps": 0}, "fn"), {"q": 1, "scale": 2})
        self.assertEqual(bind(fn, {"q": 1}, {"chunk": 16, "qk_l2norm": False}, {}, "fn"), {"q": 1})
        for tensors, options, f in (({"q": 1, "k": 2}, {}, fn), ({"q": 1}, {"qk_l2norm": True}, fn),
                                    ({"q": 1}, {}, needs)):
            with self.assertRaises(Unsupported):
                bind(f, tensors, options, {}, "fn")

    def test_results_by_name(self):
        named = function._named
        self.assertEqual(named(([1.0], [2.0]), ["o", "s"]), {"o": [1.0], "s": [2.0]})
        self.assertEqual(named([[1.0], [2.0]], ["o", "s"]), {"o": [[1.0], [2.0]]})
        self.assertEqual(named({"q": 1, "d_k": 2}, ["d_q", "d_k"], "d_"), {"d_q": 1, "d_k": 2})
        with self.assertRaisesRegex(TypeError, "name 3 .int.* the order o, s_final, or a dict"):
            named({3: 1}, ["o", "s_final"])

        async def late():
            return 1

        with self.assertRaisesRegex(TypeError, "a coroutine was returned.*return a tensor .o."):
            named(late(), ["o", "s_final"])
        with self.assertRaisesRegex(ValueError, "'x' was returned"):
            named({"x": 1}, ["o"])
        with self.assertRaisesRegex(ValueError, "3 values"):
            named((1, [2], [3]), ["o", "s"])

    def test_the_framework_is_found_out(self):
        def plain(q):
            return q

        def annotated(q: "torch.Tensor"):
            return q

        declared = lambda q: q  # noqa: E731
        declared.framework = "jax"
        of = function._framework_of
        self.assertEqual([of(f, None) for f in (plain, annotated, declared)],
                         ["numpy", "torch", "jax"])
        declared.framework = "fortran"
        with self.assertRaisesRegex(ValueError, "fortran"):
            of(declared, None)

    def test_functions_are_loaded_from_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "planted_kernels.py"
            path.write_text(textwrap.dedent("""
                framework = "list"
                class Kernels:
                    @staticmethod
                    def f(x): return x
                def g(x): return x
                def g_backward(x, d_y=None): return x
            """))
            self.assertIsNotNone(function.Function.load(f"{path}:g").backward)
            self.assertFalse(function.Function.load(f"{path}:Kernels.f").has_backward)


if __name__ == "__main__":
    unittest.main()

"""The user's function: what it wants, how it is called, where its gradients come from."""

import importlib
import importlib.util
import inspect
import os
import sys

from .frameworks import FRAMEWORKS, Unsupported


def _import(module):
    if not module.endswith(".py"):
        return importlib.import_module(module)
    folder, file = os.path.split(os.path.abspath(module))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(file[:-3], module)
    if spec is None or not os.path.isfile(module):
        raise ImportError(f"there is no file {module}")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[file[:-3]] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _framework_of(fn, owner):
    """Declared, else asked for by an annotation, else what the function's module has imported."""
    for place in (fn, owner):
        declared = getattr(place, "framework", None)
        if isinstance(declared, str):
            if declared not in FRAMEWORKS:
                raise ValueError(f"framework '{declared}' is none of {', '.join(FRAMEWORKS)}")
            return declared
    annotations = " ".join(str(a) for a in getattr(fn, "__annotations__", {}).values())
    for name in ("torch", "jax", "numpy"):
        if name in annotations:
            return name
    names = getattr(inspect.unwrap(fn), "__globals__", {})
    for name in ("torch", "jax"):
        if any(getattr(value, "__name__", "").split(".")[0] == name
               for value in names.values() if inspect.ismodule(value)):
            return name
    return "numpy"


def _bind(fn, tensors, options, defaults, what):
    """Keyword arguments for fn. What it does not take must not matter."""
    parameters = inspect.signature(fn).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    arguments = {}
    for name, value in tensors.items():
        if name not in parameters and not takes_all:
            raise Unsupported(f"{what} takes no '{name}'")
        arguments[name] = value
    for name, value in {**defaults, **options}.items():
        if name in parameters or takes_all:
            arguments[name] = value
        elif name in options and name != "chunk" and value:  # a chunk length is a hint
            raise Unsupported(f"{what} takes no option '{name}'")
    for name, p in parameters.items():
        required = p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        if required and name not in arguments:
            raise Unsupported(f"{what} needs '{name}', which the case does not give")
    return arguments


def what_to_return(names):
    """What a function should hand back, for messages."""
    first = f"a tensor ({names[0]}), " if names else ""
    return (f"return {first}a tuple of tensors in the order {', '.join(names)}, "
            "or a dict of tensors by these names")


def _named(result, names, prefix=""):
    """A function's result by name: a dict as it is, a tuple (or a list of tensors) in the order of
    `names`, one value as the first. Names may leave out the prefix."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        kind = type(result).__name__
        if hasattr(result, "close"):
            result.close()  # or Python warns that nobody awaited it
        raise TypeError(f"a {kind} was returned, which nobody runs: {what_to_return(names)}")
    if isinstance(result, dict):
        out = {}
        for name, value in result.items():
            if not isinstance(name, str):
                raise TypeError(f"a dict with the name {name!r} ({type(name).__name__}) was "
                                f"returned: {what_to_return(names)}")
            full = name if name in names else prefix + name
            if full not in names:
                raise ValueError(f"'{name}' was returned, which is none of {', '.join(names)}")
            out[full] = value
        return out
    several = isinstance(result, tuple) or (
        isinstance(result, list) and any(hasattr(value, "shape") for value in result))
    if not several:
        result = (result,)
    if len(result) > len(names):
        raise ValueError(f"{len(result)} values were returned, at most {len(names)} are known: "
                         + ", ".join(names))
    return dict(zip(names, result))


class Function:
    """A function with its framework and its backward, if it has one of its own."""

    def __init__(self, fn, owner=None, backward=None, framework=None, device=None, model=None):
        self.fn = fn
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self.backward = backward if backward is not None else getattr(fn, "backward", None)
        kind = framework or _framework_of(fn, owner)
        device = device or getattr(fn, "device", None) or getattr(owner, "device", None)
        self.framework = FRAMEWORKS[kind](device if isinstance(device, str) else None)
        self.model = model or getattr(fn, "model", None)
        if not isinstance(self.model, str):
            self.model = None

    @classmethod
    def load(cls, spec):
        module_name, _, path = spec.rpartition(":")
        module = _import(module_name)
        fn = module
        for part in path.split("."):
            fn = getattr(fn, part)
        if not callable(fn):
            raise TypeError(f"{path} is no function")
        return cls(fn, module, backward=getattr(module, path + "_backward", None))

    @property
    def has_backward(self):
        return self.backward is not None or self.framework.differentiates

    def run(self, request, stored):
        """(what was given, results by name, names that the function declined to compute, note)"""
        strided = request["strided"]
        tensors = {name: self.framework.load(stored[name], strided and name != "cu_seqlens")
                   for name in request["inputs"]}
        outputs = [entry["name"] for entry in request["outputs"]]
        gradients = [entry["name"] for entry in request["gradients"]]
        arguments = _bind(self.fn, tensors, request["options"], request["defaults"], self.name)
        if not gradients:
            cotangents = {}
            results, note = _named(self.fn(**arguments), outputs), ""
        else:
            cotangents = {name: self.framework.load(stored[name], strided)
                          for name in request["cotangents"]}
            if self.backward is not None:
                results, note = self._explicit(arguments, request, tensors, cotangents, outputs,
                                               gradients)
            elif self.framework.name == "torch":
                results, note = self._autograd(arguments, tensors, cotangents, outputs, gradients)
            elif self.framework.name == "jax":
                results, note = self._vjp(arguments, tensors, cotangents, outputs, gradients)
            else:
                raise Unsupported(f"{self.name} has no backward")
        if hasattr(self.framework, "synchronize"):
            self.framework.synchronize()
        declined = [name for name, value in results.items() if value is None]
        kept = {name: value for name, value in results.items() if value is not None}
        return {**tensors, **cotangents}, kept, declined, note

    def _explicit(self, arguments, request, tensors, cotangents, outputs, gradients):
        results = _named(self.fn(**arguments), outputs)
        given = _bind(self.backward, {**tensors, **cotangents}, request["options"],
                      request["defaults"], "the backward of " + self.name)
        results.update(_named(self.backward(**given), gradients, "d_"))
        return results, ""

    def _autograd(self, arguments, tensors, cotangents, outputs, gradients):
        torch = self.framework.torch
        wanted = [tensors[name[2:]].requires_grad_() for name in gradients]
        results = _named(self.fn(**arguments), outputs)
        sources, weights = [], []
        attached = False
        for name, value in results.items():
            if value is not None and not isinstance(value, torch.Tensor):
                raise TypeError(f"'{name}' is a {type(value).__name__}, no tensor: "
                                f"{what_to_return(outputs)}")
            if value is None or not value.requires_grad:
                continue
            attached = True
            if "d_" + name in cotangents:
                sources.append(value)
                weights.append(cotangents["d_" + name].to(value.dtype))
        if not attached:
            results.update({name: None for name in gradients})
            return results, "forward only: no output requires a gradient"
        found = [None] * len(wanted)
        if sources:
            found = torch.autograd.grad(sources, wanted, weights, allow_unused=True)
        for name, x, gradient in zip(gradients, wanted, found):
            # What autograd did not reach has the gradient zero.
            results[name] = torch.zeros_like(x) if gradient is None else gradient
        return results, ""

    def _vjp(self, arguments, tensors, cotangents, outputs, gradients):
        jax = self.framework.jax
        inputs = [tensors[name[2:]] for name in gradients]

        def of_inputs(*values):
            moved = {name[2:]: value for name, value in zip(gradients, values)}
            named = _named(self.fn(**{**arguments, **moved}), outputs)
            return {name: value for name, value in named.items() if value is not None}

        results, pull_back = jax.vjp(of_inputs, *inputs)
        weights = {name: cotangents["d_" + name].astype(value.dtype)
                   if "d_" + name in cotangents else jax.numpy.zeros_like(value)
                   for name, value in results.items()}
        results = dict(results)
        results.update(zip(gradients, pull_back(weights)))
        return results, ""

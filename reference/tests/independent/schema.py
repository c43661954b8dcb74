"""Names and layouts of every operation, and the way from a case file to numbers.

A layout is a string with one letter per axis: B batch, T time, H heads, K key width, V value width,
J factors, M memories, R memories and the shared one, D E plain widths, W convolution width,
L = W-1, G gates of a cell, P shards; S leads a state (packed sequences, else the batch).
"""

from mpmath import mpf

from tape import Var, exp, nested_map

FAST_WEIGHT = {  # per-token inputs besides q; "a|b": exactly one of the two
    "linear_attention": {"k": "BTHK", "v": "BTHV"},
    "retention": {"k": "BTHK", "v": "BTHV"},
    "ssd": {"k": "BTHK", "v": "BTHV", "alpha|log_alpha": "BTH"},
    "gla": {"k": "BTHK", "v": "BTHV", "alpha|log_alpha": "BTHK"},
    "hgrn2": {"v": "BTHV", "f": "BTHK"},
    "delta": {"k": "BTHK", "v": "BTHV", "beta": "BTH"},
    "gdn": {"k": "BTHK", "v": "BTHV", "alpha|log_alpha": "BTH", "beta": "BTH"},
    "kda": {"k": "BTHK", "v": "BTHV", "alpha|log_alpha": "BTHK", "beta": "BTH"},
    "comba": {"k": "BTHK", "v": "BTHV", "p": "BTHK", "alpha|log_alpha": "BTH", "beta": "BTH"},
    "gated_delta_product": {
        "k": "BTJHK", "v": "BTJHV", "beta": "BTJH", "alpha|log_alpha": "BTH",
    },
    "mdn": {
        "k": "BTHK", "v": "BTHV", "alpha|log_alpha": "BTH", "mu|log_mu": "BTH", "beta": "BTH",
        "eta?": "BTH",
    },
}

FAST_OPTIONS = ["scale", "qk_l2norm", "l2norm_eps", "chunk"]

# op -> (inputs, outputs, options); "?" marks an optional input.
OTHER = {
    "m2rnn": (
        {"q": "BTHK", "k": "BTHK", "v": "BTHV", "w": "HVV", "f": "BTH", "w_residual?": "HV",
         "h0?": "SHKV"},
        {"y": "BTHV", "h_final": "SHKV"}, ["state_grad_clip"]),
    "m2rnn_gate": ({"x": "BTH", "a": "H", "b": "H"}, {"f": "BTH"}, []),
    "m2rnn_block": (
        {"x": "BTE", "w_q": "EHK", "w_k": "EHK", "w_v": "EHV", "w_f": "EH", "w_g": "EHV",
         "conv_q": "HKW", "conv_k": "HKW", "conv_v": "HVW", "a": "H", "b": "H", "w": "HVV",
         "w_residual?": "HV", "norm_weight?": "HV", "w_o": "HVE", "h0?": "SHKV"},
        {"o": "BTE", "h_final": "SHKV"}, ["eps"]),
    "mdn_gates": (
        {"x_alpha": "BTH", "x_beta": "BTH", "x_mu": "BTH", "x_eta": "BTH",
         "a_alpha": "H", "b_alpha": "H", "a_mu": "H", "b_mu": "H"},
        {"log_alpha": "BTH", "beta": "BTH", "log_mu": "BTH", "eta": "BTH"},
        ["s", "tau", "log_mu_min"]),
    "mdn_fused_gates": (
        {"q": "BTHK", "k": "BTHK", "v": "BTHV", "x_alpha": "BTH", "x_mu": "BTH", "x_beta": "BTH",
         "x_eta": "BTH", "q_correction?": "H", "a_alpha": "H", "b_alpha": "H", "a_mu": "H",
         "b_mu": "H", "s0?": "SHKV", "m0?": "SHKV"},
        {"o": "BTHV", "s_final": "SHKV", "m_final": "SHKV"},
        FAST_OPTIONS + ["s", "tau", "log_mu_min"]),
    "mom_aux_loss": ({"router_logits": "BTM"}, {"loss": ""}, ["top_k"]),
    "rnn": ({"x": "BTHD", "w": "HDD", "h0?": "SHD"}, {"y": "BTHD", "h_final": "SHD"}, []),
    "gru": (
        {"x": "BTHD", "w_ih": "HGDD", "w_hh": "HGDD", "b_ih?": "HGD", "b_hh?": "HGD",
         "h0?": "SHD"},
        {"y": "BTHD", "h_final": "SHD"}, []),
    "lstm": (
        {"x": "BTHD", "w_ih": "HGDD", "w_hh": "HGDD", "b_ih?": "HGD", "b_hh?": "HGD",
         "h0?": "SHD", "c0?": "SHD"},
        {"y": "BTHD", "h_final": "SHD", "c_final": "SHD"}, []),
    "causal_conv1d": (
        {"x": "BTD", "weight": "DW", "bias?": "D", "x0?": "SLD"},
        {"y": "BTD", "x_final": "SLD"}, ["silu"]),
    "rmsnorm": ({"x": "BTD", "weight?": "D"}, {"y": "BTD"}, ["eps"]),
    "rmsnorm_tp": ({"x": "BTPD", "weight?": "PD"}, {"y": "BTPD"}, ["eps"]),
}

OPERATIONS = list(FAST_WEIGHT) + ["mom"] + list(OTHER)
PACKABLE = [op for op in OPERATIONS if op in FAST_WEIGHT or op == "mom" or op in (
    "mdn_fused_gates", "m2rnn", "m2rnn_block", "rnn", "gru", "lstm", "causal_conv1d")]


def _suffixed(key, suffix):
    """Adds to each alternative of a key such as 'alpha|log_alpha' or 'eta?'."""
    optional = "?" if key.endswith("?") else ""
    names = key.rstrip("?").split("|")
    return "|".join(name + suffix for name in names) + optional


def _head_parameters(update):
    found = {"q_correction?": "H", "skip?": "H"}
    if update == "hgrn2":  # no k to correct with
        del found["q_correction?"]
    if update == "gated_delta_product":  # J keys and values per token: neither is defined
        return {}
    if update == "retention":
        found["gamma"] = "H"
    return found


def signature(op, options):
    """(inputs, outputs, option names) of an operation, layouts as in the module's comment."""
    if op in OTHER:
        return OTHER[op]
    if op in FAST_WEIGHT:
        inputs = {"q": "BTHK", **FAST_WEIGHT[op], **_head_parameters(op), "s0?": "SHKV"}
        outputs = {"o": "BTHV", "s_final": "SHKV"}
        if op == "mdn":
            inputs["m0?"] = outputs["m_final"] = "SHKV"
        return inputs, outputs, FAST_OPTIONS
    if op != "mom":
        raise ValueError(f"unknown operation {op}")
    update = options.get("update", "gdn")
    inputs = {"router_logits": "BTM", "q": "BTHK"}
    for key, layout in FAST_WEIGHT[update].items():
        inputs[_suffixed(key, "_mem")] = "BTM" + layout[2:]
        inputs[_suffixed(key.rstrip("?"), "_shared") + "?"] = layout
    inputs.update(_head_parameters(update))
    inputs["s0?"] = "SRHKV"
    outputs = {"o": "BTHV", "s_final": "SRHKV"}
    if update == "mdn":
        inputs["m0?"] = outputs["m_final"] = "SRHKV"
    return inputs, outputs, FAST_OPTIONS + ["top_k", "update"]


def _nest(values, shape):
    if not shape:
        return values[0]
    if len(shape) == 1:
        return list(values)
    step = len(values) // shape[0] if shape[0] else 0
    return [_nest(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _share_heads(nested, axis, H):
    """Head h reads entry h / (H/Hx): the same object, so that gradients add up over the group."""
    if axis:
        return [_share_heads(part, axis - 1, H) for part in nested]
    return [nested[h // (H // len(nested))] for h in range(H)]


class Case:
    """A case at the working precision: nested lists of numbers, all head axes brought to H.

    `x[name]` is an input, `leaves[name]` = (shape in the file, flat list), `d[name]` the flat
    cotangent of an output, `dims` the size per letter, `segments` a list of (s, b, t0, t1).
    """

    def __init__(self, op, options, tensors, differentiate=True, override=None):
        inputs, self.outputs, known = signature(op, options)
        self.op, self.options, self.dims = op, options, {}
        if unknown := set(options) - set(known):
            raise ValueError(f"{op}: unknown options {sorted(unknown)}")
        self.packed = "cu_seqlens" in tensors
        if self.packed and op not in PACKABLE:
            raise ValueError(f"{op}: takes no cu_seqlens")
        layouts = self._present(inputs, tensors)
        self._bind(layouts, tensors)
        self.x, self.leaves, self.d = {}, {}, {}
        for name, layout in layouts.items():
            source = (override or {}).get(name, tensors[name].values)
            leaves = [Var(mpf(v)) if differentiate else mpf(v) for v in source]
            self.leaves[name] = (tensors[name].shape, leaves)
            nested = _nest(leaves, tensors[name].shape)
            if "H" in layout:
                nested = _share_heads(nested, layout.index("H"), self.dims["H"])
            self.x[name] = nested
        for name, layout in self.outputs.items():
            if "d_" + name in tensors:
                if tensors["d_" + name].shape != self.shape(layout):
                    raise ValueError(f"{op}: d_{name} has shape {tensors['d_' + name].shape}, "
                                     f"its output {self.shape(layout)}")
                self.d[name] = [mpf(v) for v in tensors["d_" + name].values]

    def _present(self, inputs, tensors):
        layouts = {}
        for key, layout in inputs.items():
            names = key.rstrip("?").split("|")
            found = [name for name in names if name in tensors]
            if len(found) > 1 or (not found and not key.endswith("?")):
                raise ValueError(f"{self.op}: want one of {names}, found {found}")
            layouts.update({name: layout for name in found})
        known = set(layouts) | {"d_" + name for name in self.outputs} | {"cu_seqlens"}
        if unknown := set(tensors) - known:
            raise ValueError(f"{self.op}: unknown tensors {sorted(unknown)}")
        return layouts

    def _bind(self, layouts, tensors):
        heads = [1]
        for name, layout in layouts.items():
            shape = tensors[name].shape
            if len(shape) != len(layout):
                raise ValueError(f"{self.op}: {name} has shape {shape}, wants axes {layout}")
            for letter, size in zip(layout, shape):
                if letter == "H":
                    heads.append(size)
                elif self.dims.setdefault(letter, size) != size:
                    raise ValueError(f"{self.op}: {name}: axis {letter} is {size}, "
                                     f"elsewhere {self.dims[letter]}")
        H = max(heads)
        if any(H % h for h in heads):
            raise ValueError(f"{self.op}: head counts {heads} do not all divide {H}")
        dims = self.dims
        dims["H"] = H
        if "W" in dims and dims.setdefault("L", dims["W"] - 1) != dims["W"] - 1:
            raise ValueError(f"{self.op}: a convolution window holds W - 1 inputs")
        self.shared = any(name.endswith("_shared") for name in layouts)
        if "M" in dims and dims.setdefault("R", dims["M"] + self.shared) != dims["M"] + self.shared:
            raise ValueError(f"{self.op}: states must hold one matrix per memory")
        if self.packed:
            cu = tensors["cu_seqlens"].values
            good = cu[0] == 0 and cu[-1] == dims["T"] and dims["B"] == 1
            if not good or any(a > b for a, b in zip(cu, cu[1:])):
                raise ValueError(f"{self.op}: bad cu_seqlens {cu}")
            self.segments = [(s, 0, cu[s], cu[s + 1]) for s in range(len(cu) - 1)]
        else:
            self.segments = [(b, b, 0, dims["T"]) for b in range(dims["B"])]
        if dims.setdefault("S", len(self.segments)) != len(self.segments):
            raise ValueError(f"{self.op}: {dims['S']} states for {len(self.segments)} sequences")

    def shape(self, layout):
        return [self.dims[letter] for letter in layout]

    def gate(self, name):
        """The linear gate, from `name` or from `log_name`; exp(-inf) = 0 with derivative 0."""
        return self.x[name] if name in self.x else nested_map(exp, self.x["log_" + name])

    def blank(self, name):
        """A nested list of None in the shape of an output, to be filled in."""
        return _nest([None] * _size(shape := self.shape(self.outputs[name])), shape)


def _size(shape):
    size = 1
    for n in shape:
        size *= n
    return size

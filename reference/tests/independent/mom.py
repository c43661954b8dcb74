"""Mixture of memories: M routed fast-weight memories and perhaps one that every token sees.

    scores = softmax(logits);  selected = the top_k largest (on a tie the lower index)
    g_m = scores_m / sum of the selected scores
    o_t = sum over the selected m of g_m read(S_m, q_t)  (+ read(S_shared, q_t))

A selected memory is updated and then read.  A memory that is not selected keeps its state, without
decay.  The weight multiplies the read, never the write.  The selection is a constant for the
gradient; the renormalised weights are not.

    mom_aux_loss   loss = M sum_m (selections of m / all selections) (mean score of m)
"""

from mpmath import mpf

from fast_weight import Read, initial, step, token_at, token_sources
from tape import exp, value_of, zeros


def softmax(logits):
    """exp(l_m) / sum exp(l)"""
    weights = [exp(l) for l in logits]
    total = sum(weights, mpf(0))
    return [w / total for w in weights]


def selection(logits, top_k):
    """Indices of the top_k largest logits in ascending order; ties go to the lower index."""
    if not 1 <= top_k <= len(logits):
        raise ValueError(f"top_k {top_k} with {len(logits)} memories")
    order = sorted(range(len(logits)), key=lambda m: (-value_of(logits[m]), m))
    return sorted(order[:top_k])


def forward(case):
    """All outputs of `mom` for any fast-weight update."""
    op = case.options.get("update", "gdn")
    top_k, M, shared = case.options["top_k"], case.dims["M"], case.shared
    memories = token_sources(case, op, "_mem")
    common = token_sources(case, op, "_shared") if shared else None
    read = Read(case)
    out = {name: case.blank(name) for name in case.outputs}
    for s, b, t0, t1 in case.segments:
        for h in range(case.dims["H"]):
            states = [[initial(case, "s0", s, m, h), initial(case, "m0", s, m, h)]
                      for m in range(M + shared)]

            def visit(m, token):
                token = read.prepare(token, h)
                states[m] = step(op, *states[m], token)
                return read(states[m][0], token, h)

            for t in range(t0, t1):
                logits = case.x["router_logits"][b][t]
                scores, chosen = softmax(logits), selection(logits, top_k)
                total = sum((scores[m] for m in chosen), mpf(0))
                o = zeros(case.dims["V"])
                for m in chosen:
                    g = scores[m] / total
                    y = visit(m, token_at(op, memories, case, b, t, h, m))
                    o = [oj + g * yj for oj, yj in zip(o, y)]
                if shared:
                    y = visit(M, token_at(op, common, case, b, t, h))
                    o = [oj + yj for oj, yj in zip(o, y)]
                out["o"][b][t][h] = o
            for m in range(M + shared):
                out["s_final"][s][m][h] = states[m][0]
                if op == "mdn":
                    out["m_final"][s][m][h] = states[m][1]
    return out


def aux_loss(case):
    """The load-balancing loss; fractions of selections are constants for the gradient."""
    M, top_k = case.dims["M"], case.options["top_k"]
    tokens = [logits for row in case.x["router_logits"] for logits in row]
    counts, means = [0] * M, zeros(M)
    for logits in tokens:
        for m in selection(logits, top_k):
            counts[m] += 1
        means = [mean + score / mpf(len(tokens)) for mean, score in zip(means, softmax(logits))]
    loss = mpf(0)
    for count, mean in zip(counts, means):
        loss = loss + M * (mpf(count) / (len(tokens) * top_k)) * mean
    return {"loss": loss}

#include "checks/verdict/bound_walk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// Roundings that a step of a kernel may have beyond those of the reference's.
constexpr int kSpareRoundings = 2;

double smaller(double a, double b) { return b < a ? b : a; }  // keeps a when b is NaN

/// A value read by the backward pass: its whole error counts as made within the step.
void inject(Bounded& x) {
  const double total = x.total();
  x.M += x.p;
  x.e = total;
  x.p = x.r = 0;
}

bool is_diagonal(const std::vector<double>& A, const std::vector<double>& radius, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (i != j && (A[i * n + j] != 0 || radius[i * n + j] != 0)) return false;
    }
  }
  return true;
}

}  // namespace

BoundWalk::BoundWalk(const BoundedEngine& engine, LocalProblem<Bounded>& declared,
                     LocalProblem<Bounded>& exact, double stored, double largest)
    : engine_(engine), declared_(declared), exact_(exact), stored_(stored), largest_(largest) {}

std::vector<Bounded> BoundWalk::incoming(const Carried& c) const {
  std::vector<Bounded> state(c.v.size());
  for (std::size_t i = 0; i < state.size(); ++i) state[i] = Bounded::state(c.v[i], c.p[i]);
  return state;
}

Carried BoundWalk::settle(const std::vector<Bounded>& result, std::vector<double>& local) const {
  Carried c;
  c.v.resize(result.size());
  c.p.resize(result.size());
  local.resize(result.size());
  const BoundModel& m = detail::tls_bound;
  for (std::size_t i = 0; i < result.size(); ++i) {
    Bounded x = result[i];
    c.v[i] = x.v;
    if (!x.is_exact_zero()) {
      // Stored in the format of the state.
      x.r += kSpareRoundings * m.elementwise + stored_;
      x.e += m.tiny;
    }
    local[i] = x.error() * kOutward;
    if (!(x.M + local[i] <= largest_)) local[i] = kInfinite;
    c.p[i] = (x.p + local[i]) * kOutward;
    if (std::isnan(c.p[i])) c.p[i] = kInfinite;
  }
  return c;
}

void BoundWalk::transition(std::int64_t t, bool transposed) {
  const BoundScope scope(double_bound_model());
  std::vector<Bounded> entries;
  std::vector<Bounded> state = incoming(states_[t]);
  exact_.context().arena->release();
  order_ =
      engine_.recurrence->transition(exact_.context(), exact_.inputs(t), state.data(), entries);
  const std::size_t size = static_cast<std::size_t>(order_ * order_);
  const std::size_t count = size == 0 ? 0 : entries.size() / size;
  A_.resize(count);
  radius_.resize(count);
  for (std::size_t b = 0; b < count; ++b) {
    A_[b].resize(size);
    radius_[b].resize(size);
    for (std::int64_t i = 0; i < order_; ++i) {
      for (std::int64_t j = 0; j < order_; ++j) {
        const Bounded& x = entries[b * size + i * order_ + j];
        const std::int64_t at = transposed ? j * order_ + i : i * order_ + j;
        A_[b][at] = x.v;
        // |x* - v| for every state between the true one and the kernel's.
        radius_[b][at] = (x.total() + x.p) * kOutward;
      }
    }
  }
}

void BoundWalk::refine(const std::vector<double>& p_prev, const std::vector<double>& local,
                       std::vector<double>& p) {
  if (order_ == 0) return;
  const bool columns = engine_.blocks == StateBlocks::columns;
  const std::int64_t n = order_, blocks = static_cast<std::int64_t>(A_.size());
  const std::int64_t width = columns ? static_cast<std::int64_t>(p.size()) / n : 1;
  ellipsoids_.resize(blocks);
  std::vector<double> before(n), noise(n), after(n);
  for (std::int64_t b = 0; b < blocks; ++b) {
    Ellipsoid& ellipsoid = ellipsoids_[b];
    // Entry i of block b, member j: of all columns, or one row, or the state itself.
    const auto at = [&](std::int64_t i, std::int64_t j) {
      return columns ? i * width + j : b * n + i;
    };
    if (ellipsoid.empty() && is_diagonal(A_[b], radius_[b], n)) continue;
    for (std::int64_t i = 0; i < n; ++i) {
      before[i] = noise[i] = 0;
      for (std::int64_t j = 0; j < width; ++j) {
        before[i] = std::max(before[i], p_prev[at(i, j)]);
        noise[i] = std::max(noise[i], local[at(i, j)]);
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t k = 0; k < n; ++k) {
        if (radius_[b][i * n + k] != 0) noise[i] += radius_[b][i * n + k] * before[k];
      }
      noise[i] *= kOutward;
    }
    double sum = 0;
    for (double x : before) sum += x;
    if (ellipsoid.empty() || !(ellipsoid.trace() <= sum * sum)) ellipsoid.enclose_box(before);
    ellipsoid.advance(A_[b], noise);
    for (std::int64_t i = 0; i < n; ++i) {
      const double half = ellipsoid.half_width(i);
      for (std::int64_t j = 0; j < width; ++j) p[at(i, j)] = smaller(p[at(i, j)], half);
    }
  }
}

void BoundWalk::refine_output(std::int64_t t) {
  if (ellipsoids_.empty() || ellipsoids_[0].empty()) return;
  const std::vector<Bounded> c = engine_.functional(declared_.context(), declared_.inputs(t));
  if (c.empty()) return;
  const std::vector<double>& p = states_[t + 1].p;
  const std::int64_t width = declared_.context().V;
  std::vector<double> middle;
  for (const Bounded& x : c) middle.push_back(x.v);
  const double common = ellipsoids_[0].width(middle);
  for (std::int64_t j = 0; j < width; ++j) {
    double rest = 0;  // c itself is known to within its own error
    for (std::size_t i = 0; i < c.size(); ++i) rest += c[i].total() * p[i * width + j];
    Bounded& o = declared_.outputs(t)(0)[j];
    o.p = smaller(o.p, (common + rest) * kOutward);
  }
}

std::vector<Bounded> BoundWalk::forward() {
  const std::int64_t steps = declared_.unit().steps;
  Context<Bounded>& context = declared_.context();
  const Recurrence<Bounded>& recurrence = *engine_.recurrence;
  std::vector<Bounded> saved(recurrence.saved_size(context, 1));
  std::vector<double> local;
  states_.clear();
  ellipsoids_.clear();
  Carried first;
  for (const Bounded& x : declared_.initial_state()) {
    first.v.push_back(x.v);
    first.p.push_back(x.total());
  }
  states_.push_back(std::move(first));
  for (std::int64_t t = 0; t < steps; ++t) {
    std::vector<Bounded> state = incoming(states_[t]);
    context.readout = false;
    context.arena->release();
    recurrence.forward(context, declared_.inputs(t), 1, state.data(), declared_.outputs(t),
                       saved.data());
    Carried next = settle(state, local);
    transition(t, false);
    refine(states_[t].p, local, next.p);
    states_.push_back(std::move(next));
    state = incoming(states_[t + 1]);
    context.readout = true;
    context.arena->release();
    engine_.read(context, declared_.inputs(t), state.data(), declared_.outputs(t));
    refine_output(t);
  }
  return incoming(states_.back());
}

std::vector<Bounded> BoundWalk::backward(bool clipped) {
  Context<Bounded>& context = declared_.context();
  const Recurrence<Bounded>& recurrence = *engine_.recurrence;
  std::vector<Bounded> saved(recurrence.saved_size(context, 1));
  std::vector<double> local;
  ellipsoids_.clear();
  Carried d;
  for (const Bounded& x : declared_.final_cotangent()) {
    d.v.push_back(x.v);
    d.p.push_back(x.total());
  }
  context.readout = false;
  for (std::int64_t t = declared_.unit().steps; t-- > 0;) {
    std::vector<Bounded> state = incoming(states_[t]), before = state;
    context.arena->release();
    std::fill(saved.begin(), saved.end(), Bounded());
    recurrence.forward(context, declared_.inputs(t), 1, state.data(), declared_.outputs(t),
                       saved.data());
    state = incoming(states_[t + 1]);
    for (auto* set : {&before, &state, &saved}) {
      for (Bounded& x : *set) inject(x);
    }
    std::vector<Bounded> d_state = incoming(d);
    context.arena->release();
    recurrence.adjoint(context, declared_.inputs(t), 1, before.data(), state.data(), saved.data(),
                       declared_.cotangents(t), d_state.data(), declared_.gradients(t));
    Carried next = settle(d_state, local);
    if (!clipped) {
      transition(t, true);
      refine(d.p, local, next.p);
    }
    d = std::move(next);
  }
  context.readout = true;
  return incoming(d);
}

}  // namespace assay

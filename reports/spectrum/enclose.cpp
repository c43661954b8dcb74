#include "reports/spectrum/enclose.hpp"

#include <acb_mat.h>
#include <arf.h>

#include "reference/oracle/local_problem.hpp"
#include "reference/oracle/registry.hpp"
#include "reports/trace/walk.hpp"

namespace assay::reports {
namespace {

constexpr slong kBits = 160;
constexpr std::int64_t kLargestOrder = 32;

class Acb {
 public:
  Acb() { acb_init(x_); }
  ~Acb() { acb_clear(x_); }
  Acb(const Acb&) = delete;
  Acb& operator=(const Acb&) = delete;
  acb_ptr get() { return x_; }

 private:
  acb_t x_;
};

/// radius <- max(radius, |z|)
void take_modulus(Ball& radius, const acb_t z, bool& first) {
  Ball modulus;
  acb_abs(modulus.raw(), z, kBits);
  if (first) {
    radius = modulus;
  } else {
    arb_max(radius.raw(), radius.raw(), modulus.raw(), kBits);
  }
  first = false;
}

/// Both eigenvalues of [[a, b], [c, d]]: (a+d)/2 ± sqrt(((a-d)/2)² + bc).
void quadratic(const Ball& a, const Ball& b, const Ball& c, const Ball& d, Ball& radius,
               bool& first) {
  const Ball half = (a + d) / Ball(2), gap = (a - d) / Ball(2);
  const Ball discriminant = gap * gap + b * c;
  Acb root, value;
  acb_set_arb(root.get(), discriminant.raw());
  acb_sqrt(root.get(), root.get(), kBits);
  acb_add_arb(value.get(), root.get(), half.raw(), kBits);
  take_modulus(radius, value.get(), first);
  acb_neg(root.get(), root.get());
  acb_add_arb(value.get(), root.get(), half.raw(), kBits);
  take_modulus(radius, value.get(), first);
}

bool general(const std::vector<Ball>& A, std::int64_t n, Ball& radius, bool& first) {
  acb_mat_t M;
  acb_mat_init(M, n, n);
  for (std::int64_t i = 0; i < n * n; ++i) {
    acb_set_arb(acb_mat_entry(M, i / n, i % n), A[i].raw());
  }
  mag_t tolerance;
  mag_init(tolerance);
  acb_ptr approximate = _acb_vec_init(n), values = _acb_vec_init(n);
  acb_mat_t vectors;
  acb_mat_init(vectors, n, n);
  acb_mat_approx_eig_qr(approximate, nullptr, vectors, M, nullptr, 0, kBits);
  const bool found = acb_mat_eig_multiple(values, M, approximate, vectors, kBits) != 0;
  for (std::int64_t i = 0; found && i < n; ++i) take_modulus(radius, values + i, first);
  acb_mat_clear(vectors);
  _acb_vec_clear(values, n);
  _acb_vec_clear(approximate, n);
  mag_clear(tolerance);
  acb_mat_clear(M);
  return found;
}

}  // namespace

EnclosedSpectrum enclose_spectrum(const Trace& trace, const TraceUnit& unit, std::int64_t s) {
  EnclosedSpectrum out;
  if (!trace.is_linear()) return out;
  const PrecisionScope scope(kBits);
  const ValidCase valid = trace.slice(unit, s, 1, 1);
  Problem<Ball> problem = lift<Ball>(valid);
  problem.valid = &valid;
  const Engine<Ball> engine = make_engine<Ball>(find_operation(valid.schema.op), valid);
  LocalProblem<Ball> local(problem, *engine.recurrence, make_units(valid, false).front(),
                           Form::recurrent);
  const assay::Block<Ball> x = local.inputs(0);
  Ball radius;
  bool first = true, found = true;
  const std::int64_t K = local.context().K;
  if (valid.schema.op == "mdn") {
    const auto input = [&](const char* name) { return x(input_index(valid.schema, name)); };
    const Ball &alpha = *input("alpha"), &mu = *input("mu"), &beta = *input("beta");
    Ball kappa = 0;
    la::dot_add(kappa, K, input("k"), 1, input("k"), 1);
    const Ball ae = alpha * *input("eta") * kappa, b = -(beta * mu);
    quadratic(alpha - beta * ae, b, ae, mu, radius, first);
    if (K > 1) {  // [[α, -βμ], [0, μ]]
      Acb value;
      acb_set_arb(value.get(), alpha.raw());
      take_modulus(radius, value.get(), first);
      acb_set_arb(value.get(), mu.raw());
      take_modulus(radius, value.get(), first);
    }
  } else {
    std::vector<Ball> A;
    const std::int64_t n = engine.recurrence->transition(local.context(), x, nullptr, A);
    if (n == 0 || n > kLargestOrder) return out;
    found = general(A, n, radius, first);
  }
  if (!found || !arb_is_finite(radius.raw())) return out;
  out.available = true;
  char* text = arb_get_str(radius.raw(), 20, 0);
  out.radius = text;
  flint_free(text);
  arf_t end;
  arf_init(end);
  arb_get_lbound_arf(end, radius.raw(), 64);
  out.lower = arf_get_d(end, ARF_RND_FLOOR);
  arb_get_ubound_arf(end, radius.raw(), 64);
  out.upper = arf_get_d(end, ARF_RND_CEIL);
  arf_clear(end);
  return out;
}

}  // namespace assay::reports

// Load-balancing loss of the MoM router:
//
//   loss = M Σ_m fraction_m mean_m,  fraction_m = selections of m / all selections (a constant),
//   mean_m = mean over all tokens of softmax(logits)_m
//   d_logits(t) = softmax adjoint of d_score_m = M fraction_m d_loss / (B T)
#include "kernels/common/arena.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/router_call.hpp"
#include "kernels/common/routing.hpp"

ASSAY_CPU_BEGIN

namespace {

// Everything of one call; M is small, so one thread does it.
template <class Real>
class AuxLoss {
 public:
  AuxLoss(const Call& call, const RouterCall& r) : call_(call), r_(r) {
    all_ = arena_.template take<std::int64_t>(r.M);
    chosen_ = arena_.template take<std::int64_t>(r.M);
    logits_ = arena_.template take<Real>(r.M);
    score_ = arena_.template take<Real>(r.M);
    weight_ = arena_.template zeros<Real>(r.M);
    d_ = arena_.template take<Real>(r.M);
    for (std::int64_t row = 0; row < r.rows(); ++row) {
      r.row(row, logits_);
      select_top_k(r.M, r.top_k, logits_, chosen_);
      for (std::int64_t j = 0; j < r.top_k; ++j) weight_[chosen_[j]] += Real(1);
    }
    const Real rows = static_cast<Real>(r.rows());
    for (std::int64_t m = 0; r.rows() > 0 && m < r.M; ++m) {
      weight_[m] *= static_cast<Real>(r.M) / (rows * static_cast<Real>(r.top_k)) / rows;
    }
  }

  void run() {
    const View* loss = find_view(call_.outputs, "", "loss");
    const View* d_loss = find_view(call_.cotangents, "d_", "loss");
    const View* gradient = find_view(call_.gradients, "d_", "router_logits");
    Real seed = 0, total = 0;
    if (d_loss) load_row(d_loss->data, d_loss->dtype, 1, 1, &seed);
    for (std::int64_t row = 0; row < r_.rows(); ++row) {
      r_.row(row, logits_);
      // The row in the order of its logits, so that the largest comes first.
      select_top_k(r_.M, r_.M, logits_, all_);
      softmax_chosen(r_.M, all_, logits_, score_);
      for (std::int64_t i = 0; i < r_.M; ++i) total += weight_[all_[i]] * score_[i];
      if (gradient) store_gradient(*gradient, row, seed);
    }
    if (loss) store_row(&total, 1, loss->data, loss->dtype, 1);
  }

 private:
  void store_gradient(const View& g, std::int64_t row, Real seed) {
    for (std::int64_t i = 0; i < r_.M; ++i) logits_[i] = seed * weight_[all_[i]];
    for (std::int64_t i = 0; i < r_.M; ++i) d_[i] = 0;
    softmax_chosen_adjoint(r_.M, all_, score_, logits_, d_);
    char* at = static_cast<char*>(g.data) +
               element_size(g.dtype) * (row / r_.T * g.stride[0] + row % r_.T * g.stride[1]);
    store_row(d_, r_.M, at, g.dtype, g.stride[2]);
  }

  const Call& call_;
  const RouterCall& r_;
  Arena arena_;
  std::int64_t *all_, *chosen_;
  Real *logits_, *score_, *weight_, *d_;
};

Outcome plan(const Call& call, std::size_t* bytes) {
  RouterCall r;
  *bytes = 0;
  return read_router("mom_aux_loss", call, r);
}

Outcome run(const Call& call) {
  RouterCall r;
  if (const Outcome o = read_router("mom_aux_loss", call, r); o.status != Status::ok) return o;
  try {
    if (r.logits->dtype == DType::f64) {
      AuxLoss<double>(call, r).run();
    } else {
      AuxLoss<float>(call, r).run();
    }
  } catch (const std::bad_alloc&) {
    return refuse(Status::out_of_memory, "mom_aux_loss: no memory for temporaries");
  }
  return {};
}

}  // namespace

const OpKernel mom_aux_loss_kernel{"mom_aux_loss", false, plan, run};

ASSAY_CPU_END

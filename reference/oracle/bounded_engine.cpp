// The operations that have a hard bound. Only their recurrent forms are instantiated for Bounded.
#include "reference/oracle/bounded_engine.hpp"

#include "reference/recurrences/comba.hpp"
#include "reference/recurrences/delta.hpp"
#include "reference/recurrences/gated_delta_product.hpp"
#include "reference/recurrences/gdn.hpp"
#include "reference/recurrences/gla.hpp"
#include "reference/recurrences/gru.hpp"
#include "reference/recurrences/hgrn2.hpp"
#include "reference/recurrences/kda.hpp"
#include "reference/recurrences/linear_attention.hpp"
#include "reference/recurrences/lstm.hpp"
#include "reference/recurrences/m2rnn.hpp"
#include "reference/recurrences/mdn.hpp"
#include "reference/recurrences/retention.hpp"
#include "reference/recurrences/rnn.hpp"
#include "reference/recurrences/ssd.hpp"

namespace assay {
namespace {

/// The update U in its recurrent form; with `Steps` false a step leaves the state alone, so that
/// FastWeight only reads out.
template <class U, bool Steps>
class RecurrentUpdate final : public Update<Bounded> {
 public:
  using C = Context<Bounded>;
  using X = Fields<Bounded>;
  int input_count() const override { return static_cast<int>(U::spec().inputs.size()); }
  int state_count() const override { return U::spec().states; }
  std::int64_t saved_size(const C& c) const override { return U::saved_size(c); }
  void step(C& c, const X& x, Bounded* S, Bounded* saved) const override {
    if constexpr (Steps) U::step(c, x, S, saved);
  }
  void adjoint_step(C& c, const X& x, const Bounded* S_prev, const Bounded* S, const Bounded* saved,
                    Bounded* d_S, const X& d_x) const override {
    if constexpr (Steps) U::adjoint_step(c, x, S_prev, S, saved, d_S, d_x);
  }
  void transition(C& c, const X& x, Bounded* A) const override {
    if constexpr (Steps) U::transition(c, x, A);
  }
};

template <class U>
struct FastWeightEngine final : BoundedEngine {
  explicit FastWeightEngine(const ValidCase& c)
      : reader(std::make_unique<RecurrentUpdate<U, false>>(), U::spec(), c),
        scale(readout_scale<Bounded>(c)) {
    recurrence = std::make_unique<FastWeight<Bounded>>(std::make_unique<RecurrentUpdate<U, true>>(),
                                                       U::spec(), c);
  }
  void read(Context<Bounded>& c, const Block<Bounded>& x, const Bounded* state,
            const Block<Bounded>& out) const override {
    // The reader writes nothing into the state.
    reader.forward(c, x, 1, const_cast<Bounded*>(state), out, nullptr);
  }
  std::vector<Bounded> functional(Context<Bounded>& c, const Block<Bounded>& x) const override {
    std::vector<Bounded> q(x(0), x(0) + c.K);
    la::scale(c.K, scale, q.data());
    return q;
  }
  FastWeight<Bounded> reader;
  Bounded scale;
};

struct M2rnnEngine final : BoundedEngine {
  M2rnnEngine() {
    recurrence = std::make_unique<StepRecurrence<M2rnn, Bounded>>();
    blocks = StateBlocks::rows;
  }
  // y = H^T q + w_residual ∘ v
  void read(Context<Bounded>& c, const Block<Bounded>& x, const Bounded* H,
            const Block<Bounded>& out) const override {
    Bounded* y = out(0);
    for (std::int64_t j = 0; j < c.V; ++j) y[j] = x(M2rnn::w_residual)[j] * x(M2rnn::v)[j];
    la::gemv_t_add(c.K, c.V, H, x(M2rnn::q), y);
  }
};

/// Cells whose output is the state.
template <class Cell>
struct CellEngine final : BoundedEngine {
  CellEngine() {
    recurrence = std::make_unique<StepRecurrence<Cell, Bounded>>();
    blocks = StateBlocks::whole;
  }
  void read(Context<Bounded>& c, const Block<Bounded>&, const Bounded* h,
            const Block<Bounded>& out) const override {
    for (std::int64_t j = 0; j < c.size('D'); ++j) out(0)[j] = h[j];
  }
};

template <class U>
std::unique_ptr<BoundedEngine> fast_weight(const ValidCase& c) {
  return std::make_unique<FastWeightEngine<U>>(c);
}

using Make = std::unique_ptr<BoundedEngine> (*)(const ValidCase&);
struct Entry {
  const char* op;
  Make make;
};
constexpr Entry kEntries[] = {
    {"comba", fast_weight<Comba>},
    {"delta", fast_weight<Delta>},
    {"gated_delta_product", fast_weight<GatedDeltaProduct>},
    {"gdn", fast_weight<Gdn>},
    {"gla", fast_weight<Gla>},
    {"hgrn2", fast_weight<Hgrn2>},
    {"kda", fast_weight<Kda>},
    {"linear_attention", fast_weight<LinearAttention>},
    {"mdn", fast_weight<Mdn>},
    {"retention", fast_weight<Retention>},
    {"ssd", fast_weight<Ssd>},
    {"m2rnn",
     [](const ValidCase&) -> std::unique_ptr<BoundedEngine> {
       return std::make_unique<M2rnnEngine>();
     }},
    {"rnn",
     [](const ValidCase&) -> std::unique_ptr<BoundedEngine> {
       return std::make_unique<CellEngine<Rnn>>();
     }},
    {"gru",
     [](const ValidCase&) -> std::unique_ptr<BoundedEngine> {
       return std::make_unique<CellEngine<Gru>>();
     }},
    {"lstm",
     [](const ValidCase&) -> std::unique_ptr<BoundedEngine> {
       return std::make_unique<CellEngine<Lstm>>();
     }},
};

}  // namespace

std::unique_ptr<BoundedEngine> bounded_engine(const ValidCase& c, std::string& why) {
  for (const Entry& entry : kEntries) {
    if (c.data.op == entry.op) return entry.make(c);
  }
  why = "no derivation covers " + c.data.op;
  return nullptr;
}

}  // namespace assay

#include "kernels/common/gradients.hpp"

ASSAY_CPU_BEGIN

template <class Real>
GradientScratch<Real>::GradientScratch(const Binding& b, void* workspace) : b_(b) {
  for (int i = 0; i < b.fields; ++i) {
    const Operand& d = b.d_field[i];
    first_reduction_[i + 1] = first_reduction_[i];
    if (!d.present) continue;
    const std::int64_t heads = b.spec->coupled_heads ? 1 : b.H;
    std::int64_t elements = 0;
    if (d.per_token) {
      if (d.heads == heads) continue;
      token_part_[i] = true;
      elements = b.tokens * heads * d.width;
      first_reduction_[i + 1] += (b.tokens + kTile - 1) / kTile;
    } else {
      elements = b.units() * d.width;
      first_reduction_[i + 1] += d.heads;
    }
    part_[i] = reinterpret_cast<Real*>(static_cast<char*>(workspace) + (workspace ? bytes_ : 0));
    bytes_ += (static_cast<std::size_t>(elements) * sizeof(Real) + 63) / 64 * 64;
  }
}

// Parts are [token,head,width], tokens counted over the batch.
template <class Real>
void GradientScratch<Real>::keep_token(int field, const Unit& u, std::int64_t t, std::int64_t n,
                                       const Real* d) const {
  const std::int64_t width = b_.d_field[field].width;
  const std::int64_t token = u.batch * b_.axis('T') + u.start + t;
  for (std::int64_t s = 0; s < n; ++s) {
    Real* row = part_[field] + ((token + s) * b_.H + u.head) * width;
    for (std::int64_t j = 0; j < width; ++j) row[j] = d[s * width + j];
  }
}

template <class Real>
void GradientScratch<Real>::keep_param(int field, std::int64_t unit, const Real* d) const {
  if (!part_[field]) return;
  const std::int64_t width = b_.d_field[field].width;
  for (std::int64_t j = 0; j < width; ++j) part_[field][unit * width + j] = d[j];
}

template <class Real>
void GradientScratch<Real>::reduce(std::int64_t i, Arena& arena) const {
  int field = 0;
  while (i >= first_reduction_[field + 1]) ++field;
  const ArenaScope scope(arena);
  if (token_part_[field]) {
    reduce_tokens(field, i - first_reduction_[field], arena);
  } else {
    reduce_param(field, i - first_reduction_[field], arena);
  }
}

template <class Real>
void GradientScratch<Real>::reduce_tokens(int field, std::int64_t tile, Arena& arena) const {
  const Operand& d = b_.d_field[field];
  const std::int64_t group = b_.H / d.heads, T = b_.axis('T');
  Real* sum = arena.take<Real>(d.width);
  for (std::int64_t token = tile * kTile; token < b_.tokens && token < (tile + 1) * kTile;
       ++token) {
    Unit u;
    u.batch = token / T;
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const Real* part = part_[field] + (token * b_.H + h * group) * d.width;
      for (std::int64_t j = 0; j < d.width; ++j) sum[j] = part[j];
      for (std::int64_t g = 1; g < group; ++g) {
        for (std::int64_t j = 0; j < d.width; ++j) sum[j] += part[g * d.width + j];
      }
      store_rows(d, u, token % T, 1, h, sum);
    }
  }
}

template <class Real>
void GradientScratch<Real>::reduce_param(int field, std::int64_t head, Arena& arena) const {
  const Operand& d = b_.d_field[field];
  const std::int64_t heads = b_.spec->coupled_heads ? 1 : b_.H, group = heads / d.heads;
  Real* sum = arena.zeros<Real>(d.width);
  for (std::int64_t s = 0; s < b_.sequences; ++s) {
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      const Real* part = part_[field] + (s * heads + h) * d.width;
      for (std::int64_t j = 0; j < d.width; ++j) sum[j] += part[j];
    }
  }
  store_rows(d, Unit{}, 0, 1, head, sum);
}

template class GradientScratch<float>;
template class GradientScratch<double>;

ASSAY_CPU_END

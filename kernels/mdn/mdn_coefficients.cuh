// A chunk's coefficients from its gates. Steps are taken in blocks of 16, each from its own start,
// so that all blocks go at once; what comes before a block enters through what the block does to
// (γ, m):
//
//   γ_i = P_i γ + C_i m,  m_i = μ̄_i m    from (γ, m) at the end of the block before
//
// Only products and sums: gates of 0 need no exception. Without momentum, m = 0 after a step.
#pragma once

#include "kernels/mdn/mdn_fast.cuh"

namespace assay::cuda {

inline constexpr int kBlock = 16, kBlocks = kChunk / kBlock;

struct MdnCoefficients {
  static constexpr int kPitch = 24, kSquare = kBlock * kPitch + 16;  // no bank conflicts

  float gates[4 * kChunk];             // alpha, mu, beta, eta
  float vectors[kVectorsBytes / 4];    // as in the record
  float square[kBlocks * kSquare];     // Γ of the blocks on the diagonal
  float gamma[kBlocks][kChunk];        // of column j at the end of each block from j's own on
  float m[kBlocks][kChunk];            // the same
  float decay[kChunk], carry[kChunk];  // P_i, C_i
  float decay_before[kChunk], carry_before[kChunk];  // P_{i-1}, C_{i-1}
  float of_block[3][kBlocks];                        // P, C, μ̄ of the last step

  /// Γ of a step and two columns of the step's own block, counted in it.
  __device__ __forceinline__ float2 on_diagonal(int block, int row, int column) const {
    return *reinterpret_cast<const float2*>(square + block * kSquare + row * kPitch + column);
  }
};

template <int count>
__device__ __forceinline__ void load_floats(float (&to)[count], const float* from) {
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    const float4 x = *reinterpret_cast<const float4*>(from + i);
    to[i] = x.x, to[i + 1] = x.y, to[i + 2] = x.z, to[i + 3] = x.w;
  }
}

/// By 2 kChunk threads: the first have a column each, the others a step. Begins and ends with a
/// barrier.
template <bool momentum>
__device__ __forceinline__ void make_coefficients(MdnCoefficients& c, bool exclusive) {
  __syncthreads();
  const int t = threadIdx.x % kChunk, block = t / kBlock, own = t % kBlock;
  const bool column = threadIdx.x < kChunk;
  float alpha[kBlock], mu[kBlock], beta[kBlock];
  load_floats(alpha, c.gates + block * kBlock);
  load_floats(beta, c.gates + 2 * kChunk + block * kBlock);
  if constexpr (momentum) load_floats(mu, c.gates + kChunk + block * kBlock);
  float gamma = 0, m = 0, own_decay = 1, own_carry = 0, own_mu = 1;
  if (column) {
    float* to = c.square + block * MdnCoefficients::kSquare + own;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      if constexpr (momentum) {
        m *= mu[i];
        gamma = fmaf(alpha[i], gamma, beta[i] * m);
      } else {
        gamma *= alpha[i];
      }
      if (i == own) gamma = beta[i], m = 1;
      to[i * MdnCoefficients::kPitch] = gamma;
    }
    c.gamma[block][t] = gamma;
    if constexpr (momentum) c.m[block][t] = m;
  } else {
    float decay = 1, carry = 0, mu_bar = 1, decay_before = 1, carry_before = 0;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      if (i == own) decay_before = decay, carry_before = carry;
      decay *= alpha[i];
      if constexpr (momentum) {
        mu_bar *= mu[i];
        carry = fmaf(alpha[i], carry, beta[i] * mu_bar);
      }
      if (i == own) own_decay = decay, own_carry = carry, own_mu = mu_bar;
    }
    c.decay[t] = own_decay, c.decay_before[t] = decay_before;
    if constexpr (momentum) c.carry[t] = own_carry, c.carry_before[t] = carry_before;
    if (own == 0) {
      c.of_block[0][block] = decay, c.of_block[1][block] = carry, c.of_block[2][block] = mu_bar;
    }
  }
  __syncthreads();
  if (column) {
#pragma unroll
    for (int next = 1; next < kBlocks; ++next) {
      if (next <= block) continue;
      gamma *= c.of_block[0][next];
      if constexpr (momentum) {
        gamma = fmaf(c.of_block[1][next], m, gamma);
        m *= c.of_block[2][next];
        c.m[next][t] = m;
      }
      c.gamma[next][t] = gamma;
    }
    const float eta = c.gates[3 * kChunk + t];
    c.vectors[kWrite * kChunk + t] = gamma * eta;
    if constexpr (momentum) c.vectors[kWriteMomentum * kChunk + t] = m * eta;
  } else {
    float decay = 1, b = 0, mu_bar = 1;  // before the block
#pragma unroll
    for (int before = 0; before < kBlocks - 1; ++before) {
      if (before >= block) continue;
      if constexpr (momentum) {
        b = fmaf(c.of_block[0][before], b, c.of_block[1][before] * mu_bar);
        mu_bar *= c.of_block[2][before];
      }
      decay *= c.of_block[0][before];
    }
    if constexpr (momentum) {
      const float to = fmaf(c.decay_before[t], b, c.carry_before[t] * mu_bar);
      b = fmaf(own_decay, b, own_carry * mu_bar);
      c.vectors[kCarry * kChunk + t] = c.gates[t] * to;
      c.vectors[kReadCarry * kChunk + t] = b;
      mu_bar *= own_mu;
    }
    decay *= exclusive ? c.decay_before[t] : own_decay;
    c.vectors[kDecay * kChunk + t] = decay;
    if (t == kChunk - 1) {
      c.vectors[kEndDecay] = decay, c.vectors[kEndCarry] = b, c.vectors[kEndMomentum] = mu_bar;
    }
  }
  __syncthreads();
}

}  // namespace assay::cuda

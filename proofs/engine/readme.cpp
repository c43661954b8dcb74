// proofs/README.md: how to add a claim, and every claim with its result.
#include "proofs/engine/prove.hpp"

namespace assay::proofs {
namespace {

constexpr const char* kHead = R"(# Proofs

Made by `assay prove --readme proofs/README.md`; a test compares it with what the program says.

    assay list claims                             # what is claimed
    assay prove                                   # prove or refute everything
    assay prove 'mdn/*' --siblings                # by id or glob; how false siblings were refused
    assay prove --certificates certs              # certificates, SMT-LIB files, counterexamples
    assay verify-cert certs                       # check them with code that did not find them

`engine/` finds, `checker/` checks. A result counts only when the checker accepted it, and the checker
includes nothing of the engine: it has its own JSON reader, polynomials, residues, intervals and
matrix inequalities on GMP. Both run the recurrences of `reference/`, which are the object of the
claims, through the equations of `programs/`.

| answer | means |
| --- | --- |
| PROVED | by exact algebra or enclosures, for everything in the domain |
| PROVED up to 2^-100 | as polynomials modulo 2^61 - 1 at random points: a false identity of the stated degree passes with at most that probability |
| REFUTED | the printed form, by an exact counterexample of the smallest size; the right form is proved beside it |
| UNDECIDED | with what was tried |

| kind of statement | found by | certificate | checked by |
| --- | --- | --- | --- |
| identity | FLINT normal form | its digest and number of terms | own polynomials |
| for all reals with constraints | given, or exact linear programming (Z3) over products of constraints; nlsat of Z3 as second opinion | a positive combination of products of constraints | expanding it |
| program | the templates of `reference/` on polynomials or residues | digests of normal forms or of values | the same templates on own numbers |
| cycle | given | gates, keys, trace, determinant | rational 2x2 products |
| nonexpansion | barrier method in floating point, rounded | quadratic forms by type of the next step | Bernstein coefficients in η, integers |
| polygon | grown in floating point, rounded | vertices | images of vertices, integers |
| enclosure | branch and bound on Arb balls | tree of boxes | own rational intervals |
| operation | dual numbers over F_p, input by input | seed and pairings | all inputs at once |
| roundings | counting scalar | counts | counting again |

The element of the field behind a variable `x` at point n is the first 16 hexadecimal digits of
SHA-256 of `assay point SEED n x`, modulo 2^61 - 1.

## How to add a claim

A file in `claims/` is a family; CMake finds it. This one, `claims/example.cpp`, is complete:

```cpp
#include "proofs/claims/claim.hpp"

ASSAY_CLAIMS(example) {
  list.claim("mdn/trace-below-two", "own", "the trace of a key block is below 2")
      .over("α, μ in [0, 1), β, η >= 0")
      .forall({"alpha", "beta", "mu", "eta"},
              {{"a", "alpha >= 0"}, {"A", "1 - alpha > 0"}, {"M", "1 - mu > 0"},
               {"b", "beta >= 0"}, {"e", "eta >= 0"}},
              "2 - (alpha + mu - alpha*beta*eta) > 0")
      .sibling("it is below 1")
      .forall({"alpha", "mu"}, {{"a", "alpha >= 0"}, {"A", "1 - alpha > 0"}, {"M", "1 - mu > 0"}},
              "1 - (alpha + mu) > 0");
}
```

The combination is searched for when none is given; here it finds `A + M + a*b*e`. After a build:

    $ assay prove mdn/trace-below-two --siblings
    PROVED              mdn/trace-below-two                    0.1 s  positive combination
        sibling refused: refuted: alpha = 1/2, mu = 1/2, left 0, right 0

`not_forall`, `not_identity` and `not_program` ask for a counterexample. A statement between
recurrences is a program in `programs/`: a template that returns pairs that must be equal.

## Claims

)";

std::string in_cell(std::string text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string readme_text(const std::vector<Outcome>& outcomes) {
  std::string text = kHead;
  text += "| id | source | statement | domain | method | false sibling, refused | result |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Outcome& o : outcomes) {
    const Claim& c = *o.claim;
    text += "| `" + c.id + "` | " + in_cell(c.source) + " | " + in_cell(c.says) + " | " +
            in_cell(c.domain) + " | " + in_cell(o.method) + " | " + in_cell(c.sibling_says) +
            " | " + o.answer +
            (c.erratum          ? ", right form PROVED"
             : c.counterexample ? " by counterexample"
                                : "") +
            " |\n";
  }
  return text;
}

}  // namespace assay::proofs

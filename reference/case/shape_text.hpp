// Axis lengths from the command line: "B=1,T=65,H=2,H.q=1,K=64,V=32,cu=0,0,65".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay {

struct ShapeRequest {
  std::map<char, std::int64_t> lengths;       // of the axes that are free
  std::map<std::string, std::int64_t> heads;  // inputs with fewer heads
  std::vector<std::int64_t> cu_seqlens;       // empty: not packed

  Shape shape_of(const Schema& schema, const InputSpec& input) const;
};

/// Throws InputError. Lengths left out get small defaults. `full` is the schema with all that the
/// operation can have, whose axes are known too.
ShapeRequest parse_shape(const std::string& text, const Schema& schema, const Schema& full);

}  // namespace assay

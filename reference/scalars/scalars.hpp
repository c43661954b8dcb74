// All scalars. A header that needs one or two of them includes those instead.
#pragma once

#include "reference/scalars/ball.hpp"           // IWYU pragma: export
#include "reference/scalars/double.hpp"         // IWYU pragma: export
#include "reference/scalars/double_double.hpp"  // IWYU pragma: export
#include "reference/scalars/dual.hpp"           // IWYU pragma: export
#include "reference/scalars/field.hpp"          // IWYU pragma: export
#include "reference/scalars/functions.hpp"      // IWYU pragma: export
#include "reference/scalars/instantiate.hpp"    // IWYU pragma: export
#include "reference/scalars/linalg.hpp"         // IWYU pragma: export
#include "reference/scalars/mpfr.hpp"           // IWYU pragma: export
#include "reference/scalars/noisy.hpp"          // IWYU pragma: export
#include "reference/scalars/precision.hpp"      // IWYU pragma: export
#include "reference/scalars/rational.hpp"       // IWYU pragma: export
#include "reference/scalars/rounded.hpp"        // IWYU pragma: export

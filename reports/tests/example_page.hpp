// A page with one of everything, for tests and for looking at.
#pragma once

#include "reports/render/page.hpp"

namespace assay::render {

Page example_page();

}  // namespace assay::render

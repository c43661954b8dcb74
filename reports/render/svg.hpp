// What gnuplot writes, made fit for a page.
#pragma once

#include <string>
#include <vector>

namespace assay::render {

/// For the inside of a page: no XML header, black becomes the page's currentColor,
/// the palette's colours become its --series-N (style.hpp), ids begin with
/// `id`, empty groups go, `label` for screen readers, `names` as tooltips of the plots in order.
std::string inline_svg(std::string svg, const std::string& id, const std::string& label,
                       const std::vector<std::string>& names);

/// For a file of its own: as above, colours and header kept.
std::string file_svg(std::string svg, const std::string& id, const std::string& label);

/// For HTML, XML and attributes in double quotes: & < > " ' and control characters.
std::string escape_markup(const std::string& text);

}  // namespace assay::render

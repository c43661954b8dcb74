#include "reports/render/svg.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "reference/case/text.hpp"
#include "reports/render/figure.hpp"

namespace assay::render {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t hit; (hit = text.find(from, at)) != std::string::npos;) {
    out.append(text, at, hit - at);
    out += to;
    at = hit + from.size();
  }
  out.append(text, at, std::string::npos);
  text = std::move(out);
}

/// Removes every stretch from `begin` up to and with `end`.
void cut_all(std::string& text, const std::string& begin, const std::string& end) {
  for (std::size_t from = 0; (from = text.find(begin, from)) != std::string::npos;) {
    const std::size_t to = text.find(end, from + begin.size());
    if (to == std::string::npos) return;
    text.erase(from, to + end.size() - from);
  }
}

/// Groups without contents: most of what gnuplot writes.
void cut_empty_groups(std::string& text) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t hit; (hit = text.find("<g ", at)) != std::string::npos;) {
    const std::size_t open = text.find('>', hit);
    if (open == std::string::npos) break;
    const std::size_t next = text.find_first_not_of(" \t\n", open + 1);
    const bool empty = next != std::string::npos && text.compare(next, 4, "</g>") == 0;
    out.append(text, at, (empty ? hit : open + 1) - at);
    at = empty ? next + 4 : open + 1;
  }
  out.append(text, at, std::string::npos);
  text = std::move(out);
}

/// Plots that have no title in the key have their id for one.
void put_names(std::string& text, const std::vector<std::string>& names) {
  for (std::size_t n = 0; n < names.size(); ++n) {
    const std::string title = fmt::format("<title>gnuplot_plot_{}</title>", n + 1);
    replace_all(text, title,
                names[n].empty() ? "" : "<title>" + escape_markup(names[n]) + "</title>");
  }
  cut_all(text, "<title>gnuplot_plot_", "</title>");
}

/// Tooltips of points are calls of a script that we do not have; they become titles.
void put_tips(std::string& text) {
  const std::string begin = " onmousemove=\"gnuplot_svg.showHypertext(evt,'", end = "')\"";
  const std::string blank = "<title> </title>";
  for (std::size_t from = 0; (from = text.find(begin, from)) != std::string::npos;) {
    const std::size_t tip = from + begin.size(), stop = text.find(end, tip);
    const std::size_t title = text.find(blank, stop);
    if (stop == std::string::npos || title == std::string::npos) return;
    const std::string words = "><title>" + text.substr(tip, stop - tip) + "</title>";
    text.replace(from, title + blank.size() - from, words);
    from += words.size();
  }
}

void own_ids(std::string& text, const std::string& id) {
  for (const char quote : {'\'', '"'}) {
    for (const char* name : {"gpDot", "gpPt", "gnuplot_"}) {
      const std::string q(1, quote);
      replace_all(text, "id=" + q + name, "id=" + q + id + "_" + name);
      replace_all(text, "href=" + q + "#" + name, "href=" + q + "#" + id + "_" + name);
    }
  }
}

std::string tidy(std::string svg, const std::string& id, const std::string& label,
                 const std::vector<std::string>& names) {
  cut_all(svg, "<desc>", "</desc>\n");
  cut_all(svg, "<filter", "</filter>\n");  // boxes behind text, which we never draw
  const std::size_t first = svg.find("<title>");
  const std::size_t last = svg.find("</title>", first);
  if (last != std::string::npos) {
    svg.replace(first, last - first, "<title>" + escape_markup(label));
  }
  put_names(svg, names);
  put_tips(svg);
  own_ids(svg, id);
  cut_empty_groups(svg);
  // A cell of a heat map has an edge.
  replace_all(svg, "<image ", "<image style=\"image-rendering:pixelated\" ");
  replace_all(svg, "\n\n", "\n");
  return svg;
}

}  // namespace

std::string escape_markup(const std::string& text) {
  const std::string safe = is_utf8(text) ? text : printable(text, text.size() * 4 + 4);
  std::string out;
  for (const char c : safe) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string inline_svg(std::string svg, const std::string& id, const std::string& label,
                       const std::vector<std::string>& names) {
  svg = tidy(std::move(svg), id, label, names);
  const std::size_t begin = svg.find("<svg");
  if (begin != std::string::npos) svg.erase(0, begin);
  replace_all(svg, " xmlns:xlink=\"http://www.w3.org/1999/xlink\"\n", "");
  replace_all(svg, " xmlns=\"http://www.w3.org/2000/svg\"\n", "");
  replace_all(svg, "xlink:href", "href");
  for (const std::string quote : {"'", "\""}) {
    for (const std::string what : {"stroke", "fill"}) {
      replace_all(svg, what + "=" + quote + "black" + quote,
                  what + "=" + quote + "currentColor" + quote);
    }
  }
  for (std::size_t n = 0; n < palette().size(); ++n) {
    unsigned r = 0, g = 0, b = 0;
    std::sscanf(palette()[n].c_str(), "#%2x%2x%2x", &r, &g, &b);
    replace_all(svg, fmt::format("rgb({:3}, {:3}, {:3})", r, g, b),
                fmt::format("var(--series-{})", n + 1));
  }
  for (const char* own : {" color=\"black\"", " color=\"white\"", " font-family=\"sans-serif\""}) {
    replace_all(svg, own, "");
  }
  replace_all(svg, "<svg ", "<svg role=\"img\" aria-label=\"" + escape_markup(label) + "\"");
  return svg;
}

std::string file_svg(std::string svg, const std::string& id, const std::string& label) {
  return tidy(std::move(svg), id, label, {});
}

}  // namespace assay::render

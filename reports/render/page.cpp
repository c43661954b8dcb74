#include "reports/render/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "reports/render/style.hpp"
#include "reports/render/svg.hpp"

namespace assay::render {
namespace {

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t n = 0; n < 3; ++n) {
      word = word << 8 | (n < count ? static_cast<unsigned char>(bytes[i + n]) : 0u);
    }
    for (std::size_t n = 0; n < 4; ++n) {
      out += n <= count ? kDigits[word >> (18 - 6 * n) & 63] : '=';
    }
  }
  return out;
}

const char* tone_name(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "good";
    case Tone::bad:
      return "bad";
    case Tone::warn:
      return "warn";
    case Tone::neutral:
      break;
  }
  return "neutral";
}

const char* symbol(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "✔";
    case Tone::bad:
      return "✘";
    case Tone::warn:
      return "▲";
    case Tone::neutral:
      break;
  }
  return "●";
}

std::string block_html(const Block& block);

std::string blocks_html(const std::vector<Block>& blocks) {
  std::string out;
  for (const Block& block : blocks) out += block_html(block);
  return out;
}

std::string html(const Paragraph& p) { return "<p>" + escape_markup(p.text) + "</p>\n"; }

std::string html(const Notes& notes) {
  if (notes.lines.empty()) return "";
  std::string out = "<ul>\n";
  for (const std::string& line : notes.lines) out += "<li>" + escape_markup(line) + "</li>\n";
  return out + "</ul>\n";
}

std::string html(const Code& code) {
  return "<pre tabindex=\"0\">" + escape_markup(code.text) + "</pre>\n";
}

std::string cell_html(const Cell& cell, const Column& column) {
  std::string names = column.numeric ? "n" : "";
  std::string text = escape_markup(cell.text);
  if (cell.tone != Tone::neutral) {
    names += std::string(names.empty() ? "" : " ") + tone_name(cell.tone);
    text = std::string(symbol(cell.tone)) + " " + text;
  }
  return "<td" + (names.empty() ? "" : " class=\"" + names + "\"") + ">" + text + "</td>";
}

std::string html(const Table& table) {
  // Before the box that scrolls: a long caption must not scroll with a wide table.
  const std::string caption = escape_markup(table.caption);
  std::string out = caption.empty() ? "" : "<p class=\"caption\">" + caption + "</p>\n";
  out += "<div class=\"scroll\" tabindex=\"0\"><table" +
         (caption.empty() ? "" : " aria-label=\"" + caption + "\"") + ">\n";
  out += "<thead><tr>";
  for (const Column& column : table.columns) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", column.numeric ? " class=\"n\"" : "",
                       escape_markup(column.name));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < table.columns.size(); ++i) {
      out += cell_html(row[i], table.columns[i]);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string html(const Figure& figure) {
  std::string out = fmt::format("<figure id=\"{}\">\n", escape_markup(figure.id));
  if (!figure.title.empty()) out += "<h3>" + escape_markup(figure.title) + "</h3>\n";
  out += fmt::format("<div class=\"panels\">\n");
  for (const std::string& svg : panel_svgs(figure)) {
    out += fmt::format("<div class=\"panel\" style=\"max-width:{}px\">{}</div>\n",
                       figure.panel_width, svg);
  }
  return out + "</div>\n<figcaption>" + escape_markup(figure.caption) +
         "</figcaption>\n</figure>\n";
}

std::string html(const Download& file) {
  return fmt::format(
      "<p class=\"download\"><a download=\"{0}\" href=\"data:{1};base64,{2}\">{0}</a>"
      " ({3} bytes)</p>\n",
      escape_markup(file.file_name), escape_markup(file.mime), base64(file.bytes),
      file.bytes.size());
}

std::string html(const Details& details) {
  return "<details><summary>" + escape_markup(details.summary) + "</summary>\n" +
         blocks_html(details.blocks) + "</details>\n";
}

std::string block_html(const Block& block) {
  return std::visit([](const auto& b) { return html(b); }, block);
}

std::string provenance_html(const Page& page) {
  if (page.provenance.empty()) return "";
  std::string out = "<footer>\n<h2>Provenance</h2>\n<dl>\n";
  for (const auto& [name, value] : page.provenance) {
    out += "<dt>" + escape_markup(name) + "</dt><dd>" + escape_markup(value) + "</dd>\n";
  }
  return out + "</dl>\n</footer>\n";
}

}  // namespace

std::string render_page(const Page& page) {
  const std::string title = escape_markup(page.title);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>" +
      title + "</title>\n<style>\n" + kStyle + "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>" +
      title + "</h1>\n";
  if (!page.subtitle.empty()) {
    out += "<p class=\"subtitle\">" + escape_markup(page.subtitle) + "</p>\n";
  }
  const Headline& v = page.verdict;
  if (!v.word.empty()) {
    out += fmt::format(
        "<p class=\"verdict {}\" role=\"status\"><strong>{} {}</strong> <span>{}</span></p>\n",
        tone_name(v.tone), symbol(v.tone), escape_markup(v.word), escape_markup(v.sentence));
  }
  out += "</header>\n";
  for (const Section& section : page.sections) {
    out += "<section>\n<h2>" + escape_markup(section.title) + "</h2>\n" +
           blocks_html(section.blocks) + "</section>\n";
  }
  return out + provenance_html(page) + "</main>\n</body>\n</html>\n";
}

}  // namespace assay::render

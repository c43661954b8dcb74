// A report as one self-contained HTML page: the verdict first, then sections, then where it comes
// from. No script, no network, no other file. Everything given here is plain text and is escaped.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "reports/render/figure.hpp"

namespace assay::render {

/// How the verdict is coloured; its word and symbol say the same without colour.
enum class Tone { good, bad, warn, neutral };

struct Headline {
  Tone tone = Tone::neutral;
  std::string word;      // "PASS", "UNSTABLE"
  std::string sentence;  // what was found, with numbers
};

struct Column {
  std::string name;
  bool numeric = false;  // right-aligned, figures of equal width
};

/// A cell that stands out carries the tone's symbol too.
struct Cell {
  std::string text;
  Tone tone = Tone::neutral;
  Cell(std::string t = "", Tone n = Tone::neutral) : text(std::move(t)), tone(n) {}
  Cell(const char* t) : text(t) {}
};

struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

struct Paragraph {
  std::string text;
};

/// A list of remarks.
struct Notes {
  std::vector<std::string> lines;
};

/// Text in fixed width: a command, a program's output.
struct Code {
  std::string text;
};

/// A file inside the page, as a link with a data: URI.
struct Download {
  std::string file_name, mime, bytes;
};

/// A part that is closed at first (open when printed).
struct Details;

using Block = std::variant<Paragraph, Notes, Code, Table, Figure, Download, Details>;

struct Details {
  std::string summary;
  std::vector<Block> blocks;
};

struct Section {
  std::string title;
  std::vector<Block> blocks;
};

struct Page {
  std::string title;     // of the window and the page
  std::string subtitle;  // what was looked at
  Headline verdict;
  std::vector<Section> sections;
  std::vector<std::pair<std::string, std::string>> provenance;  // program, command, input, hash
};

/// The page as bytes; the same page gives the same bytes. Throws RenderError when a figure cannot
/// be drawn.
std::string render_page(const Page& page);

}  // namespace assay::render

#include "reports/render/report.hpp"

#include <cmath>
#include <filesystem>

#include "reference/case/file_io.hpp"
#include "reference/case/tensor.hpp"
#include "reference/case/text.hpp"

namespace assay::render {
namespace {

void collect(const std::vector<Block>& blocks, std::vector<const Figure*>& figures) {
  for (const Block& block : blocks) {
    if (const auto* figure = std::get_if<Figure>(&block)) figures.push_back(figure);
    if (const auto* details = std::get_if<Details>(&block)) collect(details->blocks, figures);
  }
}

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string line(const std::vector<std::string>& fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) out += (i ? "," : "") + field(fields[i]);
  return out + "\r\n";
}

}  // namespace

Json report_json(const Report& report) {
  Json json = {{"schema_version", 1},
               {"report", report.name},
               {"verdict", report.page.verdict.word},
               {"sentence", report.page.verdict.sentence}};
  Json provenance = Json::object();
  for (const auto& [name, value] : report.page.provenance) provenance[name] = value;
  json["provenance"] = provenance;
  for (const auto& [key, value] : report.json.items()) json[key] = value;
  return json;
}

std::string csv_number(double value) { return number_text(value); }

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string csv_text(const Csv& csv) {
  std::string out = line(csv.columns);
  for (const auto& row : csv.rows) out += line(row);
  return out;
}

std::vector<std::string> write_report(const Report& report, const std::string& folder,
                                      const ReportFiles& files) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder)) {
    throw InputError(printable(folder) + ": cannot be made a folder" +
                     (error ? ": " + error.message() : ""));
  }
  std::vector<std::string> names;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    write_file_atomic((fs::path(folder) / name).string(), bytes);
    names.push_back(name);
  };
  write(report.name + ".html", render_page(report.page));
  write(report.name + ".json",
        report_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  for (const Csv& csv : report.tables) write(report.name + "_" + csv.name + ".csv", csv_text(csv));
  std::vector<const Figure*> figures;
  for (const Section& section : report.page.sections) collect(section.blocks, figures);
  for (const Figure* figure : figures) {
    const std::string stem = report.name + "_" + figure->id;
    write(stem + ".svg", figure_svg(*figure));
    if (files.png) write(stem + ".png", figure_png(*figure));
    if (files.pdf) write(stem + ".pdf", figure_pdf(*figure));
  }
  return names;
}

}  // namespace assay::render

#include "proofs/checker/check.hpp"

#include "proofs/common/sha256.hpp"

namespace assay::checker {

std::string check_part(const Value& statement, bool holds, const Value& proof) {
  const std::string& kind = statement.string("kind");
  if (kind == "identity") return check_identity(statement, holds, proof);
  if (kind == "forall") return check_forall(statement, holds, proof);
  if (kind == "program") return check_program(statement, holds, proof);
  if (kind == "cycle") return check_cycle(statement, holds, proof);
  if (kind == "nonexpansion") return check_nonexpansion(statement, holds, proof);
  if (kind == "polygon") return check_polygon(statement, holds, proof);
  if (kind == "operation") return check_operation(statement, holds, proof);
  if (kind == "roundings") return check_roundings(statement, holds, proof);
  if (kind == "enclosure") return check_enclosure(statement, holds, proof);
  throw Rejected("unknown kind of statement '" + kind + "'");
}

Checked check_certificate(const std::string& text) {
  Value certificate = parse_json(text);
  if (certificate.at("assay_certificate").integer() != 1) {
    throw Rejected("this program reads certificates of version 1");
  }
  const std::string digest = certificate.string("digest");
  Value body = certificate;
  std::erase_if(body.members, [](const auto& member) { return member.first == "digest"; });
  if (proofs::sha256(body.dump()) != digest) {
    throw Rejected("the digest does not match: the certificate was changed");
  }
  Checked checked;
  checked.claim = certificate.string("claim");
  checked.answer = certificate.string("answer");
  for (const Value& part : certificate.array("parts")) {
    const Value& statement = part.at("statement");
    const bool holds = part.at("holds").boolean();
    try {
      checked.parts.push_back(
          {statement.dump(), holds, check_part(statement, holds, part.at("proof"))});
    } catch (const Rejected& error) {
      throw Rejected("part " + std::to_string(checked.parts.size() + 1) + ": " + error.what());
    } catch (const std::exception& error) {
      throw Rejected("part " + std::to_string(checked.parts.size() + 1) + ": " + error.what());
    }
  }
  if (checked.parts.empty()) throw Rejected("there are no parts");
  return checked;
}

}  // namespace assay::checker

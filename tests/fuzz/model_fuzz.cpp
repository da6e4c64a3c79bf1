// ufp4 - fuzz target: the JSON files of a model's folder, as the tool reads them.
// SPDX-License-Identifier: Apache-2.0
//
// The first byte chooses which file the others are: the index, config.json, quantize_config.json or the journal of a
// conversion. Reading gives names of files in the folder, or a file_error that names the file.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "../../examples/ufp4/conversion_journal.hpp"
#include "../../examples/ufp4/gptq_version.hpp"
#include "../../examples/ufp4/model_files.hpp"
#include "tensor_file.hpp"

namespace {

namespace fs = std::filesystem;

/// A folder of this process, with one file of tensors.
struct model_folder {
  std::string path = fuzz::scratch_file() + "_model";
  model_folder() {
    fs::create_directories(path + "/out");
    tool::write_text(path + "/a.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  }
  ~model_folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

/// Members that were read are read again from what is written of them.
void check_members(const std::vector<tool::json_member>& members) {
  const auto again = tool::json_members(tool::object_text(members));
  fuzz::require(again && again->size() == members.size(), "written members are no object");
  for (std::size_t i = 0; i < members.size(); ++i)
    fuzz::require((*again)[i].key == members[i].key && (*again)[i].value == members[i].value, "a member has changed");
}

void check_model(const std::string& folder) {
  const tool::model_files model = tool::read_model(folder);
  fuzz::require(!model.shards.empty(), "a model without files");
  for (const std::string& name : model.shards)
    fuzz::require(fs::is_regular_file(model.path(name)) && fs::path(model.path(name)).parent_path() == folder,
                  "a file that is not in the folder");
  for (const tool::json_member& m : model.kept) fuzz::require(m.key != "total_size", "the old size is kept");
  check_members(model.kept);
}

void check_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  check_members(tool::read_members(path));
}

void check_journal(const std::string& folder) {
  const tool::conversion_journal journal(folder, folder + "/out", "settings");
  for (const char* name : {"a.safetensors", "b.safetensors"})
    fuzz::require(!journal.has(name), "a file that was not converted counts as complete");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const model_folder folder;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1), &in = folder.path;
  constexpr const char* names[] = {"/model.safetensors.index.json", "/config.json", "/quantize_config.json",
                                   "/out/ufp4_conversion.json"};
  const std::string path = in + names[data[0] % 4];
  tool::write_text(path, text);
  fuzz::may_reject([&] {
    switch (data[0] % 4) {
      case 0: return check_model(in);
      case 3: return check_journal(in);
      default: static_cast<void>(tool::gptq_version_beside(in + "/a.safetensors"));
    }
    if (data[0] % 4 == 1) check_config(in);
  });
  fs::remove(path);
  return 0;
}

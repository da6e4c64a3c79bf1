-- ufp4 - the xmake package of the source tree that it lies in: docs/build_systems.md.
-- SPDX-License-Identifier: Apache-2.0
package("ufp4")
    set_kind("library", {headeronly = true})
    set_homepage("https://arxiv.org/abs/2606.20381")
    set_description("4-bit block-scaled numbers: formats, rounding, Hadamard transforms and GEMM, the same bits everywhere")
    set_license("Apache-2.0")
    set_sourcedir(path.join(os.scriptdir(), "../../../../../.."))

    if is_plat("linux", "bsd") then
        add_syslinks("pthread")
    end

    on_install("linux", "bsd", "macosx", function (package)
        os.cp("include/ufp4", package:installdir("include"))
    end)

    on_test(function (package)
        assert(package:check_cxxsnippets({test = [[
            #include <ufp4/ufp4.hpp>
            float one() { return static_cast<float>(ufp4::fp4<ufp4::E1M2>{1.0f}); }
        ]]}, {configs = {languages = "c++20"}}))
    end)

# How the addon is built: one static library per instruction set, because each has compiler flags of its own that must
# not reach the code shared by all, and the engine with the binding over them. Linux with GCC is tested; the settings for
# macOS and Visual Studio are untested. scripts/platform-addon.mjs builds prebuilt addons with the same flags.
{
  "variables": {
    "flags": ["-O3", "-std=c++17", "-fexceptions", "-fno-math-errno", "-ffp-contract=off", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-Wall", "-Wextra"],
    # gyp evaluates these in this folder.
    "engine_sources": [
      "<!@(node -p \"['engine', 'instructions', 'binding'].flatMap((folder) => require('fs').readdirSync(folder).filter((name) => name.endsWith('.cpp')).map((name) => folder + '/' + name)).join(' ')\")"
    ],
  },
  "target_defaults": {
    "cflags": ["-fPIC"],
    # Node's own settings come first and name the dialect of Node's own sources.
    "cflags_cc!": ["-std=gnu++17", "-std=gnu++20", "-fno-exceptions", "-fno-rtti"],
    "cflags_cc": ["<@(flags)"],
    "xcode_settings": {
      "CLANG_CXX_LANGUAGE_STANDARD": "c++17",
      "GCC_ENABLE_CPP_EXCEPTIONS": "YES",
      "GCC_OPTIMIZATION_LEVEL": "3",
      "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
      "MACOSX_DEPLOYMENT_TARGET": "11.0",
      "OTHER_CPLUSPLUSFLAGS": ["-fno-math-errno", "-ffp-contract=off"],
    },
    "msvs_settings": { "VCCLCompilerTool": { "AdditionalOptions": ["/std:c++17", "/fp:precise"], "ExceptionHandling": 1 } },
  },
  "targets": [
    {
      "target_name": "rocmforge_cpu",
      "sources": ["<@(engine_sources)"],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")", "."],
      # A worker that is being ended can take no exception any more; without the second, that would end the process.
      "defines": ["NAPI_VERSION=8", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"],
      "dependencies": ["kernels_portable"],
      "conditions": [
        ["target_arch=='x64'", {
          "dependencies": ["kernels_avx512", "kernels_avx2"],
          "defines": ["ROCMFORGE_HAS_AVX512", "ROCMFORGE_HAS_AVX2"],
        }],
        ["target_arch=='arm64'", { "dependencies": ["kernels_neon"], "defines": ["ROCMFORGE_HAS_NEON"] }],
        ["OS=='linux'", {
          "libraries": ["-pthread"],
          # Nothing but the module's entry point is for others to see.
          "ldflags": ["-Wl,--exclude-libs,ALL"],
        }],
      ],
    },
    {
      "target_name": "kernels_portable",
      "type": "static_library",
      "sources": ["kernels/isa-portable-matmul.cpp", "kernels/isa-portable-rows.cpp"],
      # As fast as with -O3, which takes more than twice as long to compile them.
      "cflags_cc": ["-O2"],
    },
  ],
  "conditions": [
    ["target_arch=='x64'", {
      "targets": [
        {
          "target_name": "kernels_avx512",
          "type": "static_library",
          "sources": ["kernels/isa-avx512-matmul.cpp", "kernels/isa-avx512-rows.cpp"],
          "variables": {
            "isa_flags": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mfma", "-mf16c", "-mavx2"],
          },
          "cflags_cc": ["<@(isa_flags)"],
          "xcode_settings": { "OTHER_CPLUSPLUSFLAGS": ["<@(isa_flags)"] },
          "msvs_settings": { "VCCLCompilerTool": { "AdditionalOptions": ["/arch:AVX512"] } },
        },
        {
          "target_name": "kernels_avx2",
          "type": "static_library",
          "sources": ["kernels/isa-avx2-matmul.cpp", "kernels/isa-avx2-rows.cpp"],
          "variables": { "isa_flags": ["-mavx2", "-mfma", "-mf16c"] },
          "cflags_cc": ["<@(isa_flags)"],
          "xcode_settings": { "OTHER_CPLUSPLUSFLAGS": ["<@(isa_flags)"] },
          "msvs_settings": { "VCCLCompilerTool": { "AdditionalOptions": ["/arch:AVX2"] } },
        },
      ],
    }],
    ["target_arch=='arm64'", {
      "targets": [
        {
          "target_name": "kernels_neon",
          "type": "static_library",
          "sources": ["kernels/isa-neon-matmul.cpp", "kernels/isa-neon-rows.cpp"],
          "variables": { "isa_flags": ["-march=armv8.2-a+dotprod+fp16"] },
          "cflags_cc": ["<@(isa_flags)"],
          "xcode_settings": { "OTHER_CPLUSPLUSFLAGS": ["<@(isa_flags)"] },
        },
      ],
    }],
  ],
}

// The platforms that have a package with the prebuilt addon, as data: what npm has to know about the package, and how the
// addon is compiled and linked for it. The loader (src/backends/cpu/addon.ts) finds a package by its name alone.

/** The newest glibc that the addons for Linux may need; a test compares it with the built files. */
export const OLDEST_GLIBC = [2, 28, 0];

const GNU = ["-fPIC"];
/** Windows 10. The headers of GCC's C++ library are added where the compiler is called. */
const WINDOWS = [
  "--target=x86_64-w64-mingw32",
  "-nostdinc++",
  "-fno-addrsig",
  // The thread-local variables of GCC's C++ library are of this kind.
  "-femulated-tls",
  "-D_WIN32_WINNT=0x0A00",
  "-DNOMINMAX",
  "-DWIN32_LEAN_AND_MEAN",
];

export const PLATFORMS = {
  "linux-x64": {
    npm: { os: ["linux"], cpu: ["x64"], libc: ["glibc"] },
    compiler: process.env["CXX"] ?? "g++",
    hosts: ["linux-x64"],
    debianPackages: ["g++"],
    isas: ["avx512", "avx2", "portable"],
    flags: GNU,
    glibcLoader: "ld-linux-x86-64.so.2",
  },
  "linux-arm64": {
    npm: { os: ["linux"], cpu: ["arm64"], libc: ["glibc"] },
    compiler: process.arch === "arm64" ? (process.env["CXX"] ?? "g++") : "aarch64-linux-gnu-g++",
    hosts: ["linux-x64", "linux-arm64"],
    debianPackages: ["g++-aarch64-linux-gnu"],
    isas: ["neon", "portable"],
    flags: GNU,
    glibcLoader: "ld-linux-aarch64.so.1",
  },
  // GCC does not align AVX variables on this platform's stack; Clang does.
  "win32-x64": {
    npm: { os: ["win32"], cpu: ["x64"] },
    compiler: "clang++",
    /** Brings MinGW's libraries and GCC's C++ library. */
    linker: "x86_64-w64-mingw32-g++-posix",
    hosts: ["linux-x64"],
    debianPackages: ["clang", "g++-mingw-w64-x86-64-posix"],
    isas: ["avx512", "avx2", "portable"],
    flags: WINDOWS,
  },
};

/** @param {string} platform such as linux-x64 */
export function platformPackage(platform) {
  return `@rocmforge/cpu-${platform}`;
}

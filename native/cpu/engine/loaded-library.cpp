// Opening the library once more, never to be closed, is all it takes.

#include "loaded-library.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace rocmforge {

#if defined(_WIN32)

void keep_library_loaded() {
  HMODULE library = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     reinterpret_cast<LPCWSTR>(&keep_library_loaded), &library);
}

#else

void keep_library_loaded() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&keep_library_loaded), &info) == 0 || info.dli_fname == nullptr) return;
  dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

#endif

}  // namespace rocmforge

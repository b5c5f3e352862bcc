// Opening the library once more, never to be closed, is all it takes.

#include "loaded-library.h"

#include <dlfcn.h>

namespace rocmforge {

void keep_library_loaded() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&keep_library_loaded), &info) == 0 || info.dli_fname == nullptr) return;
  dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace rocmforge

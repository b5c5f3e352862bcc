// What GCC's static libraries use of glibc 2.32 and 2.35, for an addon that has to load on 2.28. Only the prebuilt addon
// for Linux contains it: one that is built where it runs uses its own system's.

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

extern "C" {

/// Read before atomic operations, which a process without threads may omit. Node has threads.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

/// Whether this library contains the address; then the search ends with its unwind table.
int inspect(dl_phdr_info* info, size_t, void* context) {
  Search& search = *static_cast<Search*>(context);
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  uintptr_t table = 0;
  bool contains = false;
  for (size_t index = 0; index < info->dlpi_phnum; index++) {
    const ElfW(Phdr) & header = info->dlpi_phdr[index];
    const uintptr_t first = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) table = first;
    if (header.p_type != PT_LOAD) continue;
    if (first < begin) begin = first;
    if (first + header.p_memsz > end) end = first + header.p_memsz;
    contains = contains || search.address - first < header.p_memsz;
  }
  if (!contains) return 0;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void*>(begin);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(table);
  return table == 0 ? -1 : 1;
}

}  // namespace

/// How libgcc finds the unwind table of the code that throws; libraries come and go, so nothing is remembered.
extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(void* address, dl_find_object* found) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(inspect, &search) == 1 ? 0 : -1;
}

// See block-runner.h. Scheduling is a chain: a lane that stops goes straight on to the next live lane of its wave, and
// only the last one goes back to the runner, so a meeting costs one switch for each lane.
#include "block-runner.h"
#include <sys/mman.h>
#include <unistd.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include "fiber-switch.h"

namespace emulator {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr int kMaxBlockThreads = 1024;
constexpr int kMaxWave = 64;
/** More than any device gives one block. */
constexpr size_t kMaxSharedBytes = 256 << 10;
/** A device leaves whatever was there; as numbers of any width these bytes are NaN or -1, so who reads them shows. */
constexpr int kSharedPoison = 0xff;

enum class Stop : unsigned char { running, barrier, wave, exchange, done };

struct Lane {
  void* stack_pointer;
  Stop stop;
};

char* map_or_die(size_t bytes) {
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) abort();
  return static_cast<char*>(mapping);
}

/** One number for a chain of calls, innermost first, as frame pointers tell it. */
uint64_t place_of(void* const* frame) {
  uint64_t place = 0;
  while (frame != nullptr) {
    place = place * 0x9e3779b97f4a7c15u + reinterpret_cast<uintptr_t>(frame[1]);
    frame = static_cast<void* const*>(frame[0]);
  }
  return place;
}

}  // namespace

struct BlockRunner::Fibers {
  // First, so that what kernel code hands back is this.
  EmulatedBlock block;
  Lane lanes[kMaxBlockThreads];
  /** What the lanes of the running wave gave, by the parity of the round: some may be one round ahead. */
  unsigned given[2][kMaxWave];
  const BlockLaunch* launch;
  void* scheduler_stack;
  const char* fault;

  bool same_place;
  /** From one lane to the next in turn. */
  int step;
  unsigned wave_mask;

  // The round of the running wave: from its last meeting to the next.
  unsigned round;
  int wave_first, wave_count, wave_last;
  int wave_live;
  Stop meeting;
  uint64_t meeting_place;

  int stacks_ready;
  size_t page_bytes;
  char* stacks;
  char* shared;

  static Fibers& of(EmulatedBlock* block) { return *reinterpret_cast<Fibers*>(block); }

  /** Gives the processor to the next lane; a lane that ended, or a fault, never comes back. */
  void leave(Lane& lane) {
    int next = block.thread;
    while (next != wave_last) {
      next += step;
      if (lanes[next].stop == Stop::done) continue;
      block.thread = next;
      emulator_switch(&lane.stack_pointer, lanes[next].stack_pointer);
      return;
    }
    emulator_switch(&lane.stack_pointer, scheduler_stack);
  }

  void fail(const char* reason) {
    fault = reason;
    emulator_switch(&lanes[block.thread].stack_pointer, scheduler_stack);
    abort();
  }

  void meet(Stop stop, void* const* frame) {
    Lane& lane = lanes[block.thread];
    lane.stop = stop;
    const uint64_t place = same_place ? place_of(frame) : 0;
    if (__builtin_expect(meeting != stop || meeting_place != place, 0)) {
      if (meeting != Stop::running) {
        fail(meeting != stop ? "lanes of one wave wait for each other at different kinds of meeting"
                             : "lanes of one wave meet at different places of the code");
      }
      meeting = stop;
      meeting_place = place;
    }
    leave(lane);
  }

  static void barrier(EmulatedBlock* block) {
    of(block).meet(Stop::barrier, static_cast<void* const*>(__builtin_frame_address(0)));
  }

  static void wave_barrier(EmulatedBlock* block) {
    of(block).meet(Stop::wave, static_cast<void* const*>(__builtin_frame_address(0)));
  }

  static unsigned exchange(EmulatedBlock* block, unsigned value, int source_lane) {
    Fibers& fibers = of(block);
    const unsigned parity = fibers.round & 1;
    const int source = int(unsigned(source_lane) & fibers.wave_mask);
    if (source >= fibers.wave_count) fibers.fail("a lane reads from a lane that its block does not have");
    fibers.given[parity][block->thread - fibers.wave_first] = value;
    fibers.meet(Stop::exchange, static_cast<void* const*>(__builtin_frame_address(0)));
    return fibers.given[parity][source];
  }

  static void begin(void* context) {
    Fibers& fibers = *static_cast<Fibers*>(context);
    fibers.launch->entry(&fibers.block, fibers.launch->argument);
    Lane& lane = fibers.lanes[fibers.block.thread];
    lane.stop = Stop::done;
    fibers.wave_live--;
    fibers.leave(lane);
    abort();
  }

  void prepare_stacks(int threads);
  void prepare(int thread);
  const char* run_wave(int first, int count, int* live);
};

void BlockRunner::Fibers::prepare_stacks(int threads) {
  for (; stacks_ready < threads; stacks_ready++) {
    if (mprotect(stacks + size_t(stacks_ready) * kStackBytes, page_bytes, PROT_NONE) != 0) abort();
  }
}

void BlockRunner::Fibers::prepare(int thread) {
  // Lanes of a wave would otherwise all use the same few sets of the cache.
  const size_t colour = (size_t(thread) % 61) * 192;
  const uintptr_t top = reinterpret_cast<uintptr_t>(stacks) + (size_t(thread) + 1) * kStackBytes - 64 - colour;
  lanes[thread].stack_pointer = new_fiber(top, &Fibers::begin, this);
  lanes[thread].stop = Stop::running;
}

/** Until all lanes of the wave stand at a barrier of the block or have ended; `live` counts those that have not. */
const char* BlockRunner::Fibers::run_wave(int first, int count, int* live) {
  wave_first = first;
  wave_count = count;
  wave_live = *live;
  const int start = step < 0 ? first + count - 1 : first;
  wave_last = step < 0 ? first : first + count - 1;
  do {
    int thread = start;
    while (lanes[thread].stop == Stop::done) thread += step;
    meeting = Stop::running;
    block.thread = thread;
    emulator_switch(&scheduler_stack, lanes[thread].stack_pointer);
    if (fault != nullptr) return fault;
    // A lane that has ended takes no part: its neighbours would read what it never gave.
    if (meeting == Stop::exchange && wave_live < count)
      return "a lane ended before the rest of its wave exchanged values";
    round++;
  } while (wave_live > 0 && meeting != Stop::barrier);
  *live = wave_live;
  return nullptr;
}

BlockRunner::BlockRunner() : fibers_(new Fibers()) {
  fibers_->page_bytes = size_t(sysconf(_SC_PAGESIZE));
  fibers_->stacks = map_or_die(kStackBytes * kMaxBlockThreads);
  fibers_->shared = map_or_die(kMaxSharedBytes + fibers_->page_bytes);
  if (mprotect(fibers_->shared + kMaxSharedBytes, fibers_->page_bytes, PROT_NONE) != 0) abort();
}

BlockRunner::~BlockRunner() {
  munmap(fibers_->stacks, kStackBytes * kMaxBlockThreads);
  munmap(fibers_->shared, kMaxSharedBytes + fibers_->page_bytes);
}

bool BlockRunner::on_stack_guard(const void* address) const {
  const size_t offset = static_cast<const char*>(address) - fibers_->stacks;
  return offset < kStackBytes * kMaxBlockThreads && offset % kStackBytes < fibers_->page_bytes;
}

int BlockRunner::thread() const { return fibers_->block.thread; }

const char* BlockRunner::run(const BlockLaunch& launch, BlockOrder order) {
  Fibers& fibers = *fibers_;
  if (launch.threads < 1 || launch.threads > kMaxBlockThreads) return "a block has 1 to 1024 threads";
  if (launch.shared_bytes > kMaxSharedBytes) return "a block asks for more shared memory than there is";
  // Its end lies against a page that faults.
  char* const shared = fibers.shared + kMaxSharedBytes - (launch.shared_bytes + 15) / 16 * 16;
  if (launch.shared_bytes > 0) memset(shared, kSharedPoison, launch.shared_bytes);
  if (launch.module_shared_bytes > 0) memset(launch.module_shared, kSharedPoison, launch.module_shared_bytes);
  fibers.launch = &launch;
  fibers.same_place = order.same_place;
  fibers.step = order.reverse ? -1 : 1;
  fibers.wave_mask = unsigned(launch.wave_size) - 1;
  fibers.fault = nullptr;
  fibers.block = {0,
                  {launch.block[0], launch.block[1], launch.block[2]},
                  shared,
                  &Fibers::barrier,
                  &Fibers::wave_barrier,
                  &Fibers::exchange};
  fibers.prepare_stacks(launch.threads);
  for (int thread = 0; thread < launch.threads; thread++) fibers.prepare(thread);

  const int wave_size = launch.wave_size;
  const int waves = (launch.threads + wave_size - 1) / wave_size;
  int live[kMaxBlockThreads / 32];
  for (int wave = 0; wave < waves; wave++)
    live[wave] = wave + 1 < waves ? wave_size : launch.threads - wave * wave_size;
  for (bool waiting = true; waiting;) {
    waiting = false;
    for (int turn = 0; turn < waves; turn++) {
      const int wave = order.reverse ? waves - 1 - turn : turn;
      if (live[wave] == 0) continue;
      const int count = wave + 1 < waves ? wave_size : launch.threads - wave * wave_size;
      if (const char* fault = fibers.run_wave(wave * wave_size, count, &live[wave])) return fault;
      waiting |= live[wave] > 0;
    }
  }
  return nullptr;
}

}  // namespace emulator

// See capture.h. All of it under the runtime's capture mutex.
#include "capture.h"
#include <algorithm>
#include "runtime.h"
#include "work.h"

namespace emulator {
namespace {

using Lock = std::lock_guard<std::mutex>;

void merge(Clock& into, const Clock& from) {
  for (const auto& entry : from) into[entry.first] = std::max(into[entry.first], entry.second);
}

/** Whether all that the capture's streams did comes before where its origin stands. */
bool is_joined(const Capture& capture, const Clock& origin_clock) {
  return std::all_of(capture.members.begin(), capture.members.end(), [&](const std::shared_ptr<Stream>& member) {
    const auto own = member->clock.find(member.get());
    if (own == member->clock.end()) return true;
    const auto known = origin_clock.find(member.get());
    return known != origin_clock.end() && known->second >= own->second;
  });
}

}  // namespace

void abandon_capture(Runtime& runtime, const std::shared_ptr<Capture>& given) {
  // The caller may have it from where it is about to be struck out.
  const std::shared_ptr<Capture> capture = given;
  capture->ended = true;
  for (const std::shared_ptr<Stream>& member : capture->members) {
    member->capture = nullptr;
    member->clock.clear();
  }
  // Events that were recorded in it outlive it; its streams need not.
  capture->members.clear();
  auto& captures = runtime.captures;
  captures.erase(std::remove(captures.begin(), captures.end(), capture), captures.end());
}

Status begin_capture(Runtime& runtime, const std::shared_ptr<Stream>& stream, int mode) {
  if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kInvalidValue;
  const Lock lock(runtime.capture_mutex);
  if (stream->capture != nullptr) return kIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream.get();
  capture->mode = CaptureMode(mode);
  capture->thread = std::this_thread::get_id();
  capture->members.push_back(stream);
  stream->capture = capture;
  runtime.captures.push_back(capture);
  return kSuccess;
}

Status end_capture(Runtime& runtime, const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph) {
  const Lock lock(runtime.capture_mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return kIllegalState;
  if (capture->origin != stream.get()) {
    capture->invalidated = true;
    return kStreamCaptureUnmatched;
  }
  if (capture->mode != kCaptureRelaxed && capture->thread != std::this_thread::get_id())
    return kStreamCaptureWrongThread;
  const bool joined = is_joined(*capture, stream->clock);
  abandon_capture(runtime, capture);
  if (capture->invalidated) return kStreamCaptureInvalidated;
  if (!joined) return kStreamCaptureUnjoined;
  *graph = std::make_shared<Graph>();
  (*graph)->work = capture->work;
  return kSuccess;
}

int capture_status(Runtime& runtime, const Stream& stream) {
  const Lock lock(runtime.capture_mutex);
  if (stream.capture == nullptr) return kCaptureNone;
  return stream.capture->invalidated ? kCaptureInvalidated : kCaptureActive;
}

Status submit(Runtime& runtime, Stream& stream, std::shared_ptr<const Work> work) {
  {
    const Lock lock(runtime.capture_mutex);
    if (Capture* capture = stream.capture.get()) {
      if (capture->invalidated) return kStreamCaptureInvalidated;
      capture->work.push_back(std::move(work));
      stream.clock[&stream]++;
      return kSuccess;
    }
  }
  if (stream.device.fault != kSuccess) return stream.device.fault;
  stream.push(std::move(work));
  return kSuccess;
}

Status record_event(Runtime& runtime, const std::shared_ptr<Event>& event, Stream& stream) {
  {
    const Lock lock(runtime.capture_mutex);
    if (stream.capture != nullptr && stream.capture->invalidated) return kStreamCaptureInvalidated;
    event->capture = stream.capture;
    event->clock = stream.clock;
    if (stream.capture != nullptr) return kSuccess;
  }
  if (stream.device.fault != kSuccess) return stream.device.fault;
  stream.push(std::make_shared<RecordWork>(event, event->start()));
  return kSuccess;
}

Status wait_for_event(Runtime& runtime, const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event) {
  {
    const Lock lock(runtime.capture_mutex);
    const std::shared_ptr<Capture> from = event->capture, to = stream->capture;
    if (to != nullptr && to->invalidated) return kStreamCaptureInvalidated;
    if (from != nullptr && from->ended) return kCapturedEvent;
    if (to != nullptr && from == nullptr) {
      to->invalidated = true;
      return kStreamCaptureIsolation;
    }
    if (to != nullptr && from != to) {
      from->invalidated = to->invalidated = true;
      return kStreamCaptureMerge;
    }
    if (from != nullptr) {
      if (to == nullptr) {
        stream->capture = from;
        from->members.push_back(stream);
      }
      merge(stream->clock, event->clock);
      return kSuccess;
    }
  }
  if (stream->device.fault != kSuccess) return stream->device.fault;
  const uint64_t record = event->last_record();
  if (record > 0) stream->push(std::make_shared<WaitWork>(event, record));
  return kSuccess;
}

Status refuse_while_capturing(Runtime& runtime, const Stream& stream) {
  const Lock lock(runtime.capture_mutex);
  if (stream.capture == nullptr) return kSuccess;
  stream.capture->invalidated = true;
  return kStreamCaptureUnsupported;
}

Status refuse_while_device_captures(Runtime& runtime, const Device& device) {
  const Lock lock(runtime.capture_mutex);
  Status status = kSuccess;
  for (const std::shared_ptr<Capture>& capture : runtime.captures) {
    if (&capture->origin->device != &device) continue;
    capture->invalidated = true;
    status = kStreamCaptureUnsupported;
  }
  return status;
}

Status refuse_captured_event(Runtime& runtime, const Event& event) {
  const Lock lock(runtime.capture_mutex);
  if (event.capture == nullptr) return kSuccess;
  event.capture->invalidated = true;
  return kCapturedEvent;
}

Status refuse_unsafe_call(Runtime& runtime) {
  const Lock lock(runtime.capture_mutex);
  Status status = kSuccess;
  for (const std::shared_ptr<Capture>& capture : runtime.captures) {
    const bool minds = capture->mode == kCaptureGlobal ||
                       (capture->mode == kCaptureThreadLocal && capture->thread == std::this_thread::get_id());
    if (!minds) continue;
    capture->invalidated = true;
    status = kStreamCaptureUnsupported;
  }
  return status;
}

}  // namespace emulator

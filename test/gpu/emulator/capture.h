// Stream capture and graphs. A capture writes down the work of its streams in the order of the calls, which is one of the
// orders that the program allows; a replay does it in that order, on one stream.
#pragma once
#include <memory>
#include <thread>
#include <vector>
#include "status.h"
#include "stream.h"

namespace emulator {

struct Runtime;

enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };

struct Capture {
  const Stream* origin;
  CaptureMode mode;
  std::thread::id thread;
  bool invalidated = false;
  bool ended = false;
  std::vector<std::shared_ptr<const Work>> work;
  std::vector<std::shared_ptr<Stream>> members;
};

struct Graph {
  std::vector<std::shared_ptr<const Work>> work;
};

Status begin_capture(Runtime& runtime, const std::shared_ptr<Stream>& stream, int mode);
Status end_capture(Runtime& runtime, const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph);
/** Lets its streams go; the caller holds the capture mutex. */
void abandon_capture(Runtime& runtime, const std::shared_ptr<Capture>& capture);
int capture_status(Runtime& runtime, const Stream& stream);

/** Queues the work, or writes it down where the stream is captured. */
Status submit(Runtime& runtime, Stream& stream, std::shared_ptr<const Work> work);
Status record_event(Runtime& runtime, const std::shared_ptr<Event>& event, Stream& stream);
Status wait_for_event(Runtime& runtime, const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event);

/** For calls that a capture cannot hold: refused, and the capture is lost with them. */
Status refuse_while_capturing(Runtime& runtime, const Stream& stream);
Status refuse_while_device_captures(Runtime& runtime, const Device& device);
Status refuse_captured_event(Runtime& runtime, const Event& event);
/** For calls that may wait for the device behind the program's back: which captures mind depends on their mode. */
Status refuse_unsafe_call(Runtime& runtime);

}  // namespace emulator

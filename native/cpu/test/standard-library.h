// The standard library's headers that most of the engine includes, compiled once for all of it: under sanitizers reading them
// takes as long as compiling most of its files. Every file still includes what it needs by itself.

#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

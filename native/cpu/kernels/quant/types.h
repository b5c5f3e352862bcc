// Every block type. To be included after the byte layer of one instruction set.

#pragma once

#include "simple.h"

#include "code-books.h"
#include "k-quants.h"
#include "ternary.h"

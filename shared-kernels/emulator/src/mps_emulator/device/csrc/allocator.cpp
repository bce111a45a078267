// Device memory: every block lies between unmapped guard pages, its end close to the rear guard,
// and the bytes around and inside a fresh block hold a poison pattern.
#include "host_mps.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#define MPS_EMULATOR_DEVICE_ALLOCATOR TORCH_AT_LEAST(2, 9)
#if MPS_EMULATOR_DEVICE_ALLOCATOR
#include <c10/core/CachingDeviceAllocator.h>
#endif

namespace mps_emulator {
namespace {

constexpr size_t kGuard = size_t{64} << 10;
constexpr size_t kPage = size_t{4} << 10;
constexpr size_t kAlign = 64;
constexpr size_t kLargeRegion = size_t{64} << 10;     // above: rounded to an eighth of a power of two
constexpr size_t kCacheLimit = size_t{512} << 20;     // bytes of freed blocks kept for reuse
constexpr size_t kMappedBlockLimit = 20000;           // two mappings a block; Linux allows 65530
constexpr unsigned char kPoison = 0xA5;

struct Block {
  unsigned char* map;    // start of the mapping, front guard included
  size_t map_bytes;
  unsigned char* region; // writable part
  size_t region_bytes;
  unsigned char* data;
  size_t bytes;          // what the caller asked for
  bool mapped;           // false: malloc with padding, when there are too many mappings
};

struct Pool {
  std::mutex mutex;
  std::unordered_map<size_t, std::vector<Block*>> free;  // by region size
  size_t cached = 0;
  size_t live = 0;
  size_t peak = 0;
  size_t reserved = 0;
  size_t mapped_blocks = 0;
  std::vector<std::string> overruns;
};

Pool& pool() {
  static Pool* the_pool = new Pool();  // never destroyed: tensors may outlive static destructors
  return *the_pool;
}

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

size_t region_size(size_t bytes) {
  size_t region = round_up(bytes + kAlign, kPage);
  if (region <= kLargeRegion) return region;
  size_t step = kPage;
  while (step * 16 <= region) step *= 2;
  return round_up(region, step);
}

void unmap(Block* block) {
  Pool& p = pool();
  p.reserved -= block->region_bytes;
  if (block->mapped) {
    munmap(block->map, block->map_bytes);
    p.mapped_blocks--;
  } else {
    std::free(block->map);
  }
  delete block;
}

Block* map_block(size_t region) {
  Pool& p = pool();
  auto* block = new Block{};
  block->region_bytes = region;
  if (p.mapped_blocks < kMappedBlockLimit) {
    block->map_bytes = region + 2 * kGuard;
    void* at = mmap(nullptr, block->map_bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) {
      block->map = static_cast<unsigned char*>(at);
      block->region = block->map + kGuard;
      if (mprotect(block->region, region, PROT_READ | PROT_WRITE) == 0) {
        block->mapped = true;
        p.mapped_blocks++;
        p.reserved += region;
        return block;
      }
      munmap(at, block->map_bytes);
    }
  }
  void* at = nullptr;
  if (posix_memalign(&at, kPage, region + 2 * kPage) != 0) {
    delete block;
    return nullptr;
  }
  block->map = static_cast<unsigned char*>(at);
  block->map_bytes = region + 2 * kPage;
  block->region = block->map + kPage;
  std::memset(block->map, kPoison, kPage);
  std::memset(block->region + region, kPoison, kPage);
  p.reserved += region;
  return block;
}

void release_all(Pool& p) {
  for (auto& [size, blocks] : p.free) {
    for (Block* block : blocks) unmap(block);
  }
  p.free.clear();
  p.cached = 0;
}

bool poisoned(const unsigned char* begin, const unsigned char* end) {
  for (; begin != end; ++begin) {
    if (*begin != kPoison) return false;
  }
  return true;
}

// A write just outside the tensor but not as far as a guard page.
void check_edges(const Block& block) {
  const bool front = poisoned(block.region, block.data);
  const bool rear = poisoned(block.data + block.bytes, block.region + block.region_bytes);
  if (front && rear) return;
  std::string text = "a kernel wrote outside a device buffer of " + std::to_string(block.bytes) +
      " bytes (" + (front ? "behind its end" : "before its start") + ")";
  std::fprintf(stderr, "mps_emulator: %s\n", text.c_str());
  pool().overruns.push_back(std::move(text));
}

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  Pool& p = pool();
  std::lock_guard<std::mutex> lock(p.mutex);
  p.live -= block->bytes;
  check_edges(*block);
  if (p.cached + block->region_bytes > kCacheLimit || !block->mapped) {
    unmap(block);
    return;
  }
  p.cached += block->region_bytes;
  p.free[block->region_bytes].push_back(block);
}

void nothing(void*) {}

#if MPS_EMULATOR_DEVICE_ALLOCATOR
using AllocatorBase = c10::DeviceAllocator;  // what torch.accelerator.memory_* asks for
#else
using AllocatorBase = c10::Allocator;
#endif

struct HostAllocator final : AllocatorBase {
  c10::DataPtr allocate(size_t bytes) override {
    return mps_emulator::allocate(bytes, Fill::kPoison);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(to, from, count);
  }
#if MPS_EMULATOR_DEVICE_ALLOCATOR
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override { release_cached_blocks(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    Pool& p = pool();
    std::lock_guard<std::mutex> lock(p.mutex);
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto set = [](auto& array, size_t current, size_t peak) {
      array[0].current = static_cast<int64_t>(current);  // entry 0: the aggregate
      array[0].peak = static_cast<int64_t>(peak);
    };
    set(stats.allocated_bytes, p.live, p.peak);
    set(stats.active_bytes, p.live, p.peak);
    set(stats.requested_bytes, p.live, p.peak);
    set(stats.reserved_bytes, p.reserved, p.reserved);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {
    Pool& p = pool();
    std::lock_guard<std::mutex> lock(p.mutex);
    p.peak = p.live;
  }
#endif
};

}  // namespace

c10::DataPtr allocate(size_t bytes, Fill fill) {
  if (bytes == 0) return {nullptr, nullptr, &nothing, kMpsDevice};
  const size_t region = region_size(bytes);
  Block* block = nullptr;
  Pool& p = pool();
  {
    std::lock_guard<std::mutex> lock(p.mutex);
    auto found = p.free.find(region);
    if (found != p.free.end() && !found->second.empty()) {
      block = found->second.back();
      found->second.pop_back();
      p.cached -= region;
    } else {
      block = map_block(region);
      if (block == nullptr) {
        release_all(p);
        block = map_block(region);
      }
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "MPS backend out of memory (MPS allocated: ",
                     p.live, " bytes). Tried to allocate ", bytes, " bytes.");
    p.live += bytes;
    p.peak = std::max(p.peak, p.live);
  }
  block->bytes = bytes;
  block->data = block->region + region - round_up(bytes, kAlign);
  unsigned char* end = block->region + region;
  if (fill == Fill::kPoison) {
    std::memset(block->region, kPoison, region);
  } else {
    std::memset(block->region, kPoison, block->data - block->region);
    std::memset(block->data + bytes, kPoison, end - (block->data + bytes));
  }
  return {block->data, block, &free_block, kMpsDevice};
}

c10::Allocator* host_allocator() {
  static auto* allocator = new HostAllocator();
  return allocator;
}

size_t live_bytes() {
  std::lock_guard<std::mutex> lock(pool().mutex);
  return pool().live;
}

size_t reserved_bytes() {
  std::lock_guard<std::mutex> lock(pool().mutex);
  return pool().reserved;
}

void release_cached_blocks() {
  std::lock_guard<std::mutex> lock(pool().mutex);
  release_all(pool());
}

std::vector<std::string> take_overruns() {
  std::lock_guard<std::mutex> lock(pool().mutex);
  return std::exchange(pool().overruns, {});
}

}  // namespace mps_emulator

//! Counts what the current thread has allocated, so that tests can run side by side.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

pub struct CountingAllocator;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// What a piece of work allocated.
#[derive(Debug, Clone, Copy)]
pub struct Allocated {
    /// The most bytes that were held at one time, beyond those held before.
    pub peak: usize,
    /// How often memory was asked for.
    pub count: usize,
}

/// Runs `work` and counts what this thread allocates meanwhile.
pub fn allocated<T>(work: impl FnOnce() -> T) -> (T, Allocated) {
    let before = LIVE.get();
    PEAK.set(before);
    let count_before = COUNT.get();
    let result = work();
    let peak = (PEAK.get() - before).max(0) as usize;
    (result, Allocated { peak, count: COUNT.get() - count_before })
}

fn count(bytes: isize) {
    let live = LIVE.get() + bytes;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
    COUNT.set(COUNT.get() + usize::from(bytes > 0));
}

// SAFETY: every call goes to the system's allocator unchanged; the counters allocate nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new may exist side by side while the bytes move.
        count(new_size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

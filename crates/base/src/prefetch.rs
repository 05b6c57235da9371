//! Telling the processor what will be looked at soon.

/// Bytes that come into the processor's caches together.
pub const CACHE_LINE: usize = 64;

/// Asks for the first bytes of something, `bytes` of them at most, without waiting for them. A hint: it reads nothing and changes
/// nothing.
/// Cost:   one instruction per 64 bytes.
#[inline(always)]
pub fn prefetch<T: ?Sized>(what: &T, bytes: usize) {
    let first = std::ptr::from_ref(what).cast::<u8>();
    for offset in (0..bytes.min(size_of_val(what))).step_by(CACHE_LINE) {
        // Safety: inside of what the reference borrows.
        prefetch_line(unsafe { first.add(offset) });
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line(address: *const u8) {
    // Safety: a prefetch of whatever address has no effect but on caches; every processor of this kind has the instruction.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn prefetch_line(address: *const u8) {
    // Safety: a prefetch of whatever address has no effect but on caches.
    unsafe { std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn prefetch_line(_address: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_may_be_asked_for() {
        prefetch(&[1u8, 2, 3][..], 1000);
        prefetch(&[0u64; 100], 200);
        prefetch(&[][..] as &[u8], 64);
        prefetch(&(), 64);
    }
}

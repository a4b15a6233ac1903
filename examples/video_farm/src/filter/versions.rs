//! Which versions of the filter this processor has.

use super::{Version, plain};

/// The best first, the plain one last.
pub(super) fn offered() -> Vec<Version> {
    let mut offered = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;

        use super::{avx512, x86};

        let avx512 = has!("avx512f") && has!("avx512bw");
        if avx512 && has!("avx512vbmi") && has!("avx512vnni") {
            // SAFETY: the processor has what the version is made of.
            offered.push(unsafe { avx512::version() });
        }
        if has!("avx2") {
            // SAFETY: as above.
            offered.push(unsafe { x86::avx2() });
        }
        if has!("ssse3") {
            // SAFETY: as above.
            offered.push(unsafe { x86::ssse3() });
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        // SAFETY: the processor has what the version is made of.
        offered.push(unsafe { super::neon::neon() });
    }
    offered.push(plain());
    offered
}

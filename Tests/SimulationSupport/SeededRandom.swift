import Environment
import Synchronization

/// SplitMix64: the same numbers for the same seed.
package final class SeededRandom: RandomSource {
    private let state: Mutex<UInt64>

    package init(seed: UInt64) { state = Mutex(seed) }

    package func next() -> UInt64 {
        state.withLock { state in
            state &+= 0x9E37_79B9_7F4A_7C15
            var z = state
            z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
            z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
            return z ^ (z >> 31)
        }
    }
}

extension RandomSource {
    /// A number below the limit, which must be positive. Slightly uneven for huge limits, which no test has.
    package func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

    /// True this often.
    package func chance(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }
}

import Environment
import Synchronization
import TestRandomness

/// Draws the same numbers for the same seed. All who share a reference to it draw from one sequence.
package final class SeededRandom: RandomSource {
    private let generator: Mutex<SeededGenerator>

    package init(seed: UInt64) { generator = Mutex(SeededGenerator(seed: seed)) }

    package func next() -> UInt64 { generator.withLock { $0.next() } }
}

extension RandomSource {
    /// A number below the limit, which must be positive. Slightly biased for huge limits, which no test uses.
    package func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

    /// True with this probability.
    package func chance(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }
}

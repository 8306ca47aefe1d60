import Environment
import Synchronization
import TestRandomness

/// The same numbers for the same seed, for everyone who has a reference to it.
package final class SeededRandom: RandomSource {
    private let generator: Mutex<SeededGenerator>

    package init(seed: UInt64) { generator = Mutex(SeededGenerator(seed: seed)) }

    package func next() -> UInt64 { generator.withLock { $0.next() } }
}

extension RandomSource {
    /// A number below the limit, which must be positive. Slightly uneven for huge limits, which no test has.
    package func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

    /// True this often.
    package func chance(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }
}

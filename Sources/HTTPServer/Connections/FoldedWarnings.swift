import NIOCore
import Synchronization

/// Lets a warning of one cause through once a minute and counts those in between.
final class FoldedWarnings: Sendable {
    /// Between two lines about one cause.
    static let interval = TimeAmount.seconds(60)

    private let causes = Mutex<[String: (last: NIODeadline, folded: Int)]>([:])

    /// Nil when nothing is to be logged now; else how many of that cause were not logged since the last time.
    ///
    /// - Parameter cause: one of a fixed set of names.
    func note(_ cause: String, at now: NIODeadline) -> Int? {
        causes.withLock { causes in
            guard let known = causes[cause] else {
                causes[cause] = (now, 0)
                return 0
            }
            guard now - known.last >= Self.interval else {
                causes[cause]?.folded += 1
                return nil
            }
            causes[cause] = (now, 0)
            return known.folded
        }
    }
}

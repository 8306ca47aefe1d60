import Documents
import Environment
import Interfaces
import Synchronization

/// The results of comparing a candidate with a serving plugin in one place. The collections of one replicator share it.
final class ShadowTally: ShadowCounter {
    /// Such as "replicator hub push_filter".
    let place: String
    /// The serving plugin.
    let beside: String
    private let time: any TimeSource
    private let state = Mutex(State())

    private struct State {
        /// The two versions that were compared last.
        var pair = (serving: "", candidate: "")
        var since: Int64?
        var counts = ShadowCounts()
        /// The counts of all versions.
        var total = ShadowCounts()
        /// Newest last.
        var differences: [ShadowDifference] = []
    }

    /// Number of differences shown.
    static let shown = 20
    /// Scalars shown of each side of a difference: a single character may consist of thousands.
    static let shownScalars = 300

    init(place: String, beside: String, time: any TimeSource) {
        self.place = place
        self.beside = beside
        self.time = time
    }

    func count(_ findings: [ShadowFinding], serving: String, candidate: String) {
        guard !findings.isEmpty else { return }
        let now = time.wallSeconds()
        state.withLock { state in
            // Counts of another version say nothing about switching to this one.
            if state.since == nil || state.pair != (serving, candidate) {
                if state.since != nil { (state.counts, state.differences) = (ShadowCounts(), []) }
                state.pair = (serving: serving, candidate: candidate)
                state.since = now
            }
            for finding in findings {
                state.counts.add(finding.outcome)
                state.total.add(finding.outcome)
                guard finding.outcome != .same else { continue }
                let difference = ShadowDifference(
                    at: now, id: finding.id.text, collection: "\(finding.collection)", outcome: finding.outcome,
                    serving: Self.shown(finding.serving), candidate: Self.shown(finding.candidate))
                // The same failure is listed only once, so that it does not displace other differences.
                if difference.outcome == .failed, state.differences.contains(where: { $0.outcome == .failed && $0.candidate == difference.candidate }) { continue }
                state.differences.append(difference)
                if state.differences.count > Self.shown { state.differences.removeFirst() }
            }
        }
    }

    private static func shown(_ words: String) -> String { String(words.unicodeScalars.prefix(shownScalars)) }

    func skipped(_ count: Int) {
        state.withLock { state in
            state.counts.skipped += UInt64(count)
            state.total.skipped += UInt64(count)
        }
    }

    func read() -> PluginStatus.Shadow {
        state.withLock { state in
            PluginStatus.Shadow(
                place: place, beside: beside, servingVersion: state.since == nil ? nil : state.pair.serving,
                version: state.since == nil ? nil : state.pair.candidate, since: state.since, counts: state.counts, total: state.total,
                differences: state.differences.reversed())
        }
    }
}

/// How often a candidate was compared, and with what result.
package struct ShadowCounts: Sendable, Equatable {
    package var same: UInt64 = 0
    package var different: UInt64 = 0
    /// The candidate gave no answer.
    package var failed: UInt64 = 0
    /// Not compared because the queue was full.
    package var skipped: UInt64 = 0

    package var compared: UInt64 { same + different + failed }

    mutating func add(_ outcome: ShadowFinding.Outcome) {
        switch outcome {
        case .same: same += 1
        case .different: different += 1
        case .failed: failed += 1
        }
    }
}

/// A document or conflict for which a candidate's answer differed.
package struct ShadowDifference: Sendable, Equatable {
    /// Seconds since 1970.
    package var at: Int64
    package var id: String
    package var collection: String
    package var outcome: ShadowFinding.Outcome
    /// Both answers, in words.
    package var serving: String
    package var candidate: String
}

extension PluginStatus {
    /// The plugin as a candidate: given the same input as the serving plugin in a place, with no effect.
    package struct Shadow: Sendable, Equatable {
        /// Such as "replicator hub push_filter".
        package var place: String
        /// The plugin that serves there.
        package var beside: String
        /// The versions to which the counts belong; nil before the first comparison.
        package var servingVersion: String?
        package var version: String?
        /// When these versions were first compared, in seconds since 1970.
        package var since: Int64?
        package var counts: ShadowCounts
        /// The counts of all versions.
        package var total: ShadowCounts
        /// Newest first.
        package var differences: [ShadowDifference]
    }
}

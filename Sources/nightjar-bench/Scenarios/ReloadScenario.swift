import Documents
import Interfaces
import Logging
import LuaRuntime
import PluginHost
import Replication
import Synchronization

/// Reloads one of many plugins while documents pass through its filter at a steady rate, in batches like a replicator's: no document may be lost,
/// judged by neither version, or delayed.
struct ReloadScenario {
    var plugins = 50
    /// Documents per second.
    var rate = 5_000
    var seconds = 20
    var millisecondsBetween = 100
    /// Documents per call.
    private let batch = 10

    private struct Seen: Sendable {
        var documents = 0
        var failed = 0
        var neither = 0
        /// Milliseconds for each call.
        var pauses: [Double] = []
    }

    func run(_ scratch: Scratch) async throws -> Report {
        let folder = "\(scratch.path)/plugins"
        try Files.makeFolder(folder)
        for number in 0..<plugins { try write(0, to: "\(folder)/p\(number).lua", folder) }
        try Files.write(
            "return { answers = function(t) t.equal(t.push_filter { n = 0 } ~= t.push_filter { n = 1 }, true) end }\n", to: "\(folder)/p0.test.lua")
        let host = try PluginHost(
            folder: folder, proof: ProofByTests(), versionsFolder: "\(scratch.path)/versions",
            logger: Logger(label: "bench", factory: { _ in SwiftLogNoOpLogHandler() }), environment: .system)
        await host.start()
        let filter = try host.pushFilter(plugin: "p0", usedBy: "bench")
        let calm = try await stream(filter, seconds: max(1, seconds / 4))
        let isDone = Atomic<Bool>(false)
        var reloads = 0
        async let watched = stream(filter, seconds: seconds) { isDone.store(true, ordering: .relaxed) }
        while !isDone.load(ordering: .relaxed) {
            reloads += 1
            try write(reloads, to: "\(folder)/p0.lua", folder)
            let verdict = await host.reload("p0").first
            guard verdict?.outcome == .reloaded || verdict?.outcome == .unchanged else { throw BenchError("the reload says \(String(describing: verdict))") }
            try await Task.sleep(for: .milliseconds(millisecondsBetween))
        }
        let busy = try await watched
        let generation = host.status().first { $0.name == "p0" }?.generation ?? 0
        await host.shutdown()

        var report = Report(
            scenario: "reload", title: "one of \(plugins) plugins reloaded \(reloads) times under \(rate) documents a second for \(seconds) s")
        report.goal("longest pause of a document during reloads", "ms", [busy.pauses.max() ?? 0], .atMost, 20)
        report.goal("documents lost or failed", "documents", [Double(busy.failed)], .atMost, 0)
        report.goal("documents judged by neither version", "documents", [Double(busy.neither)], .atMost, 0)
        report.goal("versions that came into force / reloads", "times", [Double(generation - 1) / Double(max(1, reloads))], .atLeast, 1)
        report.add("documents judged", "documents", [Double(busy.documents)])
        report.add("longest pause without reloads", "ms", [calm.pauses.max() ?? 0])
        report.add("99.9 % of pauses during reloads below", "ms", [busy.pauses.sorted().quantile(0.999)])
        report.add("99.9 % of pauses without reloads below", "ms", [calm.pauses.sorted().quantile(0.999)])
        report.notes.append("a pause is the time from a question about \(batch) documents to its answer; each version runs its test first; \(machineLoad())")
        return report
    }

    /// The versions decide differently about every document, so each verdict shows which version made it; within one call, all verdicts must come
    /// from the same version.
    private func write(_ version: Int, to path: String, _ folder: String) throws {
        try Files.write("local version = \(version)\nreturn { push_filter = function(doc) return (doc.n + version) % 2 == 0 end }\n", to: "\(path).new")
        try Files.move("\(path).new", to: path)
    }

    private func stream(_ filter: any DocumentFilter, seconds: Int, then: @Sendable () -> Void = {}) async throws -> Seen {
        defer { then() }
        let context = PolicyContext(database: "plant", collection: .default, direction: .push, replicator: "bench", remote: "ws://bench/plant")
        let revision = RevisionID(stored: "1-0123456789abcdef0123456789abcdef01234567")
        let documents = (0..<batch).map {
            PolicyDocument(id: DocumentID(stored: "d\($0)"), revision: revision, isDeleted: false, body: Array("{\"n\":\($0)}".utf8))
        }
        var seen = Seen()
        let questions = rate * seconds / batch
        seen.pauses.reserveCapacity(questions)
        let interval = Duration.nanoseconds(1_000_000_000 * batch / rate)
        var due = ContinuousClock.now
        for _ in 0..<questions {
            let start = monotonicNanoseconds()
            let verdicts = await filter.evaluate(documents, context)
            seen.pauses.append(Double(monotonicNanoseconds() - start) / 1e6)
            seen.documents += verdicts.count
            seen.failed += documents.count - verdicts.count { $0 == .pass || $0 == .reject }
            let first = verdicts.first
            seen.neither += verdicts.enumerated().count { index, verdict in (verdict == first) != (index % 2 == 0) }
            due += interval
            try await Task.sleep(until: due, tolerance: .zero)
        }
        return seen
    }
}

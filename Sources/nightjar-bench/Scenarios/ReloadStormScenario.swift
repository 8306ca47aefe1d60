import Documents
import Glibc
import Interfaces
import Logging
import LuaRuntime
import PluginHost
import Replication
import Synchronization

/// Many reloads of random good and bad versions while two sessions call constantly: the last good version must serve, and the memory of earlier
/// versions must be released.
struct ReloadStormScenario {
    var reloads = 1_000
    var seed: UInt64 = 1
    /// Reloads before the first memory measurement: after them, allocator, threads and stored versions have reached a steady state.
    private let warmUp = 50

    func run(_ scratch: Scratch) async throws -> Report {
        let folder = "\(scratch.path)/plugins"
        try Files.makeFolder(folder)
        try put(Self.good(0), folder)
        try Files.write("return { answers = function(t) t.push_filter { n = 0 } end }\n", to: "\(folder)/p.test.lua")
        let host = try PluginHost(
            folder: folder, proof: ProofByTests(), versionsFolder: "\(scratch.path)/versions",
            logger: Logger(label: "bench", factory: { _ in SwiftLogNoOpLogHandler() }), environment: .system)
        await host.start()
        let filter = try host.pushFilter(plugin: "p", usedBy: "bench")
        let isDone = Flag()
        let load = (0..<2).map { _ in Task { await Self.ask(filter, until: isDone) } }

        var random = SplitMix(seed: seed)
        var lastGood = 0
        var (good, bad, wrong) = (0, 0, 0)
        var milliseconds: [Double] = []
        var before = 0.0
        for number in 1...(warmUp + reloads) {
            if number == warmUp + 1 { before = try Self.settledMemory() }
            let isGood = random.next() % 2 == 0
            try put(isGood ? Self.good(number) : Self.bad(number, random.next()), folder)
            let start = monotonicNanoseconds()
            let verdict = await host.reload("p").first
            milliseconds.append(Double(monotonicNanoseconds() - start) / 1e6)
            if isGood { (good, lastGood) = (good + 1, number) } else { bad += 1 }
            var isRefused = false
            if case .refused = verdict?.outcome { isRefused = true }
            if isRefused == isGood { wrong += 1 }
            if await filter.evaluate([Self.document(lastGood)], Self.context) != [.pass] { wrong += 1 }
        }
        isDone.set()
        var asked = 0
        var failed = 0
        for task in load {
            let counts = await task.value
            asked += counts.asked
            failed += counts.failed
        }
        let after = try Self.settledMemory()
        await host.shutdown()

        var report = Report(
            scenario: "reload-storm", title: "\(good) good and \(bad) bad versions under load of two sessions, seed \(seed)")
        report.goal("reloads after which not the last good version served", "reloads", [Double(wrong)], .atMost, 0)
        report.goal("questions that failed", "questions", [Double(failed)], .atMost, 0)
        report.goal("resident memory after / before", "times", [after / before], .atMost, 1.05)
        report.add("resident memory before", "MB", [before])
        report.add("resident memory after", "MB", [after])
        report.add("questions of ten documents meanwhile", "questions", [Double(asked)])
        report.add("one reload, from the demand to the verdict", "ms", milliseconds)
        report.notes.append("before: after \(warmUp) reloads; \(machineLoad())")
        return report
    }

    private func put(_ source: String, _ folder: String) throws {
        try Files.write(source, to: "\(folder)/p.lua.new")
        try Files.move("\(folder)/p.lua.new", to: "\(folder)/p.lua")
    }

    /// Passes only documents with its own number, and holds some memory.
    private static func good(_ number: Int) -> String {
        """
        local number, held = \(number), {}
        for i = 1, 2000 do held[i] = "entry " .. i .. " of version " .. number end
        return { push_filter = function(doc) return doc.n == number and #held == 2000 end }

        """
    }

    private static func bad(_ number: Int, _ choice: UInt64) -> String {
        switch choice % 6 {
        case 0: "return { push_filter = function(doc) return doc.n == \(number) en }"
        case 1: "error('version \(number)')"
        case 2: "return \(number)"
        case 3: "return { params = { must = { type = 'string', required = true } }, push_filter = function() return true end } -- \(number)"
        case 4: "-- \(number)\nreturn { push_filter = function() error('fails its test') end }"
        default: "local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t .. '\(number)' end"
        }
    }

    private static let context = PolicyContext(
        database: "plant", collection: .default, direction: .push, replicator: "bench", remote: "ws://bench/plant")

    private static func document(_ number: Int) -> PolicyDocument {
        PolicyDocument(
            id: DocumentID(stored: "d\(number)"), revision: RevisionID(stored: "1-0123456789abcdef0123456789abcdef01234567"), isDeleted: false,
            body: Array("{\"n\":\(number)}".utf8))
    }

    private static func ask(_ filter: any DocumentFilter, until done: Flag) async -> (asked: Int, failed: Int) {
        let documents = (0..<10).map { document($0) }
        var counts = (asked: 0, failed: 0)
        while !done.isSet {
            let verdicts = await filter.evaluate(documents, context)
            counts.asked += 1
            if verdicts.count != documents.count || verdicts.contains(where: { if case .failed = $0 { true } else { false } }) { counts.failed += 1 }
        }
        return counts
    }

    /// Resident megabytes after the allocator has returned what it holds in reserve.
    private static func settledMemory() throws -> Double {
        // Declared in glibc's malloc.h, but not in its Swift module.
        typealias Trim = @convention(c) (Int) -> Int32
        if let trim = dlsym(nil, "malloc_trim") { _ = unsafeBitCast(trim, to: Trim.self)(0) }
        return try residentMegabytes("VmRSS", process: getpid())
    }

    private final class Flag: Sendable {
        private let value = Atomic<Bool>(false)
        var isSet: Bool { value.load(ordering: .relaxed) }
        func set() { value.store(true, ordering: .relaxed) }
    }
}

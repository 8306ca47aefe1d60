import Environment
import Interfaces

/// A comparison that waits for its turn.
protocol ShadowWork: Sendable {
    /// - Parameter isWanted: false once the result is no longer needed.
    func run(isWanted: @Sendable () -> Bool) async
}

extension ShadowQueue where Question == any ShadowWork {
    /// Makes one comparison after another: candidates keep at most one worker busy, and the others are left to serving plugins.
    static func inTurn(_ environment: Environment) -> ShadowQueue<any ShadowWork> {
        ShadowQueue(environment) { queue, work in
            for one in work where !queue.isStopped { await one.run(isWanted: { !queue.isStopped }) }
        }
    }
}

/// A candidate alongside the serving plugin in one place. It is given the same input after the answer is there; its own answer is compared and
/// counted, and has no other effect.
struct Shadow<Verdict: ComparedVerdict>: Sendable {
    let use: PluginUse
    let tally: ShadowTally
    let queue: ShadowQueue<any ShadowWork>
    /// The version of the serving plugin.
    let serving: @Sendable () -> String
    /// The part of a verdict that is compared.
    let view: @Sendable (Verdict) -> Verdict
    let ask: @Sendable ([Verdict.Asked], PolicyContext) async -> [Verdict]

    /// Returns at once.
    ///
    /// - Parameters:
    ///   - verdicts: the verdicts in effect.
    ///   - version: the version of the plugin that returned them.
    func compare(_ asked: [Verdict.Asked], _ verdicts: [Verdict], _ version: String, _ context: PolicyContext) {
        guard !asked.isEmpty, asked.count == verdicts.count else { return }
        let taken = queue.offer(zip(asked, verdicts).map { Verdict.bytes(of: $0) + $1.bytes }) { count in
            Comparison(shadow: self, asked: Array(asked.prefix(count)), verdicts: Array(verdicts.prefix(count)), version: version, context: context)
        }
        if taken < asked.count { tally.skipped(asked.count - taken) }
    }

    private struct Comparison: ShadowWork {
        let shadow: Shadow
        let asked: [Verdict.Asked]
        let verdicts: [Verdict]
        let version: String
        let context: PolicyContext

        func run(isWanted: @Sendable () -> Bool) async {
            // In batches: a candidate's answers about all of them might be large.
            for first in stride(from: 0, to: asked.count, by: ShadowLimits.batch) {
                let part = first..<min(first + ShadowLimits.batch, asked.count)
                let candidates = await shadow.ask(Array(asked[part]), context)
                // The host is stopping.
                guard isWanted() else { return }
                let findings = zip(asked[part], zip(verdicts[part], candidates)).map { asked, verdicts in
                    shadow.view(verdicts.0).finding(shadow.view(verdicts.1), about: asked, in: context.collection)
                }
                shadow.tally.count(findings, serving: version, candidate: shadow.use.version)
            }
        }
    }
}

/// A filter with a candidate alongside it.
struct ShadowedFilter: DocumentFilter {
    let filter: any DocumentFilter
    let shadow: Shadow<FilterVerdict>
    var pluginName: String { filter.pluginName }
    var version: String { filter.version }
    var changesBodies: Bool { filter.changesBodies }

    func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        let version = shadow.serving()
        let verdicts = await filter.evaluate(documents, context)
        shadow.compare(documents, verdicts, version, context)
        return verdicts
    }

    func versionChanges() -> AsyncStream<String> { filter.versionChanges() }
    func allVersionChanges() -> [AsyncStream<String>] { filter.allVersionChanges() }
}

/// A sync function with a candidate alongside it.
struct ShadowedSyncFunction: SyncFunction {
    let function: any SyncFunction
    let shadow: Shadow<SyncVerdict>
    var pluginName: String { function.pluginName }
    var version: String { function.version }

    func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict] {
        let version = shadow.serving()
        let verdicts = await function.assign(requests, context)
        shadow.compare(requests, verdicts, version, context)
        return verdicts
    }

    func versionChanges() -> AsyncStream<String> { function.versionChanges() }
}

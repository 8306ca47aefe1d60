import Documents
import DocumentStore
import PluginHost
import Replication

extension Agent {
    /// `attention_interval`: seconds between two checks when nobody asks, so that the log reports entries and the list knows when they began.
    private static let attentionInterval = 60

    /// Everything that needs attention, with what makes the agent unhealthy first. `/health`, `/api/status` and `/metrics` are derived from it.
    nonisolated func attention() async -> [Attention] {
        guard isReady else {
            let text = "the agent is starting or stopping"
            return [Attention(.notReady, "agent", since: startedAt, text, remedy: "wait; if it takes long, check its log")]
        }
        var list: [Attention] = []
        if let refused = refusedConfiguration() { list.append(refused) }
        // A refused configuration is reported in its own words, and is what the next start would read.
        if list.isEmpty, let failing = nextStart.attention(settings) { list.append(failing) }
        await checkDisks()
        list += clockAttention() + diskAttention()
        for database in databases { list += await attention(of: database) }
        if let unnamed = unnamedDatabases() { list.append(unnamed) }
        for replicator in replicators { list += await attention(of: replicator) }
        for listener in listeners { list += attention(of: listener) + (await channelAttention(of: listener)) }
        list += pluginAttention()
        list += fleetAttention()
        if let failing = logs.fileFailure {
            list.append(
                Attention(
                    .logFileFailing, "log", "the log file cannot be written, and its lines go to standard error: \(failing.path): \(failing.reason)",
                    remedy: "create its folder for the agent's user, make room, or correct log.file and nightjar reload; each further line retries it"))
        }
        attentionTimes.complete(&list, now: environment.time.wallSeconds(), logger: log)
        return list.filter(\.isUnhealthy) + list.filter { !$0.isUnhealthy }
    }

    /// What a reload refused, as long as the file differs from the configuration in force. If it does not, a plugin or another file was wrong, which
    /// is reported separately until it is fixed.
    private nonisolated func refusedConfiguration() -> Attention? {
        guard let refused = shared.withLock({ $0.refusedReload }) else { return nil }
        guard !nextStart.matchesRunningConfiguration(settings) else {
            shared.withLock { $0.refusedReload = nil }
            return nil
        }
        return Attention(
            .configurationRefused, "configuration", since: refused.since,
            "the changed configuration was refused, and the previous one is in force: \(refused.text.split(separator: "\n").joined(separator: "; "))",
            remedy: "fix what is named, or restore the file; try it with nightjar check, then nightjar reload. The next start will read the changed one")
    }

    /// Checks periodically, until the task is cancelled.
    nonisolated func watchAttention() async {
        while !Task.isCancelled {
            try? await environment.time.sleep(seconds: Self.attentionInterval)
            guard !Task.isCancelled else { return }
            _ = await attention()
        }
    }

    /// `/health`.
    nonisolated func health() async -> (status: Int, body: JSONValue) {
        let list = await attention()
        let reasons = list.filter(\.isUnhealthy).map { JSONValue.string($0.sentence) }
        return (
            reasons.isEmpty ? 200 : 503,
            JSONOutput.object([
                "status": .string(Self.word(list)), "reasons": .array(reasons), "attention": .array(list.map { Self.report($0) }),
            ])
        )
    }

    /// `ok`, `attention` or `unhealthy`.
    static func word(_ list: [Attention]) -> String {
        if list.isEmpty { return "ok" }
        return (list.contains(where: \.isUnhealthy) ? AttentionKind.Gravity.unhealthy : .attention).rawValue
    }

    static func report(_ entry: Attention) -> JSONValue {
        JSONOutput.object([
            "kind": .string(entry.kind.rawValue), "gravity": .string(entry.kind.gravity.rawValue), "subject": .string(entry.subject),
            "since": JSONOutput.text(entry.since.map { Timestamp.format($0) }), "text": .string(entry.text), "remedy": .string(entry.remedy),
        ])
    }

    /// How many of each kind there are, including 0, so that an alert finds every series.
    nonisolated func addAttention(to text: inout PrometheusText) async {
        let counts = Dictionary(grouping: await attention(), by: \.kind).mapValues(\.count)
        for kind in AttentionKind.allCases {
            text.add(
                .gauge, "nightjar_attention", "Things that need attention, as in nightjar status.",
                [("kind", kind.rawValue), ("gravity", kind.gravity.rawValue)], counts[kind] ?? 0)
        }
        text.add(.gauge, "nightjar_healthy", "0 while /health is 503.", [], counts.keys.contains { $0.gravity == .unhealthy } ? 0 : 1)
    }
}

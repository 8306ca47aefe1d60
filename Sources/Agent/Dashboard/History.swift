import Documents
import Environment
import HTTPServer
import ServiceLifecycle
import Synchronization

/// The agent's figures for the last hour, for charts: counters sampled every few seconds, in memory only.
final class History: Service {
    /// `history_interval`: seconds between two samples.
    static let interval = 10
    /// `history_samples`: an hour, including the sample at its start.
    static let maximumSamples = 361

    /// Names of the figures in a sample, in order. The first eight are counters, but those that count over peers shrink when a peer leaves.
    private static let columns = [
        "pushed", "pulled", "bytes_sent", "bytes_received", "sent_to_peers", "received_from_peers", "plugin_calls", "plugin_errors", "peers",
        "lag_seconds", "resident_bytes",
    ]

    private struct Sample {
        var at: Int64
        var figures: [UInt64]
    }

    private let agent: Agent
    private let samples = Mutex([Sample]())

    init(agent: Agent) { self.agent = agent }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            while !Task.isCancelled {
                add()
                try? await agent.environment.time.sleep(seconds: Self.interval)
            }
        }
    }

    var routes: [Route] { [.get("api/history") { [self] _ in Answer.json(json) }] }

    private func add() {
        let now = agent.environment.time.wallSeconds()
        var figures = [UInt64](repeating: 0, count: Self.columns.count)
        func count(_ column: Int, _ value: UInt64) { figures[column] &+= value }
        for replicator in agent.replicators {
            let counts = replicator.lifetime
            count(0, counts.pushed)
            count(1, counts.pulled)
            count(2, counts.bytesSent)
            count(3, counts.bytesReceived)
            if let lag = replicator.status.lag(now: now) { figures[9] = max(figures[9], UInt64(clamping: lag)) }
        }
        for peer in agent.listeners.flatMap(\.peers) {
            count(4, UInt64(clamping: peer.counts.pushed))
            count(5, UInt64(clamping: peer.counts.pulled))
            count(8, 1)
        }
        for plugin in agent.plugins?.status() ?? [] {
            count(6, UInt64(clamping: plugin.calls))
            count(7, UInt64(clamping: plugin.errors))
        }
        count(10, UInt64(clamping: System.memory.resident))
        let sample = Sample(at: now, figures: figures)
        samples.withLock { samples in
            if samples.count >= Self.maximumSamples { samples.removeFirst(samples.count - Self.maximumSamples + 1) }
            samples.append(sample)
        }
    }

    private var json: JSONValue {
        JSONOutput.object([
            "interval_seconds": JSONOutput.number(Self.interval),
            "columns": .array((["at"] + Self.columns).map { .string($0) }),
            "samples": .array(
                samples.withLock { $0 }.map { .array([JSONOutput.number($0.at)] + $0.figures.map { JSONOutput.number($0) }) }),
        ])
    }
}

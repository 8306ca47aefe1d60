import Synchronization

/// Metrics that plugins define: `nightjar.metrics.count` and `gauge`.
final class PluginMeters: Sendable {
    /// `metric series of all plugins`: each plugin may define 200 (the plugin host enforces that), and there may be 256 plugins.
    static let maximumSeries = 5_000

    struct Series: Hashable {
        var plugin: String
        var name: String
        var isCounter: Bool
        /// Names and values, alternating.
        var labels: [String]
    }

    private struct State {
        var values: [Series: Double] = [:]
        var dropped = 0
    }

    private let state = Mutex(State())

    func count(plugin: String, name: String, value: Double, labels: [(String, String)]) {
        update(Series(plugin, name, isCounter: true, labels)) { $0 + value }
    }

    func gauge(plugin: String, name: String, value: Double, labels: [(String, String)]) {
        update(Series(plugin, name, isCounter: false, labels)) { _ in value }
    }

    private func update(_ series: Series, _ change: (Double) -> Double) {
        state.withLock { state in
            if let old = state.values[series] {
                state.values[series] = change(old)
            } else if state.values.count < Self.maximumSeries {
                state.values[series] = change(0)
            } else {
                state.dropped += 1
            }
        }
    }

    func write(to text: inout PrometheusText) {
        let (values, dropped) = state.withLock { ($0.values, $0.dropped) }
        let ordered = values.sorted {
            ($0.key.name, $0.key.plugin, $0.key.labels.joined(separator: "\u{0}"))
                < ($1.key.name, $1.key.plugin, $1.key.labels.joined(separator: "\u{0}"))
        }
        for (series, value) in ordered {
            var labels = [("plugin", series.plugin)]
            for index in stride(from: 0, to: series.labels.count, by: 2) { labels.append((series.labels[index], series.labels[index + 1])) }
            if series.isCounter {
                text.add(.counter, "plugin_\(series.name)_total", "Counted by plugins.", labels, value)
            } else {
                text.add(.gauge, "plugin_\(series.name)", "Measured by plugins.", labels, value)
            }
        }
        text.add(.counter, "nightjar_plugin_series_dropped_total", "Values of plugins beyond the limit of \(Self.maximumSeries) series.", [], dropped)
    }
}

extension PluginMeters.Series {
    init(_ plugin: String, _ name: String, isCounter: Bool, _ labels: [(String, String)]) {
        self.init(plugin: plugin, name: name, isCounter: isCounter, labels: labels.flatMap { [$0.0, $0.1] })
    }
}

import AgentConfiguration
import Encodings
import Environment
import Glibc
import Logging
import PluginHost
import Replication
import Synchronization

/// Where log lines go, and which ones: one level per domain, changeable while the agent runs.
package final class LogSink: Sendable {
    private struct State {
        var level = Logger.Level.info
        var domains: [LogSettings.Domain: Logger.Level] = [:]
        /// Domains that log nothing.
        var silent: Set<LogSettings.Domain> = []
        var format = LogSettings.Format.text
        var folding = LineFolding()
        var showsBodies = false
        var file: LogFile?
    }

    private let state = Mutex(State())

    private let time: any TimeSource

    /// The most recent lines.
    let tail = LogTail()

    package init(time: any TimeSource) { self.time = time }

    deinit { state.withLock { $0.file?.shut() } }

    /// Applies the levels, format and destination from a configuration.
    package func apply(_ settings: LogSettings) {
        state.withLock { state in
            state.level = Logger.Level(settings.level)
            state.format = settings.format
            state.showsBodies = settings.bodies
            if state.file?.settings != settings.file {
                state.file?.shut()
                state.file = settings.file.map { LogFile($0) }
            }
            state.silent = Set(LogSettings.Domain.allCases.filter { settings.level(of: $0) == .nothing })
            state.domains = [:]
            for domain in LogSettings.Domain.allCases {
                if let level = settings.domains[domain] { state.domains[domain] = Logger.Level(level) }
            }
        }
    }

    /// Logs only errors, whatever the configuration says: for commands whose output is read by programs.
    package func quiet() { state.withLock { $0.level = .error } }

    /// A logger for one domain.
    package func logger(_ domain: LogSettings.Domain) -> Logger {
        Logger(label: "nightjar.\(domain.rawValue)") { _ in DomainLogHandler(sink: self, domain: domain) }
    }

    /// Logs replication traffic, as far as the configuration currently asks for it.
    package var wireLog: WireLog {
        WireLog(network: logger(.network), sync: logger(.sync)) { [self] in state.withLock { $0.showsBodies } }
    }

    func level(_ domain: LogSettings.Domain) -> Logger.Level { state.withLock { $0.domains[domain] ?? $0.level } }

    /// Writes a line from any part of the program. Lines with the same cause are folded, except for details that an operator asked for and what
    /// plugins write.
    func note(_ domain: LogSettings.Domain, _ event: LogEvent, _ metadata: Logger.Metadata) {
        guard !state.withLock({ $0.silent.contains(domain) }) else { return }
        guard event.level >= .info, event.source != PluginHost.logSource else { return write(domain, event.level, "\(event.message)", metadata) }
        let folded = state.withLock { state in
            state.folding.note(LineFolding.Cause(event.file, event.line, metadata), at: time.monotonicNanoseconds(), LineFolding.Folded(
                count: 0, domain: domain.rawValue, level: event.level, message: "\(event.message)"))
        }
        guard let folded else { return }
        var metadata = metadata
        if folded > 0 { metadata["not_logged_since"] = "\(folded)" }
        write(domain, event.level, "\(event.message)", metadata)
    }

    /// Reports suppressed lines.
    ///
    /// - Parameter all: include causes whose interval is not over; used at the end.
    func reportFolded(all: Bool = false) {
        for line in state.withLock({ $0.folding.take(at: time.monotonicNanoseconds(), all: all) }) {
            guard let domain = LogSettings.Domain(rawValue: line.domain) else { continue }
            write(domain, line.level, "\(line.count) more lines like this one were not logged: \(line.message)", [:])
        }
    }

    /// Reports suppressed lines periodically, until the task is cancelled.
    func watchFolded() async {
        while !Task.isCancelled {
            try? await time.sleep(nanoseconds: LineFolding.interval)
            reportFolded()
        }
    }

    func write(_ domain: LogSettings.Domain, _ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata) {
        let (text, json) = lines(domain, level, message, metadata)
        tail.add(json)
        put(state.withLock { $0.format } == .json ? json : text)
    }

    /// The line that says the agent is ready, for standard output, in the log's format.
    package func readyLine(_ addresses: [String]) -> String {
        let message = "ready \(addresses.joined(separator: " "))"
        guard state.withLock({ $0.format }) == .json else { return message }
        return lines(.listener, .info, message, [:]).json
    }

    /// The configured file, and why the last line could not be written to it; nil if all is well.
    var fileFailure: (path: String, reason: String)? {
        state.withLock { state in
            guard let file = state.file, let reason = file.failure else { return nil }
            return (file.settings.path.value, reason)
        }
    }

    /// A line in both formats.
    private func lines(
        _ domain: LogSettings.Domain, _ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata
    ) -> (text: String, json: String) {
        let time = Timestamp.format(wallNanoseconds: self.time.wallNanoseconds())
        let fields = metadata.sorted { $0.key < $1.key }
        var json = "{\"time\":\"\(time)\",\"level\":\"\(level.rawValue)\",\"domain\":\"\(domain.rawValue)\",\"message\":\(JSONString.quoted(message, forTerminals: true))"
        for (key, value) in fields { json += ",\(JSONString.quoted(key, forTerminals: true)):\(Self.json(value))" }
        json += "}"
        var text = "\(time) \(level.rawValue) \(domain.rawValue): \(LogText.message(message))"
        for (key, value) in fields { text += " \(LogText.value(key))=\(LogText.value("\(value)"))" }
        return (text, json)
    }

    /// Writes to the configured file; without one, or if it cannot be written, to standard error.
    private func put(_ line: String) {
        let bytes = Array("\(line)\n".utf8)
        let (outcome, path) = state.withLock { ($0.file?.write(bytes), $0.file?.settings.path.value ?? "") }
        switch outcome {
        case .written: return
        case .failed(let reason?):
            let failure = lines(.database, .error, "the log file cannot be written, and the log goes to standard error until it can: \(path): \(reason)", [:])
            tail.add(failure.json)
            let isJSON = state.withLock { $0.format } == .json
            Self.writeError(Array("\(isJSON ? failure.json : failure.text)\n".utf8))
        case .failed(.none), .none: break
        }
        Self.writeError(bytes)
    }

    /// One write call per line, so that lines from several threads do not mix.
    private static func writeError(_ bytes: [UInt8]) { bytes.withUnsafeBytes { _ = Glibc.write(2, $0.baseAddress, $0.count) } }
}

extension LogSink {
    /// A number stays a number, for programs that read the log; a text that looks like a number stays a text.
    fileprivate static func json(_ value: Logger.MetadataValue) -> String {
        if case .stringConvertible(let value) = value, let number = value as? any BinaryInteger { return "\(number)" }
        return JSONString.quoted("\(value)", forTerminals: true)
    }
}

extension Logger.Level {
    /// `none` maps to the least severe level; such lines are dropped anyway.
    init(_ level: LogSettings.Level) {
        switch level {
        case .verbose: self = .debug
        case .nothing: self = .critical
        default: self = Logger.Level(rawValue: level.rawValue) ?? .info
        }
    }
}

private struct DomainLogHandler: LogHandler {
    let sink: LogSink
    let domain: LogSettings.Domain
    var metadata: Logger.Metadata = [:]

    /// The sink filters instead, so that a reload also affects existing loggers.
    var logLevel: Logger.Level {
        get { sink.level(domain) }
        set {}
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = event.metadata.map { metadata.merging($0) { _, new in new } } ?? metadata
        sink.note(domain, event, all)
    }
}

import Logging

/// Folds log lines with the same cause: a number of them are written per interval, and the rest are counted and summarised in one line.
///
/// A cause is a place in the program, together with the plugin, listener, replicator, database, limit or kind of error or attention concerned. Names of peers or
/// documents are never part of it, because a stranger could produce any number of those.
struct LineFolding {
    /// `log_burst`: lines with one cause that are written in each ``interval``.
    static let burst = 30
    /// `log_interval`: nanoseconds.
    static let interval: UInt64 = 60_000_000_000
    /// `log_causes`: causes remembered at once. There are fewer, unless somebody configures hundreds of listeners.
    static let causes = 2_000
    /// Metadata that is part of the cause.
    private static let names = ["plugin", "listener", "replicator", "database", "limit", "cause", "kind"]

    struct Cause: Hashable {
        private var file: String
        private var line: UInt
        private var about: [String]

        init(_ file: String, _ line: UInt, _ metadata: Logger.Metadata) {
            self.file = file
            self.line = line
            about = LineFolding.names.map { name in metadata[name].map { "\($0)" } ?? "" }
        }
    }

    /// A suppressed line, standing for others like it.
    struct Folded {
        var count: Int
        var domain: String
        var level: Logger.Level
        var message: String
    }

    private struct Window {
        var begun: UInt64
        var lines: Int
        var folded: Folded?
    }

    private var windows: [Cause: Window] = [:]

    /// Nil if the line must not be written; otherwise how many lines with its cause were suppressed since the last one.
    mutating func note(_ cause: Cause, at now: UInt64, _ line: @autoclosure () -> Folded) -> Int? {
        guard var window = windows[cause], now - window.begun < Self.interval else {
            let folded = windows[cause]?.folded?.count ?? 0
            if windows[cause] == nil, windows.count >= Self.causes { windows = windows.filter { $0.value.folded != nil } }
            windows[cause] = Window(begun: now, lines: 1, folded: nil)
            return folded
        }
        if window.lines < Self.burst {
            window.lines += 1
            windows[cause] = window
            return 0
        }
        var last = line()
        last.count = (window.folded?.count ?? 0) + 1
        window.folded = last
        windows[cause] = window
        return nil
    }

    /// Suppressed lines that have not been reported, for causes whose interval is over, or for all.
    mutating func take(at now: UInt64, all: Bool) -> [Folded] {
        var taken: [Folded] = []
        for (cause, window) in windows where all || now - window.begun >= Self.interval {
            if let folded = window.folded { taken.append(folded) }
            windows[cause] = nil
        }
        return taken
    }
}

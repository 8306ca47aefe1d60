import Interfaces
import Synchronization

/// The most recent log lines, for remote viewers. Each is a JSON object, as `format: json` writes it, with an increasing `number`.
final class LogTail: Sendable {
    /// `log_tail_lines`: lines that are kept.
    static let maximumLines = 500
    /// `log_tail_bytes`: size of all lines together.
    static let maximumBytes = 256 << 10
    /// `log_tail_line_bytes`: a longer line is not kept.
    static let maximumLineBytes = 8 << 10
    /// `log_tail_waiting`: for each follower; a slow one loses the oldest lines.
    private static let maximumWaiting = 200

    private struct State {
        var lines: [[UInt8]] = []
        var bytes = 0
        var number: UInt64 = 0
    }

    private let state = Mutex(State())
    private let news = EventHub<[UInt8]>(kept: maximumWaiting)

    /// - Parameter line: a JSON object without line breaks.
    func add(_ line: String) {
        guard line.utf8.count <= Self.maximumLineBytes, line.utf8.first == UInt8(ascii: "{") else { return }
        state.withLock { state in
            state.number += 1
            let bytes = Array("{\"number\":\(state.number),".utf8) + line.utf8.dropFirst()
            state.lines.append(bytes)
            state.bytes += bytes.count
            var dropped = 0
            while state.lines.count - dropped > Self.maximumLines || state.bytes > Self.maximumBytes {
                state.bytes -= state.lines[dropped].count
                dropped += 1
            }
            if dropped > 0 { state.lines.removeFirst(dropped) }
            // Inside the lock, so that followers get increasing numbers.
            news.send(bytes)
        }
    }

    /// The kept lines, oldest first, as a JSON array.
    var json: [UInt8] {
        var json = [UInt8(ascii: "[")]
        for line in state.withLock({ $0.lines }) {
            if json.count > 1 { json.append(UInt8(ascii: ",")) }
            json += line
        }
        return json + [UInt8(ascii: "]")]
    }

    /// New lines from now on.
    func stream() -> AsyncStream<[UInt8]> { news.stream() }
}

import Agent
import Documents
import Synchronization

/// Prints a long list as it arrives, in chunks.
final class ListPrinter: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var isFirst = true
    }

    static let pieceBytes = 64 << 10
    private let json: Bool
    private let state = Mutex(State())

    init(json: Bool) { self.json = json }

    /// - Parameter row: the JSON of one row.
    func add(_ row: [UInt8]) throws {
        let line = json ? row : try text(row)
        try state.withLock { state in
            if json { state.bytes += Array(state.isFirst ? "[\n".utf8 : ",\n".utf8) }
            state.isFirst = false
            state.bytes += line
            if state.bytes.count > Self.pieceBytes { try Self.flush(&state) }
        }
    }

    func finish() throws {
        try state.withLock { state in
            if json { state.bytes += Array(state.isFirst ? "[]\n".utf8 : "\n]\n".utf8) }
            try Self.flush(&state)
        }
    }

    private static func flush(_ state: inout State) throws {
        try state.bytes.withUnsafeBytes { try Output.writeAll(1, $0) }
        state.bytes.removeAll(keepingCapacity: true)
    }

    private func text(_ row: [UInt8]) throws -> [UInt8] {
        let value = try JSONValue(stored: row)
        let isDeleted = value["deleted"]?.asBool == true
        return Array(
            "\(TextTable.printable(value["id"]?.asString ?? ""))\t\(value["rev"]?.asString ?? "")\(isDeleted ? "\tdeleted" : "")\n".utf8)
    }
}

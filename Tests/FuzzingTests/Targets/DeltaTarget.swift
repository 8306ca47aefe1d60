@testable import Documents

extension FuzzTarget {
    /// Deltas of bodies: one from a peer gives a body within its limit or is refused, and one that is made here gives the new body from the old one.
    static let deltas = FuzzTarget("deltas", longestInput: 4_096) { bytes in
        let parts = bytes.split(separator: 0x1E, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
        guard parts.count == 2 else { return }
        try apply(parts[1], to: parts[0])
        try make(from: parts[0], to: parts[1])
        try make(from: parts[1], to: parts[0])
    }

    private static func apply(_ delta: [UInt8], to old: [UInt8]) throws {
        // A body of the store was looked at when it came.
        guard (try? JSONValue(parsing: old))?.asObject != nil else { return }
        for limit in [40, 100_000] {
            let new: [UInt8]
            do { new = try JSONDelta.apply(delta, to: old, limit: limit) } catch {
                try hold("\(error)".utf8.count < 1_000, "a long message")
                continue
            }
            try hold(new.count <= limit, "a body of \(new.count) bytes")
            try hold((try? JSONValue(stored: new))?.asObject != nil, "a delta made what is no JSON object")
            try hold(new.count <= size(old) + size(delta), "a body that is larger than the old one and the delta together")
        }
    }

    /// As it came, or as it is written here, where a text may be longer.
    private static func size(_ json: [UInt8]) -> Int { max(json.count, (try? JSONValue(parsing: json).serialize().count) ?? 0) }

    private static func make(from old: [UInt8], to new: [UInt8]) throws {
        guard let oldValue = try? JSONValue(parsing: old), oldValue.asObject != nil, let newValue = try? JSONValue(parsing: new), newValue.asObject != nil else { return }
        guard let delta = JSONDelta.make(from: old, to: new) else { throw FuzzFinding(description: "no delta of two bodies") }
        let made: [UInt8]
        do { made = try JSONDelta.apply(delta, to: old, limit: .max) } catch {
            // Nothing is nested deeper than may be but what a delta wraps, and that is refused: the whole body travels.
            if case .notJSON = error { return }
            throw FuzzFinding(description: "our own delta \(String(decoding: delta, as: UTF8.self)) is refused: \(error)")
        }
        guard let value = try? JSONValue(stored: made) else { throw FuzzFinding(description: "a delta made no JSON") }
        try hold(value.canonicalBytes() == newValue.canonicalBytes(), "the delta \(String(decoding: delta, as: UTF8.self)) makes \(value.text)")
    }
}

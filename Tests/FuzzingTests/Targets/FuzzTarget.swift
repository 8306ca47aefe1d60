/// One way in for bytes from outside, and what has to hold whatever they are.
///
/// Not crashing is the least of it: readers agree, what was read can be written and read again, what is held is bounded, nothing
/// that was asked goes unanswered. `Tests/run --fuzz MINUTES` looks for bytes for which it does not hold; those kept are replayed by
/// every run of the tests.
struct FuzzTarget: Sendable {
    /// The name of its corpus: `Tests/Vectors/fuzz/NAME`.
    let name: String
    /// The longest input that is tried, in bytes.
    let longestInput: Int
    /// The most memory that one input may take at once, in MiB: for libFuzzer's `-malloc_limit_mb`.
    let memory: Int
    /// Called on a thread of its own with 8 MiB of stack.
    let run: @Sendable ([UInt8]) throws -> Void

    init(_ name: String, longestInput: Int, memory: Int = 64, _ run: @escaping @Sendable ([UInt8]) throws -> Void) {
        self.name = name
        self.longestInput = longestInput
        self.memory = memory
        self.run = run
    }

    static let all: [FuzzTarget] = [
        frames, connection, messages, json, revisionTrees, configuration, httpRequests, webSocketFrames, tlsRecords, luaResults, couchRequests, couchAnswers,
        deltas, proxyAnswers, endpointFrames, deflate, webTokens,
    ]

    static func named(_ name: String) -> FuzzTarget? { all.first { $0.name == name } }
}

/// Something that should hold did not.
struct FuzzFinding: Error, CustomStringConvertible {
    let description: String
}

/// Throws a finding unless the condition holds.
func hold(_ condition: Bool, _ what: @autoclosure () -> String) throws(FuzzFinding) {
    guard condition else { throw FuzzFinding(description: what()) }
}

/// Reads choices and pieces from the bytes of an input; zeros behind its end.
struct FuzzInput {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isEmpty: Bool { rest.isEmpty }
    var count: Int { rest.count }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }
    mutating func below(_ bound: Int) -> Int { Int(byte()) % bound }
    mutating func flag() -> Bool { byte() & 1 == 1 }
    mutating func short() -> Int { Int(byte()) << 8 | Int(byte()) }

    mutating func pick<T>(_ list: [T]) -> T { list[below(list.count)] }

    mutating func bytes(_ count: Int) -> [UInt8] {
        let piece = Array(rest.prefix(count))
        rest = rest.dropFirst(count)
        return piece
    }

    /// A piece whose length comes first.
    mutating func piece() -> [UInt8] { bytes(Int(byte())) }

    mutating func all() -> [UInt8] { bytes(rest.count) }
}

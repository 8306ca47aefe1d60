/// Replies streamed to the owner, from the queueing of the request until the last byte is consumed.
struct IncomingStreams {
    enum State {
        case open
        /// The owner wants nothing more of it.
        case abandoned
    }

    private struct Stream {
        /// Number of the request; 0 until the reply begins.
        var number: UInt64 = 0
        var unconsumed = 0
        var state = State.open
        var hasEnded = false
    }

    private let window: Int
    private var table: [RequestToken: Stream] = [:]
    /// Bytes delivered and not consumed, over all streams.
    private(set) var unconsumedBytes = 0
    /// Number of streams with more than ``crowdedBytes`` unconsumed.
    private var crowded = 0

    init(window: Int) { self.window = window }

    var isEmpty: Bool { table.isEmpty }
    var isCrowded: Bool { crowded > 0 }
    private var crowdedBytes: Int { window > .max / 4 ? .max : 4 * window }

    mutating func add(_ token: RequestToken) { table[token] = Stream() }

    /// Nil if the reply to that request is not streamed, or is complete.
    func state(_ token: RequestToken) -> State? { table[token]?.state }
    func unconsumed(_ token: RequestToken) -> Int { table[token]?.unconsumed ?? 0 }
    func exceedsWindow(_ token: RequestToken) -> Bool { unconsumed(token) > window }

    mutating func begin(_ token: RequestToken, number: UInt64) { table[token]?.number = number }

    mutating func told(_ token: RequestToken, bytes: Int) {
        change(token) { $0.unconsumed += bytes }
    }

    /// Returns the number of the request if its reply may be acknowledged again and could not be before.
    mutating func consumed(_ token: RequestToken, bytes: Int) -> UInt64? {
        guard let stream = table[token] else { return nil }
        let exceededWindow = stream.unconsumed > window
        change(token) { $0.unconsumed -= min(max(bytes, 0), $0.unconsumed) }
        let rest = unconsumed(token)
        if stream.hasEnded, rest == 0 { table[token] = nil }
        return exceededWindow && rest <= window ? stream.number : nil
    }

    /// The whole reply was delivered.
    mutating func end(_ token: RequestToken) {
        if unconsumed(token) == 0 { table[token] = nil } else { table[token]?.hasEnded = true }
    }

    /// Returns the number of the request if its reply has begun and not ended.
    mutating func abandon(_ token: RequestToken) -> UInt64? {
        guard let stream = table[token] else { return nil }
        change(token) { $0.unconsumed = 0 }
        if stream.hasEnded {
            table[token] = nil
            return nil
        }
        table[token]?.state = .abandoned
        return stream.number == 0 ? nil : stream.number
    }

    mutating func remove(_ token: RequestToken) {
        change(token) { $0.unconsumed = 0 }
        table[token] = nil
    }

    private mutating func change(_ token: RequestToken, _ body: (inout Stream) -> Void) {
        guard var stream = table[token] else { return }
        let before = stream.unconsumed
        body(&stream)
        unconsumedBytes += stream.unconsumed - before
        crowded += (stream.unconsumed > crowdedBytes ? 1 : 0) - (before > crowdedBytes ? 1 : 0)
        table[token] = stream
    }
}

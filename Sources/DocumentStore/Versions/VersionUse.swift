import Synchronization

/// Whether the database has version vectors, or has had a peer that may ask for them: then its peers of our own kind are spoken to by versions, and
/// a decision may make one. And how far its own versions came.
///
/// Noted by the writer and by connections, asked by anybody.
final class VersionUse: Sendable {
    private let isSeen: Atomic<Bool>
    private let known: Mutex<VersionsAhead>

    init(_ isSeen: Bool, _ ahead: VersionsAhead = VersionsAhead(through: 0)) {
        self.isSeen = Atomic(isSeen)
        known = Mutex(ahead)
    }

    /// - Parameter properties: the database's, as they are stored.
    convenience init(_ isSeen: Bool, properties: [String: String]) {
        let reserved = properties[VersionProperty.reserved].flatMap { UInt64($0, radix: 16) } ?? 0
        var ahead = properties[VersionProperty.ahead].flatMap { VersionsAhead($0) } ?? VersionsAhead(through: 0)
        ahead.take(VersionsAhead(through: reserved))
        self.init(isSeen, ahead)
    }

    var isInUse: Bool { isSeen.load(ordering: .relaxed) }
    /// False if it was known.
    @discardableResult
    func note() -> Bool { !isSeen.exchange(true, ordering: .relaxed) }

    /// Versions were made here, under whichever name, of times up to this one.
    var ahead: VersionsAhead { known.withLock { $0 } }
    func note(through time: UInt64) { note(VersionsAhead(through: time)) }
    func note(_ news: VersionsAhead) { known.withLock { $0.take(news) } }
}

extension Database {
    /// A peer came that knows revisions by versions. One that only reads has to be told of decisions by versions as well: by those that stand for revisions of
    /// trees it takes the higher generation for the newer one, whatever was decided.
    public func noteVersionPeer() {
        guard versions.note() else { return }
        // Where this cannot be written, it is known until the next start, and then from the peer's next connection.
        write { try $0.setProperty(VersionProperty.peer, "1") } completion: { _ in }
    }
}

/// How far the versions came that were made here while the machine's clock was ahead.
struct VersionsAhead: Sendable, Equatable, CustomStringConvertible {
    /// Nanoseconds since 1970, as versions have them.
    var through: UInt64
    /// When the clock was found to have been ahead: seconds since 1970. Nil: nobody had to know yet.
    var since: Int64?

    init(through: UInt64, since: Int64? = nil) { (self.through, self.since) = (through, since) }

    /// As it is stored.
    init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 2, let through = UInt64(parts[0], radix: 16), let since = Int64(parts[1]) else { return nil }
        self.init(through: through, since: since)
    }

    var description: String { "\(String(through, radix: 16)) \(since ?? 0)" }

    /// Beyond what is known, its time has come, or the clock is ahead once more: that begins anew.
    mutating func take(_ news: VersionsAhead) {
        if news.through > through { self = news } else { since = since ?? news.since }
    }
}

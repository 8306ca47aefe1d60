import Synchronization

/// Whether the database has version vectors, or has had a peer that may ask for them: in that case, versions are used with other Nightjars, and a
/// decision may create one. Also records how far its own versions got.
///
/// Written by the writer and by connections, read by anyone.
final class VersionUse: Sendable {
    private let isSeen: Atomic<Bool>
    private let known: Mutex<VersionsAhead>

    init(_ isSeen: Bool, _ ahead: VersionsAhead = VersionsAhead(through: 0)) {
        self.isSeen = Atomic(isSeen)
        known = Mutex(ahead)
    }

    /// - Parameter properties: the database's stored properties.
    convenience init(_ isSeen: Bool, properties: [String: String]) {
        let reserved = properties[VersionProperty.reserved].flatMap { UInt64($0, radix: 16) } ?? 0
        var ahead = properties[VersionProperty.ahead].flatMap { VersionsAhead($0) } ?? VersionsAhead(through: 0)
        ahead.take(VersionsAhead(through: reserved))
        self.init(isSeen, ahead)
    }

    var isInUse: Bool { isSeen.load(ordering: .relaxed) }
    /// Returns false if it was already known.
    @discardableResult
    func note() -> Bool { !isSeen.exchange(true, ordering: .relaxed) }

    /// The latest time of versions made here, under any source id.
    var ahead: VersionsAhead { known.withLock { $0 } }
    func note(through time: UInt64) { note(VersionsAhead(through: time)) }
    func note(_ news: VersionsAhead) { known.withLock { $0.take(news) } }
}

extension Database {
    /// A peer that identifies revisions by versions has connected. Even one that only reads has to be sent decisions with versions: between versions
    /// that stand for tree revisions, it considers the higher generation newer, whatever was decided.
    public func noteVersionPeer() {
        guard versions.note() else { return }
        // If this cannot be written, it is known until the next start, and then again from the peer's next connection.
        write { try $0.setProperty(VersionProperty.peer, "1") } completion: { _ in }
    }
}

/// How far the versions got that were made here while the machine's clock was ahead.
struct VersionsAhead: Sendable, Equatable, CustomStringConvertible {
    /// Nanoseconds since 1970, as in versions.
    var through: UInt64
    /// When the clock was found to have been ahead, in seconds since 1970. Nil if that has not mattered yet.
    var since: Int64?

    init(through: UInt64, since: Int64? = nil) { (self.through, self.since) = (through, since) }

    /// Parses the stored form.
    init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 2, let through = UInt64(parts[0], radix: 16), let since = Int64(parts[1]) else { return nil }
        self.init(through: through, since: since)
    }

    var description: String { "\(String(through, radix: 16)) \(since ?? 0)" }

    /// A time beyond the recorded one means that the recorded time has come, or the clock is ahead once more: the record starts over.
    mutating func take(_ news: VersionsAhead) {
        if news.through > through { self = news } else { since = since ?? news.since }
    }
}

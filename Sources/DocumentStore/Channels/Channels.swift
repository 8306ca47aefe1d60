import Documents

/// What a sync function assigned to a revision of a document: where it belongs, what it grants, how long it lives.
public struct DocumentRoute: Sendable, Equatable {
    public var channels: Set<String>
    /// Channels by user; a user that begins with `role:` is a role.
    public var access: [String: [String]]
    /// Roles by user.
    public var roles: [String: [String]]
    /// Unix seconds; the document is deleted then.
    public var expires: Int64?
    /// Who assigned it.
    public var plugin: String
    public var version: String
    /// Why nothing could be assigned: the document is in no channel until that is mended. Empty if all went well.
    public var error: String

    public init(
        channels: Set<String> = [], access: [String: [String]] = [:], roles: [String: [String]] = [:], expires: Int64? = nil,
        plugin: String = "", version: String = "", error: String = ""
    ) {
        self.channels = channels
        self.access = access
        self.roles = roles
        self.expires = expires
        self.plugin = plugin
        self.version = version
        self.error = error
    }
}

/// Whose access to channels is asked for.
public struct ChannelPeer: Sendable, Hashable {
    /// The user that documents grant access to.
    public var user: String
    /// Where the channels that an authenticator gave are kept: they hold on one listener only.
    public var listener: String

    /// Peers without a name are this user, as in Sync Gateway.
    public static let guest = "GUEST"

    public init(user: String?, listener: String) {
        self.user = user ?? Self.guest
        self.listener = listener
    }

    var userKey: String { "u/\(user)" }
    var ownKey: String { "s/\(listener)\u{1}\(user)" }
}

/// What a peer may pull, and since when: where access began or ended after the peer's last visit, documents older than that
/// come or go.
public struct ChannelAccess: Sendable, Equatable {
    public struct Entry: Sendable, Equatable {
        public var channel: String
        /// The sequence at which access began for the first time; 0: it was always there.
        public var first: SequenceNumber
        /// The sequence at which access began; 0: it was always there.
        public var granted: SequenceNumber
        /// The sequence at which it ended.
        public var revoked: SequenceNumber?
    }

    /// Ascending by channel. `*` stands for all documents, `!` for the public ones, which everybody may pull.
    public var entries: [Entry]
    public var roles: [String]

    /// What the peer may pull now.
    public var channels: [String] {
        var seen: Set<String> = []
        return entries.filter { $0.revoked == nil && seen.insert($0.channel).inserted }.map(\.channel)
    }

    /// Narrowed to what the peer asked for; `*` among the names asks for everything.
    func selected(_ names: [String]?) -> ChannelAccess {
        guard let names, !names.contains("*") else { return self }
        let wanted = Set(names)
        var result = self
        result.entries = []
        for entry in entries {
            if wanted.contains(entry.channel) {
                result.entries.append(entry)
            } else if entry.channel == "*" {
                // Who may have everything may have these.
                result.entries += names.map { Entry(channel: $0, first: entry.first, granted: entry.granted, revoked: entry.revoked) }
            }
        }
        return result
    }
}

/// How far a peer's feed of its channels has come.
///
/// Sequences go up, and where access begins or ends at a sequence, the documents that come or go because of it are told of
/// before the document at that sequence. Peers see the place as `N`, or as `EVENT:N` inside such an event, as with Sync Gateway.
public struct ChannelPlace: Sendable, Equatable {
    /// Every document up to this sequence was looked at, and every event up to it, unless `event` says otherwise.
    public var sequence: SequenceNumber
    /// The event, `sequence + 1` or later, that is under way, or that is done while its own sequence is not read yet.
    public var event: SequenceNumber?
    /// In that event every document up to this sequence was looked at; nil: all.
    public var inEvent: SequenceNumber?

    public init(_ sequence: SequenceNumber = 0) { self.sequence = sequence }

    /// Right behind a document, as the feed tells of it: by itself, or because of an event.
    public init(behind sequence: SequenceNumber, in event: SequenceNumber?) {
        self.init(sequence)
        if let event, event > 0 { (self.sequence, self.event, self.inEvent) = (event - 1, event, sequence) }
    }

    /// Reads `N` or `EVENT:N`, with or without quotes, and `LOW::N` or `LOW:EVENT:N`, where what lies behind `LOW` is told again; anything
    /// else is the beginning.
    public init(parsing text: String) {
        self.init()
        var bytes = Substring(text)
        if bytes.hasPrefix("\""), bytes.hasSuffix("\""), bytes.utf8.count >= 2 { bytes = bytes.dropFirst().dropLast() }
        let parts = bytes.split(separator: ":", omittingEmptySubsequences: false)
        if parts.count == 1, let number = SequenceNumber(parts[0]) {
            sequence = number
        } else if parts.count == 2, let event = SequenceNumber(parts[0]), let inEvent = SequenceNumber(parts[1]), event > 0 {
            self = ChannelPlace(behind: inEvent, in: event)
        } else if parts.count == 3, let low = SequenceNumber(parts[0]) {
            sequence = low
        }
    }
}

/// What a peer is told of a document.
public enum ChannelNews: Sendable, Equatable {
    /// It may have the revision.
    case visible
    /// The document left its channels.
    case removed
    /// The peer lost access to them.
    case revoked
}

/// Where a document left the last of a peer's channels.
public struct ChannelDeparture: Sendable, Equatable {
    public var sequence: SequenceNumber
    /// The peer could read the document until then.
    public var wasHeld: Bool
}

/// A part of a peer's feed of its channels.
public struct ChannelPage: Sendable {
    public struct Row: Sendable {
        public var change: ChangeRow
        /// Where the row stands in the feed: the document's own sequence, or the one at which it left a channel, or first came into one that the
        /// peer has lost.
        public var sequence: SequenceNumber
        public var news: ChannelNews
        /// The event that the row belongs to.
        public var event: SequenceNumber?
        /// The peer may read the document, or could until the change that the row tells of: what the document is now is not what came of it
        /// since.
        public var isFirsthand = true

        /// What may be told to a peer whose protocol takes documents away without a revision: of one that goes, and of a tombstone that came of
        /// it out of the peer's sight, no more than that it went. No revision is named: the store knows the current one, which is not for the
        /// peer, and not which one left.
        public func withheld() -> Row {
            if news == .visible, isFirsthand { return self }
            var row = self
            if news == .visible { row.news = .removed }
            row.change = change.withheld(at: event ?? sequence)
            return row
        }
    }

    public var rows: [Row] = []
    /// Where the next page begins.
    public var place: ChannelPlace
    /// Nothing more is there.
    public var isEnd = false
    /// The next document was not assigned to channels yet: to be asked again when it was.
    public var isBlocked = false
    /// The newest sequence of the view that was read.
    public var newest: SequenceNumber
}

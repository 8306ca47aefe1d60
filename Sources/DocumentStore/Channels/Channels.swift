import Documents

/// A sync function's assignment for a revision of a document: its channels, what it grants, when it expires.
public struct DocumentRoute: Sendable, Equatable {
    public var channels: Set<String>
    /// Channels by user; a user that starts with `role:` is a role.
    public var access: [String: [String]]
    /// Roles by user.
    public var roles: [String: [String]]
    /// Unix seconds; the document is deleted then.
    public var expires: Int64?
    /// The plugin that made the assignment.
    public var plugin: String
    public var version: String
    /// Why nothing could be assigned: the document is in no channel until that is fixed. Empty if there was no error.
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

/// The peer whose access to channels is determined.
public struct ChannelPeer: Sendable, Hashable {
    /// The user that documents grant access to.
    public var user: String
    /// Where channels granted by an authenticator are recorded: they apply on one listener only.
    public var listener: String

    /// The user for anonymous peers, as in Sync Gateway.
    public static let guest = "GUEST"

    public init(user: String?, listener: String) {
        self.user = user ?? Self.guest
        self.listener = listener
    }

    public static func == (left: Self, right: Self) -> Bool {
        ExactName(left.user) == ExactName(right.user) && ExactName(left.listener) == ExactName(right.listener)
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(ExactName(user))
        hasher.combine(ExactName(listener))
    }

    var userKey: String { "u/\(user)" }
    var ownKey: String { "s/\(listener)\u{1}\(user)" }
}

/// What a peer may pull, and since when: if access began or ended after the peer's last visit, documents older than that appear or disappear.
public struct ChannelAccess: Sendable, Equatable {
    public struct Entry: Sendable, Equatable {
        public var channel: String
        /// The sequence at which access first began; 0: it always existed.
        public var first: SequenceNumber
        /// The sequence at which the present access began; 0: it always existed.
        public var granted: SequenceNumber
        /// The sequence at which it ended.
        public var revoked: SequenceNumber?
    }

    /// Ascending by channel. `*` stands for all documents, `!` for the public ones, which everybody may pull.
    public var entries: [Entry]
    public var roles: [String]

    /// The channels that the peer may currently pull.
    public var channels: [String] {
        var seen: Set<ExactName> = []
        return entries.filter { $0.revoked == nil && seen.insert(ExactName($0.channel)).inserted }.map(\.channel)
    }

    /// Limited to what the peer asked for; `*` among the names asks for everything.
    func selected(_ names: [String]?) -> ChannelAccess {
        guard let names, !names.contains("*") else { return self }
        let wanted = Set(names.map { ExactName($0) })
        var result = self
        result.entries = []
        for entry in entries {
            if wanted.contains(ExactName(entry.channel)) {
                result.entries.append(entry)
            } else if entry.channel == "*" {
                // A peer with access to everything also has access to these.
                result.entries += names.map { Entry(channel: $0, first: entry.first, granted: entry.granted, revoked: entry.revoked) }
            }
        }
        return result
    }
}

/// A peer's position in the feed of its channels.
///
/// Sequences increase; if access begins or ends at a sequence, the documents that appear or disappear because of it are reported before the document
/// at that sequence. To peers, a position is `N`, or `EVENT:N` inside such an event, as in Sync Gateway.
public struct ChannelPlace: Sendable, Equatable {
    /// Every document and every event up to this sequence was processed, unless `event` says otherwise.
    public var sequence: SequenceNumber
    /// The event, at `sequence + 1` or later, that is in progress, or that is finished while the document at its own sequence has not been read yet.
    public var event: SequenceNumber?
    /// Within that event, every document up to this sequence was processed; nil: all of them.
    public var inEvent: SequenceNumber?

    public init(_ sequence: SequenceNumber = 0) { self.sequence = sequence }

    /// The position right after a document, reported on its own or because of an event.
    public init(behind sequence: SequenceNumber, in event: SequenceNumber?) {
        self.init(sequence)
        if let event, event > 0 { (self.sequence, self.event, self.inEvent) = (event - 1, event, sequence) }
    }

    /// Parses `N` or `EVENT:N`, with or without quotes, and `LOW::N` or `LOW:EVENT:N`, where everything after `LOW` is reported again; anything else
    /// is the beginning.
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

/// What a peer learns about a document.
public enum ChannelVisibility: Sendable, Equatable {
    /// The peer may see the revision.
    case visible
    /// The document left its channels.
    case removed
    /// The peer lost access to its channels.
    case revoked
}

/// Where a document left the last of a peer's channels.
public struct ChannelDeparture: Sendable, Equatable {
    public var sequence: SequenceNumber
    /// Whether the peer could read the document until then.
    public var wasHeld: Bool
}

/// A page of a peer's feed of its channels.
public struct ChannelPage: Sendable {
    public struct Row: Sendable {
        public var change: ChangeRow
        /// The row's position in the feed: the document's own sequence, or the one at which it left a channel, or at which it first entered a channel
        /// that the peer has lost.
        public var sequence: SequenceNumber
        public var visibility: ChannelVisibility
        /// The event to which the row belongs.
        public var event: SequenceNumber?
        /// Whether the peer may read the document, or could until the change that the row reports: then the document's current state did not come
        /// about out of the peer's sight.
        public var isFirsthand = true

        /// What may be sent to a peer whose protocol removes documents without naming a revision: for a document that disappears, and for a tombstone
        /// created out of the peer's sight, no more than that it is gone. No revision is named: the store knows only the current one, which is not
        /// for the peer, and not the one that left.
        public func withheld() -> Row {
            if visibility == .visible, isFirsthand { return self }
            var row = self
            if visibility == .visible { row.visibility = .removed }
            row.change = change.withheld(at: event ?? sequence)
            return row
        }
    }

    public var rows: [Row] = []
    /// Where the next page begins.
    public var place: ChannelPlace
    /// Nothing more exists.
    public var isEnd = false
    /// The next document has not been assigned to channels yet: ask again when it has been.
    public var isBlocked = false
    /// The newest sequence of the snapshot that was read.
    public var newest: SequenceNumber
}

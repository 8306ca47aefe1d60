/// What can need attention, and how serious it is: the single source behind `/health`, `nightjar status`, `/api/status` and `nightjar_attention` in
/// `/metrics`. The operations guide lists these.
enum AttentionKind: String, CaseIterable, Sendable {
    case notReady = "not_ready"
    case databaseUnreadable = "database_unreadable"
    case writesFailing = "writes_failing"
    case diskNearlyFull = "disk_nearly_full"
    case writesRefused = "writes_refused"
    case databaseReadOnly = "database_read_only"
    case quotaReached = "quota_reached"
    case documentsDamaged = "documents_damaged"
    case documentsHeld = "documents_held"
    case documentsWaiting = "documents_waiting"
    case documentsPending = "documents_pending"
    case documentsRefused = "documents_refused"
    case documentsNotTaken = "documents_not_taken"
    case documentsUnrouted = "documents_unrouted"
    case channelsOutdated = "channels_outdated"
    case documentsLarge = "documents_large"
    case conflictsPending = "conflicts_pending"
    case clocksDiffer = "clocks_differ"
    case versionsAhead = "versions_ahead"
    case clockUnset = "clock_unset"
    case databaseUnnamed = "database_unnamed"
    case databaseCopied = "database_copied"
    case listenerWaiting = "listener_waiting"
    case listenerStopped = "listener_stopped"
    case connectionsRefused = "connections_refused"
    case connectionsEvicted = "connections_evicted"
    case answersUnread = "answers_unread"
    case hiddenConflicts = "hidden_conflicts"
    case replicatorStopped = "replicator_stopped"
    case replicatorKeptStopped = "replicator_kept_stopped"
    case replicatorHalted = "replicator_halted"
    case replicatorFailing = "replicator_failing"
    case pullWaits = "pull_waits_for_room"
    case replicatorOffline = "replicator_offline"
    case replicatorInterrupted = "replicator_interrupted"
    case peerUnanswered = "peer_unanswered"
    case remoteGoesBack = "remote_goes_back"
    case breakerOpen = "breaker_open"
    case breakerOpenForPeer = "breaker_open_for_peer"
    case authenticatorFailing = "authenticator_failing"
    case nobodyCanLogIn = "nobody_can_log_in"
    case usersWithoutChannels = "users_without_channels"
    case channelsWithoutSync = "channels_without_sync"
    case pluginUnavailable = "plugin_unavailable"
    case pluginFileGone = "plugin_file_gone"
    case pluginRefused = "plugin_refused"
    case configurationRefused = "configuration_refused"
    case nextStartFails = "next_start_fails"
    case certificateExpired = "certificate_expired"
    case certificateEnding = "certificate_ending"
    case tlsFilesRefused = "tls_files_refused"
    case notAdvertised = "not_advertised"
    case logFileFailing = "log_file_failing"
    case fleetRefused = "fleet_refused"

    enum Gravity: String, Sendable {
        /// There is work that the agent cannot do, now or at its next start: `/health` is 503.
        case unhealthy
        /// The agent does its work, but somebody should take a look: `/health` is 200.
        case attention
    }

    var gravity: Gravity {
        switch self {
        case .notReady, .databaseUnreadable, .writesFailing, .writesRefused, .databaseReadOnly, .quotaReached, .documentsDamaged, .documentsHeld, .documentsWaiting, .documentsUnrouted,
            .listenerWaiting, .replicatorStopped, .replicatorFailing, .replicatorOffline, .pullWaits, .breakerOpen, .pluginUnavailable, .pluginFileGone,
            .configurationRefused, .nextStartFails, .certificateExpired, .nobodyCanLogIn:
            .unhealthy
        // Anything that a peer or a stranger can cause alone belongs here: otherwise they could make the agent report itself unhealthy.
        case .diskNearlyFull, .channelsOutdated, .documentsLarge, .documentsPending, .documentsRefused, .documentsNotTaken, .conflictsPending, .authenticatorFailing, .usersWithoutChannels, .channelsWithoutSync, .databaseUnnamed,
            .pluginRefused, .certificateEnding, .tlsFilesRefused, .breakerOpenForPeer, .listenerStopped, .replicatorKeptStopped, .replicatorHalted, .replicatorInterrupted, .peerUnanswered, .remoteGoesBack, .clocksDiffer, .versionsAhead, .clockUnset, .databaseCopied, .notAdvertised, .logFileFailing, .fleetRefused, .connectionsRefused, .connectionsEvicted, .answersUnread, .hiddenConflicts:
            .attention
        }
    }
}

/// One thing that needs attention.
struct Attention: Sendable {
    var kind: AttentionKind
    /// What it is about, for example `replicator hub`.
    var subject: String
    /// When it began (seconds since 1970); nil if only the list knows when it was first seen.
    var since: Int64?
    /// What is wrong.
    var text: String
    /// What to do; never empty.
    var remedy: String

    init(_ kind: AttentionKind, _ subject: String, since: Int64? = nil, _ text: String, remedy: String) {
        self.kind = kind
        self.subject = subject
        self.since = since
        self.text = text
        self.remedy = remedy.isEmpty ? "nightjar explain \(kind.rawValue) says what can be done" : remedy
    }

    /// Whether it is about a part as a whole, or about something within it, such as `replicator hub, blobs`.
    func concerns(_ part: String) -> Bool { subject.utf8.elementsEqual(part.utf8) || subject.utf8.starts(with: "\(part), ".utf8) }

    var isUnhealthy: Bool { kind.gravity == .unhealthy }

    /// For the log and for `reasons`.
    var sentence: String { "\(subject): \(what)" }

    /// Without the subject. What the text itself says to do is not said twice.
    var what: String { text.hasSuffix(remedy) ? text : "\(text); \(remedy)" }
}

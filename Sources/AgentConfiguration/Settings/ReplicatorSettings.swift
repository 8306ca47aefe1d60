/// One replicator.
package struct ReplicatorSettings: Sendable, ConfigurationSection {
    package enum Direction: String, Sendable, CaseIterable {
        case push, pull
        case pushAndPull = "push_and_pull"

        package var pushes: Bool { self != .pull }
        package var pulls: Bool { self != .push }
    }

    package var name = Located("")
    /// Name of the local database.
    package var database = Located("")
    /// The other side.
    package var target = Located(ReplicatorTarget.none)
    /// A stable id for a remote database whose address changes. Default: nil, the target as written.
    package var remoteID: Located<String>?
    /// Key `type`. Default push_and_pull.
    package var direction = Direction.pushAndPull
    /// Default false: it stops when everything has been exchanged.
    package var continuous = false
    /// http and https: whether a missing database is created. Default false.
    package var createTarget = Located(false)
    /// What is replicated, by collection. If absent, only the default collection, without options. No duplicates.
    package var collections = [ReplicatedCollectionSettings.defaultCollection]
    /// How it authenticates. Default: nil, not at all.
    package var authenticator: ReplicatorAuthenticator?
    /// Whether name and password are withheld until the server asks for them. Default false, because a server that also admits guests never asks.
    package var challengeAuth = false
    /// Whether it opens a session with name and password, and connects with that. Default false.
    package var openSession = Located(false)
    /// Sent with every request.
    package var headers: [HTTPHeaderSetting] = []
    /// Whether it accepts only self-signed certificates. Default false.
    package var acceptOnlySelfSignedServerCertificate = Located(false)
    /// One of these must be in the server's chain; replaces all other checks. Default: none.
    package var pinnedServerCertificates: [PinnedCertificate] = []
    /// PEM files (absolute paths) of authorities that are trusted in addition to the system's. Default: none.
    package var roots: [Located<String>] = []
    /// Revocation lists. Absolute paths.
    package var revocationLists: [Located<String>] = []
    /// Accepts any certificate, so that anybody in between can read and change everything. For tests only. Default false.
    package var unsafeSkipServerCertificateVerification = Located(false)
    /// Default 1.2.
    package var minimumTLS = Located(MinimumTLS.v1_2)
    /// Names or addresses of the network interfaces to use: the first that reaches the other side. Default: none, the system's choice.
    package var networkInterfaces: [Located<String>] = []
    /// The proxy for its connections. Default: nil, none.
    package var proxy: ProxySettings?
    /// Seconds between PINGs. Default 300.
    package var heartbeat = Located(300)
    /// Seconds that the answer to a PING may take. Default 20.
    package var pongTime = 20
    /// Including the first attempt. 0: the default (one-shot: 10, that is 9 retries; continuous: unlimited); 1: no retry.
    package var maxAttempts = Located(0)
    /// The longest wait before a retry, in seconds. 0: the default (300).
    package var maxAttemptWaitTime = Located(300)
    /// A continuous replicator's initial and longest wait, in seconds, after an error that somebody has to fix. Default 60 and 3600.
    package var blockedWaitTime = Located(60)
    package var maxBlockedWaitTime = Located(3600)
    /// Seconds between two checks of an idle continuous pull whether it has missed anything; 0 for none. Default 900.
    package var silenceInterval = Located(900)
    /// Whether documents are purged if the remote withdraws access to them, unless the pull filter keeps them. Does not apply to collections with
    /// `document_ids`. Default true.
    package var enableAutoPurge = Located(true)
    /// Times of day at which a continuous replicator connects. Default: none, which means always.
    package var schedule: [Located<DailyWindow>] = []
    /// Default true.
    package var deltaSync = true
    /// Compression level for sent data; 0 for none. Default 3.
    package var compression = Located(3)
    /// The bandwidth of its connections. Default: nil, unlimited.
    package var bandwidth: BandwidthSettings?
    /// The plugin that chooses a listener of the group. Default: nil, the agent chooses.
    package var selectPeer: PluginReference?
    /// A plugin that observes it. Default: nil, none.
    package var observer: PluginReference?
    package internal(set) var position = SourcePosition.none

    package init() {}

    /// The remote database's identity: in checkpoints, in the store, and for resolvers.
    package var remoteKey: String { remoteID?.value ?? target.value.text }

    /// Whether this key identifies its remote database or, for a group target, one of them.
    package func knows(remote key: String) -> Bool {
        key.utf8.elementsEqual(remoteKey.utf8) || target.value.group != nil && key.utf8.starts(with: "\(target.value.text) ".utf8)
    }

    static let sectionName = "replicator"
    static let keys: [Key<ReplicatorSettings>] = [
        Key("name", \.name, Form.text(.name).located, required: true, "Name in status, logs, metrics and `nightjar replicator`."),
        Key("database", \.database, Form.text(.database).located, required: true, "Local database."),
        Key("target", \.target, Form<ReplicatorTarget>.target.located, required: true,
            "The other side: a ws or wss URL ending in a database; exec:COMMAND, unix:PATH or serial:DEVICE?speed=BITS, where a listener has its endpoint; or "
                + "local:DATABASE; or an http or https URL of a CouchDB database."),
        Key("remote_id", optional: \.remoteID, Form.text("a name of the remote database").located,
            "A name for the remote database that stays the same when the target changes, so that replication resumes where it was. Absent: the target as written."),
        Key("type", \.direction, Form<Direction>.choice, "Which way documents go."),
        Key("continuous", \.continuous, .boolean, "Keeps running after everything was exchanged."),
        Key("schedule", \.schedule, Form<DailyWindow>.dailyWindow.located.list(atLeast: 1, of: "times of the day"),
            "Times of the day at which a continuous replicator connects, by the machine's clock and time zone: [ 22:00-06:00 ]. At other times it is suspended. "
                + "Absent: always."),
        Key("create_target", \.createTarget, Form<Bool>.boolean.located, "Creates the remote database if it does not exist (http and https)."),
        Key("collections", \.collections, .replicatedCollections, "What is replicated, by collection. Absent: the default collection."),
        Key("authenticator", optional: \.authenticator, .replicatorAuthenticator, "How the agent logs in: one of the following forms."),
        Key("challenge_auth", \.challengeAuth, .boolean,
            "Sends name, password or bearer token only after the server asked (401). A server that also admits guests does not ask, and treats the agent as a guest."),
        Key("open_session", \.openSession, Form<Bool>.boolean.located,
            "Opens a session with username and password (POST DATABASE/_session, as in Sync Gateway and Nightjar), presents it with each connection, and opens "
                + "another when it has expired. A server without sessions gets name and password."),
        Key("headers", \.headers, .headers, "HTTP headers sent with every request."),
        Key("accept_only_self_signed_server_certificate", \.acceptOnlySelfSignedServerCertificate, Form<Bool>.boolean.located,
            "Accepts self-signed certificates and no others."),
        Key("pinned_server_certificate", \.pinnedServerCertificates, .pins,
            "PEM file, or sha256/BASE64 of a public key, or a list of them; one must match a certificate of the chain. Wins over every other check."),
        Key("roots", \.roots, Form<String>.path.located.list(of: "PEM files"), "PEM files of authorities that are trusted in addition to the system's."),
        Key("crl", \.revocationLists, Form<String>.path.located.list(of: "PEM files"),
            "PEM files with revocation lists of the servers' authorities; read again when they change."),
        Key("unsafe_skip_server_certificate_verification", \.unsafeSkipServerCertificateVerification, Form<Bool>.boolean.located,
            "Accepts any server certificate: a man in the middle can read and change everything. For tests only."),
        Key("min_tls_version", \.minimumTLS, Form<MinimumTLS>.choice.located, "The oldest version of TLS that the server may use."),
        Key(
            "network_interface", \.networkInterfaces, .networkInterfaces,
            "Interface by name or address that connections leave by; or a list: each connection is tried over the first, then over the next if the other side cannot "
                + "be reached. Absent: the system's choice."),
        Key("proxy", optional: \.proxy, .proxy, "The proxy that connections are made through. Absent: none, whatever the environment says."),
        Key("heartbeat", \.heartbeat, Form<Int>.seconds(1...Limits.seconds).located, "Seconds between pings."),
        Key("pong_time", \.pongTime, Form<Int>.seconds(1...Limits.seconds), Form<Int>.pongTimeWords),
        Key("max_attempts", \.maxAttempts, Form<Int>.integer(0...Int(Int32.max)).located,
            "Total number of attempts, including the first. 0: the default (one-shot: 10, that is 9 retries; continuous: unlimited); 1: no retry."),
        Key("max_attempt_wait_time", \.maxAttemptWaitTime, Form<Int>.seconds(0...Limits.seconds).located,
            "Longest wait before a retry, in seconds; 0: the default (300)."),
        Key("blocked_wait_time", \.blockedWaitTime, Form<Int>.seconds(1...Limits.seconds).located,
            "Seconds that a continuous replicator waits after an error that somebody has to fix (a password, a certificate); doubles each time."),
        Key("max_blocked_wait_time", \.maxBlockedWaitTime, Form<Int>.seconds(1...Limits.seconds).located, "Longest such wait, in seconds."),
        Key("silence_interval", \.silenceInterval, Form<Int>.seconds(0...Limits.seconds).located,
            "Seconds after which an idle continuous replicator asks, over another connection, whether the other side has something that it did not announce; if so "
                + "twice in a row, it reconnects. With an http: target it also asks whether the checkpoint is still there, and replicates anew if it is not. 0: "
                + "never. Not for exec: and serial: targets."),
        Key("enable_auto_purge", \.enableAutoPurge, Form<Bool>.boolean.located,
            "Removes documents to which the remote took away access, unless the pull filter keeps them. Not with document_ids. No effect with http and https: a "
                + "CouchDB database does not report it."),
        Key("delta_sync", \.deltaSync, .boolean, "Whether changes are sent as deltas, if the database has them on and the other side supports them."),
        Key("compression", \.compression, Form<Int>.compression.located, Form<Int>.compressionWords),
        Key("bandwidth", optional: \.bandwidth, Form<BandwidthSettings>.section,
            "Bytes per second that its connections together may use. Absent: no limit."),
        Key("select_peer", optional: \.selectPeer, .plugin,
            "Plugin whose select_peer hook says to which listener of a group it connects (target discover:*?group=GROUP). Absent: the agent chooses."),
        Key("observer", optional: \.observer, .plugin, "Plugin whose on_status and on_documents hooks are told what the replicator does."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    /// A key that requires verification, with its position.
    private var verification: (String, SourcePosition)? {
        if let pin = pinnedServerCertificates.first { return ("pinned_server_certificate", pin.position) }
        if acceptOnlySelfSignedServerCertificate.value {
            return ("accept_only_self_signed_server_certificate", acceptOnlySelfSignedServerCertificate.position)
        }
        return roots.first.map { ("roots", $0.position) }
    }

    /// A key that replaces verification by authorities, with its position.
    private var judgedWithoutAuthority: (String, SourcePosition)? {
        if unsafeSkipServerCertificateVerification.value {
            return ("unsafe_skip_server_certificate_verification", unsafeSkipServerCertificateVerification.position)
        }
        return verification.flatMap { $0.0 == "roots" ? nil : $0 }
    }

    /// Whether `roots` do not count, because the server is judged otherwise.
    package var ignoresRoots: Bool { judgedWithoutAuthority != nil }

    func check(_ reading: inout Reading) {
        let scheme = target.value.scheme
        if let time = schedule.first, !continuous {
            reading.within(key: "schedule") { $0.report(at: time.position, "applies only to continuous replicators: set continuous: true, or take it out") }
        }
        func refuse(_ key: String, at position: SourcePosition, _ why: String, _ reading: inout Reading) {
            reading.within(key: key) { $0.report(at: position, "\(why), but the target is \(scheme.rawValue):") }
        }
        if !target.value.usesTLS {
            if let pin = pinnedServerCertificates.first {
                refuse("pinned_server_certificate", at: pin.position, "needs TLS (wss or https)", &reading)
            }
            if let root = roots.first { refuse("roots", at: root.position, "needs TLS (wss or https)", &reading) }
            if let list = revocationLists.first { refuse("crl", at: list.position, "needs TLS (wss or https)", &reading) }
            if minimumTLS.position != .none { refuse("min_tls_version", at: minimumTLS.position, "needs TLS (wss or https)", &reading) }
            if unsafeSkipServerCertificateVerification.value {
                refuse("unsafe_skip_server_certificate_verification", at: unsafeSkipServerCertificateVerification.position,
                    "needs TLS (wss or https)", &reading)
            }
            if acceptOnlySelfSignedServerCertificate.value {
                refuse("accept_only_self_signed_server_certificate", at: acceptOnlySelfSignedServerCertificate.position,
                    "needs TLS (wss or https)", &reading)
            }
            if case .identity(let identity) = authenticator {
                refuse("authenticator", at: identity.position, "an identity needs TLS (wss or https)", &reading)
            }
        }
        if target.value.usesTLS, unsafeSkipServerCertificateVerification.value, let (key, position) = verification {
            reading.within(key: "unsafe_skip_server_certificate_verification") {
                $0.report(
                    at: unsafeSkipServerCertificateVerification.position,
                    "contradicts \"\(key)\" (line \(position.line), column \(position.column)): remove one of them")
            }
        }
        if let list = revocationLists.first, let (key, position) = judgedWithoutAuthority {
            reading.within(key: "crl") {
                $0.report(at: list.position, "has no effect with \"\(key)\" (line \(position.line), column \(position.column)): remove one of them")
            }
        }
        let isDatabase = scheme == .http || scheme == .https
        if compression.position != .none, isDatabase || scheme == .local {
            refuse("compression", at: compression.position, "applies to connections with the protocol of Couchbase Lite only (ws, wss, exec, unix or serial)", &reading)
        }
        if createTarget.value, !isDatabase { refuse("create_target", at: createTarget.position, "needs a CouchDB database (http or https)", &reading) }
        if isDatabase, collections.count > 1 {
            refuse("collections", at: collections[1].collection.position, "only one collection can be replicated with a CouchDB database", &reading)
        }
        for collection in collections {
            if collection.priority.value > 0, !direction.pushes {
                reading.report(at: collection.priority.position, "\"priority\" orders what is pushed, but type is pull")
            }
            let choices = collection.choices
            guard let choice = choices.first, choice.key == "selector" || choice.key == "source_filter" else { continue }
            if !isDatabase { refuse(choice.key, at: choice.position, "needs a CouchDB database (http or https)", &reading) }
            if choices.count > 1 {
                reading.report(
                    at: choices[1].position, "contradicts \"\(choice.key)\" (line \(choice.position.line), column \(choice.position.column)): a source takes one of them")
            }
            if !direction.pulls { reading.report(at: choice.position, "decides what is pulled, but type is push: use push_filter") }
        }
        if case .iam(let key, _) = authenticator, !isDatabase {
            refuse("authenticator", at: key.position, "an IAM key works only with a CouchDB database (http or https)", &reading)
        }
        if openSession.value {
            if isDatabase || !scheme.isNetwork {
                refuse("open_session", at: openSession.position, "applies to connections with the protocol of Couchbase Lite only (ws or wss)", &reading)
            } else if case .basic = authenticator {} else {
                reading.within(key: "open_session") { $0.report(at: openSession.position, "needs an authenticator with username and password") }
            }
        }
        if !scheme.isNetwork, let networkInterface = networkInterfaces.first {
            refuse("network_interface", at: networkInterface.position, "needs a network target (ws, wss, http or https)", &reading)
        }
        if scheme == .discover {
            if let proxy { refuse("proxy", at: proxy.position, "leads out of the local network", &reading) }
            if target.value.group != nil, let remoteID {
                reading.within(key: "remote_id") {
                    $0.report(at: remoteID.position, "names one remote database, and a group has several: what one has sent would count as known to the others")
                }
            }
            checkTrustInDiscovered(&reading)
        }
        if let selectPeer, target.value.group == nil {
            reading.within(key: "select_peer") {
                $0.report(at: selectPeer.position, "chooses among the listeners of a group, and the target is none: discover:*?group=GROUP is one")
            }
        }
        if !scheme.isNetwork, let bandwidth {
            refuse("bandwidth", at: bandwidth.position, "needs a network target (ws, wss, http or https)", &reading)
        }
        if !scheme.isNetwork, let proxy { refuse("proxy", at: proxy.position, "needs a network target (ws, wss, http or https)", &reading) }
        // Without HTTP, these cannot be transmitted.
        if !scheme.isNetwork {
            if let header = headers.first {
                refuse("headers", at: header.name.position, "headers need HTTP (ws, wss, http or https)", &reading)
            }
            switch authenticator {
            case .session, .bearer, .plugin:
                refuse("authenticator", at: authenticator?.position ?? position, "this authenticator needs HTTP (ws, wss, http or https)", &reading)
            case .basic where scheme == .local:
                refuse("authenticator", at: authenticator?.position ?? position, "nobody asks for it within an agent", &reading)
            default: break
            }
        }
    }
}

extension ReplicatorSettings {
    /// Anybody on the local network can announce any name and address, with a certificate that an authority has issued to them for it: only a key
    /// identifies the server.
    private func checkTrustInDiscovered(_ reading: inout Reading) {
        guard target.value.usesTLS, pinnedServerCertificates.isEmpty, !acceptOnlySelfSignedServerCertificate.value,
            !unsafeSkipServerCertificateVerification.value
        else { return }
        reading.report(
            at: target.position,
            "anybody on the local network can announce this \(target.value.group == nil ? "name" : "group"): set \"pinned_server_certificate\" to say whose it is (nightjar identity show prints the pin at the peer; "
                + "nightjar discover shows the one that is announced, to be compared)")
    }
}

/// Options for one collection in a replicator.
package struct ReplicatedCollectionSettings: Sendable, ConfigurationSection {
    package var collection = Located(CollectionReference.defaultCollection)
    /// What may leave this database. Default: nil, everything.
    package var pushFilter: PluginReference?
    /// What may enter this database. Default: nil, everything.
    package var pullFilter: PluginReference?
    /// Changes documents before they are pushed. Default: nil, they are unchanged.
    package var pushTransform: PluginReference?
    /// Changes documents before they are stored. Default: nil, they are unchanged.
    package var pullTransform: PluginReference?
    /// Only these documents; empty: all.
    package var documentIDs: [Located<String>] = []
    /// Only documents in these channels are pulled; empty: all that the user may read.
    package var channels: [Located<String>] = []
    /// http and https: only matching documents are pulled, as evaluated by the other side. Default: nil, all.
    package var selector: ConfigurationNode?
    /// http and https: a filter in the remote database decides what is pulled. Default: nil, none.
    package var sourceFilter: SourceFilterSettings?
    /// Whether deletions of documents that the other side never had are not pushed. Default false.
    package var skipDeletions = false
    /// Collections with a higher priority are pushed first. Default 0.
    package var priority = Located(0)
    /// Default: nil, the database's.
    package var conflictResolver: PluginReference?
    package internal(set) var position = SourcePosition.none

    package init() {}

    /// The default collection without options.
    package static let defaultCollection = ReplicatedCollectionSettings()

    static let sectionName = "replicated_collection"
    static let keys: [Key<ReplicatedCollectionSettings>] = [
        Key("push_filter", optional: \.pushFilter, .judge, "Plugin that decides what may leave this database."),
        Key("pull_filter", optional: \.pullFilter, .judge, "Plugin that decides what may enter this database."),
        Key("push_transform", optional: \.pushTransform, .plugin, "Plugin that changes documents on their way out, after the push filter."),
        Key("pull_transform", optional: \.pullTransform, .plugin, "Plugin that changes documents on their way in, after the pull filter."),
        Key("document_ids", \.documentIDs,
            Form.text("a document id").located.list(atLeast: 1, of: "document ids", else: "leave out document_ids to replicate all documents"), "Only these documents."),
        Key("channels", \.channels, Form.text(.channel).located.list(of: "channels"), "Pulls only documents in these channels."),
        Key("selector", optional: \.selector, .selector, "http and https: pulls only documents that match; the other side evaluates it."),
        Key("source_filter", optional: \.sourceFilter, .sourceFilter, "http and https: a filter of the other side, DESIGN/NAME, decides what is pulled."),
        Key("skip_deletions", \.skipDeletions, .boolean,
            "Leaves out deletions of documents that the receiving side never had. Such a deletion costs a row of a list, not a document."),
        Key("priority", \.priority, Form<Int>.integer(0...9).located,
            "Priority among the collections of the replicator: documents of collections with a higher one are pushed first, even while others are being pushed."),
        Key("conflict_resolver", optional: \.conflictResolver, .resolver, "Plugin that decides conflicts. Absent: the database's."),
    ]

    package static func == (left: Self, right: Self) -> Bool { left.collection == right.collection && areSame(left, right) }

    /// Options by which the source is asked to leave documents out, with their positions: it supports only one of them.
    fileprivate var choices: [(key: String, position: SourcePosition)] {
        let choices: [(String, SourcePosition?)] = [
            ("selector", selector?.position), ("source_filter", sourceFilter?.position), ("document_ids", documentIDs.first?.position),
            ("channels", channels.first?.position),
        ]
        return choices.compactMap { key, position in position.map { (key, $0) } }
    }
}

extension Form where Value == [ReplicatedCollectionSettings] {
    static let replicatedCollections: Form<[ReplicatedCollectionSettings]> = {
        let map = Form<ReplicatedCollectionSettings>.section.map(keyedBy: .collection, "a mapping from collections to their options") {
            settings, name, _ -> ReplicatedCollectionSettings? in
            guard let collection = CollectionReference(parsing: name.value) else { return nil }
            var settings = settings
            settings.collection = Located(collection, at: name.position)
            return settings
        }
        return Form<[ReplicatedCollectionSettings]>(
            shape: map.shape, expected: map.expected, allowsNothing: true,
            read: { node, reading in
                let before = reading.failures
                guard let collections = map.read(node, &reading) else { return nil }
                guard reading.failures == before else { return collections }
                guard !collections.isEmpty else {
                    reading.report(at: node.position, "no collection at all; remove the key to replicate the default collection")
                    return nil
                }
                // The same collection in two spellings, such as _default and _default._default.
                var seen: [CollectionReference: SourcePosition] = [:]
                for collection in collections.map(\.collection) {
                    if let first = seen[collection.value] {
                        reading.report(
                            at: collection.position,
                            "the collection \(collection.value) appears a second time; the first is at line \(first.line), column \(first.column)")
                    } else {
                        seen[collection.value] = collection.position
                    }
                }
                return collections
            })
    }()
}

/// A port for replication and for HTTP clients.
package struct ListenerSettings: Sendable, ConfigurationSection {
    /// Whether a client must present a certificate.
    package enum ClientCertificates: String, Sendable, CaseIterable { case none, request, require }

    package var name = Located("")
    /// The databases that can be reached here; at least one, without duplicates.
    package var databases: [Located<String>] = []
    /// The collections that can be reached in each of the databases. Default: empty, all.
    package var collections: [Located<CollectionReference>] = []
    /// 0: any free port, reported in status. Default 4984.
    package var port = Located(4984)
    /// A message endpoint (unix, serial or exec) instead of a port. Default: nil.
    package var endpoint: Located<ReplicatorTarget>?
    /// The user name of the peer at the endpoint. Default: nil; at a Unix domain socket, the user that the system reports.
    package var user: Located<String>?
    /// The mode of the socket file. Default: nil, 0600.
    package var mode: Located<Int>?
    /// Name or IP address of a network interface. Default: nil, all.
    package var interface: Located<String>?
    /// Clear text. Default false.
    package var disableTLS = Located(false)
    /// Default 1.2.
    package var minimumTLS = Located(MinimumTLS.v1_2)
    /// Default: nil, an anonymous self-signed certificate that is kept for later starts.
    package var identity: IdentityReference?
    /// Who may connect. Default: nil, everybody, which may only be omitted for a listener on loopback.
    package var authentication: ListenerAuthenticator?
    /// Default none.
    package var clientCertificates = Located(ClientCertificates.none)
    /// PEM files of the authorities that must have issued client certificates. Absolute paths.
    package var roots: [Located<String>] = []
    /// PEM files of revocation lists of these authorities. Absolute paths.
    package var revocationLists: [Located<String>] = []
    /// Whether peers may only read. Default false.
    package var readOnly = false
    /// Whether deltas are offered to peers, if the database keeps bases. Default true.
    package var deltaSync = true
    /// Compression level for data sent with Couchbase Lite's protocol; 0 for none. Default 3.
    package var compression = Located(3)
    /// The bandwidth of all connections together. Default: nil, unlimited.
    package var bandwidth: BandwidthSettings?
    /// The bandwidth of each connection. Default: nil, unlimited.
    package var connectionBandwidth: BandwidthSettings?
    /// Whether it offers CouchDB's HTTP API in addition to Couchbase Lite's protocol. Default true.
    package var couchDB = true
    /// Other sites whose pages may use the CouchDB API from a browser. Default: nil, none.
    package var cors: CORSSettings?
    /// What peers may pull. Default: nil, everything.
    package var pushFilter: PluginReference?
    /// What peers may push. Default: nil, everything.
    package var pullFilter: PluginReference?
    /// Plugin with a sync function for incoming writes. Default: nil.
    package var sync: PluginReference?
    /// Whether it is announced on the local network. Default: no.
    package var advertise = Located(AdvertisedName.no)
    /// The group that the listener is announced in: a replicator may connect to any listener of a group. Default: nil, none.
    package var advertiseGroup: Located<String>?
    /// Seconds after which a silent peer is sent a PING. Default 300.
    package var heartbeat = 300
    /// Seconds that the answer to a PING may take. Default 20.
    package var pongTime = 20
    /// Default 1000.
    package var maxConnections = 1000
    /// Default 256.
    package var maxConnectionsPerAddress = 256
    package internal(set) var position = SourcePosition.none

    package init() {}

    /// The plugin that decides who may connect; nil if there is none.
    package var authenticator: PluginReference? {
        switch authentication {
        case .plugin(let reference): reference
        case .tokens(_, let beside): beside
        case .everybody, nil: nil
        }
    }

    /// The tokens that are accepted as logins; nil if none are.
    package var tokens: TokenSettings? {
        if case .tokens(let tokens, _) = authentication { tokens } else { nil }
    }

    static let sectionName = "listener"
    static let keys: [Key<ListenerSettings>] = [
        Key("name", \.name, Form.text(.name).located, required: true, "Name in status, logs and metrics."),
        Key("databases", \.databases, Form.text(.database).located.list(atLeast: 1, of: "database names"), required: true,
            "Databases that can be reached here."),
        Key("collections", \.collections, Form<CollectionReference>.collection.located.list(atLeast: 1, of: "collections"),
            "Collections that can be reached, in each of the databases. Absent: all."),
        Key("port", \.port, Form<Int>.integer(0...65535).failing(as: 0).located, "TCP port; 0 takes any free one, reported in status."),
        Key("endpoint", optional: \.endpoint, Form<ReplicatorTarget>.target.located,
            "unix:PATH, serial:DEVICE?speed=BITS or exec:COMMAND instead of a port: no TLS, no HTTP."),
        Key("user", optional: \.user, Form.text("a user name").located,
            "Who the peer at the endpoint is. Absent: on a Unix domain socket the user that runs it, elsewhere nobody."),
        Key("mode", optional: \.mode, Form<Int>.fileMode.located, "File mode of the endpoint's Unix domain socket. Absent: 0600."),
        Key("interface", optional: \.interface, Form.text(.interface).located, "Network interface by name or address. A name stands for the addresses that the interface has at the time: the listener follows them, and waits while there are none. Absent: all."),
        Key("disable_tls", \.disableTLS, Form<Bool>.boolean.located, "Clear text (ws) instead of TLS (wss)."),
        Key("min_tls_version", \.minimumTLS, Form<MinimumTLS>.choice.located, "The oldest version of TLS that peers may use."),
        Key("identity", optional: \.identity, .identity,
            "Label in the key store, certificate and key files, or a pkcs11: URI. Absent: anonymous self-signed, kept for the next start."),
        Key("authenticator", optional: \.authentication, .listenerAuthenticator,
            "Plugin or JSON Web Tokens that decide who may connect, or none for everybody; may be absent only on loopback or with required client certificates."),
        Key("client_certificates", \.clientCertificates, Form<ClientCertificates>.choice.located, "Whether clients must present a certificate."),
        Key("roots", \.roots, Form<String>.path.located.list(of: "PEM files"), "PEM files of the authorities that sign client certificates."),
        Key("crl", \.revocationLists, Form<String>.path.located.list(of: "PEM files"),
            "PEM files with revocation lists of the authorities in roots; read again when they change."),
        Key("read_only", \.readOnly, .boolean, "Peers may not write."),
        Key("delta_sync", \.deltaSync, .boolean, "Whether changes are sent as deltas to and from peers that support them, if the database has them on."),
        Key("compression", \.compression, Form<Int>.compression.located, Form<Int>.compressionWords),
        Key("bandwidth", optional: \.bandwidth, Form<BandwidthSettings>.section,
            "Bytes per second that all its connections together may use. Absent: no limit."),
        Key("connection_bandwidth", optional: \.connectionBandwidth, Form<BandwidthSettings>.section,
            "Bytes per second that each connection may use. Absent: no limit."),
        Key("couchdb", \.couchDB, .boolean, "Whether the port also speaks CouchDB's HTTP API, for PouchDB, CouchDB and their clients (default true)."),
        Key("cors", optional: \.cors, Form<CORSSettings>.section, "Pages of other sites that may use CouchDB's API from a browser. Absent: none."),
        Key("push_filter", optional: \.pushFilter, .judge, "Plugin that decides what peers may pull."),
        Key("pull_filter", optional: \.pullFilter, .judge, "Plugin that decides what peers may push."),
        Key("sync", optional: \.sync, .judge, "Plugin with a sync function for incoming writes."),
        Key("advertise", \.advertise, Form<AdvertisedName>.advertisedName.located,
            "Announce it on the local network through the system's Avahi (DNS-SD), under this name or, with true, LISTENER-MACHINE. Absent: not announced."),
        Key("advertise_group", optional: \.advertiseGroup, Form.text(.name).located,
            "Announce it as one of this group: a replicator with the target discover:*?group=GROUP takes any of them. Absent: of none."),
        Key("heartbeat", \.heartbeat, Form<Int>.seconds(1...Limits.seconds),
            "Seconds of silence after which a peer is pinged; set it below the idle timeout of a proxy in front."),
        Key("pong_time", \.pongTime, Form<Int>.seconds(1...Limits.seconds), Form<Int>.pongTimeWords),
        Key("max_connections", \.maxConnections, .integer(1...1_000_000), "Simultaneous connections; further ones get HTTP 503."),
        Key("max_connections_per_address", \.maxConnectionsPerAddress, .integer(1...1_000_000),
            "Sockets that one address (for IPv6: one /64 network) may hold; a further one replaces an idle one, or is answered 503. Behind a proxy all peers have "
                + "the same address: set it as high as max_connections there."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        let before = reading.failures
        if endpoint != nil {
            checkEndpoint(&reading)
        } else {
            checkNoEndpoint(&reading)
            checkTLS(&reading)
            checkAdvertised(&reading)
            if reading.failures == before { checkAccess(&reading) }
        }
        var seen: Set<String> = []
        for database in databases where !seen.insert(database.value).inserted {
            reading.report(at: database.position, "the database \(ValueQuoting.quoted(database.value)) is listed twice")
        }
    }
    private func checkTLS(_ reading: inout Reading) {
        guard disableTLS.value else {
            if let root = roots.first, clientCertificates.value == .none {
                reading.report(at: root.position, "\"roots\" has no effect while client_certificates is none; set it to request or require")
            }
            if let list = revocationLists.first, roots.isEmpty { reading.report(at: list.position, "\"crl\" has no effect without \"roots\"") }
            return
        }
        let place = disableTLS.position
        let why = "needs TLS, but \"disable_tls\" is true (line \(place.line), column \(place.column)): remove one of them"
        if let identity { reading.report(at: identity.position, "\"identity\" \(why)") }
        if minimumTLS.position != .none { reading.report(at: minimumTLS.position, "\"min_tls_version\" \(why)") }
        if clientCertificates.value != .none { reading.report(at: clientCertificates.position, "\"client_certificates\" \(why)") }
        if let root = roots.first { reading.report(at: root.position, "\"roots\" \(why)") }
        if let list = revocationLists.first { reading.report(at: list.position, "\"crl\" \(why)") }
    }
}

import AgentConfiguration
import Glibc

/// How the descriptors that the system allows are shared out, so that peers cannot take those that the store needs.
struct DescriptorBudget: Equatable {
    /// What a process needs anyway: standard streams, event loops, signals, plugins, certificates.
    private static let base = 48
    /// A database: its writer and readers with file, log and shared memory, and what looks after it.
    private static let perDatabase = 24
    /// A replicator: its socket, and one that is about to take its place.
    private static let perReplicator = 4

    /// `RLIMIT_NOFILE`, after it was raised.
    let limit: Int
    /// Kept for everything that is no socket of a peer or of the admin API.
    let reserve: Int
    /// Sockets of one side of the admin API; there are two.
    let adminSockets: Int
    /// What the peers' listeners share.
    let peerSockets: Int
    /// Files of blobs that are on their way, of all databases: `open_blobs`.
    let blobs: Int
    private let wanted: Int

    init(limit: Int, settings: AgentSettings) {
        self.limit = limit
        // Half of a very small limit: the agent has to talk to somebody.
        reserve = min(
            limit / 2, Self.base + settings.databases.count * Self.perDatabase + settings.replicators.count * Self.perReplicator)
        adminSockets = max(4, min(AdminListener.maximumSockets, limit / 16))
        let rest = limit - reserve - 2 * adminSockets
        blobs = max(4, rest / 4)
        peerSockets = max(4, rest - blobs)
        wanted = settings.listeners.reduce(0) { $0 + $1.maxConnections + Self.wantedHTTP }
    }

    /// Sockets of a listener beside its connections: `max_http_connections`.
    private static let wantedHTTP = 256

    /// What a listener may hold of `max_connections` and `max_http_connections`: what it is configured to, or its share of what there is.
    func share(of listener: ListenerSettings) -> (connections: Int, http: Int) {
        guard wanted > peerSockets else { return (listener.maxConnections, Self.wantedHTTP) }
        let sockets = max(4, peerSockets * (listener.maxConnections + Self.wantedHTTP) / max(1, wanted))
        let http = max(2, min(Self.wantedHTTP, sockets / 4))
        return (max(1, min(listener.maxConnections, sockets - http)), http)
    }

    /// The limit of this process, raised as far as its hard limit allows.
    static func raisedLimit() -> Int {
        var limits = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limits) == 0 else { return 1024 }
        if limits.rlim_cur < limits.rlim_max {
            var raised = limits
            raised.rlim_cur = limits.rlim_max
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { limits = raised }
        }
        return Int(clamping: min(limits.rlim_cur, 1 << 20))
    }

    /// Descriptors that are open now; nil where the system does not say.
    static func open() -> Int? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        // Less "." and ".." and the folder's own.
        var count = -3
        while readdir(folder) != nil { count += 1 }
        return count
    }
}

extension Agent {
    /// As the configuration in force shares them out.
    nonisolated var descriptors: DescriptorBudget { DescriptorBudget(limit: descriptorLimit, settings: settings) }
}

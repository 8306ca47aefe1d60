import AgentConfiguration
import Glibc

/// How the file descriptors that the system allows are shared out, so that peers cannot use up those that the store needs.
struct DescriptorBudget: Equatable {
    /// What every process needs: standard streams, event loops, signals, plugins, certificates.
    private static let base = 48
    /// For each database: its writer and readers with file, WAL and shared memory, and the tasks that maintain it.
    private static let perDatabase = 24
    /// For each replicator: its socket, and one that is about to replace it.
    private static let perReplicator = 4

    /// `RLIMIT_NOFILE`, after raising it.
    let limit: Int
    /// Kept for everything but the sockets of peers and of the admin API.
    let reserve: Int
    /// Sockets for one side of the admin API; there are two.
    let adminSockets: Int
    /// Shared by the peers' listeners.
    let peerSockets: Int
    /// For files of blobs in transfer, over all databases: `open_blobs`.
    let blobs: Int
    private let wanted: Int

    init(limit: Int, settings: AgentSettings) {
        self.limit = limit
        // Half of a very small limit at most: the agent needs some sockets too.
        reserve = min(
            limit / 2, Self.base + settings.databases.count * Self.perDatabase + settings.replicators.count * Self.perReplicator)
        adminSockets = max(4, min(AdminListener.maximumSockets, limit / 16))
        let rest = limit - reserve - 2 * adminSockets
        blobs = max(4, rest / 4)
        peerSockets = max(4, rest - blobs)
        wanted = settings.listeners.reduce(0) { $0 + $1.maxConnections + Self.wantedHTTP }
    }

    /// Sockets of a listener besides its replication connections: `max_http_connections`.
    private static let wantedHTTP = 256

    /// A listener's `max_connections` and `max_http_connections`: as configured, or its share of what is available.
    func share(of listener: ListenerSettings) -> (connections: Int, http: Int) {
        guard wanted > peerSockets else { return (listener.maxConnections, Self.wantedHTTP) }
        let sockets = max(4, peerSockets * (listener.maxConnections + Self.wantedHTTP) / max(1, wanted))
        let http = max(2, min(Self.wantedHTTP, sockets / 4))
        return (max(1, min(listener.maxConnections, sockets - http)), http)
    }

    /// The limit of this process, raised to its hard limit.
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

    /// The number of open descriptors; nil if the system does not say.
    static func open() -> Int? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        // Excludes ".", ".." and the descriptor of the folder itself.
        var count = -3
        while readdir(folder) != nil { count += 1 }
        return count
    }
}

extension Agent {
    /// For the configuration in force.
    nonisolated var descriptors: DescriptorBudget { DescriptorBudget(limit: descriptorLimit, settings: settings) }
}

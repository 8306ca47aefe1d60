import Glibc
import TestSupport

/// Texts of configurations. Ports are 0, so that tests never meet.
enum Configuration {
    /// An agent with a listener `edge` for the databases.
    static func hub(
        databases: [String] = ["main"], database: String = "{}", listener: String = "", plugins: Bool = false, more: String = "",
        port: Int = 0
    ) -> String {
        """
        data: data
        admin: { port: 0, open: true }
        \(plugins ? "plugins: plugins\n" : "")databases:
        \(databases.map { "  \($0): \(database)\n" }.joined())listeners:
          - name: edge
            databases: [ \(databases.joined(separator: ", ")) ]
            interface: 127.0.0.1
            port: \(port)
            disable_tls: true
        \(listener.isEmpty ? "" : "    \(listener)\n")\(more)
        """
    }

    /// An agent with a replicator `hub` from its database `main` to a listener's port.
    static func edge(
        to port: Int, database: String = "main", type: String = "push_and_pull", continuous: Bool = true, collection: String = "{}",
        replicator: String = "", plugins: Bool = false, scheme: String = "ws", more: String = ""
    ) -> String {
        """
        data: data
        admin: { port: 0, open: true }
        \(plugins ? "plugins: plugins\n" : "")databases:
          main: {}
        replicators:
          - name: hub
            database: main
            target: \(scheme)://127.0.0.1:\(port)/\(database)
            type: \(type)
            continuous: \(continuous)
            max_attempt_wait_time: 1
            collections: { _default: \(collection) }
        \(replicator.isEmpty ? "" : "    \(replicator)\n")\(more)
        """
    }
}

/// A TCP port that is free, for agents that must come back at the same one. Below the range that the system takes ports of
/// connections from, so that nobody gets it while the agent is away.
func freePort() throws -> Int {
    for _ in 0..<100 {
        let port = UInt16.random(in: 20_000..<32_000)
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        let failure = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        if failure == 0 { return Int(port) }
    }
    throw SupportError("no free port")
}

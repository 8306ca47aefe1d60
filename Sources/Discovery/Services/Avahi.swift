/// Avahi's names on the bus, and calls to its interfaces.
enum Avahi {
    static let name = "org.freedesktop.Avahi"
    static let server = "org.freedesktop.Avahi.Server"
    static let group = "org.freedesktop.Avahi.EntryGroup"
    static let browser = "org.freedesktop.Avahi.ServiceBrowser"

    /// All interfaces, both versions of IP.
    static let any: Int32 = -1
    static let inet: Int32 = 0
    static let inet6: Int32 = 1

    /// A flag in a browser's results: announced by this machine.
    static let isLocal: UInt64 = 8

    /// States of an entry group.
    static let established: Int32 = 2
    static let collision: Int32 = 3
    static let failure: Int32 = 4

    static func call(_ member: String, _ signature: String = "", _ body: [BusValue] = []) -> BusMessage {
        .call(name, "/", server, member, signature, body)
    }

    static func group(_ path: String, _ member: String, _ signature: String = "", _ body: [BusValue] = []) -> BusMessage {
        .call(name, path, group, member, signature, body)
    }

    /// Subscribes to Avahi's signals, and to its appearing on the bus or disappearing.
    static func listen(on bus: BusConnection) async throws(DiscoveryError) {
        for rule in [
            "type='signal',sender='\(name)'", "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='\(name)'",
        ] {
            _ = try await bus.call(.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch", "s", [.text(rule)]))
        }
    }
}

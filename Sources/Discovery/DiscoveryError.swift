/// Why services on the local network cannot be found or announced.
package enum DiscoveryError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Nothing answers at the system bus.
    case noBus(path: String, reason: String)
    /// There is no `org.freedesktop.Avahi` on the bus, and the bus cannot start it.
    case noAvahi
    /// The bus or Avahi refused the request.
    case refused(name: String, message: String)
    /// No answer within this many seconds.
    case noAnswer(seconds: Int)
    /// The received data is not valid D-Bus.
    case malformed
    case closed
    /// Nobody on the local network has that name.
    case notFound(String)

    package var description: String {
        switch self {
        case .noBus(let path, let reason): "the system bus at \(path) does not answer: \(reason)"
        case .noAvahi: "avahi-daemon does not run"
        case .refused("org.freedesktop.Avahi.CollisionError", _): "another service on the local network has this name"
        case .refused(let name, let message): "\(message) (\(name))"
        case .noAnswer(let seconds): "no answer within \(seconds) seconds"
        case .malformed: "the system bus sent data that is not D-Bus"
        case .closed: "the system bus ended the connection"
        case .notFound(let name): "nobody on the local network is called \(name)"
        }
    }

    /// What to do.
    package var remedy: String {
        switch self {
        case .noBus, .closed, .malformed: "have the system bus run: apt install dbus avahi-daemon, systemctl start dbus avahi-daemon"
        case .noAvahi: "apt install avahi-daemon; systemctl enable --now avahi-daemon"
        case .refused("org.freedesktop.Avahi.CollisionError", _): "give one of the two another name (advertise: NAME)"
        case .refused: "look at the log of avahi-daemon, and at the bus's policy for org.freedesktop.Avahi"
        case .noAnswer: "check whether avahi-daemon is running properly: journalctl -u avahi-daemon"
        case .notFound: "nightjar discover shows what is announced"
        }
    }
}

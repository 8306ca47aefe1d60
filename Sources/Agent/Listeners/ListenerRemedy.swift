import Glibc
import HTTPServer
import Interfaces

/// What to do about a listener, or the admin port, that cannot listen: the same in health, in the log and in `doctor`.
package enum ListenerRemedy {
    private static let freePort = "free the port, or name another one in the configuration and nightjar reload"
    private static let giveAddress = "bring the interface up and give it an address, or correct it in the configuration"

    /// About what a listener is waiting for.
    package static func text(_ error: any Error) -> String {
        guard let error = error as? ReplicationError, error.domain == .network else { return "fix what is named" }
        switch ReplicationError.NetworkCode(rawValue: error.code) {
        case .addressNotAvailable:
            // The error has one code for both cases. The message says whether another process has the port.
            return error.message.contains(String(cString: strerror(EADDRINUSE))) ? freePort : giveAddress
        case .unknownInterface: return "plug the interface in, or correct the listener's interface"
        case .dnsFailure: return "the listener's interface is a host name, which this machine has to be able to resolve: check its name server, or give the address"
        case .notPermitted: return error.remedy ?? "fix what is named"
        case .networkDown: return "bring the interface up"
        default: return "fix what is named"
        }
    }

    /// About a port that the system refused.
    ///
    /// - Parameter number: the system's error.
    package static func text(_ number: Int32, port: Int) -> String {
        switch number {
        case EADDRINUSE: "\(PortHolder.advice(port: port)); \(freePort)"
        case EADDRNOTAVAIL: giveAddress
        case EACCES, EPERM: PortHolder.permission(port: port)
        default: "use another port"
        }
    }
}

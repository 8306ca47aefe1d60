import Glibc
import Interfaces
import NIOCore
import NIOPosix
import TLS

/// Maps errors from sockets and resolvers to the network domain of ``ReplicationError``.
enum NetworkErrors {
    static func code(errno value: CInt) -> ReplicationError.NetworkCode? {
        switch value {
        case ENETRESET: .reset
        case ECONNABORTED: .aborted
        case ECONNRESET: .connectionReset
        case ECONNREFUSED: .refused
        case ENETDOWN: .networkDown
        case ENETUNREACH: .networkUnreachable
        case ENOTCONN: .notConnected
        case ETIMEDOUT: .timeout
        case EHOSTDOWN: .hostDown
        case EHOSTUNREACH: .hostUnreachable
        case EADDRNOTAVAIL, EADDRINUSE: .addressNotAvailable
        case EPIPE: .brokenPipe
        // A unix domain socket that does not exist.
        case ENOENT: .refused
        default: nil
        }
    }

    static func systemText(_ value: CInt) -> String {
        guard let text = strerror(value) else { return "system error \(value)" }
        return String(cString: text)
    }

    /// One line for people, avoiding Swift type names if possible.
    static func describe(_ error: any Error) -> String {
        switch error {
        case let error as IOError: systemText(error.errnoCode)
        case let error as ReplicationError: error.message
        case let error as TLSError: "\(error)"
        default: "\(error)"
        }
    }

    /// - Parameter target: the target of the connection, as shown to the operator.
    static func replicationError(_ error: any Error, target: String) -> ReplicationError {
        switch error {
        case let error as ReplicationError:
            return error
        case let error as TLSError:
            return ReplicationError(error, target: target)
        case let error as IOError:
            return ReplicationError(network: code(errno: error.errnoCode) ?? .aborted, message: "\(target): \(systemText(error.errnoCode))")
        case ChannelError.connectTimeout(let time):
            return ReplicationError(network: .timeout, message: "\(target): no connection within \(time.nanoseconds / 1_000_000) ms (connect_time)")
        case let error as ResolverError:
            return ReplicationError(network: error.isTemporary ? .dnsFailure : .unknownHost, message: "\(target): \(error.text)")
        case let error as NIOConnectionError:
            // Happy Eyeballs tried several addresses; a definite answer such as "refused" says more than a timeout.
            let failures = error.connectionErrors.map { replicationError($0.error, target: target) }
            if let best = failures.first(where: { $0.code == ReplicationError.NetworkCode.refused.rawValue }) ?? failures.first { return best }
            if let cause = error.dnsAError ?? error.dnsAAAAError { return replicationError(cause, target: target) }
            return ReplicationError(network: .unknownHost, message: "\(target): the name has no address")
        default:
            return ReplicationError(network: .aborted, message: "\(target): \(error)")
        }
    }
}

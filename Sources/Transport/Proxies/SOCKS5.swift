import Interfaces
import NIOCore

/// SOCKS version 5 with user name and password (RFC 1928 and RFC 1929).
struct SOCKS5: ProxyNegotiation {
    private enum Stage { case method, login, reply }

    let proxy: ProxyServer
    let host: String
    let port: Int
    private var stage = Stage.method
    /// At most one answer, 262 bytes.
    private var answer: [UInt8] = []

    init(proxy: ProxyServer, host: String, port: Int) {
        (self.proxy, self.host, self.port) = (proxy, host, port)
    }

    func begin() throws(ReplicationError) -> [UInt8] {
        guard host.utf8.count <= 255 else { throw proxy.isNone("SOCKS carries host names of up to 255 bytes") }
        if let login = proxy.credentials {
            guard (1...255).contains(login.username.utf8.count), (1...255).contains(login.password.utf8.count) else {
                throw proxy.wantsLogin("SOCKS carries user names and passwords of 1 to 255 bytes")
            }
            return [5, 2, 0, 2]
        }
        return [5, 1, 0]
    }

    mutating func receive(_ bytes: some Collection<UInt8>) throws(ReplicationError) -> ProxyStep {
        var bytes = bytes[...]
        while let byte = bytes.popFirst() {
            answer.append(byte)
            if answer.count == 1, byte != (stage == .login ? 1 : 5) { throw proxy.isNone("the answer is not SOCKS 5") }
            guard let step = try step(rest: bytes) else { continue }
            answer = []
            // A server that answers before it is asked is not a proxy.
            if case .send = step, !bytes.isEmpty { throw proxy.isNone("it answers before it is asked") }
            return step
        }
        return .wait
    }

    private mutating func step(rest: some Collection<UInt8>) throws(ReplicationError) -> ProxyStep? {
        switch stage {
        case .method:
            guard answer.count == 2 else { return nil }
            switch (answer[1], proxy.credentials) {
            case (0, _):
                stage = .reply
                return .send(request())
            case (2, let login?):
                stage = .login
                let (name, password) = (Array(login.username.utf8), Array(login.password.utf8))
                return .send([1, UInt8(name.count)] + name + [UInt8(password.count)] + password)
            default:
                throw proxy.wantsLogin(
                    proxy.credentials == nil ? "it accepts nobody without a login" : "it accepts neither a login with user name and password nor one without")
            }
        case .login:
            guard answer.count == 2 else { return nil }
            guard answer[1] == 0 else { throw proxy.wantsLogin("it refuses the user name or the password") }
            stage = .reply
            return .send(request())
        case .reply:
            guard answer.count >= 2 else { return nil }
            if answer[1] != 0 { throw refusal(answer[1]) }
            guard answer.count >= 5 else { return nil }
            let address: Int
            switch answer[3] {
            case 1: address = 4
            case 4: address = 16
            case 3: address = 1 + Int(answer[4])
            default: throw proxy.isNone("the answer has an address of an unknown kind")
            }
            return answer.count == 4 + address + 2 ? .connected(Array(rest)) : nil
        }
    }

    private func request() -> [UInt8] {
        let number: [UInt8] = [UInt8(truncatingIfNeeded: port >> 8), UInt8(truncatingIfNeeded: port)]
        let address: [UInt8]
        switch try? SocketAddress(ipAddress: host, port: 0) {
        case .v4(let found): address = [1] + withUnsafeBytes(of: found.address.sin_addr) { Array($0) }
        case .v6(let found): address = [4] + withUnsafeBytes(of: found.address.sin6_addr) { Array($0) }
        default: address = [3, UInt8(host.utf8.count)] + Array(host.utf8)
        }
        return [5, 1, 0] + address + number
    }

    private func refusal(_ code: UInt8) -> ReplicationError {
        let target = HostAndPort.text(host, port)
        func unreachable(_ code: ReplicationError.NetworkCode, _ why: String) -> ReplicationError {
            ReplicationError(network: code, message: "\(proxy): \(target): \(why)")
        }
        switch code {
        case 1: return unreachable(.aborted, "the proxy failed")
        case 2:
            return ReplicationError(
                domain: .http, code: 403, message: "\(proxy): it does not allow connections to \(target)",
                remedy: "have the proxy allow connections to \(target)")
        case 3: return unreachable(.networkUnreachable, "the proxy cannot reach the network")
        case 4: return unreachable(.hostUnreachable, "the proxy cannot reach the host")
        case 5: return unreachable(.refused, "the host refuses the proxy's connection")
        case 6: return unreachable(.timeout, "the proxy's connection took too long")
        default: return proxy.isNone("it answers with error \(code)")
        }
    }
}

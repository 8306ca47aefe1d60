import Interfaces

@testable import Transport

extension FuzzTarget {
    /// What answers where a proxy should be: however it is cut, a connection or an error in words; bytes behind the answer are the remote's, each one.
    static let proxyAnswers = FuzzTarget("proxy-answers", longestInput: 2_048) { bytes in
        var input = FuzzInput(bytes)
        let kind: ProxyServer.Kind = input.flag() ? .http : .socks5
        let login = input.flag() ? BasicCredentials(username: "ann", password: "secret") : nil
        let proxy = ProxyServer(kind, host: "proxy.example", port: 3128, credentials: login)
        let host = input.pick(["hub.example", "192.0.2.1", "2001:db8::1"])
        let answer = input.all()
        // SOCKS asks more than once: what comes before it is asked is refused, so that its answers come one by one.
        let whole = try outcome(answer, of: proxy, host, cut: kind == .http ? max(1, answer.count) : 1)
        for size in kind == .http ? [1, 5, 100] : [1] {
            let cut = try outcome(answer, of: proxy, host, cut: size)
            try hold(cut == whole, "\(cut) when cut into \(size) bytes, \(whole) else")
        }
    }

    private enum Outcome: Equatable {
        case waits(sent: Int)
        case connected(rest: [UInt8])
        case refused(String)
    }

    private static func outcome(_ answer: [UInt8], of proxy: ProxyServer, _ host: String, cut size: Int) throws -> Outcome {
        var negotiation = proxy.negotiation(to: host, 443, userAgent: "nightjar", limit: 1_024)
        var sent = try negotiation.begin().count
        do throws(ReplicationError) {
            var at = 0
            while at < answer.count {
                let end = min(at + size, answer.count)
                let step = try negotiation.receive(answer[at..<end])
                at = end
                switch step {
                case .wait: continue
                case .send(let bytes): sent += bytes.count
                case .connected(let rest): return .connected(rest: rest + answer[at...])
                }
            }
        } catch {
            guard error.message.utf8.count < 1_000, error.message.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value < 0x7F }) else {
                throw FuzzFinding(description: "an error that is no short text: \(error.message)")
            }
            try hold(!error.message.contains("secret"), "the password is shown")
            return .refused(error.message)
        }
        // The login, twice encoded at most, and an address.
        try hold(sent < 1_000 && (answer.count < 1_024 || proxy.kind == .socks5 && answer.count < 2_048), "\(answer.count) bytes are waited through")
        return .waits(sent: sent)
    }
}

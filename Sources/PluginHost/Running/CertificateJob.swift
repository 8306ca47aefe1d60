import Digests
import LuaRuntime
import Replication

/// One certificate chain for an authenticator.
final class CertificateJob: PluginJob {
    private let call: PluginCall
    private let chain: [PeerCertificate]
    private let continuation: CheckedContinuation<AuthenticationVerdict, Never>

    init(_ call: PluginCall, _ chain: [PeerCertificate], _ continuation: CheckedContinuation<AuthenticationVerdict, Never>) {
        self.call = call
        self.chain = chain
        self.continuation = continuation
    }

    var line: Int { call.record.number }

    func refuse(_ error: PluginError) { continuation.resume(returning: .failed(call.refused(error))) }

    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
        guard call.breaker.admit() != .none else {
            call.record.statistics.notAsked(1, call.hook)
            continuation.resume(returning: .failed(call.notAsked()))
            return true
        }
        let state = worker.state(for: call.version, of: call.record)
        var counts = TurnCounts()
        let before = monotonicNanoseconds()
        let verdict: AuthenticationVerdict
        do throws(LuaFailure) {
            let entered = try state.enter(call.prepared, call.context)
            let answer = try entered.lua.callCertificate(
                chain: .array(chain.map { LuaValue($0) }), use: entered.use, limits: call.limits)
            switch answer {
            case .refused:
                counts.rejected = 1
                verdict = .refused
            case .accepted(let table):
                var principal = try Principal(table, chunk: call.version.source.main.path)
                if principal.name == nil { principal.name = chain.first.flatMap { $0.commonName ?? $0.subject } }
                verdict = .accepted(principal)
            }
            call.succeeded()
            state.dropIfSpent()
        } catch {
            verdict = .failed(call.failed(error))
            state.dropIfSpent(after: error)
        }
        counts.took(monotonicNanoseconds() &- before)
        call.record.statistics.add(counts, call.hook)
        continuation.resume(returning: verdict)
        return true
    }
}

extension LuaValue {
    /// A certificate as `authenticate_certificate` gets it; `der` is Base64, because values between here and Lua are JSON.
    init(_ certificate: PeerCertificate) {
        func texts(_ texts: [String]) -> LuaValue { .array(texts.map { .text($0) }) }
        self = .members([
            ("subject", .text(certificate.subject)), ("common_name", certificate.commonName.map { .text($0) } ?? .missing),
            ("dns_names", texts(certificate.dnsNames)), ("ip_addresses", texts(certificate.ipAddresses)),
            ("emails", texts(certificate.emails)), ("uris", texts(certificate.uris)), ("serial", .text(certificate.serial)),
            ("sha256", .text(certificate.sha256)), ("spki_sha256", .text(certificate.spkiSHA256)),
            ("not_before", .integer(certificate.notBefore)), ("not_after", .integer(certificate.notAfter)),
            ("der", .text(Base64.encode(certificate.der))),
        ])
    }
}

/// A plugin's authenticate_certificate on one listener.
struct PluginCertificateAuthenticator: CertificateAuthenticator {
    let use: PluginUse
    func authenticate(chain: [PeerCertificate], listener: String, remote: String) async -> AuthenticationVerdict {
        guard let call = use.call(CallContext(listener: listener, remote: remote)) else { return .failed(use.lost) }
        return await withCheckedContinuation { use.pool.submit(CertificateJob(call, chain, $0)) }
    }
}

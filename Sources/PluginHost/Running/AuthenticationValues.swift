import Encodings
import Interfaces
import LuaRuntime

extension LuaValue {
    /// A certificate as passed to `authenticate_certificate`; `der` is Base64, because values are passed to Lua as JSON.
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

extension Principal {
    /// Reads `{ name=…, read_only=…, channels={…}, roles={…}, collections={…} }`. The runtime has already refused other members;
    /// if one gets here, that is a failure: a misspelt `read_only` must not grant write access.
    init(_ table: LuaValue, hook: LuaHook, chunk: String) throws(LuaFailure) {
        self.init()
        guard case .object(let members) = table else {
            if table == .missing { return }
            throw Self.failure(hook, chunk, "principal", table)
        }
        for member in members {
            switch (member.key, member.value) {
            case ("name", .string): name = member.value.text
            case ("read_only", .bool(let flag)): isReadOnly = flag
            case ("channels", _): channels = try Self.texts(member, hook, chunk)
            case ("roles", _): roles = try Self.texts(member, hook, chunk)
            case ("collections", _): collections = try Self.texts(member, hook, chunk)
            default: throw Self.failure(hook, chunk, member.key, member.value)
            }
        }
    }

    private static func texts(_ member: LuaMember, _ hook: LuaHook, _ chunk: String) throws(LuaFailure) -> [String] {
        if case .array(let items) = member.value {
            let texts = items.compactMap(\.text)
            if texts.count == items.count { return texts }
        }
        // An empty Lua table arrives as an object.
        guard member.value == .object([]) else { throw failure(hook, chunk, member.key, member.value) }
        return []
    }

    private static func failure(_ hook: LuaHook, _ chunk: String, _ what: String, _ value: LuaValue) -> LuaFailure {
        LuaFailure(kind: .result, message: "\(chunk): \(hook.rawValue) returned a principal whose \(what) is a \(value.typeName)")
    }
}

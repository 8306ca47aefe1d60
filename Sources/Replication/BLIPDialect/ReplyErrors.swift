import BLIP
import Environment
import Interfaces

extension ReplicationError {
    /// An error reply from the peer.
    init(reply error: BLIPErrorReply, to profile: String) {
        let text = error.message.isEmpty ? "\(profile) was refused" : "\(profile): \(PeersSettings.marked(error.message))"
        switch error.domain {
        case "HTTP": self.init(domain: .http, code: error.code, message: text)
        case "WebSocket": self.init(domain: .websocket, code: error.code, message: text)
        case "LiteCore": self.init(domain: .litecore, code: error.code, message: text)
        case "Network": self.init(domain: .network, code: error.code, message: text)
        default: self.init(domain: .blip, code: error.code, message: text)
        }
    }
}

extension MessageError {
    /// LiteCore's number and words.
    static func unknownFilter(_ filter: String) -> MessageError {
        MessageError(domain: "LiteCore", code: 19, message: "Filtering not supported (\(filter.prefix(60)))")
    }
}

extension Withdrawal {
    /// Peers ask again for what they cannot have at the moment (5xx).
    var code: Int {
        switch self {
        case .notVisible: 403
        case .superseded: 404
        case .exceedsMemory: 503
        }
    }

    var text: String {
        switch self {
        case .notVisible: "the document is no longer open to this peer"
        case .superseded: "the revision was dropped for another one, which comes next"
        case .exceedsMemory(let bytes, let memory):
            "it has \(bytes) bytes, for which limits.memory (\(memory)) of the agent that sends it has no room; it takes limits: { memory: \(MemoryBudget.settingText(forDocument: bytes)) } or more there"
        }
    }
}

extension ReplicationError {
    /// The peer announces, with a reason, that it accepts nothing from us.
    init(refusingAll why: String) {
        self.init(
            domain: .http, code: 403, message: "\(Profile.proposeChanges): \(why)",
            remedy: "have the peer's operator let this login write there, or set type: pull")
    }

    /// The document was refused because the time of one of its versions is ahead of the peer's clock.
    var isClockSkew: Bool { Self.isClockSkew(domain: domain.rawValue, code: "\(code)", message) }

    /// The same for a listed error. Couchbase Lite 4 treats a version more than two minutes ahead of its clock as invalid: LiteCore/4, "Invalid
    /// timestamp in version vector" (`VectorDocument.cc`).
    static func isClockSkew(domain: String, code: String, _ message: String) -> Bool {
        domain == Domain.litecore.rawValue && code == "4" && message.contains("timestamp")
    }
}

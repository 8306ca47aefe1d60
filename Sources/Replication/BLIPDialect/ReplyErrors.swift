import BLIP
import Interfaces

extension ReplicationError {
    /// An error reply of the peer.
    init(reply error: BLIPErrorReply, to profile: String) {
        let text = error.message.isEmpty ? "\(profile) was refused" : "\(profile): \(error.message)"
        switch error.domain {
        case "HTTP": self.init(domain: .http, code: error.code, message: text)
        case "WebSocket": self.init(domain: .websocket, code: error.code, message: text)
        case "LiteCore": self.init(domain: .litecore, code: error.code, message: text)
        case "Network": self.init(domain: .network, code: error.code, message: text)
        default: self.init(domain: .blip, code: error.code, message: text)
        }
    }
}

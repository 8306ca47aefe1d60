import BLIP
import DocumentStore
import Interfaces

extension ReplicationError {
    /// An error of the store, in the terms of a replicator: a full disk may be emptied, a broken database not.
    init(store error: any Error) {
        self.init(domain: .store, code: 500, message: "\(error)")
        if case StoreError.diskFull? = error as? StoreError {
            code = 507
            isTransient = true
        }
    }

    /// An error reply on a connection-level message.
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

/// The WebSocket subprotocols that are spoken here, newest first.
public enum Subprotocol: String, CaseIterable, Sendable {
    /// Couchbase Lite 3 and Sync Gateway 3.
    case generation3 = "BLIP_3+CBMobile_3"
    /// Couchbase Lite 2 and Sync Gateway 2.
    case generation2 = "BLIP_3+CBMobile_2"
}

/// WebSocket close codes with which a session ends its connection.
enum CloseCode {
    /// Nothing is left to do, or the next connection is to be used in another way.
    static let normal: UInt16 = 1000
    /// This side goes away for a while.
    static let goingAway: UInt16 = 1001
    /// The peer is asked to come back later. Couchbase Lite does, whereas it stops permanently after 1013.
    static let comeBack: UInt16 = 4001
    /// The peer is asked not to come back.
    static let stayAway: UInt16 = 4002
}

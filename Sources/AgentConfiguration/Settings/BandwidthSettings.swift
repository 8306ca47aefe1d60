/// The bandwidth that connections may use.
package struct BandwidthSettings: Sendable, ConfigurationSection {
    /// Bytes per second. Default: nil, unlimited.
    package var send: Int?
    /// The same for the opposite direction.
    package var receive: Int?
    package internal(set) var position = SourcePosition.none

    package init() {}

    /// With less, heartbeats would arrive too late.
    private static let rates = (4 << 10)...(1 << 40)

    static let sectionName = "bandwidth"
    static let keys: [Key<BandwidthSettings>] = [
        Key("send", optional: \.send, Form<Int>.bytes(rates), "Bytes per second that are sent, at most. Absent: no limit."),
        Key("receive", optional: \.receive, Form<Int>.bytes(rates), "Bytes per second that are received, at most. Absent: no limit."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        if send == nil, receive == nil { reading.report(at: position, "expected \"send\", \"receive\" or both, such as send: 64KiB, found neither") }
    }
}

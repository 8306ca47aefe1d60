/// The admin port: the admin API and `/metrics` over TCP. Without this section there is none; the commands of this machine use
/// `DATA/admin.sock`, which is always there.
public struct AdminSettings: Sendable, ConfigurationSection {
    /// An IP address or `localhost`. Default 127.0.0.1. Addresses that are not loopback need a token.
    public var address = Located("127.0.0.1")
    /// 0: any free port. Default 4985.
    public var port = Located(4985)
    /// What clients must present as `Authorization: Bearer …`. Default: none, and loopback only.
    public var token: Located<Secret>?
    public internal(set) var position = SourcePosition.none

    public init() {}

    static let sectionName = "admin"
    static let keys: [Key<AdminSettings>] = [
        Key("address", \.address, Form.text(.address).located, "IP address to bind to. Anything but loopback needs a token."),
        Key("port", \.port, Form<Int>.integer(0...65535).located, "TCP port; 0 takes any free one."),
        Key("token", optional: \.token, Form<Secret>.secret.located,
            "Bearer token that clients must present, for everything but whether /health is 200. Absent: loopback addresses only, where every "
                + "user of this machine may read and change everything."),
    ]

    public static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        if token == nil, !Address.isLoopback(address.value) {
            reading.within(key: "address") {
                $0.report(
                    at: address.position,
                    "\(Quoting.quoted(address.value)) is not a loopback address, which needs a token; set admin.token or use 127.0.0.1")
            }
        }
    }
}

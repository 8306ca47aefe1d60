/// The admin port: the admin API and `/metrics` over TCP. Without this section there is none; commands on this machine use `DATA/admin.sock`, which
/// always exists.
package struct AdminSettings: Sendable, ConfigurationSection {
    /// An IP address or `localhost`. Default 127.0.0.1. Addresses that are not loopback need a token.
    package var address = Located("127.0.0.1")
    /// 0: any free port. Default 4985.
    package var port = Located(4985)
    /// The token that clients must present as `Authorization: Bearer …`; its holder may do everything. Default: the one in `DATA/admin.token`, which
    /// the agent makes, and loopback only.
    package var token: Located<Secret>?
    /// Further tokens, each with a role.
    package var tokens: [AdminTokenSettings] = []
    /// Further host names under which it may be reached, such as the machine's own; requests to any other name are refused.
    package var hosts: [Located<String>] = []
    /// No token is needed.
    package var isOpen = Located(false)
    package internal(set) var position = SourcePosition.none

    package init() {}

    /// Whether the configuration names no token.
    package var hasNoToken: Bool { token == nil && tokens.isEmpty }
    /// Whether the agent makes a token, because the configuration names none.
    package var makesToken: Bool { hasNoToken && !isOpen.value }

    static let sectionName = "admin"
    static let keys: [Key<AdminSettings>] = [
        Key("address", \.address, Form.text(.address).located, "IP address to bind to. Anything but loopback needs a token."),
        Key("port", \.port, Form<Int>.integer(0...65535).failing(as: 0).located, "TCP port; 0 takes any free one."),
        Key("token", optional: \.token, Form<Secret>.secret.located,
            "Bearer token whose holder may do everything; a token is needed for everything except the status code of /health. Without any token: loopback addresses "
                + "only, and the agent makes one, in DATA/admin.token, which is not used once token or tokens names another."),
        Key("tokens", \.tokens, Form<AdminTokenSettings>.section.list(of: "tokens"), "Further tokens, each with a name and what its holder may do."),
        Key("hosts", \.hosts, Form.text(.host).located.list(of: "host names"),
            "Further host names under which clients reach it, as in their Host header. localhost, loopback, address and the address that is connected to need not be "
                + "named; requests to any other name are refused."),
        Key("open", \.isOpen, Form<Bool>.boolean.located,
            "Whether the API needs no token: every user of this machine may then read and change everything. Loopback addresses only."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        if hasNoToken, !Address.isLoopback(address.value) {
            reading.within(key: "address") {
                $0.report(
                    at: address.position,
                    "\(ValueQuoting.quoted(address.value)) is not a loopback address, which needs a token; set admin.token or use 127.0.0.1")
            }
        }
        if isOpen.value, !hasNoToken {
            reading.within(key: "open") { $0.report(at: isOpen.position, "with open: true no token is needed, but one is set: remove one of the two") }
        }
        var seen: [Secret] = token.map { [$0.value] } ?? []
        var names: Set<String> = ["admin"]
        for each in tokens where each.name.position != .none {
            if !names.insert(each.name.value).inserted {
                reading.report(at: each.name.position, "there are two tokens of the name \(ValueQuoting.quoted(each.name.value)) (\"admin\" is admin.token's)")
            }
            if seen.contains(each.token.value) {
                reading.report(at: each.token.position, "the token of \(ValueQuoting.quoted(each.name.value)) is also another one's: nobody could tell them apart")
            }
            seen.append(each.token.value)
        }
    }
}

/// One of `tokens`.
package struct AdminTokenSettings: Sendable, ConfigurationSection {
    /// What the holder may do; each role includes the preceding ones.
    package enum Role: String, Sendable, CaseIterable {
        /// Look at everything, documents included.
        case read
        /// Start, stop, reload, retry, disconnect, compact and check.
        case operate
        /// Write and delete documents, import, back up.
        case edit
    }

    /// The holder's name, for the audit log.
    package var name = Located("")
    package var token = Located(Secret(""))
    package var role = Role.read
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "admin_token"
    static let keys: [Key<AdminTokenSettings>] = [
        Key("name", \.name, Form.text("a name").located, required: true, "Who holds it, for the audit log."),
        Key("token", \.token, Form<Secret>.secret.located, required: true, "The bearer token."),
        Key("role", \.role, Form<Role>.choice, "What its holder may do: read may see everything; operate may also start, stop, reload and retry; edit may also write "
            + "documents."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}

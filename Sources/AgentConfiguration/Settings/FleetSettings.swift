/// Plugins and configuration fragments that arrive as signed documents.
package struct FleetSettings: Sendable, ConfigurationSection {
    package enum Kind: String, Sendable, CaseIterable { case plugins }

    /// The database in whose collection `nightjar.fleet` the documents arrive. Default: empty, none: this agent accepts nothing.
    package var database = Located("")
    /// Public keys whose signatures are trusted.
    package var keys: [Located<String>] = []
    /// What is accepted. Default: nothing.
    package var accept: [Kind] = []
    /// Settings that fragments may set, each including everything below it. Default: none.
    package var acceptConfig: [Located<String>] = []
    /// Whether files in the plugins folder need a signature by one of `keys`. Default: false.
    package var requiresSigned = false
    /// This gateway's name in the fleet. Default: nil, the peer id.
    package var id: String?
    package var labels: [String] = []
    /// Users who may write more than their own status through a listener.
    package var publishers: [String] = []
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "fleet"
    static let keys: [Key<FleetSettings>] = [
        Key("database", \.database, Form.text(.database).located,
            "Database in whose collection nightjar.fleet signed documents arrive, and where this agent writes its status. Absent: none."),
        Key("keys", \.keys, Form.text(.verifyingKey).located.list(of: "public keys"),
            "Public keys whose signatures are trusted, as nightjar fleet keygen prints them; several, so that one can be replaced."),
        Key("accept", \.accept, Form<Kind>.choice.list(of: "kinds of documents"),
            "What may arrive: plugins, which replace files of the same name in the plugins folder. Absent: nothing."),
        Key("accept_config", \.acceptConfig, Form.text("a setting").located.list(of: "settings"),
            "Settings of this configuration that signed fragments may set, each with everything below it: log, plugin_limits, "
                + "replicators.*.collections.*.push_filter. * is any name. Absent: none. Databases, listeners and replicators are neither added nor removed."),
        Key("require_signed", \.requiresSigned, Form<Bool>.boolean,
            "Accepts a plugin of the plugins folder only with a signature by one of keys beside it, NAME.lua.sig, as nightjar plugin sign writes it; "
                + "and serves a version that it kept only if it was kept with one."),
        Key("id", optional: \.id, Form.text(.name), "This agent's name in the fleet; where the hub asks for a login, its user name. Absent: its peer id."),
        Key("labels", \.labels, Form.text(.name).list(of: "labels"), "Groups that this agent is in; what is published for one of them is for it."),
        Key("publishers", \.publishers, Form.text("a user name").list(of: "user names"),
            "On a hub: users of its listeners who may write anything into nightjar.fleet. Others may write their own status only."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        for setting in acceptConfig {
            guard let problem = SettingPattern(setting.value).problem else { continue }
            reading.report(at: setting.position, "accept_config: \(ValueQuoting.quoted(setting.value)) names nothing that a fragment may set: \(problem)")
        }
        if requiresSigned, keys.isEmpty { reading.report(at: position, "\"require_signed\" needs \"keys\": without them no signature could be trusted") }
        guard let key = !accept.isEmpty ? "accept" : !acceptConfig.isEmpty ? "accept_config" : nil else { return }
        if database.value.isEmpty { reading.report(at: position, "\"\(key)\" needs \"database\": where the documents arrive") }
        if keys.isEmpty { reading.report(at: position, "\"\(key)\" needs \"keys\": nothing is accepted without a signature") }
    }
}

extension TextSyntax {
    static let verifyingKey = TextSyntax(
        expected: "a public key as nightjar fleet keygen prints it (ed25519/ and 44 characters of base64)",
        pattern: "^ed25519/[A-Za-z0-9+/]{43}=$",
        accepts: { text in
            text.hasPrefix("ed25519/") && text.utf8.count == 52 && text.hasSuffix("=")
                && text.utf8.dropFirst(8).dropLast().allSatisfy { Bytes.isAlphanumeric($0) || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") }
        })
}

/// Who decides which peers may connect to a listener.
package enum ListenerAuthenticator: Sendable, Equatable {
    /// An explicit `none`: everybody may connect.
    case everybody(SourcePosition)
    case plugin(PluginReference)
    /// Tokens signed by others; the plugin decides about peers without one.
    case tokens(TokenSettings, beside: PluginReference?)

    package static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.everybody, .everybody): true
        case (.plugin(let one), .plugin(let other)): one == other
        case (.tokens(let one, let beside), .tokens(let other, let otherBeside)): one == other && beside == otherBeside
        default: false
        }
    }
}

/// The keys of all forms.
struct ListenerAuthenticatorSection: Sendable, ConfigurationSection {
    var plugin: Located<String>?
    var params: ConfigurationNode?
    var tokens: TokenSettings?
    var position = SourcePosition.none

    static let sectionName = "listener_authenticator"
    static let keys: [Key<ListenerAuthenticatorSection>] = [
        Key("plugin", optional: \.plugin, Form.text(.plugin).located, "Plugin that checks names and passwords, or certificates."),
        Key("params", optional: \.params, .params, "Parameters that the plugin declares."),
        Key("jwt", optional: \.tokens, Form<TokenSettings>.section, "JSON Web Tokens that are accepted as Authorization: Bearer. With a plugin beside it, the plugin "
            + "checks clients that present no token."),
    ]

    static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        if let params, plugin == nil { reading.report(at: params.position, "\"params\" needs a \"plugin\" beside it") }
        if plugin == nil, params == nil, tokens == nil { reading.report(at: position, "expected a \"plugin\" or \"jwt\", or both; found nothing") }
    }

    /// Nil if the check failed, which has been reported.
    var authenticator: ListenerAuthenticator? {
        let reference = plugin.map { plugin in
            var reference = PluginReference()
            (reference.plugin, reference.params, reference.position) = (plugin, params, position)
            return reference
        }
        if let tokens { return .tokens(tokens, beside: reference) }
        return reference.map { .plugin($0) }
    }
}

extension Form where Value == ListenerAuthenticator {
    private static let expectation =
        "none, \(TextSyntax.plugin.expected), or a mapping with the keys \(ListenerAuthenticatorSection.keys.map(\.name).joined(separator: ", "))"

    /// A plugin with that name is written `{ plugin: none }`.
    static let listenerAuthenticator = Form<ListenerAuthenticator>(
        shape: .anyOf([.text(pattern: TextSyntax.plugin.pattern), .section(ListenerAuthenticatorSection.shape)]), expected: expectation,
        read: { node, reading in
            guard node.scalar != nil else {
                guard node.entries != nil else {
                    reading.reportMismatch(node, expected: expectation)
                    return nil
                }
                return ListenerAuthenticatorSection.read(node, &reading)?.authenticator
            }
            if let scalar = node.scalar, !scalar.isUnresolved {
                if scalar.text == "none" { return .everybody(node.position) }
                guard TextSyntax.plugin.accepts(scalar.text) else {
                    reading.reportMismatch(node, expected: expectation)
                    return nil
                }
            }
            return Form<String>.text(.plugin).read(node, &reading).map { name in
                var reference = PluginReference()
                (reference.plugin, reference.position) = (Located(name, at: node.position), node.position)
                return .plugin(reference)
            }
        })
}

extension ListenerSettings {
    /// Checks who may connect; what the plugin can judge is known only when it is loaded.
    func checkAccess(_ reading: inout Reading) {
        if clientCertificates.value != .none, roots.isEmpty, authenticator == nil {
            reading.report(
                at: clientCertificates.position,
                "\"client_certificates\" is \(clientCertificates.value.rawValue), and nothing judges the certificates: add \"roots\""
                    + " (PEM files of their authorities) or a plugin with authenticate_certificate as \"authenticator\"")
            return
        }
        let certificatesDecide = clientCertificates.value == .require && !roots.isEmpty
        guard authentication == nil, !certificatesDecide, !isLoopback else { return }
        let place = interface.map { "on \(ValueQuoting.quoted($0.value))" } ?? "on all interfaces"
        reading.report(
            at: interface?.position ?? position,
            "the listener is \(place), where other machines reach it, and has no authenticator: name one, bind it to 127.0.0.1, or write"
                + " \"authenticator: none\" if everybody may connect")
    }

    /// Whether only this machine can connect.
    var isLoopback: Bool { interface.map { $0.value == "lo" || Address.isLoopback($0.value) } ?? false }
}

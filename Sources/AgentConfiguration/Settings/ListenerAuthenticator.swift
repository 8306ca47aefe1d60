/// Who decides which peers may connect to a listener.
package enum ListenerAuthenticator: Sendable, Equatable {
    /// `none`, written out: everybody may.
    case everybody(SourcePosition)
    case plugin(PluginReference)

    package static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.everybody, .everybody): true
        case (.plugin(let one), .plugin(let other)): one == other
        default: false
        }
    }
}

extension Form where Value == ListenerAuthenticator {
    private static let expectation = "none, \(Form<PluginReference>.plugin.expected)"

    /// A plugin of that name is written `{ plugin: none }`.
    static let listenerAuthenticator = Form<ListenerAuthenticator>(
        shape: Form<PluginReference>.plugin.shape, expected: expectation,
        read: { node, reading in
            if let scalar = node.scalar, !scalar.isUnresolved {
                if scalar.text == "none" { return .everybody(node.position) }
                guard TextSyntax.plugin.accepts(scalar.text) else {
                    reading.reportMismatch(node, expected: expectation)
                    return nil
                }
            }
            return Form<PluginReference>.plugin.read(node, &reading).map { .plugin($0) }
        })
}

extension ListenerSettings {
    /// Checks on who may connect; what the plugin itself can decide is only known where it is loaded.
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

/// Checks for a listener at a message endpoint.
extension ListenerSettings {
    /// Whether connections use TLS.
    package var usesTLS: Bool { endpoint == nil && !disableTLS.value }

    func checkNoEndpoint(_ reading: inout Reading) {
        if let user { reading.report(at: user.position, "\"user\" needs an \"endpoint\": on a port peers say who they are") }
        if let mode { reading.report(at: mode.position, "\"mode\" needs an \"endpoint\" that begins with unix:") }
    }

    func checkEndpoint(_ reading: inout Reading) {
        guard let endpoint else { return }
        let scheme = endpoint.value.scheme
        guard scheme.isEndpoint else {
            return reading.report(at: endpoint.position, "expected an endpoint beginning with unix:, serial: or exec:, found \(scheme.rawValue):")
        }
        if endpoint.value.database != nil {
            reading.report(at: endpoint.position, "a listener's databases are listed in \"databases\", not in its endpoint")
        }
        let why = "applies to listeners on a port only; this one has an endpoint"
        if port.position != .none { reading.report(at: port.position, "\"port\" \(why)") }
        if let interface { reading.report(at: interface.position, "\"interface\" \(why)") }
        if minimumTLS.position != .none { reading.report(at: minimumTLS.position, "\"min_tls_version\" \(why)") }
        if let identity { reading.report(at: identity.position, "\"identity\" \(why)") }
        if advertise.value != .no { reading.report(at: advertise.position, "\"advertise\" \(why)") }
        if let advertiseGroup { reading.report(at: advertiseGroup.position, "\"advertise_group\" \(why)") }
        if let bandwidth { reading.report(at: bandwidth.position, "\"bandwidth\" \(why)") }
        if let connectionBandwidth { reading.report(at: connectionBandwidth.position, "\"connection_bandwidth\" \(why)") }
        if clientCertificates.value != .none { reading.report(at: clientCertificates.position, "\"client_certificates\" \(why)") }
        if let root = roots.first { reading.report(at: root.position, "\"roots\" \(why)") }
        if let list = revocationLists.first { reading.report(at: list.position, "\"crl\" \(why)") }
        if let tokens { reading.report(at: tokens.position, "\"jwt\" \(why), where peers show no token") }
        if let mode, scheme != .unix { reading.report(at: mode.position, "\"mode\" applies to Unix domain sockets only (unix:)") }
        guard authentication == nil else { return }
        if scheme != .unix, user == nil {
            reading.report(
                at: endpoint.position,
                "nothing says who is at the other end: name a \"user\" or an \"authenticator\", or write \"authenticator: none\" if everybody may connect")
        }
        if let mode, mode.value & 0o077 != 0 {
            reading.report(
                at: mode.position,
                "other users of this machine may connect, and the listener has no authenticator: name one, or write \"authenticator: none\" if they may")
        }
    }
}

extension Form where Value == Int {
    /// Three octal digits, with or without a 0 before them.
    static let fileMode = Form<Int>(
        shape: .anyOf([.text(pattern: "^0?[0-7]{3}$"), .integer(0...777)]), expected: "a file mode such as 0600",
        read: { node, reading in
            guard let scalar = node.scalar, !scalar.isUnresolved, [3, 4].contains(scalar.text.utf8.count), scalar.text.utf8.count == 3 || scalar.text.hasPrefix("0"),
                let mode = Int(scalar.text, radix: 8), (0...0o777).contains(mode)
            else {
                reading.reportMismatch(node, expected: "a file mode such as 0600")
                return nil
            }
            return mode
        })
}

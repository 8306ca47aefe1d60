/// Whether, and under which name, a listener is announced on the local network.
package enum AdvertisedName: Sendable, Equatable {
    case no
    /// Made from the names of the listener and the machine.
    case ofMachine
    case name(String)
}

extension Form where Value == AdvertisedName {
    private static let expectation = "true, false or \(TextSyntax.serviceName.expected)"

    static let advertisedName = Form<AdvertisedName>(
        shape: .anyOf([.boolean, .text(pattern: TextSyntax.serviceName.pattern)]), expected: expectation,
        read: { node, reading in
            guard let scalar = node.scalar, !scalar.isUnresolved else {
                reading.reportMismatch(node, expected: expectation)
                return nil
            }
            if scalar.style == .plain || scalar.isExpanded, let value = ScalarRules.bool(scalar.text) { return value ? .ofMachine : .no }
            guard TextSyntax.serviceName.accepts(scalar.text) else {
                reading.reportMismatch(node, expected: expectation)
                return nil
            }
            return .name(scalar.text)
        },
        json: { $0 == .no ? "false" : nil })
}

extension ListenerSettings {
    func checkAdvertised(_ reading: inout Reading) {
        if let advertiseGroup, advertise.value == .no {
            reading.report(at: advertiseGroup.position, "\"advertise_group\" has no effect without \"advertise\", which announces the listener")
        }
        guard advertise.value != .no, isLoopback else { return }
        reading.report(
            at: advertise.position, "\"advertise\" has no effect: only this machine reaches the listener; bind it to another interface, or take \"advertise\" out")
    }
}

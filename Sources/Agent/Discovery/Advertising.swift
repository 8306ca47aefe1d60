import AgentConfiguration
import Discovery
import Environment
import Glibc
import Transport

/// Listeners to announce on the local network.
extension Agent {
    /// As they are at the moment: a listener that is stopped or waits for its port is not announced.
    nonisolated func announcements() -> [Announcement] {
        guard isReady else { return [] }
        let listeners = listeners.filter { $0.settings.advertise.value != .no && $0.port != 0 && $0.binding.condition.word == "listening" }
        guard !listeners.isEmpty else { return [] }
        let peer = PeerIdentifier.current(data: settings.data.value, environment.random)
        return listeners.map { listener in
            var text = ServiceText()
            text.peer = peer
            text.databases = listener.settings.databases.map(\.value)
            text.usesTLS = listener.security != nil
            text.pin = listener.security?.identity.current.leaf.pin
            text.nextPin = listener.security?.identity.next?.pin
            text.group = listener.settings.advertiseGroup?.value
            return Announcement(
                name: listener.settings.announcedName, port: listener.port, interface: Self.index(of: listener.settings.interface?.value), text: text)
        }
    }

    /// 0 for all interfaces.
    private static func index(of interface: String?) -> Int32 {
        guard let interface else { return 0 }
        let name = NetworkInterfaces.all().first { $0.address.ipAddress == interface }?.interface ?? interface
        return Int32(clamping: if_nametoindex(name))
    }

    nonisolated func discoveryAttention(of listener: PeerListener) -> [Attention] {
        guard listener.settings.advertise.value != .no, let error = announcer.failure(of: listener.settings.announcedName) else { return [] }
        return [
            Attention(
                .notAdvertised, "listener \(listener.settings.name.value)", "it is not announced on the local network: \(error)",
                remedy: "\(error.remedy); it is tried again by itself")
        ]
    }
}

extension ListenerSettings {
    /// The name under which it is announced.
    var announcedName: String {
        if case .name(let name) = advertise.value { return name }
        var host = [CChar](repeating: 0, count: 256)
        gethostname(&host, host.count - 1)
        let machine = String(decoding: host.prefix { $0 != 0 && $0 != 0x2E }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // A DNS label has at most 63 bytes.
        return String(decoding: Array("\(name.value)-\(machine)".utf8).prefix(63), as: UTF8.self)
    }
}

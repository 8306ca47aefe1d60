import Environment

/// The announcements that one search has heard, and what they were resolved to. Anybody on the local network can make any number of them, so there is
/// room for a limited number, which does not go to whoever comes first: when there are too many, one of the address that has most of them is dropped,
/// or one of those that were not resolved yet, if these are more. Which one, and which is resolved next, is decided by lot. Names that were reached
/// before are resolved first, and are never dropped.
///
/// Names are compared by their bytes, as DNS does except for letter case: whoever announces a name that only looks like another one, and takes it back,
/// must neither hide nor remove that, nor change its address.
struct HeardNames: Sendable {
    /// `discover_services`: announcements that one search keeps at a time.
    static let most = 1000
    /// `discover_resolutions`: announcements that are resolved at a time, with a call each. D-Bus refuses calls of a client that has 128 without a reply
    /// (`max_replies_per_connection`); the rest is for names that were reached before.
    static let mostAsked = 96

    /// An announcement, of which a name may have several: one for each interface and version of IP.
    struct Heard: Hashable, Sendable {
        fileprivate let bytes: [UInt8]
        let interface: Int32
        let version: Int32

        var name: String { String(decoding: bytes, as: UTF8.self) }
    }

    private enum State: Sendable {
        case waiting, asked
        case found(FoundService)
    }

    private struct Name: Sendable {
        /// It was reached before.
        var isProven: Bool
        /// This machine announces it.
        var isLocal = false
        /// It was taken back.
        var isGone = false
        var announcements = 0
    }

    private var states: [Heard: State] = [:]
    private var names: [[UInt8]: Name] = [:]
    /// What is to be resolved, of names that are not proven; and of those that are.
    private var waiting: [Heard] = []
    private var provenWaiting: [Heard] = []
    /// How many announcements were resolved to an address, of names that are not proven.
    private var addresses: [String: Int] = [:]
    private var asked = 0
    private let isProven: @Sendable (String) -> Bool
    private let random: any RandomSource

    init(random: any RandomSource, isProven: @escaping @Sendable (String) -> Bool) { (self.random, self.isProven) = (random, isProven) }

    var count: Int { states.count }

    mutating func add(_ name: String, interface: Int32, version: Int32, isLocal: Bool) {
        let heard = Heard(bytes: Array(name.utf8), interface: interface, version: version)
        var known = names[heard.bytes] ?? Name(isProven: isProven(name))
        known.isGone = false
        if isLocal { known.isLocal = true }
        let isNew = states[heard] == nil
        if isNew { known.announcements += 1 }
        names[heard.bytes] = known
        guard isNew else { return }
        states[heard] = .waiting
        if known.isProven { provenWaiting.append(heard) } else { waiting.append(heard) }
        if states.count > Self.most { makeRoom() }
    }

    /// It was taken back.
    mutating func remove(_ name: String) { names[Array(name.utf8)]?.isGone = true }

    /// The announcement to resolve next, for ``answer(_:_:)``; nil if none waits, or enough are being resolved: then only one of a name that was
    /// reached before.
    mutating func next() -> Heard? {
        guard let heard = provenWaiting.popLast() ?? (asked < Self.mostAsked ? takeWaiting() : nil) else { return nil }
        states[heard] = .asked
        asked += 1
        return heard
    }

    /// - Parameter service: nil if it could not be resolved.
    mutating func answer(_ heard: Heard, _ service: FoundService?) {
        asked -= 1
        guard let service else { return forget(heard) }
        states[heard] = .found(service)
        if names[heard.bytes]?.isProven == false { addresses[Self.address(of: service), default: 0] += 1 }
    }

    /// One service for each name, with all its addresses.
    func services() -> [FoundService] {
        let found = states.compactMap { heard, state -> (heard: Heard, service: FoundService)? in
            guard case .found(let service) = state else { return nil }
            return (heard, service)
        }.sorted { ($0.heard.interface, $0.heard.version) < ($1.heard.interface, $1.heard.version) }
        var services: [[UInt8]: FoundService] = [:]
        for (heard, service) in found {
            if services[heard.bytes] == nil { services[heard.bytes] = service } else { services[heard.bytes]?.add(service) }
        }
        return services.compactMap { bytes, service in
            guard let name = names[bytes], !name.isGone else { return nil }
            var service = service
            service.isLocal = name.isLocal
            return service
        }.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    }

    // MARK: Too many

    private mutating func makeRoom() {
        let most = addresses.values.max() ?? 0
        guard most > waiting.count else {
            if let heard = takeWaiting() { forget(heard) }
            return
        }
        let candidates = states.compactMap { heard, state -> Heard? in
            guard case .found(let service) = state, addresses[Self.address(of: service)] == most, names[heard.bytes]?.isProven == false else { return nil }
            return heard
        }
        if !candidates.isEmpty { forget(candidates[lot(candidates.count)]) }
    }

    private mutating func takeWaiting() -> Heard? {
        guard !waiting.isEmpty else { return nil }
        waiting.swapAt(lot(waiting.count), waiting.count - 1)
        return waiting.removeLast()
    }

    private func lot(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }

    /// It is no longer among those that wait.
    private mutating func forget(_ heard: Heard) {
        guard let state = states.removeValue(forKey: heard), var name = names[heard.bytes] else { return }
        if case .found(let service) = state, !name.isProven {
            let address = Self.address(of: service)
            let left = (addresses[address] ?? 1) - 1
            addresses[address] = left > 0 ? left : nil
        }
        name.announcements -= 1
        names[heard.bytes] = name.announcements > 0 ? name : nil
    }

    private static func address(of service: FoundService) -> String { service.addresses.first ?? service.host }
}

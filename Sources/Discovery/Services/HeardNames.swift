/// The names that one search has heard. They are compared by their bytes, as DNS does except for letter case: whoever announces a name that only looks
/// like another one, and takes it back, must neither hide nor remove that, nor change its address.
struct HeardNames {
    private var seen: Set<[UInt8]> = []
    private var local: Set<[UInt8]> = []
    private var gone: Set<[UInt8]> = []

    /// Announcements, of which a name may have several: one for each interface and version of IP.
    var count: Int { seen.count }

    /// - Returns: whether this announcement is new, so that it has to be resolved.
    mutating func add(_ name: String, interface: Int32, version: Int32, isLocal: Bool) -> Bool {
        let bytes = Array(name.utf8)
        gone.remove(bytes)
        if isLocal { local.insert(bytes) }
        return seen.insert(Array("\(interface) \(version) \(name)".utf8)).inserted
    }

    /// It was taken back.
    mutating func remove(_ name: String) { gone.insert(Array(name.utf8)) }

    /// One service for each name, with all its addresses.
    func services(_ found: [FoundService]) -> [FoundService] {
        var services: [[UInt8]: FoundService] = [:]
        for service in found {
            let name = Array(service.name.utf8)
            if services[name] == nil { services[name] = service } else { services[name]?.add(service) }
        }
        return services.filter { !gone.contains($0.key) }.map { name, service in
            var service = service
            service.isLocal = local.contains(name)
            return service
        }.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    }
}

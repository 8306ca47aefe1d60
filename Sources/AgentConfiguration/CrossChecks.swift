/// Checks across sections: unique names, and references to things that exist.
extension AgentSettings {
    func check(references reading: inout Reading) {
        reading.checkUnique(listeners.map(\.name), kind: "listener")
        reading.checkUnique(replicators.map(\.name), kind: "replicator")
        // Indexed: with tens of thousands of each, scanning lists would take minutes.
        var collections: [String: Set<CollectionReference>] = [:]
        for database in databases {
            collections[database.name.value] = Set(database.collections.map(\.value) + [.defaultCollection])
        }
        for (index, listener) in listeners.enumerated() {
            for database in listener.databases {
                _ = find(database, in: collections, "listeners[\(index)]", &reading)
            }
            let known = listener.databases.compactMap { collections[$0.value] }.reduce(into: Set()) { $0.formUnion($1) }
            for wanted in listener.collections where !known.contains(wanted.value) && reading.damaged.isEmpty {
                reading.problems.report(
                    at: wanted.position,
                    "listeners[\(index)]: none of its databases has the collection \(ValueQuoting.quoted(wanted.value.description))"
                        + NearestName.hint(for: wanted.value.description, among: known.map(\.description).sorted(), otherwise: "their collections"))
            }
        }
        for (index, replicator) in replicators.enumerated() where !replicator.database.value.isEmpty {
            let place = "replicators[\(index)]"
            guard let known = find(replicator.database, in: collections, place, &reading) else { continue }
            for entry in replicator.collections where !known.contains(entry.collection.value) {
                let wanted = entry.collection.value.description
                reading.problems.report(
                    at: entry.collection.position == .none ? replicator.position : entry.collection.position,
                    "\(place): the database \(ValueQuoting.quoted(replicator.database.value)) has no collection \(ValueQuoting.quoted(wanted))"
                        + NearestName.hint(for: wanted, among: known.map(\.description).sorted(), otherwise: "its collections"))
            }
        }
        checkFleet(collections, &reading)
        checkPorts(&reading)
        checkEndpoints(&reading)
        // If the configuration has other errors, these may be mere consequences.
        if reading.failures == 0 { checkCheckpoints(&reading) }
    }

    private func checkFleet(_ collections: [String: Set<CollectionReference>], _ reading: inout Reading) {
        guard let name = fleet?.database, !name.value.isEmpty, let known = find(name, in: collections, "fleet", &reading) else { return }
        guard let wanted = CollectionReference(parsing: "nightjar.fleet"), !known.contains(wanted) else { return }
        reading.problems.report(
            at: name.position, "fleet: the database \(ValueQuoting.quoted(name.value)) has no collection nightjar.fleet; add it to its \"collections\"")
    }

    /// An endpoint serves one listener; a local target must be a different database of this agent.
    private func checkEndpoints(_ reading: inout Reading) {
        var taken: [String: String] = [:]
        for listener in listeners {
            guard let endpoint = listener.endpoint, endpoint.value.scheme != .exec else { continue }
            if let other = taken.updateValue(listener.name.value, forKey: endpoint.value.path) {
                reading.problems.report(at: endpoint.position, "the endpoint of the listener \(ValueQuoting.quoted(listener.name.value)) is already that of "
                    + ValueQuoting.quoted(other))
            }
        }
        let known = Set(databases.map(\.name.value))
        for replicator in replicators where replicator.target.value.scheme == .local {
            let target = replicator.target
            if target.value.path == replicator.database.value {
                reading.problems.report(at: target.position, "the target is the replicator's own database")
            } else if !known.contains(target.value.path), !reading.damaged.contains(target.value.path) {
                reading.problems.report(
                    at: target.position, "the database \(ValueQuoting.quoted(target.value.path)) is not configured"
                        + NearestName.hint(for: target.value.path, among: known.sorted(), otherwise: "databases"))
            }
        }
    }

    /// The collections of a database; nil if there is none, or if its own section has errors and the list may be incomplete.
    private func find(
        _ name: Located<String>, in collections: [String: Set<CollectionReference>], _ place: String, _ reading: inout Reading
    ) -> Set<CollectionReference>? {
        // A section that exists but could not be read has already been reported.
        if reading.damaged.contains(name.value) { return nil }
        if let known = collections[name.value] { return known }
        reading.problems.report(
            at: name.position,
            "\(place): the database \(ValueQuoting.quoted(name.value)) is not configured"
                + NearestName.hint(for: name.value, among: databases.map(\.name.value), otherwise: "databases"))
        return nil
    }

    /// Two sockets cannot have the same port on the same address. If one listener names an interface and the other an address, only the system knows
    /// whether they conflict, and binding will show it.
    private func checkPorts(_ reading: inout Reading) {
        // By interface, with "" for the whole machine: each listener is looked up instead of being compared with all others.
        var taken: [Int: [String: String]] = [:]
        if let admin, admin.port.value != 0 { taken[admin.port.value] = [admin.address.value: "the admin port"] }
        for listener in listeners where listener.port.value != 0 && listener.endpoint == nil {
            let interface = listener.interface?.value ?? ""
            let port = listener.port.value
            if let other = taken[port]?[interface] ?? taken[port]?[""] ?? (interface.isEmpty ? taken[port]?.min { $0.value < $1.value }?.value : nil) {
                let position = listener.port.position == .none ? listener.position : listener.port.position
                reading.problems.report(
                    at: position,
                    "the port \(port) of the listener \(ValueQuoting.quoted(listener.name.value)) is already that of \(other)")
            }
            if taken[port]?[interface] == nil { taken[port, default: [:]][interface] = "the listener \(ValueQuoting.quoted(listener.name.value))" }
        }
    }
}

extension Reading {
    fileprivate mutating func checkUnique(_ names: [Located<String>], kind: String) {
        var seen: [String: SourcePosition] = [:]
        for name in names where !name.value.isEmpty {
            if let first = seen[name.value] {
                problems.report(
                    at: name.position,
                    "a \(kind) named \(ValueQuoting.quoted(name.value)) appears a second time; the first is at line \(first.line), column \(first.column)")
            } else {
                seen[name.value] = name.position
            }
        }
    }
}

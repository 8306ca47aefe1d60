import Agent
import Documents
import Synchronization
import TLS

/// What the collection of a fleet holds of which a gateway would believe the signature. Anybody who may write there can name any version, so
/// that ids alone say nothing.
struct PublishedVersions {
    private(set) var entries: [FleetDocument] = []
    /// Rightly signed by keys that do not count here.
    private(set) var others: [FleetDocument] = []
    /// Of every document, believed or not.
    private(set) var ids: [String] = []

    /// - Parameter keys: whose signatures count; nil for anybody's that is right.
    init(_ place: DocumentPlace, trusting keys: [VerifyingKey]?) async throws {
        let found = Mutex<[String]>([])
        try await place.list(includesDeleted: false) { line in
            if let id = try JSONValue(parsing: line)["id"]?.asString { found.withLock { $0.append(id) } }
        }
        ids = found.withLock { $0.sorted() }
        for id in ids where FleetItem.claim(id) != nil {
            guard let document = try? FleetDocument(verifying: Self.body(try await place.get(id)), id: id, trusting: nil), let key = document.key else { continue }
            if keys?.contains(key) ?? true { entries.append(document) } else { others.append(document) }
        }
    }

    /// As it was signed.
    static func body(_ bytes: [UInt8]) throws -> [UInt8] {
        guard case .object(var object) = try JSONValue(parsing: bytes) else { return bytes }
        for key in ["_id", "_rev"] { object[key] = nil }
        return JSONValue.object(object).serialize()
    }

    /// Whatever it is for; nil where none is believed.
    func highest(_ item: FleetItem) -> Int64? { entries.filter { $0.item == item }.map(\.version).max() }

    /// The one after it. An id that somebody has taken for a document that nobody believes is passed over.
    func next(_ item: FleetItem) -> Int64 {
        var version = (highest(item) ?? 0) + 1
        let taken = Set(ids)
        while taken.contains(item.id(version)) { version += 1 }
        return version
    }

    /// Why ``next(_:)`` passed over versions; nil where it did not.
    func passedOver(_ item: FleetItem, below version: Int64) -> String? {
        let first = (highest(item) ?? 0) + 1
        guard first < version else { return nil }
        let versions = first + 1 == version ? "version \(first) is" : "versions \(first) to \(version - 1) are"
        let keys = Set(others.filter { $0.item == item && (first..<version).contains($0.version) }.compactMap(\.key).map { "\($0)" }).sorted()
        return "\(versions) taken by what does not count here, \(keys.isEmpty ? "without a right signature" : "signed by \(keys.joined(separator: ", "))")"
    }
}

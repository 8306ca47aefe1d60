import Agent
import Documents
import Synchronization
import TLS

/// The documents in a fleet's collection whose signature a gateway would trust. Anybody with write permission can claim any version, so ids alone
/// mean nothing.
struct PublishedVersions {
    private(set) var entries: [FleetDocument] = []
    /// Validly signed, but by keys that are not trusted here.
    private(set) var others: [FleetDocument] = []
    /// Of every document, trusted or not.
    private(set) var ids: [String] = []

    /// - Parameter keys: the trusted keys; nil to accept any valid signature.
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

    /// The body as it was signed.
    static func body(_ bytes: [UInt8]) throws -> [UInt8] {
        guard case .object(var object) = try JSONValue(parsing: bytes) else { return bytes }
        for key in ["_id", "_rev"] { object[key] = nil }
        return JSONValue.object(object).serialize()
    }

    /// For any scope; nil if there is no trusted version.
    func highest(_ item: FleetItem) -> Int64? { entries.filter { $0.item == item }.map(\.version).max() }

    /// The following version. Skips ids that are taken by documents that nobody trusts.
    func next(_ item: FleetItem) -> Int64 {
        var version = (highest(item) ?? 0) + 1
        let taken = Set(ids)
        while taken.contains(item.id(version)) { version += 1 }
        return version
    }

    /// Why ``next(_:)`` skipped versions; nil if it did not.
    func passedOver(_ item: FleetItem, below version: Int64) -> String? {
        let first = (highest(item) ?? 0) + 1
        guard first < version else { return nil }
        let versions = first + 1 == version ? "version \(first) is" : "versions \(first) to \(version - 1) are"
        let keys = Set(others.filter { $0.item == item && (first..<version).contains($0.version) }.compactMap(\.key).map { "\($0)" }).sorted()
        return "\(versions) taken by what does not count here, \(keys.isEmpty ? "without a right signature" : "signed by \(keys.joined(separator: ", "))")"
    }
}

import Agent
import Documents
import Encodings
import NIOCore

// The blobs of a database, shared by all its collections.
extension DocumentPlace {
    private static func path(_ name: String, _ digest: String? = nil) -> String {
        "/api/databases/\(PercentEncoding.encode(name))/blobs" + (digest.map { "/\(PercentEncoding.encode($0))" } ?? "")
    }

    /// Stores a blob; returns `{"digest", "length"}`.
    ///
    /// - Parameter expected: the digest that the bytes must have; otherwise nothing is stored.
    func putBlob(expecting expected: String? = nil, _ next: @escaping @Sendable () throws -> ByteBuffer?) async throws -> JSONValue {
        switch self {
        case .agent(let client, let name):
            try await client.send(Self.path(name) + (expected.map { "?digest=\(PercentEncoding.encode($0))" } ?? "")) { try next() }
        case .folder(let access): try await BlobAccess(access.database).put(expecting: expected) { try next() }
        }
    }

    /// `{"digest", "length", "referenced"}` of a blob; nil if there is none.
    func blobFacts(_ digest: String) async throws -> JSONValue? {
        do {
            switch self {
            case .agent(let client, let name): return try await client.request("GET", Self.path(name, digest) + "?facts=true")
            case .folder(let access): return try await BlobAccess(access.database).facts(digest)
            }
        } catch let error as AgentError where error.kind == .notFound { return nil }
    }

    /// The bytes of a blob, in pieces.
    func blob(_ digest: String, _ write: @escaping @Sendable (ByteBuffer) throws -> Void) async throws {
        switch self {
        case .agent(let client, let name): try await client.receive(Self.path(name, digest)) { try write($0) }
        case .folder(let access): try await BlobAccess(access.database).open(digest).each { try write($0) }
        }
    }

    /// Each blob as a line of JSON: `{"digest", "length", "referenced"}`.
    func blobs(_ each: @escaping @Sendable ([UInt8]) throws -> Void) async throws {
        switch self {
        case .agent(let client, let name): try await client.rows(Self.path(name), each)
        case .folder(let access): try await BlobAccess(access.database).each { for row in $0 { try each(row.serialize()) } }
        }
    }
}

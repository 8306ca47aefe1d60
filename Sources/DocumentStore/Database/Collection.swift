import Documents

/// A collection of one open database: a handle, cheap to copy and to compare.
public struct Collection: Sendable, Hashable {
    /// Number of the collection's tables; stable for the life of the database.
    public let id: Int
    public let name: CollectionName

    init(id: Int, name: CollectionName) {
        self.id = id
        self.name = name
    }

    public static func == (a: Collection, b: Collection) -> Bool { a.id == b.id && a.name == b.name }
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

/// A peer whose last known revisions are remembered. Created by `WriteTransaction.remoteID(for:)`.
public struct RemoteID: Sendable, Hashable {
    public let number: Int64
    public init(_ number: Int64) { self.number = number }
}

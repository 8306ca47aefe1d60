import Documents
import Interfaces

/// A verdict that can be compared with a candidate's.
protocol ComparedVerdict: Sendable {
    /// The input that the verdict is about.
    associatedtype Asked: Sendable

    static func id(of asked: Asked) -> DocumentID
    /// Memory that the input takes while it waits, in bytes.
    static func bytes(of asked: Asked) -> Int
    /// The same for the verdict, which waits with it.
    var bytes: Int { get }
    /// Nil if it is an answer.
    var failure: PolicyFailure? { get }
    var words: String { get }
    /// What each verdict has that the other has not, in words; nil if switching to the candidate would change nothing.
    func difference(from candidate: Self) -> (serving: String, candidate: String)?
}

extension PolicyFailure {
    fileprivate var words: String { "\(kind): \(message)" }
}

extension ComparedVerdict {
    /// The result of comparing this verdict, which is in effect, with a candidate's.
    func finding(_ candidate: Self, about asked: Asked, in collection: CollectionName) -> ShadowFinding {
        let id = Self.id(of: asked)
        if let failure = candidate.failure {
            return ShadowFinding(.failed, id: id, collection: collection, serving: words, candidate: failure.words)
        }
        guard let difference = difference(from: candidate) else { return ShadowFinding(.same, id: id, collection: collection) }
        return ShadowFinding(.different, id: id, collection: collection, serving: difference.serving, candidate: difference.candidate)
    }
}

extension FilterVerdict: ComparedVerdict {
    static func id(of asked: PolicyDocument) -> DocumentID { asked.id }
    static func bytes(of asked: PolicyDocument) -> Int { asked.body.count + 256 }
    var bytes: Int { if case .replace(let body) = self { body.count } else { 0 } }

    var failure: PolicyFailure? { if case .failed(let failure) = self { failure } else { nil } }

    var words: String {
        switch self {
        case .pass: "passes"
        case .replace: "passes, changed"
        case .reject: "rejected"
        case .failed(let failure): "failed: \(failure.words)"
        }
    }

    func difference(from candidate: FilterVerdict) -> (serving: String, candidate: String)? {
        if self == candidate { return nil }
        return (serving: words, candidate: candidate.words)
    }
}

extension SyncVerdict: ComparedVerdict {
    static func id(of asked: SyncRequest) -> DocumentID { asked.document.id }
    static func bytes(of asked: SyncRequest) -> Int { asked.document.body.count + (asked.old?.body.count ?? 0) + 512 }
    var bytes: Int {
        switch self {
        case .accepted(let assignment): assignment.bytes
        case .rejected(let reason): reason.utf8.count
        case .failed: 0
        }
    }

    var failure: PolicyFailure? { if case .failed(let failure) = self { failure } else { nil } }

    var words: String {
        switch self {
        case .accepted: "accepted"
        case .rejected(let reason): "rejected: \(reason)"
        case .failed(let failure): "failed: \(failure.words)"
        }
    }

    func difference(from candidate: SyncVerdict) -> (serving: String, candidate: String)? {
        switch (self, candidate) {
        // The write is refused, whatever the reason.
        case (.rejected, .rejected): return nil
        case (.accepted(let serving), .accepted(let other)): return serving.difference(from: other)
        default: return (serving: words, candidate: candidate.words)
        }
    }

    /// The same without assignments, for a place where only the decision about the write itself matters: there are no channels there.
    var withoutAssignment: SyncVerdict { if case .accepted = self { .accepted(SyncAssignment()) } else { self } }
}

extension SyncAssignment {
    /// Tolerance in seconds. A candidate is called later, so an expiry relative to the current time is later too.
    private static let sameExpiry: Int64 = 60

    fileprivate func difference(from candidate: SyncAssignment) -> (serving: String, candidate: String)? {
        var parts: [(serving: String, candidate: String)] = []
        if !Self.isSame(channels, candidate.channels) { parts.append((Self.words("channels", channels), Self.words("channels", candidate.channels))) }
        for (what, own, other) in [("access of", access, candidate.access), ("roles of", roles, candidate.roles)] {
            for user in Set(own.keys).union(other.keys).sorted() where !Self.isSame(own[user] ?? [], other[user] ?? []) {
                parts.append((Self.words("\(what) \(user)", own[user] ?? []), Self.words("\(what) \(user)", other[user] ?? [])))
            }
        }
        if !isApproximatelyEqual(expiry, candidate.expiry) { parts.append((Self.words(expiry), Self.words(candidate.expiry))) }
        if parts.isEmpty { return nil }
        return (serving: parts.map(\.serving).joined(separator: "; "), candidate: parts.map(\.candidate).joined(separator: "; "))
    }

    /// Memory of its names, with the overhead of lists and keys for each.
    fileprivate var bytes: Int {
        func size(_ names: [String]) -> Int { names.reduce(0) { $0 + $1.utf8.count + 48 } }
        func sizes(_ lists: [String: [String]]) -> Int { lists.reduce(0) { $0 + size([$1.key]) + size($1.value) } }
        return size(channels) + sizes(access) + sizes(roles)
    }

    /// Names are compared by their bytes: two ways to compose a character make two names.
    private static func isSame(_ names: [String], _ others: [String]) -> Bool { Set(names.map { Array($0.utf8) }) == Set(others.map { Array($0.utf8) }) }

    private func isApproximatelyEqual(_ one: Int64?, _ other: Int64?) -> Bool {
        guard let one, let other else { return one == other }
        let (distance, isHuge) = one.subtractingReportingOverflow(other)
        return !isHuge && distance.magnitude <= Self.sameExpiry.magnitude
    }

    private static func words(_ what: String, _ names: [String]) -> String {
        "\(what): \(names.isEmpty ? "none" : Set(names).sorted().joined(separator: ", "))"
    }

    private static func words(_ expiry: Int64?) -> String { expiry.map { "expires at \($0)" } ?? "never expires" }
}

import Documents
import Interfaces
import NIOCore

/// An optional filter, followed by a transform of what passes.
///
/// To the engine both are one filter: a document on which the transform fails is held like one on which the filter fails, and is retried when another
/// version of either comes into force.
public struct TransformingFilter: DocumentFilter {
    private let filter: (any DocumentFilter)?
    private let transform: any DocumentTransform
    private let limits: ReplicationLimits
    private let unusualKeys: Bool

    /// - Parameter unusualKeys: what the database allows, see `DatabaseOptions.unusualKeys`.
    public init(
        _ filter: (any DocumentFilter)?, _ transform: any DocumentTransform, limits: ReplicationLimits = .init(), unusualKeys: Bool = false
    ) {
        self.unusualKeys = unusualKeys
        self.filter = filter
        self.transform = transform
        self.limits = limits
    }

    /// Both names, as in `filter+transform`; without a filter, only the transform's.
    public var pluginName: String { filter.map { "\($0.pluginName)+\(transform.pluginName)" } ?? transform.pluginName }
    /// Both versions, as in ``pluginName``: that of the filter, then that of the transform. It changes when either does.
    public var version: String { filter.map { "\($0.version)+\(transform.version)" } ?? transform.version }
    public var changesBodies: Bool { true }
    public func versionChanges() -> AsyncStream<String> { transform.versionChanges() }
    public func allVersionChanges() -> [AsyncStream<String>] { (filter?.allVersionChanges() ?? []) + [transform.versionChanges()] }

    public func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        var verdicts: [FilterVerdict] = await filter?.verdicts(documents, context) ?? documents.map { _ in .pass }
        // A removal of access has no body.
        let places = documents.indices.filter { verdicts[$0] == .pass && !documents[$0].accessRemoved }
        guard !places.isEmpty else { return verdicts }
        var results = (await transform.transform(places.map { documents[$0] }, context)).makeIterator()
        for place in places {
            switch results.next() {
            case .same: break
            case .changed(let body): verdicts[place] = checked(body, documents[place])
            case .failed(let failure): verdicts[place] = .failed(failure)
            case nil: verdicts[place] = failure("the transform gave no result for this document")
            }
        }
        return verdicts
    }

    /// A plugin's output is checked like input from a peer.
    private func checked(_ body: [UInt8], _ document: PolicyDocument) -> FilterVerdict {
        guard body.count <= limits.maximumDocumentBytes else {
            return failure("the transformed document has \(body.count) bytes, max_document_bytes is \(limits.maximumDocumentBytes)")
        }
        if let problem = attachmentsProblem(body, document) { return failure("what it made cannot travel: \(problem)") }
        let revision = ReceivedRevision(
            replyTo: nil, id: document.id, revision: document.revision, history: [], isDeleted: document.isDeleted, sequence: nil,
            body: ByteBuffer(bytes: body))
        switch RevisionChecking.check([revision], unusualKeys: unusualKeys).first {
        case .checked(let checked) where checked.isRemoval: return failure("the transformed document has a member _removed")
        case .checked(let checked): return .replace(checked.body)
        case .refused(_, let error): return failure("what it made cannot travel: \(error.message)")
        case nil: return failure("the transformed document was not checked")
        }
    }

    /// Anything in a peer's `_attachments` is accepted, and a transform may pass it on. What the transform creates itself has to be valid.
    private func attachmentsProblem(_ body: [UInt8], _ document: PolicyDocument) -> String? {
        guard let scan = try? JSONScanner.scanDocument(body, unusualKeys: unusualKeys), scan.hasReservedKeys,
            let made = (try? JSONValue(stored: body))?.asObject, let problem = ReservedKeys.attachmentsProblem(in: made)
        else { return nil }
        let given = (try? JSONValue(stored: document.body))?["_attachments"]
        return made["_attachments"] == given ? nil : problem
    }

    private func failure(_ message: String) -> FilterVerdict {
        .failed(PolicyFailure(plugin: transform.pluginName, version: transform.version, kind: "plugin_result", message: message))
    }
}

extension OutgoingDocument {
    /// It is sent with another body than the stored one.
    mutating func replaceBody(_ new: [UInt8]) {
        self.body = new
        self.blobs = ((try? BlobReferences.find(in: new)) ?? []).map(\.digest)
    }
}

extension CheckedRevision {
    /// It is stored with another body than the received one.
    mutating func replaceBody(_ new: [UInt8]) {
        self.body = new
        self.blobs = (try? BlobReferences.find(in: new)) ?? []
    }
}

import Documents
import Environment
import Interfaces

/// A revision whose attachments have yet to be requested: it was held because they could not be obtained, or the filter let it pass.
struct HeldFetch: Sendable {
    var fetch: FetchID
    var revision: CheckedRevision
}

/// Pull: attachments of documents that are already here are fetched a few documents at a time, alongside new changes.
extension CouchDialect {
    func fetchAttachments(_ fetch: FetchID, _ revision: CheckedRevision) {
        state.withLock { $0.held.append(HeldFetch(fetch: fetch, revision: revision)) }
        fetchNextAttachments()
    }

    /// Starts the next ones, as many as may be in progress.
    func fetchNextAttachments() {
        while let next = nextHeld() {
            run { dialect in
                let (body, bytes) = try await dialect.fetchedAttachments(next.revision)
                dialect.tell([.pull(slot: 0, .insertion(.attachmentsFetched(next.fetch, body, bytes: bytes)))])
            } finally: {
                $0.attachmentFetches -= 1
            }
        }
    }

    private func nextHeld() -> HeldFetch? {
        state.withLock { state in
            guard !state.isOver, state.attachmentFetches < CouchBounds.fetches, !state.held.isEmpty else { return nil }
            state.attachmentFetches += 1
            return state.held.removeFirst()
        }
    }

    /// - Returns: the body with our names for them, and the size of the largest if there is no room for them.
    private func fetchedAttachments(_ revision: CheckedRevision) async throws -> (Result<[UInt8], ReplicationError>, bytes: Int) {
        var largest = 0
        do {
            // Its values are released while the attachments are fetched, which may take long.
            let named = try await document(of: revision) { document in
                (document.content, document.text) = (JSONObject(), nil)
                return document
            }
            largest = named.largestAttachment
            let attachments = try await withAttachments(named, named.history, butNot: revision.addedBlobs).attachments
            let whole = try await document(of: revision) { document in
                document.attachments = attachments
                return [UInt8](document.body.readableBytesView)
            }
            return (.success(whole), 0)
        } catch {
            let failure = try failure(of: error)
            return (.failure(failure), failure.isOutOfSpace ? largest : 0)
        }
    }

    /// Extracts something from the document, whose memory is accounted for while `look` runs.
    private func document<T>(of revision: CheckedRevision, _ look: (inout FoundDocument) throws -> T) async throws -> T {
        let bytes = revision.body.count
        let room = await memory.reserve(min(bytes > DriverBounds.smallBodyBytes ? 2 * bytes : JSONTreeSize.bytes(of: revision.body), memory.workLimit))
        return try withExtendedLifetime(room) {
            var document = try FoundDocument(held: revision)
            return try look(&document)
        }
    }
}

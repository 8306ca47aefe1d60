import Documents
import Environment
import Interfaces

/// A revision that was held because its attachments could not be had or taken.
struct HeldFetch: Sendable {
    var fetch: FetchID
    var revision: CheckedRevision
}

/// Pull: what was held for its attachments is tried again, one after the other, beside what is new. The document itself is here.
extension CouchDialect {
    func bring(_ fetch: FetchID, _ revision: CheckedRevision) {
        state.withLock { $0.held.append(HeldFetch(fetch: fetch, revision: revision)) }
        bringNext()
    }

    /// Begins with the next one, if none is under way.
    func bringNext() {
        let next = state.withLock { state -> HeldFetch? in
            guard !state.isOver, !state.brings, !state.held.isEmpty else { return nil }
            state.brings = true
            return state.held.removeFirst()
        }
        guard let next else { return }
        run { dialect in
            let body = try await dialect.attachmentsBrought(next.revision)
            dialect.tell([.pull(slot: 0, .insertion(.attachmentsBrought(next.fetch, body)))])
        } finally: {
            $0.brings = false
        }
    }

    private func attachmentsBrought(_ revision: CheckedRevision) async throws -> Result<[UInt8], ReplicationError> {
        let room = await memory.reserve(min(JSONTreeSize.bytes(of: revision.body), memory.workLimit))
        defer { withExtendedLifetime(room) {} }
        do {
            let document = try FoundDocument(held: revision)
            return .success([UInt8](try await withAttachments(document, document.history).body.readableBytesView))
        } catch {
            return .failure(try failure(of: error))
        }
    }
}

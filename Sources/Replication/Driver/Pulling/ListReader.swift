import Documents
import DocumentStore
import Environment
import Interfaces
import NIOCore

/// Parses the change lists that a peer sends.
struct ListReader {
    let session: SessionDriver

    /// Parsed rows are many times the size of their text, and are kept until the store has answered about all of them. Memory is reserved before
    /// parsing, as many other lists may be parsed at the same time; until then, the text waits.
    func readList(_ list: IncomingList, _ link: CollectionLink) {
        switch list.content {
        case .rows(let rows): session.tell(link, pull: .listRead(.success(rows)))
        case .text(let body) where session.isPassive && body.readableBytes > DriverBounds.smallListBytes: readWhenItFits(body, link, looks: 0)
        case .text(let body): readNow(body, link, nil)
        }
    }

    private func readWhenItFits(_ body: ByteBuffer, _ link: CollectionLink, looks: Int) {
        if let room = session.memory.reserveNow(Self.rowBytes(body)) { return readNow(body, link, room) }
        let slot = link.slot
        guard looks < DriverBounds.listRoomChecks else {
            let message = "no memory for a list of \(body.readableBytes) bytes within limits.memory (\(session.memory.limit)); come back later"
            return session.tell(link, pull: .listRead(.failure(.busy(message))))
        }
        session.later(milliseconds: DriverBounds.listRoomMilliseconds) { $0.lists.readWhenItFits(body, $0.links[slot], looks: looks + 1) }
    }

    /// Approximate memory of the rows: each starts with a bracket.
    private static func rowBytes(_ body: ByteBuffer) -> Int {
        let rows = body.readableBytesView.reduce(0) { $0 + ($1 == UInt8(ascii: "[") ? 1 : 0) }
        return (rows * HeldBytes.row + body.readableBytes) / 4 * 5
    }

    /// Long lists are parsed elsewhere: megabytes of JSON must not block the other connections of an event loop.
    private func readNow(_ body: ByteBuffer, _ link: CollectionLink, _ room: MemoryBudget.Reservation?) {
        let (slot, isPassive, naming, limits) = (link.slot, session.isPassive, session.naming, session.limits)
        @Sendable func rows() -> Result<ListRows, ReplicationError> {
            let bytes = [UInt8](body.readableBytesView)
            return Result { () throws(MessageError) in
                isPassive
                    ? .proposed(try ChangeRows.readProposals(bytes, naming: naming, limits: limits))
                    : .offered(try ChangeRows.readChanges(bytes, naming: naming, limits: limits))
            }.mapError { ReplicationError($0) }
        }
        if body.readableBytes <= session.limits.inlineListBytes { return session.tell(link, pull: .listRead(rows())) }
        session.ask(atLength: true) { rows() } then: { session, rows in
            // From here on the accounts of the session include the rows.
            withExtendedLifetime(room) { session.tell(session.links[slot], pull: .listRead(rows)) }
        }
    }
}

import Documents
import DocumentStore
import Environment
import Interfaces
import NIOCore

/// Parses the change lists that a peer sends.
struct ListReader {
    let driver: SessionDriver

    /// Parsed rows are many times the size of their text, and are kept until the store has answered about all of them. Memory is reserved before
    /// parsing, as many other lists may be parsed at the same time; until then, the text waits.
    func readList(_ list: IncomingList, _ link: CollectionLink) {
        switch list.content {
        case .rows(let rows): driver.tell(link, pull: .listRead(.success(rows)))
        case .text(let body, let read):
            let text = Text(body: body, read: read)
            guard driver.isPassive, body.readableBytes > DriverBounds.smallListBytes else { return readNow(text, link, nil) }
            readWhenItFits(text, link, attempts: 0)
        }
    }

    private struct Text: Sendable {
        var body: ByteBuffer
        var read: @Sendable (ByteBuffer) -> Result<ListRows, ReplicationError>
    }

    private func readWhenItFits(_ text: Text, _ link: CollectionLink, attempts: Int) {
        if let reservation = driver.memory.reserveNow(Self.rowBytes(text.body)) { return readNow(text, link, reservation) }
        let slot = link.slot
        guard attempts < DriverBounds.listRoomChecks else {
            let message = "no memory for a list of \(text.body.readableBytes) bytes within limits.memory (\(driver.memory.limit)); come back later"
            return driver.tell(link, pull: .listRead(.failure(.busy(message))))
        }
        driver.later(milliseconds: DriverBounds.listRoomMilliseconds) { $0.lists.readWhenItFits(text, $0.links[slot], attempts: attempts + 1) }
    }

    /// Approximate memory of the rows: each starts with a bracket.
    private static func rowBytes(_ body: ByteBuffer) -> Int {
        let rows = body.readableBytesView.reduce(0) { $0 + ($1 == UInt8(ascii: "[") ? 1 : 0) }
        return (rows * HeldBytes.row + body.readableBytes) / 4 * 5
    }

    /// Long lists are parsed elsewhere: megabytes of JSON must not block the other connections of an event loop.
    private func readNow(_ text: Text, _ link: CollectionLink, _ reservation: MemoryBudget.Reservation?) {
        let slot = link.slot
        if text.body.readableBytes <= driver.limits.inlineListBytes { return driver.tell(link, pull: .listRead(text.read(text.body))) }
        driver.ask(atLength: true) { text.read(text.body) } then: { driver, rows in
            // From here on the accounts of the session include the rows.
            withExtendedLifetime(reservation) { driver.tell(driver.links[slot], pull: .listRead(rows)) }
        }
    }
}

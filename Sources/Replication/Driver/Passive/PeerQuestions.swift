import Documents
import DocumentStore
import Environment
import Interfaces

/// A reservation for an answer that is about to be read.
private struct AnswerReservation: Sendable {
    var bytes: Int
    var reservation: MemoryBudget.Reservation

    init?(_ bytes: Int, _ memory: MemoryBudget) {
        guard let reservation = memory.reserveNow(bytes) else { return nil }
        (self.bytes, self.reservation) = (bytes, reservation)
    }
}

/// The outcome of reading for an answer.
private enum AnswerReading<T: Sendable>: Sendable {
    case read(T, AnswerReservation?)
    /// This many bytes have to be free first.
    case needs(Int)
}

/// A peer's questions and their answers.
final class PeerQuestions {
    private unowned let driver: SessionDriver
    private(set) var waiting = PassiveRequests()

    init(_ driver: SessionDriver) { self.driver = driver }

    /// Serves waiting requests one at a time, and no faster than the peer reads the answers.
    ///
    /// Even a peer without push access may store checkpoints: a refusal would stop Couchbase Lite permanently, and without a checkpoint it would pull
    /// everything again on each connection. What it can store is bounded, and belongs to it alone.
    func servePassiveRequests() {
        guard case .passive(let passive) = driver.role, !waiting.isEmpty else { return }
        guard driver.dialect.owedBytes <= mayOwe, let request = waiting.next() else { return }
        serve(request, passive)
    }

    /// While memory is short, a peer that has not read its replies gets no more of them.
    private var mayOwe: Int {
        driver.accounts.standing == .crowded || driver.dialect.owedBytes > 0 && driver.memory.isShort ? 0 : driver.limits.owedReplyBytes
    }

    /// Requests wait for the peer to read the answers to earlier ones: at the end of a turn, that is the case whenever none is being served. Whether
    /// more may be owed by now is another matter, as memory comes and goes while a turn lasts: the next one serves them.
    var waitForReader: Bool { waiting.count > 0 && !waiting.isServing }

    private func serve(_ request: PassiveRequests.Request, _ passive: PassiveConfiguration, _ reservation: AnswerReservation? = nil, attempts: Int = 0) {
        let owner = passive.checkpointOwner
        switch request {
        case .checkpoint(let handle, let id):
            readAnswer(for: request, handle, reservation, attempts) {
                try $0.peerCheckpointSize(owner, id: id) ?? 0
            } body: {
                try $0.peerCheckpoint(owner, id: id)
            } then: {
                $0.dialect.answer(handle, checkpoint: $1)
            }
        case .setCheckpoint(let handle, let id, let body, let expected):
            let bounds = passive.checkpointBounds
            driver.write { try $0.setPeerCheckpoint(owner, id: id, body: body, expectedRevision: expected, within: bounds) } then: {
                $0.dialect.answer(handle, savedCheckpoint: $1)
                $0.questions.served()
            } failed: { driver, error in
                guard case StoreError.checkpointConflict? = error as? StoreError else { return driver.questions.storeFailed(handle, error) }
                driver.dialect.refuse(handle, .conflict("the checkpoint was changed meanwhile"))
                driver.questions.served()
            }
        case .collections(let handle, let ids, let found):
            // A name may be asked for a thousand times; beyond the limit the answer is "none", which only costs the peer time.
            let limit = driver.limits.owedReplyBytes
            readAnswer(for: request, handle, reservation, attempts) { transaction in
                var bytes = 0
                for (id, isFound) in zip(ids, found) where isFound && bytes < limit {
                    bytes += try transaction.peerCheckpointSize(owner, id: id) ?? 0
                }
                return bytes
            } body: { transaction -> [StoredCheckpoint??] in
                var bytes = 0
                return try zip(ids, found).map { id, isFound -> StoredCheckpoint?? in
                    guard isFound else { return .none }
                    let stored = bytes < limit ? try transaction.peerCheckpoint(owner, id: id) : nil
                    bytes += stored?.body.count ?? 0
                    return .some(stored)
                }
            } then: {
                $0.dialect.answer(handle, collections: $1)
            }
        }
    }

    /// Reads for an answer. A thousand connections may do so at the same moment, before any answer is accounted for: so memory is reserved before the
    /// answer is read, and kept until the accounts include it.
    ///
    /// - Parameter reservation: the reservation that the request waited for.
    /// - Parameter size: number of bytes that will be read.
    private func readAnswer<T: Sendable>(
        for request: PassiveRequests.Request, _ handle: AnswerHandle?, _ reservation: AnswerReservation?, _ attempts: Int,
        size measure: @escaping @Sendable (ReadTransaction) throws -> Int, body: @escaping @Sendable (ReadTransaction) throws -> T,
        then: @escaping @Sendable (SessionDriver, T) -> Void
    ) {
        let memory = driver.memory
        driver.read { transaction -> AnswerReading<T> in
            let size = try measure(transaction)
            if size <= DriverBounds.smallAnswerBytes { return .read(try body(transaction), nil) }
            // For the data read and the message made from it. If that could never be reserved, it is read once everything that work may use is
            // reserved.
            let needed = min(2 * size, memory.workLimit)
            var reservation = reservation
            if reservation.map({ $0.bytes < needed }) ?? true { reservation = AnswerReservation(needed, memory) }
            guard let reservation else { return .needs(needed) }
            return .read(try body(transaction), reservation)
        } then: { driver, reading in
            switch reading {
            case .read(let found, let reservation):
                then(driver, found)
                driver.questions.served(reservation?.reservation)
            case .needs(let bytes): driver.questions.waitForMemory(bytes, request, handle, attempts: attempts)
            }
        } failed: { $0.questions.storeFailed(handle, $1) }
    }

    /// Only this peer's requests wait in the meantime.
    private func waitForMemory(_ bytes: Int, _ request: PassiveRequests.Request, _ handle: AnswerHandle?, attempts: Int) {
        guard attempts < DriverBounds.answerRoomChecks else {
            let message = "no memory for an answer that takes \(bytes) bytes within limits.memory (\(driver.memory.limit)); come back later"
            driver.dialect.refuse(handle, .notNow(message))
            return served()
        }
        driver.later(milliseconds: DriverBounds.answerRoomMilliseconds) { driver in
            guard case .passive(let passive) = driver.role else { return }
            guard let reservation = AnswerReservation(bytes, driver.memory) else {
                return driver.questions.waitForMemory(bytes, request, handle, attempts: attempts + 1)
            }
            driver.questions.serve(request, passive, reservation, attempts: attempts + 1)
        }
    }

    /// The store could not answer a peer's question.
    private func storeFailed(_ handle: AnswerHandle?, _ error: any Error) {
        driver.log(error)
        driver.dialect.refuse(handle, .busy)
        served()
    }

    /// Queues a request. One that needs much memory is refused if there is not enough: a peer may send many requests before it has read the first
    /// answer, each only a few bytes long, and memory for work of ours is not charged to any peer.
    func take(_ request: PassiveRequests.Request, _ handle: AnswerHandle?) {
        guard waiting.count < driver.limits.queuedRequests else { return driver.dialect.refuse(handle, .tooManyQueued(driver.limits.queuedRequests)) }
        let bytes = waiting.bytes + request.bytes
        guard bytes <= DriverBounds.smallRequestBytes || driver.memory.hasRoom(for: bytes) else {
            let message = "no memory for requests of \(bytes) bytes within limits.memory (\(driver.memory.limit)); come back later"
            return driver.dialect.refuse(handle, .notNow(message))
        }
        waiting.append(request)
    }

    /// The answer is now included in what the session holds.
    ///
    /// - Parameter reservation: its reservation.
    private func served(_ reservation: MemoryBudget.Reservation? = nil) { waiting.served(reservation) }

    /// Releases the reservations of answers that the accounts include.
    func releaseAnswerReservations() { _ = waiting.takeReservations() }

    func end() { waiting = PassiveRequests() }
}

import Documents
import DocumentStore
import Testing

@testable import Replication

/// A revision of ours and one of the peer's cross on the wire, and the conflict is decided here for the peer's, while the peer reads ours.
@Suite struct CrossedRevisionTests {
    private let ended = RevisionTree.end(of: rev("1-a"))

    /// When the peer's revision is stored here.
    enum Order: CaseIterable { case beforeTheAnswer, inFlight, afterTheAcknowledgement }

    /// Our document was acknowledged, and the peer's revision 2-x is the current one here.
    private func crossed(_ order: Order, peerHad: PeerRevision = .none) throws -> PushRun {
        var push = PushRun(pulls: true)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        let list = try #require(push.list)
        push.on(.read(end(1)))
        func store() { push.on(.pulled([(doc("a"), rev("2-x"))], peerHad: [peerHad])) }
        func feed() {
            // The decision is read as the peer's own.
            push.on(.storeChanged(newest: 3))
            var page = end(3)
            page.known = [.init(id: doc("a"), sequence: 3, version: rev("2-x"))]
            push.on(.read(page))
        }
        if order == .beforeTheAnswer { store() }
        push.on(.answered(list, [.wanted(known: [])]))
        if order == .inFlight { store() }
        if order != .afterTheAcknowledgement { feed() }
        push.on(.acknowledged(doc("a")))
        if order == .afterTheAcknowledgement {
            store()
            feed()
        }
        return push
    }

    @Test(arguments: Order.allCases)
    func thePeerIsToldThatOurBranchIsOver(_ order: Order) throws {
        var push = try crossed(order)
        push.on(.readAgain([doc("a")], [outgoing("a", 3, "2-x", peer: "1-a")]))
        guard case .offer(let list, let offered)? = push.last.first(where: { if case .offer = $0 { true } else { false } }) else {
            Issue.record("nothing is offered: \(push.last.map(\.words))")
            return
        }
        #expect(offered.map(\.version) == [ended] && offered.first?.peerVersion == rev("1-a") && offered.first?.isDeleted == true)
        push.on(.answered(list, [.wanted(known: [rev("1-a")])]))
        push.on(.acknowledged(doc("a")))
        // The document itself follows.
        push.on(.readAgain([doc("a")], [outgoing("a", 3, "2-x", peer: "\(ended)")]))
        push.on(.answered(try #require(push.list), [.has]))
        #expect(push.batch?.marks.last?.version == rev("2-x"))
        #expect(push.machine.isIdle && push.isClean && push.counts.failed == 0 && push.machine.ledger.completedThrough == 3)
    }

    /// Refused as soon as it is offered, or when it arrives.
    @Test(arguments: [nil, 409, 404] as [Int?])
    func whatThePeerDoesNotTakeIsNotOfferedAgain(_ code: Int?) throws {
        var push = try crossed(.inFlight)
        push.on(.readAgain([doc("a")], [outgoing("a", 3, "2-x", peer: "1-a")]))
        let list = try #require(push.list)
        if let code {
            push.on(.answered(list, [.wanted(known: [])]))
            push.on(.refused(doc("a"), http(code)))
        } else {
            push.on(.answered(list, [.conflict(current: rev("3-y"))]))
        }
        #expect(push.last.map(\.words).contains("again a"))
        push.on(.readAgain([doc("a")], [outgoing("a", 3, "2-x", peer: "1-a")]))
        #expect(push.last.map(\.words).contains("offer a@2-x"))
        push.on(.answered(try #require(push.list), [.has]))
        #expect(push.machine.isIdle && push.counts.failed == 0)
    }

    /// The peer offered its revision when it had ours: it has moved on.
    @Test func aLaterRevisionOfThePeersSupersedesOurs() throws {
        var push = try crossed(.afterTheAcknowledgement, peerHad: .had(rev("1-a")))
        #expect(!push.last.map(\.words).contains("again a"))
        push.on(.recordNow)
        #expect(push.batch == nil || push.batch?.marks.isEmpty == true)
    }

    /// The peer's deletion comes after its document, and was offered before it had ours as well: the store takes it for what the peer has now.
    @Test func ofTwoRevisionsTheLaterOneIsKnown() throws {
        var push = try crossed(.inFlight)
        push.on(.recordNow)
        while let batch = push.batch { push.on(.noted(batch)) }
        push.on(.pulled([(doc("a"), rev("3-x"))], peerHad: [.had(rev("2-x"))]))
        push.on(.readAgain([doc("a")], [outgoing("a", 4, "3-x", peer: "1-a")]))
        #expect(push.last.map(\.words).contains("offer a@\(ended)"), "\(push.last.map(\.words))")
    }
}

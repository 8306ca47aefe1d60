import Documents
import DocumentStore
import Testing

@testable import Replication

/// A peer has gone back to a revision that is here and no longer current: it came to it through others, which decided differently. Neither side would
/// hear from the other again.
@Suite struct GoneBackTests {
    /// A push of `a` alone, which the remote has answered.
    private func answered(_ answer: OfferAnswer, isPullComplete: Bool = false) throws -> PushRun {
        var push = PushRun(pulls: true)
        push.start()
        push.on(.pullIsComplete(isPullComplete))
        push.on(.read(page(outgoing("a", 1, "2-b"))))
        let list = try #require(push.list)
        push.on(.read(end(1)))
        push.on(.answered(list, [answer]))
        return push
    }

    @Test("a remote that offers what is not current here any more is offered what is, and what it insists on is requested")
    func offered() {
        var pull = PullRun()
        func offer(_ sequence: Int, _ needs: [RevisionNeed]) -> [String] {
            pull.on(.listArrived(offeredList))
            pull.on(.listRead(.success(.offered([.row(row(sequence, "a"))]))))
            return pull.on(.missing(needs))
        }
        #expect(offer(1, [.have]) == ["answer -"])
        #expect(offer(2, [.haveEarlier]) == ["tell push of known a@1-a", "answer -"])
        // Its name is known here, but not all that comes with it.
        #expect(offer(3, [.haveEarlier]) == ["answer +"])
        #expect(pull.counts.failed == 0)
    }

    @Test("what the store knows the remote to have is left aside, and each of its revisions counts a few times only")
    func proposed() throws {
        var push = try answered(.has)
        for _ in 0..<ReplicationLimits().offersPerDocument {
            #expect(push.on(.alreadyHere([(doc("a"), rev("1-a"))])).contains("again a"))
            push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-b", peer: "1-a")]))
            let list = try #require(push.list)
            #expect(push.last.map(\.words).contains("offer a@2-b"))
            push.on(.answered(list, [.wanted(known: [])]))
            push.on(.acknowledged(doc("a")))
        }
        #expect(push.on(.alreadyHere([(doc("a"), rev("1-a"))])).contains("again a") == false)
        #expect(push.machine.isIdle && push.counts.failed == 0)
    }

    @Test("a listener offers back what the peer sent it, if the peer may have given it up for another revision that is on its way to it")
    func announced() throws {
        var push = PushRun(.announce)
        push.start()
        push.on(.pulled([(doc("a"), rev("2-x"))]))
        push.on(.read(page(outgoing("a", 1, "2-b"))))
        let list = try #require(push.list)
        push.on(.answered(list, [.wanted(known: [])]))
        // Meanwhile the peer's revision has won here.
        push.on(.storeChanged(newest: 2))
        push.on(.read(page(outgoing("a", 2, "2-x"))))
        push.on(.acknowledged(doc("a")))
        #expect(push.last.map(\.words).contains("offer a@2-x"), "\(push.last.map(\.words))")
    }

    @Test("a listener that is sent what it has superseded offers the current revision")
    func sentToAListener() {
        var push = PushRun(.announce)
        push.start()
        push.on(.pulled([(doc("a"), rev("2-b"))]))
        push.on(.read(page(outgoing("a", 1, "2-b"), isEnd: true)))
        push.on(.read(end(1)))
        push.on(.pulled([(doc("a"), rev("1-a"))]))
        for _ in 0..<ReplicationLimits().offersPerDocument {
            #expect(push.on(.alreadyHere([(doc("a"), rev("1-a"))])) == ["again a"])
            #expect(push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-b")])).first == "offer a@2-b")
            push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined]))
        }
        #expect(push.on(.alreadyHere([(doc("a"), rev("1-a"))])) == [])
        #expect(push.machine.isIdle)
    }

    @Test("a document that was refused in favour of another revision waits no longer once that one is here, or the remote has gone back", arguments: [true, false])
    func waitsNoLonger(_ isPulled: Bool) throws {
        var push = try answered(.conflict(current: nil), isPullComplete: true)
        // Offered once more, because the pull has brought all there is.
        push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-b")]))
        push.on(.answered(try #require(push.list), [.conflict(current: nil)]))
        #expect(push.machine.ledger.waiting == 1 && push.machine.isIdle && push.machine.ledger.completedThrough == 0)
        let event = isPulled ? PushEvent.pulled([(doc("a"), rev("2-a"))]) : .alreadyHere([(doc("a"), rev("1-a"))])
        #expect(push.on(event).contains("again a"), "\(push.last.map(\.words))")
        push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-b")]))
        push.on(.answered(try #require(push.list), [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.machine.isIdle && push.machine.ledger.waiting == 0 && push.machine.ledger.completedThrough == 1)
    }

    /// The peer sends it because it refused ours for it, and waits for nothing.
    @Test("what the peer sends and was here already is not what a refused document waits for")
    func broughtNothing() throws {
        var push = try answered(.conflict(current: nil))
        push.on(.pulled([(doc("a"), rev("3-a"))], here: [doc("a")]))
        #expect(push.machine.ledger.waiting == 1 && push.machine.ledger.completedThrough == 0)
        #expect(push.on(.pullIsComplete(true)) == ["again a"])
        push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-b")]))
        push.on(.answered(try #require(push.list), [.conflict(current: nil)]))
        // It is tried again later, and not at once each time that the peer repeats itself.
        #expect(push.on(.pulled([(doc("a"), rev("3-a"))], here: [doc("a")])).contains("again a") == false)
        #expect(push.machine.ledger.waiting == 1 && push.machine.ledger.completedThrough == 0 && push.counts.failed == 1)
    }
}

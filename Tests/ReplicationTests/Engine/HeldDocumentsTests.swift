import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// A listener's push filter fails on a document: the feed continues past it, but the peer's checkpoint does not.
@Suite struct HeldDocumentsTests {
    /// The sequences of the rows that were offered last, as sent to the peer.
    private func told(_ push: PushRun) -> [String] {
        for case .offer(_, let documents) in push.last.reversed() { return documents.map(\.sequenceJSON) }
        return []
    }

    /// `b` is held; `a` and `c` have been sent.
    private func holding() -> PushRun {
        var push = PushRun(.announce, filter: true)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2), outgoing("c", 3))))
        push.on(.read(end(3)))
        push.on(.judged([.pass, .failed(failing), .pass]))
        return push
    }

    @Test func whatFollowsItIsOfferedAndSaysWhereToResume() {
        var push = holding()
        #expect(push.last.map(\.words).filter { $0.hasPrefix("report") || $0.hasPrefix("offer") } == ["report b 503", "offer a@1-a c@1-a"])
        #expect(told(push) == ["1", "\"1::3\""])
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.answered(list, [.declined, .declined]))
        push.on(.storeChanged(newest: 4))
        push.on(.read(page(outgoing("d", 4))))
        push.on(.judged([.pass]))
        #expect(told(push) == ["\"1::4\""])
        #expect(push.counts.held == 1 && push.machine.held.first.map(\.id) == [doc("b")])
    }

    @Test func anotherFilterIsAskedAboutItAlone() {
        var push = holding()
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined, .declined]))
        #expect(push.on(.filterChanged) == ["again b"])
        #expect(push.on(.readAgain([doc("b")], [outgoing("b", 2)])) == ["judge b@1-a"])
        #expect(push.on(.judged([.pass])) == ["offer b@1-a"])
        #expect(told(push) == ["2"] && push.machine.held.isEmpty)
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined]))
        push.on(.storeChanged(newest: 4))
        push.on(.read(page(outgoing("d", 4))))
        push.on(.judged([.pass]))
        #expect(told(push) == ["4"])
    }

    @Test func itIsRetriedLaterAndReportedOnce() {
        var push = holding()
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined, .declined]))
        #expect(push.on(.retryIsDue) == ["again b"])
        push.on(.readAgain([doc("b")], [outgoing("b", 2)]))
        #expect(push.on(.judged([.failed(failing)])).allSatisfy { !$0.hasPrefix("report") && !$0.hasPrefix("offer") })
        #expect(push.counts.held == 1 && push.machine.isIdle && push.isClean)
    }

    @Test func aLaterRevisionOrADeletionReleasesIt() {
        var push = holding()
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined, .declined]))
        push.on(.storeChanged(newest: 4))
        push.on(.read(page(outgoing("b", 4, "2-b"))))
        #expect(push.on(.judged([.pass])) == ["offer b@2-b"])
        #expect(told(push) == ["4"] && push.machine.held.isEmpty)
        push = holding()
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined, .declined]))
        push.on(.retryIsDue)
        push.on(.readAgain([doc("b")], []))
        #expect(push.machine.held.isEmpty)
    }

    @Test func aPeerBoundToChannelsIsToldInTheirTerms() {
        #expect(ChannelPlace(parsing: "\"7::12\"") == ChannelPlace(7) && ChannelPlace(parsing: "7:12:3") == ChannelPlace(7))
        #expect(ChannelPlace(behind: 3, in: 12) == ChannelPlace(parsing: "12:3") && ChannelPlace(behind: 3, in: nil) == ChannelPlace(parsing: "3"))
        var document = outgoing("a", 3)
        document.event = 12
        #expect(document.sequenceJSON == "\"12:3\"")
        document.low = 7
        #expect(document.sequenceJSON == "\"7:12:3\"")
        document.isDeleted = true
        #expect(document.changeFlags.bits == 1)
        document.visibility = .removed
        #expect(document.changeFlags.bits == 5)
        (document.visibility, document.isDeleted) = (.revoked, false)
        #expect(document.changeFlags.bits == 2)
        document.goesByBody = true
        #expect(document.changeFlags.bits == 0)
    }
}

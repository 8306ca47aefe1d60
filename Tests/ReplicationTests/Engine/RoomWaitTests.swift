import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// A pull that has no room here: it waits, passes nothing over, and comes back when there is some.
@Suite struct RoomWaitTests {
    private let full = StoreError.diskFull(path: "db", detail: "the quota is reached")

    /// Two documents are asked for and on their way into the store.
    private func underWay() -> PullRun {
        var pull = PullRun()
        pull.offer(row(1, "a"), row(2, "b"))
        pull.on(.arrived(received(1, "a")))
        pull.on(.arrived(received(2, "b")))
        return pull
    }

    @Test func whatDoesNotFitStaysOpenWhileTheRestIsStored() {
        var pull = underWay()
        pull.on(.checked(pull.batch, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        let words = pull.on(.stored(pull.batch, [.failed(full), .stored(.inserted(sequence: 7))]))
        #expect(words.contains("look for room for 2") && words.contains("report a 507") && words.contains("report b ok") && !words.contains("fail"))
        #expect(pull.through == nil && pull.machine.isComplete && pull.machine.roomWait?.error.code == 507)
    }

    @Test func aStoreThatTakesNothingDoesNotEndTheConnectionForLackOfRoom() {
        var pull = underWay()
        pull.on(.checked(pull.batch, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        let words = pull.on(.failed(pull.batch, full))
        #expect(words.filter { $0.hasPrefix("look for room") }.count == 1 && !words.contains("fail") && pull.through == nil)
        // Another error of the disk does.
        pull = underWay()
        pull.on(.checked(pull.batch, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        #expect(pull.on(.failed(pull.batch, StoreError.inputOutput(path: "db", detail: "it broke"))).contains("fail"))
    }

    @Test func nothingMoreIsAskedForUntilThereIsRoom() {
        var pull = underWay()
        pull.on(.checked(pull.batch, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        pull.on(.failed(pull.batch, full))
        #expect(pull.on(.listArrived(offeredList)) == [])
        #expect(pull.machine.isComplete)
        #expect(pull.on(.roomLooked(isThere: false)) == ["look for room for 2"])
        #expect(pull.on(.roomLooked(isThere: true)) == ["come back now"])
    }

    @Test func aBlobThatDoesNotFitHasItsDocumentWaitForAsMuchRoom() throws {
        var pull = PullRun()
        let digest = try BlobDigest("sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0=")
        let blobs = [BlobReference(digest: digest, length: 5_000, contentType: nil)]
        pull.offer(row(1, "a"))
        pull.on(.arrived(received(1, "a")))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a", blobs: blobs))]))
        guard case .fetchBlobs(let fetch, _)? = pull.last.first else { Issue.record("\(pull.last)"); return }
        let words = pull.on(.blobsFetched(fetch, ReplicationError(store: full)))
        #expect(words.contains("look for room for 5002") && pull.through == nil)
    }

    @Test func anAttachmentThatDoesNotFitIsWaitedForWithItsSize() {
        var pull = PullRun()
        pull.offer(row(1, "a"))
        let words = pull.on(.noRoom(RemoteSequence(json: "1"), doc("a"), ReplicationError(store: full), bytes: 5_000))
        #expect(words.contains("look for room for 5000") && pull.through == nil && pull.machine.isComplete)
    }

    /// A peer that pushes keeps what is refused, and hears nothing of this machine.
    @Test func aPeerIsToldToKeepIt() {
        var pull = PullRun(passive: true)
        pull.on(.arrived(received(1, "a")))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        let words = pull.on(.stored(pull.batch, [.failed(full)]))
        #expect(words.contains("settle 1 507") && !words.contains { $0.hasPrefix("look for room") })
        let reply = ReplicationError(store: full).replyToPeer
        #expect(reply.code == 503 && reply.domain == "HTTP" && !reply.message.contains("db"))
    }
}

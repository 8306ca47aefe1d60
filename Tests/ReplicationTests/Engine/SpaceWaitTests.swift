import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// A pull for which there is no room here: it waits without skipping anything, and continues when there is room.
@Suite struct SpaceWaitTests {
    private let full = StoreError.diskFull(path: "db", detail: "the quota is reached")

    /// Two documents have been requested and are on their way into the store.
    private func underWay() -> PullRun {
        var pull = PullRun()
        pull.offer(row(1, "a"), row(2, "b"))
        pull.on(.arrived(received(1, "a")))
        pull.on(.arrived(received(2, "b")))
        return pull
    }

    /// Neither of them had room.
    private func waiting() -> PullRun {
        var pull = underWay()
        pull.on(.checked(pull.batch, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        pull.on(.failed(pull.batch, full))
        return pull
    }

    private func caughtUp(_ pull: inout PullRun) {
        pull.on(.listArrived(offeredList))
        pull.on(.listRead(.success(.offered([]))))
    }

    private func sized(_ sequence: Int, _ id: String, _ bytes: Int) -> OfferedRow {
        var row = row(sequence, id)
        row.bodySize = bytes
        return row
    }

    @Test func rowsWithoutRoomStayOpenWhileTheRestIsStored() {
        var pull = underWay()
        pull.on(.checked(pull.batch, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        let words = pull.on(.stored(pull.batch, [.failed(full), .stored(.inserted(sequence: 7))]))
        #expect(words.contains("look for room for 2") && words.contains("report a 507") && words.contains("report b ok") && !words.contains("fail"))
        caughtUp(&pull)
        #expect(pull.through == nil && pull.machine.isComplete && pull.machine.spaceWait?.error.code == 507)
    }

    @Test func aFullStoreDoesNotEndTheConnection() {
        var pull = underWay()
        pull.on(.checked(pull.batch, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        let words = pull.on(.failed(pull.batch, full))
        #expect(words.filter { $0.hasPrefix("look for room") }.count == 1 && !words.contains("fail") && pull.through == nil)
        // A different error of the disk does.
        pull = underWay()
        pull.on(.checked(pull.batch, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        #expect(pull.on(.failed(pull.batch, StoreError.inputOutput(path: "db", detail: "it broke"))).contains("fail"))
    }

    @Test func nothingMoreIsRequestedUntilThereIsRoom() {
        var pull = waiting()
        #expect(pull.offer(row(3, "c"), row(4, "d")) == ["answer --"])
        #expect(pull.through == nil && pull.machine.isDrained && !pull.machine.isComplete && pull.counts.completed == 4 && pull.counts.total == 4)
        caughtUp(&pull)
        #expect(pull.machine.isComplete)
        #expect(pull.on(.spaceChecked(isThere: false)) == ["look for room for 2"])
        #expect(pull.on(.spaceChecked(isThere: true)) == ["come back now"])
    }

    /// An operator who has made room need not wait another minute; if room comes and goes, connections become rare.
    @Test func onceTheWaitHasLastedRoomIsUsedWithinSeconds() {
        var limits = ReplicationLimits()
        (limits.spaceCheckSeconds, limits.maximumSpaceCheckSeconds) = (3, 60)
        var first = SpaceChecks(limits, comebacks: 0)
        #expect(first.pause == 3)
        let isOver = first.checked(isThere: true)
        #expect(isOver)
        var later = SpaceChecks(limits, comebacks: 3)
        #expect(later.pause == 3)
        let checks = (0..<7).map { _ in later.checked(isThere: true) } + [false, false, true].map { later.checked(isThere: $0) }
        #expect(checks == Array(repeating: false, count: 9) + [true])
        var last = SpaceChecks(limits, comebacks: 40)
        let manyChecks = (0..<20).map { _ in last.checked(isThere: true) }
        #expect(manyChecks == Array(repeating: false, count: 19) + [true])
    }

    /// They make room.
    @Test func deletionsAndRemovalsAreStoredMeanwhile() {
        var pull = waiting()
        #expect(pull.offer(row(3, "c"), row(4, "d", "2-d", isDeletion: true), row(5, "e", isAccessRemoved: true), row(6, "f")) == ["answer -+--", "take away e"])
        let removal = Removal(id: doc("e"), sequence: RemoteSequence(json: "5"))
        pull.on(.removalsApplied([RemovalOutcome(removal: removal, end: .purged)]))
        pull.on(.arrived(received(4, "d", "2-d")))
        var deletion = checked(4, "d", "2-d")
        deletion.isDeleted = true
        #expect(pull.on(.checked(pull.batch, [.checked(deletion)])) == ["store d@2-d"])
        #expect(pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 7))])).contains("report d ok"))
        caughtUp(&pull)
        #expect(pull.through == nil && pull.machine.isComplete && pull.counts.completed == 6 && pull.counts.total == 6)
        // However many rows wait, they hold the place of one.
        #expect(pull.machine.tracker?.outstanding == 1)
    }

    /// A document that is too large does not keep out those that fit; if the peer does not give their sizes, they are tried.
    @Test func smallerDocumentsAreRequested() {
        var pull = PullRun()
        pull.offer(row(1, "a"))
        pull.on(.outOfSpace(RemoteSequence(json: "1"), doc("a"), ReplicationError(store: full), bytes: 5_000))
        #expect(pull.offer(sized(2, "b", 10), sized(3, "c", 5_000), sized(4, "d", 0)) == ["answer +-+"])
        pull.on(.outOfSpace(RemoteSequence(json: "4"), doc("d"), ReplicationError(store: full), bytes: 100))
        #expect(pull.offer(sized(5, "e", 99), sized(6, "f", 100)) == ["answer +-"])
        // The smallest can be requested as soon as there is room for it.
        #expect(pull.on(.spaceChecked(isThere: false)) == ["look for room for 100"])
    }

    @Test func aFullStoreNeedNotRefuseEveryDocument() {
        var pull = PullRun { $0.insertionBatch = 2 }
        pull.offer(row(1, "a"), row(2, "b"), row(3, "c"))
        pull.on(.outOfSpace(RemoteSequence(json: "1"), doc("a"), ReplicationError(store: full), bytes: 5_000))
        #expect(pull.offer(sized(4, "d", 0)) == ["answer +"])
        pull.on(.outOfSpace(RemoteSequence(json: "2"), doc("b"), ReplicationError(store: full), bytes: 5_000))
        #expect(pull.offer(sized(5, "e", 0), row(6, "f", "2-f", isDeletion: true)) == ["answer -+"])
        // If one gets in, others may as well.
        pull.on(.withdrawn(RemoteSequence(json: "4")))
        pull.on(.withdrawn(RemoteSequence(json: "6")))
        pull.on(.arrived(received(3, "c")))
        pull.on(.checked(pull.batch, [.checked(checked(3, "c"))]))
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 7))]))
        #expect(pull.offer(sized(7, "g", 0)) == ["answer +"])
    }

    /// A full disk does not take deletions either.
    @Test func deletionsThatCannotBeStoredAreNotTriedForEver() {
        var pull = PullRun { $0.insertionBatch = 1 }
        pull.offer(row(1, "a", "2-a", isDeletion: true))
        pull.on(.arrived(received(1, "a", "2-a")))
        var deletion = checked(1, "a", "2-a")
        deletion.isDeleted = true
        pull.on(.checked(pull.batch, [.checked(deletion)]))
        pull.on(.failed(pull.batch, full))
        #expect(pull.offer(row(2, "b", "2-b", isDeletion: true)) == ["answer -"])
    }

    @Test func aRowAnnouncedAgainWhileItWaitsSkipsNothing() {
        var pull = waiting()
        #expect(pull.offer(sized(1, "a", 1), row(3, "c")) == ["answer +-"])
        pull.on(.arrived(received(1, "a")))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 7))]))
        #expect(pull.through == nil && pull.machine.isDrained && pull.counts.completed == pull.counts.total)
    }

    @Test func aDocumentWhoseBlobDoesNotFitWaitsForThatMuchRoom() throws {
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
        let words = pull.on(.outOfSpace(RemoteSequence(json: "1"), doc("a"), ReplicationError(store: full), bytes: 5_000))
        caughtUp(&pull)
        #expect(words.contains("look for room for 5000") && pull.through == nil && pull.machine.isComplete)
    }

    /// A peer that pushes keeps what is refused, and is told nothing about this machine.
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
